"""The options of ``perdix ds2``."""

from pathlib import Path
from typing import Annotated

import typer

ALL = "all"

TopologyOption = Annotated[Path, typer.Option("--topology", help="CSV of edges, or a Timely log.", show_default=False)]
RatesOption = Annotated[
    Path, typer.Option("--rates", help="Log, table, folder or tar of logged rates.", show_default=False)
]
SourcesOption = Annotated[
    Path | None, typer.Option("--sources", help="CSV: source, records/s that each instance should emit (-1: as seen).")
]
EpochOption = Annotated[str, typer.Option("--epoch", help="Number of an epoch, or all.")]
CombineOption = Annotated[str, typer.Option("--combine", help="How epochs make one answer: last, max or median.")]
TargetRateRatioOption = Annotated[
    float | None,
    typer.Option("--target-rate-ratio", help="Raise results where sources fall short by more than this.", min=1.0),
]
RateFactorOption = Annotated[float, typer.Option("--rate-factor", help="Head-room, as a share.", min=0.0)]
SizeSourcesOption = Annotated[
    bool, typer.Option("--size-sources", help="Size sources as well, by their true output rate.")
]
MaxParallelismOption = Annotated[
    int | None, typer.Option("--max-parallelism", help="Most instances of an operator: its key groups.", min=1)
]
SlotsOption = Annotated[int | None, typer.Option("--slots", help="Slots that the cluster has.", min=1)]
SharedSlotsOption = Annotated[
    bool,
    typer.Option(
        "--shared-slots/--own-slots", help="A slot runs one of every operator, or every instance needs its own."
    ),
]
AlignOption = Annotated[str, typer.Option("--align", help="OFF, BALANCED or EVENLY_SPREAD over key groups.")]
AsWorkersOption = Annotated[
    bool, typer.Option("--global", help="Also the workers of a system where each runs every operator (Timely).")
]
CurvesOption = Annotated[
    Path | None, typer.Option("--curves", help="JSON: operator to pairs of instances and records/s, seen before.")
]
WriteCurvesOption = Annotated[
    Path | None, typer.Option("--write-curves", help="Write what these epochs add to --curves, for the next time.")
]
