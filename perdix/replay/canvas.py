"""How every picture of perdix looks: its canvas, its colours, its axes, and how it becomes a small PNG.

Figures are drawn on their own canvas, without pyplot, whose global state is not safe in threads.
"""

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MultipleLocator
from numpy.typing import NDArray
from PIL import Image

mpl.rcParams["text.parse_math"] = False  # of names from outside, what stands between two $ is no formula

# Okabe and Ito's colours: distinguished with any colour vision.
BLUE, ORANGE, GREEN, RED, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#666666"
CYCLE = (BLUE, ORANGE, GREEN, RED, SKY, "#CC79A7", "#000000", "#8C6D31")

WIDTH_IN = 9.0
DPI, FINE_DPI = 100, 150
BESIDE = 4  # columns in one picture

Column = TypeVar("Column")


def canvas(
    rows: int = 1,
    columns: int = 1,
    *,
    width_in: float = WIDTH_IN,
    height_in: float = 4.2,
    width_ratios: Sequence[float] | None = None,
    height_ratios: Sequence[float] | None = None,
    same_x: bool = False,
) -> tuple[Figure, Any]:
    """Return a figure and its axes, an array of shape ``(rows, columns)``."""
    figure = Figure(figsize=(width_in, height_in), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(
        rows, columns, width_ratios=width_ratios, height_ratios=height_ratios, sharex=same_x, squeeze=False
    )
    for axes in grid.flat:
        _plain(axes)
    return figure, grid


def with_wide_row(*, height_in: float) -> tuple[Figure, Any]:
    """Return a figure, and the axes of its two by two panels; the last of its own lie below them, as wide as both."""
    figure, grid = canvas(3, 2, height_in=height_in)
    as_wide_as(grid[2], figure)
    return figure, grid[:2]


def as_wide_as(row: Any, figure: Figure) -> Axes:
    """Return axes in place of a row of them, as wide as all of it."""
    last = row[-1].get_subplotspec()
    below = last.get_gridspec()[last.rowspan.start, :]
    for axes in row:
        axes.remove()
    wide = figure.add_subplot(below)
    _plain(wide)
    return wide


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#E5E5E5", lw=0.6)
    axes.set_axisbelow(True)
    axes.title.set_fontsize(11)


def single(height_in: float = 4.2, width_in: float = WIDTH_IN) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes."""
    figure, grid = canvas(width_in=width_in, height_in=height_in)
    return figure, grid[0, 0]


def to_png(figure: Figure, dpi: int = DPI) -> bytes:
    """Return the figure as a PNG of 128 colours: a third of the bytes, which Dagster's event log never deletes."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    with Image.open(drawn) as image:
        # The usual method averages colours that few points have, so that two thin lines become one colour.
        few = image.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE)
        few.save(small, format="png", optimize=True)
    return small.getvalue()


def draw_columns(
    columns: Sequence[Column], picture: Callable[[Sequence[Column]], Figure], folder: Path, name: str
) -> list[Path]:
    """Draw :data:`BESIDE` columns to a picture and return the files, which are numbered where they are several."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, at in enumerate(range(0, len(columns), BESIDE), start=1):
        more = f"-{number}" if len(columns) > BESIDE else ""
        paths.append(folder / f"{name}{more}.png")
        paths[-1].write_bytes(to_png(picture(columns[at : at + BESIDE]), FINE_DPI))
    return paths


def share_axes(grid: Any, seconds: Sequence[int]) -> None:
    """Name the axes of columns once: values on the left, and hours below; ``seconds`` is the length of each column."""
    for column, length_s in enumerate(seconds):
        grid[0, column].tick_params(labelbottom=False)
        hours_axis(grid[1, column], length_s / 3600.0)
    for axes in grid[:, 1:].flat:
        axes.set_ylabel("")


def legend_below(figure: Figure, handles: Sequence[Artist], **text: Any) -> None:
    """Put a legend below all panels, in the fewest rows that are no wider than the figure; ``text``: how it is set."""
    for columns in range(len(handles), 0, -1):
        even = -(-len(handles) // -(-len(handles) // columns))
        legend = figure.legend(handles=handles, loc="outside lower center", frameon=False, ncols=even, **text)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def hours_of(seconds: int) -> NDArray[np.float64]:
    """Return when each second begins, in hours; shape ``(seconds,)``."""
    return np.arange(seconds, dtype=np.float64) / 3600.0


def rate_axis(axes: Axes, what: str, *, from_zero: bool = True) -> None:
    """Make the y axis one of records/s, or of ``what`` with its unit."""
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylabel(f"{what} (records/s)")
    if from_zero:
        axes.set_ylim(bottom=0.0)


def hours_axis(axes: Axes, until_h: float) -> None:
    """Make the x axis one of hours since the start, said as ``h:mm``."""
    spans = (1 / 60, 2 / 60, 5 / 60, 10 / 60, 15 / 60, 0.5, 1, 2, 3, 6, 12, 24, 48)
    step = next((span for span in spans if until_h / span <= 7), 96)
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.xaxis.set_major_formatter(FuncFormatter(_clock))
    axes.set_xlim(0.0, until_h)
    axes.set_xlabel("time since the start (h:mm)")


def moments(times_s: NDArray[np.float64] | Sequence[float]) -> NDArray[np.float64]:
    """Return epoch seconds as an axis of moments takes them (:func:`moments_axis`)."""
    return np.asarray(date2num([datetime.fromtimestamp(float(time_s), UTC) for time_s in times_s]), dtype=np.float64)


def moments_axis(axes: Axes) -> None:
    """Make the x axis one of dates and times of day in UTC."""
    locator = AutoDateLocator(minticks=3, maxticks=8, tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        ConciseDateFormatter(
            locator,
            tz=UTC,
            formats=["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"],
            zero_formats=["", "%Y", "%b", "%d %b", "%d %b", "%H:%M"],
            offset_formats=["", "%Y", "%b %Y", "%d %b %Y, UTC", "%d %b %Y, UTC", "%d %b %Y %H:%M, UTC"],
        )
    )


def _clock(hours: float, _: int | None = None) -> str:
    minutes = round(60 * hours)
    return f"{minutes // 60}:{minutes % 60:02d}"
