from dataclasses import dataclass, field

import pytest

from perdix.settings.stored import restored, stored


@dataclass(frozen=True)
class Part:
    share: float
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Whole:
    name: str
    part: Part = field(default_factory=lambda: Part(1.0))
    at_s: float | None = None


def test_what_is_absent_has_its_default_and_what_has_no_field_is_left_out() -> None:
    assert restored(Whole, {"name": "a", "colour": "red"}) == Whole("a")
    assert restored(Whole, {"name": "a", "part": {"share": 2, "sizes": [3, 4]}}) == Whole("a", Part(2.0, (3, 4)))


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({}, "not the state of Whole: name: Field required"),
        ({"name": "a", "at_s": "soon"}, "at_s: .* found 'soon'"),
        ({"name": "a", "part": {"share": 1.0, "sizes": [1, None]}}, "part: sizes: 1: .* found None"),
        ([1.0], "not the state of Whole: "),
        (None, "not the state of Whole: "),
    ],
)
def test_what_cannot_be_is_refused_with_the_first_such_field(state: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        restored(Whole, state)


def test_what_is_stored_is_json_and_comes_back_as_it_was() -> None:
    whole = Whole("a", Part(0.5, (3, 4)), 7.0)
    assert stored(whole) == {"name": "a", "part": {"share": 0.5, "sizes": [3, 4]}, "at_s": 7.0}
    assert restored(Whole, stored(whole)) == whole


def test_of_what_cannot_be_only_the_beginning_is_shown() -> None:
    """What lacks a field is all of a forecaster, which would stand in the notes of a tick."""
    with pytest.raises(ValueError, match=r"name: Field required, found \{'sizes'.*…$") as refused:
        restored(Whole, {"sizes": [1.5] * 10_000})
    assert len(str(refused.value)) < 200
