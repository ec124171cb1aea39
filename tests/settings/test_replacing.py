"""Other values with some parts replaced."""

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property

import pytest

from perdix.settings.replacing import replace


@dataclass(frozen=True)
class Box:
    width: float
    height: float = 2.0
    inside: tuple[int, ...] = field(default_factory=tuple)

    @cached_property
    def area(self) -> float:
        return self.width * self.height


def test_a_value_with_other_parts_is_what_dataclasses_make_of_it() -> None:
    box = Box(1.0, inside=(1, 2))
    assert replace(box, width=3.0) == dataclasses.replace(box, width=3.0)
    assert repr(replace(box)) == repr(box)


def test_what_was_derived_of_the_value_is_derived_anew() -> None:
    box = Box(1.0)
    assert box.area == 2.0
    assert replace(box, width=3.0).area == 6.0
    assert box.width == 1.0


def test_a_class_that_looks_at_its_parts_looks_at_the_new_ones() -> None:
    @dataclass(frozen=True)
    class Positive:
        value: float

        def __post_init__(self) -> None:
            if self.value <= 0.0:
                raise ValueError("not above zero")

    with pytest.raises(ValueError, match="not above zero"):
        replace(Positive(1.0), value=-1.0)


@pytest.mark.parametrize("known", [False, True])
def test_a_part_that_is_not_there_is_refused(known: bool) -> None:
    box = Box(1.0)
    assert not known or box.area
    with pytest.raises(TypeError, match="Box has no part 'depth'"):
        replace(box, depth=1.0)  # type: ignore[call-arg]
