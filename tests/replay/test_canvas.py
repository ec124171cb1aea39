"""What the axes of pictures say."""

from __future__ import annotations

import pytest

from perdix.replay.canvas import canvas, moments, moments_axis, single, to_png


@pytest.mark.parametrize(("hours", "label"), [(3, "22:00"), (8, "30 Nov")])
def test_times_of_day_name_their_day_and_zone(hours: int, label: str) -> None:
    figure, grid = canvas(1, 1)
    axes = grid[0, 0]
    from_s = 1_795_989_600.0 - 2 * 3_600.0  # 2026-11-29 20:00 UTC
    axes.plot(moments([from_s, from_s + 3_600.0 * hours]), [0.0, 1.0])
    moments_axis(axes)
    figure.canvas.draw()
    assert label in [tick.get_text() for tick in axes.get_xticklabels()]
    assert axes.xaxis.get_major_formatter().get_offset().endswith("Nov 2026, UTC")


@pytest.mark.parametrize("name", ["a$_$b", "Job$$anon$1$map$2", "$\\nothing$", "100% of <a> & b_c"])
def test_a_name_is_drawn_as_it_is_written_and_never_as_a_formula(name: str) -> None:
    figure, axes = single()
    axes.set_title(name)
    axes.plot([0.0, 1.0], [0.0, 1.0], label=name)
    axes.legend()
    to_png(figure)
    legend = axes.get_legend()
    assert legend is not None
    assert not any(text.get_parse_math() for text in (axes.title, *legend.get_texts()))
