"""Price lists: what is in the project, how a lease is billed, and what is said of a list that cannot be."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.settings.prices import Billing, load_prices, price_list_names
from perdix.settings.yaml_files import SettingsError

GOOD = """\
description: A test.
currency: EUR
as_of: 2025-06-01
billing: {unit_s: 60, minimum_s: 120}
instance_types:
  small: {cores: 2, memory_mb: 4096, price_per_h: 0.1}
"""


def written(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", price_list_names())
def test_every_list_of_the_project_says_where_and_that_prices_change(name: str) -> None:
    prices = load_prices(name)
    assert prices.name == name
    assert len(prices.description) > 60
    assert name.startswith("visp-") or "change" in prices.description
    for instance_type in prices.instance_types.values():
        per_core = instance_type.price_per_h / instance_type.cores
        assert 0.005 < per_core < 0.1 or prices.currency == "unit"
        assert instance_type.memory_mb / instance_type.cores in (1024, 1792, 2048, 4096, 8192)


def test_there_are_lists_for_each_way_of_billing() -> None:
    units = {load_prices(name).billing.unit_s for name in price_list_names()}
    assert units >= {1, 60, 600, 1800, 3600}


@pytest.mark.parametrize(("minutes", "price"), [(10, 1), (30, 3), (60, 6)])
def test_the_papers_hosts_cost_one_three_and_six_per_unit(minutes: int, price: float) -> None:
    """PeerJ CS 2018, Evaluation Deployment: BTU10 costs 1, BTU30 3, BTU60 6; four cores and 7 GB."""
    prices = load_prices(f"visp-{minutes}")
    per_s = prices.instance_types["dockerhost"].price_per_h / 3600.0
    paid_s = [prices.billing.paid_s(leased_s) for leased_s in (1.0, 60.0 * minutes, 60.0 * minutes + 1)]
    assert [per_s * seconds for seconds in paid_s] == pytest.approx([price, price, 2 * price])
    assert prices.usable("dockerhost") == (4.0, 7168.0)


@pytest.mark.parametrize(
    ("leased_s", "paid_s"), [(0.0, 120.0), (1.0, 120.0), (120.0, 120.0), (120.5, 180.0), (180.0, 180.0)]
)
def test_started_units_and_the_minimum_are_paid(leased_s: float, paid_s: float) -> None:
    assert Billing(unit_s=60, minimum_s=120).paid_s(leased_s) == paid_s


@given(st.floats(0, 1e6), st.sampled_from([1, 60, 600, 3600]), st.integers(0, 3))
def test_what_is_paid_covers_the_lease_by_less_than_a_unit_or_is_the_minimum(
    leased_s: float, unit_s: int, units: int
) -> None:
    billing = Billing(unit_s=unit_s, minimum_s=units * unit_s)
    paid_s = billing.paid_s(leased_s)
    assert paid_s % unit_s == 0
    assert paid_s >= leased_s - 1e-6 * unit_s
    assert paid_s <= max(leased_s + unit_s, billing.minimum_s, unit_s)


def test_the_system_keeps_its_share(tmp_path: Path) -> None:
    written(tmp_path, GOOD + "reserved: {memory_share: 0.25, cores_share: 0.1}\n")
    assert load_prices("mine", tmp_path).usable("small") == pytest.approx((1.8, 3072.0))


def test_a_list_may_be_a_file_anywhere(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    assert load_prices(str(path)).as_of == date(2025, 6, 1)


def test_a_price_of_nothing_must_be_said(tmp_path: Path) -> None:
    written(tmp_path, GOOD.replace("price_per_h: 0.1", "price_per_h: 0, free: true"))
    assert load_prices("mine", tmp_path).instance_types["small"].price_per_h == 0.0


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("price_per_h: 0.1", "price_per_h: -0.1", ":6: 'instance_types.small.price_per_h': Input should be greater"),
        ("price_per_h: 0.1", "price_per_h: 0", ":6: 'instance_types.small': price_per_h is 0; give the price, or say"),
        ("price_per_h: 0.1", "price_per_h: 1, free: true", ":6: 'instance_types.small': is free, but price_per_h is 1"),
        ("price_per_h: 0.1", "price_per_h: .nan", ":6: 'instance_types.small.price_per_h'"),
        (
            "price_per_h: 0.1",
            "price_per_h: much",
            ":6: 'instance_types.small.price_per_h': expected a number",
        ),
        (", price_per_h: 0.1", "", ":6: 'instance_types.small.price_per_h' is missing; add it"),
        ("price_per_h: 0.1", "price_per_hour: 0.1", "unknown key 'instance_types.small.price_per_hour'; did you mean"),
        ("cores: 2", "cores: 0", ":6: 'instance_types.small.cores': Input should be greater than 0"),
        ("memory_mb: 4096", "memory_mb: -1", ":6: 'instance_types.small.memory_mb': Input should be greater than 0"),
        ("as_of: 2025-06-01", "as_of: 2025-13-01", ":3: month must be in 1..12; write a date as"),
        ("as_of: 2025-06-01", "as_of: today", ":3: 'as_of': Input should be a valid date"),
        ("as_of: 2025-06-01\n", "", "'as_of' is missing; add it"),
        ("unit_s: 60", "unit_s: 0", ":4: 'billing.unit_s': Input should be greater than or equal to 1"),
        (
            "minimum_s: 120",
            "minimum_s: 90",
            ":4: 'billing': minimum_s 90 is no multiple of unit_s 60, but units are pai",
        ),
        ("unit_s: 60", "unit: 60", ":4: unknown key 'billing.unit'; did you mean 'unit_s'?"),
        ("currency: EUR", "currency: euros", ":2: 'currency': String should match"),
        (
            "  small: {cores: 2, memory_mb: 4096, price_per_h: 0.1}\n",
            "  {}\n",
            "'instance_types': Dictionary should ha",
        ),
        ("description: A test.", "name: other", "the list is named 'other'; rename the file or drop the key 'name'"),
        (
            "description: A test.",
            "reserved: {memory_share: 1}",
            ":1: 'reserved.memory_share': Input should be less tha",
        ),
    ],
)
def test_a_list_that_cannot_be_is_refused_with_its_place(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in GOOD
    path = written(tmp_path, GOOD.replace(before, after))
    with pytest.raises(SettingsError) as caught:
        load_prices("mine", tmp_path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_the_same_type_twice_is_refused(tmp_path: Path) -> None:
    written(tmp_path, GOOD + "  small: {cores: 4, memory_mb: 4096, price_per_h: 0.1}\n")
    with pytest.raises(SettingsError, match=r"mine.yaml:7: not YAML: found duplicate key"):
        load_prices("mine", tmp_path)


def test_a_list_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"there is no price list 'visp-20' in .*; did you mean 'visp-"):
        load_prices("visp-20")
    with pytest.raises(SettingsError, match=r"there is no price list .*; known: aws-ec2-us-east-1, "):
        load_prices("nowhere")
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_prices("nowhere.yaml")


@pytest.mark.parametrize("name", ["mine-2026.11", "mine.v2"])
def test_the_name_of_a_list_may_have_a_point(tmp_path: Path, name: str) -> None:
    """What stands behind it was taken for the ending of a file, and the list for one of another name."""
    file = tmp_path / f"{name}.yaml"
    file.write_text(GOOD)
    assert load_prices(name, tmp_path).name == load_prices(str(file)).name == name
    file.write_text(GOOD.replace("description: A test.", "name: other"))
    for known in (name, str(file)):
        with pytest.raises(SettingsError, match="the list is named 'other'") as caught:
            load_prices(known, tmp_path)
        assert str(caught.value).startswith(f"{file}: ")


def test_a_type_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"no instance type 'm6\.large'; did you mean 'm6i\.large'"):
        load_prices("aws-ec2-us-east-1").check_type("m6.large")
