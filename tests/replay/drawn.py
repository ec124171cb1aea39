"""What is drawn over what."""

import itertools

from matplotlib.figure import Figure
from matplotlib.text import Text


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of words that are drawn over each other."""
    figure.draw_without_rendering()
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    return [(a, b) for (a, box), (b, other) in itertools.combinations(boxes, 2) if box.overlaps(other)]
