"""Pictures are PNGs that show their figures, small enough for Dagster's event log, whatever is missing."""

import io
import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from perdix.assets import forecast_pictures, pictures
from perdix.assets.metadata import MOST_PICTURE_BYTES
from perdix.assets.training.tasks import _capacity_pictures
from perdix.models.capacity.contract import Estimate
from perdix.models.capacity.line import Line
from perdix.models.capacity.regressors import Linear
from perdix.models.capacity.selection import select_capacity
from perdix.models.forecasting.judgement import Backtest
from perdix.replay.canvas import RED
from tests.models.capacity_stays import history


def judged(actual: np.ndarray | None = None) -> Backtest:
    origins = 1_700_000_000.0 + 900.0 * np.arange(6)
    truth = 1000 + 50 * np.random.default_rng(1).normal(size=(6, 90)) if actual is None else actual
    forecast = np.full((6, 90), 1010.0)
    return Backtest("auto-arima", 10.0, origins, truth, forecast, forecast + 80.0)


def estimates() -> list[Estimate]:
    return [Estimate(n, 900.0 * n, 800.0 * n, 1000.0 * n, n == 4, "observed") for n in range(1, 13)]


def features() -> tuple[pd.DataFrame, dict]:
    rng = np.random.default_rng(2)
    parts, lines = [], {}
    for number in range(12):
        cpu = rng.uniform(0.2, 0.7, 500)
        throughput = (900 + 40 * number) * (cpu - 0.08) + rng.normal(0, 5, 500)
        parts.append(pd.DataFrame({"worker": f"tm-{number}", "cpu_load": cpu, "throughput_per_s": throughput}))
        lines[f"tm-{number}"] = Line.of(cpu, throughput).fit()
    return pd.concat(parts), lines


def errors(wape: float = 0.1) -> pd.DataFrame:
    rows = [(family, job, wape * (1 + i)) for i, family in enumerate(("linear", "auto-arima")) for job in ("a", "b")]
    return pd.DataFrame(rows, columns=["family", "job", "wape"])


def candidates_error(rows: pd.DataFrame, *chosen: str) -> bytes:
    return pictures.candidates_error(rows, metric="wape", title="WAPE over 900 s", chosen=chosen)


def draw(name: str) -> bytes:
    frame, lines = features()
    drawn = {
        "forecast": lambda: forecast_pictures.forecast_against_truth("orders", judged()),
        "residuals": lambda: forecast_pictures.residuals("orders", judged()),
        "capacity": lambda: pictures.capacity_over_scale_outs("orders", estimates()),
        "lines": lambda: pictures.cpu_throughput_lines("orders", frame, lines),
        "candidates": lambda: candidates_error(errors(), "linear"),
    }
    return drawn[name]()


@pytest.mark.parametrize("name", ["forecast", "residuals", "capacity", "lines", "candidates"])
def test_a_picture_is_a_png_that_dagster_can_keep(name: str) -> None:
    png = draw(name)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    assert width == 900
    assert 200 <= height <= 900
    assert len(png) < MOST_PICTURE_BYTES
    assert draw(name) == png


def colours(png: bytes) -> set[tuple[int, ...]]:
    pixels = (imread(io.BytesIO(png), format="png")[..., :3] * 255).round().astype(int)
    return set(map(tuple, pixels.reshape(-1, 3)))


def near(png: bytes, colour: str) -> bool:
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return any(np.abs(np.array(found) - wanted).max() <= 6 for found in colours(png))


def test_what_is_said_apart_has_colours_of_its_own() -> None:
    both = pictures.capacity_over_scale_outs("orders", estimates())
    seen = pictures.capacity_over_scale_outs("orders", [item for item in estimates() if item.seen])
    assert near(both, pictures.BLUE)
    assert near(both, pictures.ORANGE)
    assert not near(seen, pictures.ORANGE)


def test_stretches_that_lie_days_apart_have_panels_of_their_own() -> None:
    one = judged()
    days = 86_400.0 * np.repeat([0.0, 2.0, 5.0], 2)
    apart = replace(one, origins_s=one.origins_s + days, highest=one.forecast + 100.0)
    assert near(forecast_pictures.forecast_against_truth("orders", apart), RED)
    assert not near(forecast_pictures.forecast_against_truth("orders", one), RED)


def test_missing_truth_is_left_out_not_drawn_as_zero() -> None:
    truth = np.full((6, 90), np.nan)
    assert forecast_pictures.forecast_against_truth("orders", judged(truth)).startswith(b"\x89PNG")
    assert forecast_pictures.residuals("orders", judged(truth)).startswith(b"\x89PNG")
    truth[2, :40] = 1000.0
    assert forecast_pictures.residuals("orders", judged(truth)).startswith(b"\x89PNG")


def test_families_that_could_not_be_judged_are_still_shown() -> None:
    silent = errors().assign(wape=lambda frame: frame["wape"].where(frame["family"] == "linear"))
    assert candidates_error(silent) != candidates_error(silent.dropna())


def test_a_worker_without_a_line_or_samples_does_no_harm() -> None:
    frame, lines = features()
    some = {name: fit for name, fit in lines.items() if name != "tm-3"}
    assert pictures.cpu_throughput_lines("orders", frame, some).startswith(b"\x89PNG")
    assert pictures.cpu_throughput_lines("orders", frame.iloc[:0], {}).startswith(b"\x89PNG")


def test_the_lines_of_a_job_whose_scale_out_nobody_measured_are_drawn() -> None:
    """Exports of pods alone have no scale-out: the picture of a training was empty."""
    rows = history([3], lambda _: 50_000.0).assign(cpu_share=1.0, throughput_share=1 / 3)
    unknown = rows.assign(scale_out=np.nan)
    drawn = [
        _capacity_pictures("orders", frame, select_capacity(frame, 6, families=(Linear,))) for frame in (rows, unknown)
    ]
    assert drawn[1]["cpu_throughput_lines.png"] == drawn[0]["cpu_throughput_lines.png"]
