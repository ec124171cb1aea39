"""The benchmark of the printed tables: its numbers are the paper's, and its comparisons say what they say."""

from __future__ import annotations

import pytest

from benchmarks.hosts import (
    COMPLIANCES,
    COSTS,
    FIGURES,
    LEVELS,
    PRINTED,
    RESOURCES,
    UNITS,
    Columns,
    comparisons,
    orders,
)


def columns(btu: tuple[float, float], threshold: tuple[float, float]) -> Columns:
    """Return columns with these compliances and costs throughout."""

    def of(compliance: float, cost: float) -> dict[str, tuple[float]]:
        return {figure: (compliance if figure in COMPLIANCES else cost,) for figure in FIGURES}

    return {(policy, unit): of(*of_it) for policy, of_it in (("btu", btu), ("threshold", threshold)) for unit in UNITS}


@pytest.mark.parametrize("pattern", list(PRINTED))
def test_the_printed_totals_are_the_resource_cost_and_penalties_that_fit_the_compliance(pattern: str) -> None:
    """Penalties are the late items; as many items come in every run, so each table tells about one number of items."""
    for (policy, unit), column in PRINTED[pattern].items():
        (resource,) = column[RESOURCES]
        shares, totals = ([column[figure][0] for figure in figures] for figures in (COMPLIANCES, COSTS))
        if (pattern, policy, unit) == ("two-level", "btu", 30):
            assert totals[1] == 155.43, "it is misprinted"
            totals[1] = 115.43
        items = [
            (total - resource) / 0.0001 / (1.0 - share / 100.0) for share, total in zip(shares, totals, strict=True)
        ]
        assert items == pytest.approx([items[0]] * 3, rel=0.18), (policy, unit)
        assert 1.4e6 < items[0] < 2.0e6


def test_a_comparison_comes_out_as_printed_when_its_sign_does() -> None:
    better = list(comparisons("stepwise", columns((90, 50), (60, 100))))
    assert len(better) == 21
    told = {comparison.what: comparison.as_printed for comparison in better}
    assert all(told[f"{level} compliance, {unit} min"] for level in LEVELS for unit in UNITS)
    assert told["resource cost, 60 min"]
    assert not told["resource cost, 10 min"], "printed: dearer"
    worse = list(comparisons("stepwise", columns((60, 100), (90, 50))))
    assert all(comparison.as_printed != other.as_printed for comparison, other in zip(better, worse, strict=True))


def test_compliance_and_cost_of_btu_rise_with_the_unit_in_every_printed_table() -> None:
    for pattern, printed in PRINTED.items():
        flat = columns((90, 50), (60, 100))
        assert all(order.printed > 0 for order in orders(pattern, flat)), pattern
        assert not any(order.as_printed for order in orders(pattern, flat)), "found: the same with every unit"
        assert {policy for policy, _ in printed} == {"btu", "threshold"}
