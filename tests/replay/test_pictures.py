"""Pictures of a replay show its figures, say what is what, and stay readable with five policies."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from PIL import Image

from perdix.replay.canvas import BLUE, CYCLE, FINE_DPI, canvas, draw_columns, legend_below, to_png
from perdix.replay.comparison_picture import FIXED, STATIC, colours_of, comparison
from perdix.replay.course_picture import course_picture, recovery_picture
from perdix.replay.pictures import draw
from tests.replay.drawn import overlapping
from tests.replay.played import START_S, group, played, recovery

CURVE = (np.array([0.0, 0.05, 0.3]), np.array([8.0, 4.0, 3.0]))  # late, workers
TENS_S = START_S + 10.0 * np.arange(360)  # an hour in steps of 10 s
FIVE = ("daedalus", "hpa-80", "hpa-80-paper", "flink-autoscaler-tuned", "static-12")


def five(seconds: int = 3_600) -> dict:
    rng = np.random.default_rng(1)
    return group(
        *(
            played(policy, seed, 3.0 + 2 * k, seconds=seconds, latency_p95_ms=600.0 * rng.lognormal(0, 1 + k, seconds))
            for k, policy in enumerate(FIVE)
            for seed in (1, 2)
        )
    )


def panels(figure: Figure) -> tuple[Axes, ...]:
    return tuple(figure.axes)


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


class TestComparison:
    def test_bars_are_shares_of_the_largest_static_deployment(self) -> None:
        compared = group(
            played("daedalus", workers=6.0), played("hpa-80", workers=15.0), played("static-12", workers=12.0)
        )
        resources = panels(comparison(compared))[3]
        assert [bar.get_width() for bar in resources.patches] == pytest.approx([0.5, 1.25, 1.0])
        assert "static-12" in resources.get_xlabel()

    def test_without_a_static_one_bars_are_shares_of_who_used_most(self) -> None:
        resources = panels(comparison(group(played("daedalus", workers=6.0), played("hpa-80", workers=8.0))))[3]
        assert [bar.get_width() for bar in resources.patches] == pytest.approx([0.75, 1.0])

    def test_bars_of_several_seeds_are_means_with_a_dot_per_seed(self) -> None:
        seeds = [played("daedalus", seed, workers=4.0 + seed) for seed in (0, 1, 2)]
        resources = panels(comparison(group(*seeds, played("static-12", workers=10.0))))[3]
        assert resources.patches[0].get_width() == pytest.approx(0.5)
        (dots,) = resources.collections
        assert sorted(np.asarray(dots.get_offsets())[:, 0]) == pytest.approx([0.4, 0.5, 0.6])

    def test_the_least_that_any_plan_needs_is_marked_where_it_is_known(self) -> None:
        compared = group(played("static-12", workers=12.0, clairvoyant_worker_s=3 * 3_600.0))
        (mark,) = panels(comparison(compared))[3].lines
        assert mark.get_xdata()[0] == pytest.approx(0.25)
        unknown = group(played("static-12", workers=12.0, clairvoyant_worker_s=None))
        assert not panels(comparison(unknown))[3].lines
        assert "clairvoyant" not in words(comparison(unknown))

    def test_the_plan_is_drawn_among_the_workers(self) -> None:
        plan = np.repeat([3.0, 5.0], 1_800)
        workers = panels(comparison(group(played()), plan=plan))[1]
        assert max(workers.lines[-1].get_ydata()) == 5.0

    def test_the_objective_is_marked_where_it_is_given(self) -> None:
        marked = comparison(group(played()), objective_ms=5_000.0)
        assert "objective 5,000 ms" in words(marked)
        assert marked.axes[2].lines[-1].get_xdata()[0] == 5_000.0
        assert not any("objective" in word for word in words(comparison(group(played()))))

    def test_the_forecast_is_that_of_the_first_policy_that_forecasts(self) -> None:
        seeing = played("daedalus", forecast_per_s=np.full(3_600, 3_100.0))
        workload = panels(comparison(group(played("static-12"), seeing)))[0]
        assert max(workload.lines[-1].get_ydata()) == 3_100.0
        blind = panels(comparison(group(played("static-12"))))[0]
        assert len(blind.lines) == 1

    def test_a_forecast_that_runs_away_does_not_flatten_what_arrived(self) -> None:
        mad = played(forecast_per_s=np.full(3_600, 3e9))
        assert panels(comparison(group(mad)))[0].get_ylim()[1] < 4_000.0

    def test_a_run_without_any_output_is_drawn_all_the_same(self) -> None:
        dead = played("dead", throughput_per_s=np.zeros(3_600), latency_p95_ms=np.full(3_600, np.nan))
        assert comparison(group(dead, played()), objective_ms=5_000.0).axes

    @pytest.mark.parametrize("seconds", [720, 3_600, 6 * 3_600])
    def test_no_words_are_drawn_over_each_other(self, seconds: int) -> None:
        figure = comparison(
            five(seconds),
            objective_ms=5_000.0,
            plan=np.ones(seconds),
            frontier=CURVE,
            note="peak at 75% of 12 workers",
        )
        assert overlapping(figure) == []

    def test_policies_are_points_beside_the_frontier(self) -> None:
        late = [played("hpa-80", seed, 4.0 + seed, share_above_objective=0.02 * seed) for seed in (1, 2)]
        drawn = panels(comparison(group(*late, played("static-12", workers=12.0)), frontier=CURVE))[4]
        line, hpa, static = drawn.lines
        assert list(line.get_xdata()) == list(CURVE[0])
        assert list(line.get_ydata()) == list(CURVE[1])
        assert (hpa.get_xdata()[0], hpa.get_ydata()[0]) == (pytest.approx(0.03), 5.5)
        assert (static.get_xdata()[0], static.get_ydata()[0]) == (0.02, 12.0)
        assert drawn.get_title(loc="left") == "e  workers against lateness"
        assert len(panels(comparison(group(*late)))) == 4, "without a frontier there is no such panel"

    def test_curves_of_a_twin_that_goes_in_long_steps_reach_to_their_end(self) -> None:
        workload, workers, *_ = panels(comparison(group(played(seconds=360, times_s=TENS_S))))
        for axes in (workload, workers):
            assert axes.get_xlim() == pytest.approx((0.0, 1.0))
            assert axes.lines[0].get_xdata()[-1] == pytest.approx(3_590 / 3_600)

    def test_nothing_to_draw_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no replay to draw"):
            comparison({})


def test_every_policy_has_a_colour_of_its_own_whatever_the_company() -> None:
    colours = colours_of(FIVE)
    assert len(set(colours.values())) == 5
    assert colours["daedalus"] == colours_of(["static-4", "daedalus"])["daedalus"] == BLUE
    assert {colours_of(["static-4", "static-12"])[name] for name in ("static-4", "static-12")} <= set(STATIC)
    assert colours_of([*FIVE, "best-static"]) == {**colours, "best-static": FIXED}
    many = colours_of([f"policy-{k}" for k in range(30)])
    assert len(many) == 30


class TestCourse:
    def test_rescales_and_failures_are_marked_where_they_began(self) -> None:
        marks = (
            recovery(60.0, 50.0, "out"),
            recovery(60.0, 50.0, "in", at_s=1_760_000_400.0 + 1_800.0),
            recovery(60.0, 50.0, "failure", at_s=1_760_000_400.0 + 2_700.0),
        )
        figure = course_picture(played(recoveries=marks))
        labelled = {line.get_label(): line for line in figure.axes[0].lines}
        begun = {name: labelled[name].get_xdata()[0] for name in ("scale-out", "scale-in", "failure")}
        assert begun == pytest.approx({"scale-out": 1 / 6, "scale-in": 0.5, "failure": 0.75})

    def test_a_run_in_long_steps_is_as_long_as_its_times_say(self) -> None:
        coarse = played(seconds=360, times_s=TENS_S)
        assert course_picture(coarse).axes[3].get_xlim() == pytest.approx((0.0, 1.0))

    def test_the_highest_latency_of_a_long_run_is_drawn(self) -> None:
        latency_ms = np.full(24 * 3_600, 600.0)
        latency_ms[54_321] = 77_000.0
        latency = course_picture(played(seconds=24 * 3_600, latency_p95_ms=latency_ms)).axes[3]
        assert max(latency.lines[0].get_ydata()) == 77_000.0

    def test_no_words_are_drawn_over_each_other(self) -> None:
        marks = (recovery(60.0, 50.0, "out"), recovery(60.0, 50.0, "in"), recovery(60.0, 50.0, "failure"))
        assert overlapping(course_picture(played(recoveries=marks), objective_ms=5_000.0)) == []


class TestRecoveries:
    def test_what_cannot_be_compared_is_left_out_and_counted(self) -> None:
        some = (
            recovery(100.0, 110.0),
            recovery(100.0, 50.0, "in"),
            recovery(100.0, 90.0, interrupted=True),
            recovery(None, 90.0),
            recovery(100.0, None),
        )
        figure = recovery_picture([played(recoveries=some)])
        assert figure is not None
        title = figure.axes[0].get_title()
        assert "mean error 30%" in title
        assert "1 of 2 within 15%; 3 left out" in title

    def test_a_policy_that_predicts_nothing_has_no_such_picture(self) -> None:
        assert recovery_picture([played(recoveries=(recovery(100.0, None),))]) is None

    def test_words_do_not_overlap(self) -> None:
        some = tuple(recovery(10.0 * k, 9.0 * k, cause) for k in range(1, 60) for cause in ("out", "in", "failure"))
        figure = recovery_picture([played(recoveries=some)])
        assert figure is not None
        assert overlapping(figure) == []


class TestFiles:
    def test_each_trace_has_its_panels_and_who_predicts_its_recoveries(self, tmp_path: Path) -> None:
        seen = (recovery(100.0, 110.0),)
        replays = [
            played("daedalus", recoveries=seen),
            played("static-12"),
            played("daedalus", trace="traffic", recoveries=seen),
        ]
        names = [path.name for path in draw(replays, tmp_path / "new")]
        assert names == ["sine.png", "traffic.png", "sine-daedalus-recoveries.png", "traffic-daedalus-recoveries.png"]

    def test_each_course_on_request(self, tmp_path: Path) -> None:
        replays = [played("daedalus:grace_s=120", seed) for seed in (1, 2)]
        names = [path.name for path in draw(replays, tmp_path, courses=True)]
        assert names == ["sine.png", "sine-daedalus-grace_s-120-seed-1.png", "sine-daedalus-grace_s-120-seed-2.png"]

    def test_files_are_small_pngs_and_the_same_each_time(self, tmp_path: Path) -> None:
        replays = [replay for mine in five().values() for replay in mine]
        (path,) = draw(replays, tmp_path, objective_ms=5_000.0)
        png = path.read_bytes()
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", png[16:24]) == (1440, 992)
        assert len(png) < 100_000
        assert draw(replays, tmp_path, objective_ms=5_000.0)[0].read_bytes() == png


def test_a_small_picture_keeps_the_colours_of_thin_lines() -> None:
    figure, grid = canvas(2, 4, width_in=17.0)
    for axes in grid.flat:
        axes.plot([0, 1], [0, 1], color=BLUE)
    legend_below(figure, [Line2D([], [], color=colour, lw=2.0, label="a long name") for colour in CYCLE])
    with Image.open(io.BytesIO(to_png(figure, FINE_DPI))) as image:
        drawn = np.asarray(image.convert("RGB"), dtype=int)
    for colour in CYCLE:
        wanted = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
        assert np.abs(drawn - wanted).sum(axis=2).min() <= 9, f"{colour} became another colour"


def test_more_columns_than_fit_into_one_picture_are_numbered(tmp_path: Path) -> None:
    drawn: list[int] = []

    def picture(columns: Sequence[str]) -> Figure:
        drawn.append(len(columns))
        return canvas()[0]

    assert [path.name for path in draw_columns("abcd", picture, tmp_path / "few", "ads")] == ["ads.png"]
    paths = draw_columns("abcde", picture, tmp_path / "many", "ads")
    assert [path.name for path in paths] == ["ads-1.png", "ads-2.png"]
    assert drawn == [4, 4, 1]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
