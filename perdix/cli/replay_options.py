"""The options of ``perdix replay``, each in one group of its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perdix.cli.pricing import PANEL as PRICES

WORKLOAD, TWIN, POLICIES, OBJECTIVES, FAILURES = "Workload", "Twin", "Policies", "Objectives", "Failures"
RUNS, OUTPUT = "Runs", "Output"
DATAFLOW = "Instead of a job: a dataflow, sized by operator"
TOPOLOGY = "Instead of a job: a topology on leased hosts"

WorkloadOption = Annotated[
    str | None,
    typer.Option(
        "--workload",
        help="CSV, Parquet or query_range file, a twin's name for its own workload, or an ingested job's.",
        show_default="that of the twin",
        rich_help_panel=WORKLOAD,
    ),
]
PeakUtilisationOption = Annotated[
    float | None,
    typer.Option(
        "--peak-utilisation",
        help="Peak as a share of what the largest scale-out can take.",
        show_default="0.75, or the twin's",
        min=0.01,
        max=2.0,
        rich_help_panel=WORKLOAD,
    ),
]
HoursOption = Annotated[
    float | None,
    typer.Option(
        "--hours",
        help="Length of each replay; of a longer trace its busiest window, or from --from on, or up to --to.",
        show_default="6, or the dataflow's",
        min=0.02,
        max=20000,
        rich_help_panel=WORKLOAD,
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Begin of the part to replay: ISO time, or 36h, 2d after the first row.",
        show_default=False,
        rich_help_panel=WORKLOAD,
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", help="End of the part to replay, as --from.", show_default=False, rich_help_panel=WORKLOAD),
]
StepOption = Annotated[
    str | None,
    typer.Option(
        "--step",
        help="Time from row to row of a trace without times: 60, 30m, 1h.",
        show_default=False,
        rich_help_panel=WORKLOAD,
    ),
]
FillGapsOption = Annotated[
    bool, typer.Option("--fill-gaps", help="Close long gaps of the workload by lines.", rich_help_panel=WORKLOAD)
]
NoiseOption = Annotated[
    float | None,
    typer.Option(
        "--noise",
        help="From second to second, relative.",
        show_default="0.02, or the twin's",
        min=0,
        max=1,
        rich_help_panel=WORKLOAD,
    ),
]
SlowNoiseOption = Annotated[
    float | None,
    typer.Option(
        "--slow-noise",
        help="Over minutes, relative.",
        show_default="0, or the twin's",
        min=0,
        max=1,
        rich_help_panel=WORKLOAD,
    ),
]
TwinOption = Annotated[
    str | None,
    typer.Option(
        "--twin",
        help="Name in conf/twins, or a YAML file.",
        show_default="that of the workload, wordcount",
        rich_help_panel=TWIN,
    ),
]
RegimeOption = Annotated[
    str | None,
    typer.Option(
        "--regime",
        help="What rescales cost: a file of conf/regimes, for example in-place.",
        show_default="as on the twin's own cluster",
        rich_help_panel=TWIN,
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "--policies",
        help="Policies, separated by commas.",
        show_default="perdix,hpa-80,static-MAX; of a dataflow ds2,dhalion,flink-autoscaler; "
        "of a topology btu with units of 10, 30 and 60 min, threshold",
        rich_help_panel=POLICIES,
    ),
]
ForecasterOption = Annotated[
    str | None,
    typer.Option(
        "--forecaster",
        help="Family that each replay fits on the way, or 'ensemble'; 'none': the fallback's line throughout.",
        show_default="damped-trend",
        rich_help_panel=POLICIES,
    ),
]
MinimumOption = Annotated[int, typer.Option("--min", help="Fewest workers.", min=1, rich_help_panel=POLICIES)]
MaximumOption = Annotated[
    int | None, typer.Option("--max", help="Most workers.", show_default="the twin's", min=1, rich_help_panel=POLICIES)
]
RecoveryTimeOption = Annotated[
    float, typer.Option("--recovery-time", help="Objective, seconds.", min=1, rich_help_panel=OBJECTIVES)
]
LatencyOption = Annotated[
    float, typer.Option("--latency-objective", help="Objective for p95, ms.", min=1, rich_help_panel=OBJECTIVES)
]
ErrorBudgetOption = Annotated[
    float,
    typer.Option(
        "--error-budget",
        help="Share of the seconds that may be above it.",
        min=0.0,
        max=1.0,
        rich_help_panel=OBJECTIVES,
    ),
]
FailuresOption = Annotated[
    int,
    typer.Option(
        "--failures", help="Workers (of a topology: hosts) that crash in each replay.", min=0, rich_help_panel=FAILURES
    ),
]
WorkerPriceOption = Annotated[
    float | None,
    typer.Option(
        "--worker-price",
        help="Of one worker for an hour; 1: cost in worker-hours.",
        show_default="1",
        min=0,
        rich_help_panel=PRICES,
    ),
]
SeedsOption = Annotated[int, typer.Option("--seeds", help="How many seeds.", min=1, max=1000, rich_help_panel=RUNS)]
FirstSeedOption = Annotated[
    int, typer.Option("--first-seed", help="Seeds are counted from here.", min=0, rich_help_panel=RUNS)
]
ExactOption = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Play every second also where months of a trace with long steps are replayed.",
        rich_help_panel=RUNS,
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        "--workers", help="Processes at a time.", show_default="as many as cores", min=1, rich_help_panel=RUNS
    ),
]
DataflowOption = Annotated[
    str | None,
    typer.Option(
        "--dataflow",
        help="Instead: policies that size each operator, on a dataflow of conf/dataflows or of a YAML file.",
        show_default=False,
        rich_help_panel=DATAFLOW,
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--start",
        help="With --dataflow: operator=instances,...",
        show_default="those of its file",
        rich_help_panel=DATAFLOW,
    ),
]
SkewOption = Annotated[
    float | None,
    typer.Option(
        "--skew",
        help="With --dataflow: share of the records that one instance of each keyed operator gets.",
        show_default="none",
        min=0.01,
        max=1.0,
        rich_help_panel=DATAFLOW,
    ),
]
TopologyOption = Annotated[
    str | None,
    typer.Option(
        "--topology",
        help="Instead: policies that lease hosts, on a topology of conf/topologies or of a YAML file.",
        show_default=False,
        rich_help_panel=TOPOLOGY,
    ),
]
PatternOption = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        help="With --topology: arrival patterns, separated by commas.",
        show_default="all of its file",
        rich_help_panel=TOPOLOGY,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Folder.", show_default="PERDIX_HOME/reports/replay-...", rich_help_panel=OUTPUT),
]
PicturesOption = Annotated[
    bool, typer.Option("--pictures/--no-pictures", help="Draw the four panels.", rich_help_panel=OUTPUT)
]
MlflowOption = Annotated[
    bool, typer.Option("--mlflow/--no-mlflow", help="Record a run per policy.", rich_help_panel=OUTPUT)
]
JsonFileOption = Annotated[
    str | None,
    typer.Option(
        "--json", help="Write the document to this file; alone or with '-' to standard output.", rich_help_panel=OUTPUT
    ),
]
