"""The options of ``perdix replay``, each in one group of its help, and what some of them mean."""

from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from perdix.cli.output import UserError
from perdix.cli.prices import of_prices

STDOUT = "-"
NO_FORECASTER = "none"

_workload = partial(typer.Option, rich_help_panel="Workload")
_twin = partial(typer.Option, rich_help_panel="Twin")
_policies = partial(typer.Option, rich_help_panel="Policies")
_objectives = partial(typer.Option, rich_help_panel="Objectives")
_failures = partial(typer.Option, rich_help_panel="Failures")
_runs = partial(typer.Option, rich_help_panel="Runs")
_output = partial(typer.Option, rich_help_panel="Output")

WorkloadOption = Annotated[
    str | None,
    _workload(
        "--workload",
        help="CSV, Parquet or query_range file, a twin's name for its own workload, or an ingested job's.",
        show_default="that of the twin",
    ),
]
PeakUtilisationOption = Annotated[
    float | None,
    _workload(
        "--peak-utilisation",
        help="Peak as a share of what the largest scale-out can take.",
        show_default="0.75, or the twin's",
        min=0.01,
        max=2.0,
    ),
]
_hours = partial(_workload, "--hours", min=0.02, max=20000)
HoursOption = Annotated[
    float | None,
    _hours(
        help="Length of each replay; of a longer trace its busiest window, or from --from on, or up to --to.",
        show_default="6",
    ),
]
HoursOfFileOption = Annotated[float | None, _hours(help="Length of each replay.", show_default="as its file says")]
FromOption = Annotated[
    str | None,
    _workload(
        "--from", help="Begin of the part to replay: ISO time, or 36h, 2d after the first row.", show_default=False
    ),
]
ToOption = Annotated[str | None, _workload("--to", help="End of the part to replay, as --from.", show_default=False)]
StepOption = Annotated[
    str | None,
    _workload("--step", help="Time from row to row of a trace without times: 60, 30m, 1h.", show_default=False),
]
FillGapsOption = Annotated[bool, _workload("--fill-gaps", help="Close long gaps of the workload by lines.")]
NoiseOption = Annotated[
    float | None,
    _workload("--noise", help="From second to second, relative.", show_default="0.02, or the twin's", min=0, max=1),
]
SlowNoiseOption = Annotated[
    float | None,
    _workload("--slow-noise", help="Over minutes, relative.", show_default="0, or the twin's", min=0, max=1),
]
TwinOption = Annotated[
    str | None,
    _twin("--twin", help="Name in conf/twins, or a YAML file.", show_default="that of the workload, wordcount"),
]
RegimeOption = Annotated[
    str | None,
    _twin(
        "--regime",
        help="What rescales cost: a file of conf/regimes, for example in-place.",
        show_default="as on the twin's own cluster",
    ),
]
_policy = partial(_policies, "--policy", "--policies", help="Policies, separated by commas.")
PolicyOption = Annotated[str | None, _policy(show_default="perdix,hpa-80,static-MAX")]
PolicyOfKindOption = Annotated[str, _policy()]
ForecasterOption = Annotated[
    str,
    _policies(
        "--forecaster",
        help="Family that each replay fits on the way, or 'ensemble'; 'none': no forecast (jobs: the fallback's).",
    ),
]
MinimumOption = Annotated[int, _policies("--min", help="Fewest workers.", min=1)]
MaximumOption = Annotated[int | None, _policies("--max", help="Most workers.", show_default="the twin's", min=1)]
RecoveryTimeOption = Annotated[float, _objectives("--recovery-time", help="Objective, seconds.", min=1, max=86_400)]
LatencyOption = Annotated[
    float, _objectives("--latency-objective", help="Objective for p95, ms.", min=1, max=86_400_000)
]
ErrorBudgetOption = Annotated[
    float, _objectives("--error-budget", help="Share of the seconds that may be above it.", min=0.0, max=1.0)
]
FailuresOption = Annotated[int, _failures("--failures", help="Workers, or hosts, that crash in each replay.", min=0)]
WorkerPriceOption = Annotated[
    float | None,
    of_prices("--worker-price", help="Of one worker for an hour; 1: cost in worker-hours.", show_default="1", min=0),
]
SeedsOption = Annotated[int, _runs("--seeds", help="How many seeds.", min=1, max=1000)]
FirstSeedOption = Annotated[int, _runs("--first-seed", help="Seeds are counted from here.", min=0)]
ExactOption = Annotated[
    bool, _runs("--exact", help="Play every second also where months of a trace with long steps are replayed.")
]
ProcessesOption = Annotated[
    int | None, _runs("--workers", help="Processes at a time.", show_default="as many as cores", min=1)
]
DataflowArgument = Annotated[
    str, typer.Argument(metavar="DATAFLOW", help="Name in conf/dataflows, or a YAML file.", show_default=False)
]
StartOption = Annotated[
    str | None,
    _workload("--start", help="What runs at first: operator=instances,...", show_default="those of its file"),
]
SkewOption = Annotated[
    float | None,
    _workload(
        "--skew",
        help="Share of the records that one instance of each keyed operator gets.",
        show_default="none",
        min=0.01,
        max=1.0,
    ),
]
TopologyArgument = Annotated[
    str, typer.Argument(metavar="TOPOLOGY", help="Name in conf/topologies, or a YAML file.", show_default=False)
]
PatternOption = Annotated[
    str | None, _workload("--pattern", help="Arrival patterns, separated by commas.", show_default="all of its file")
]
OutOption = Annotated[Path | None, _output("--out", help="Folder.", show_default="PERDIX_HOME/reports/replay-...")]
PicturesOption = Annotated[bool, _output("--pictures/--no-pictures", help="Draw pictures.")]
MlflowOption = Annotated[bool, _output("--mlflow/--no-mlflow", help="Record a run per policy.")]
JsonFileOption = Annotated[
    str | None, _output("--json", help="Write the document to this file; alone or with '-' to standard output.")
]


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    """Return this many seeds, counted from the first."""
    return tuple(range(first, first + count))


def family_or_none(name: str) -> str | None:
    """Return the family of forecasters that is asked for; ``None`` for none."""
    from perdix.models.forecasting.families import families_named

    if name == NO_FORECASTER:
        return None
    try:
        families_named(name)
    except ValueError as error:
        raise UserError(f"--forecaster: {error}; or '{NO_FORECASTER}'") from None
    return name


class Sink(NamedTuple):
    """Where results go: into a folder, with pictures and MLflow runs or without, and the document again elsewhere."""

    folder: Path | None  # None: one among the home's reports
    pictures: bool
    mlflow: bool
    file: Path | None
    on_stdout: bool


def sink_of(as_json: str | None, folder: Path | None, *, pictures: bool, mlflow: bool) -> Sink:
    """Return where results go; whether ``--json`` can be written is found out before hours of work, not after."""
    if as_json is None or as_json == STDOUT:
        return Sink(folder, pictures, mlflow, None, as_json == STDOUT)
    path = Path(as_json)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        raise UserError(f"--json {path}: cannot be written ({error.strerror}); name another file") from None
    return Sink(folder, pictures, mlflow, path, on_stdout=False)
