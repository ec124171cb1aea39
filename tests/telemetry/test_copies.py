"""What was exported twice counts once, and what only looks alike is added up as ever."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from perdix.telemetry.copies import as_one
from perdix.telemetry.observations import observe

PULLED = "prometheus-2026-03-04.json.gz"
DAY = "2026-03-04"
LOAD = 1_000.0 + 100.0 * np.sin(np.arange(240) / 20.0)


def series(
    number: int,
    source: str,
    every: int = 1,
    *,
    metric: str = "workload_per_s",
    worker: str = "",
    load: np.ndarray = LOAD,
) -> pd.DataFrame:
    """Some samples of a series, with labels of its own."""
    times = pd.date_range(DAY, periods=len(load), freq="15s", tz="UTC")
    rows = pd.DataFrame({"ts": times, "value": load})[::every]
    return rows.assign(
        metric=metric,
        worker=worker or None,
        source=source,
        series_id=number,
        labels=f'{{"n": "{number}"}}',
        kind="gauge",
    )


def noise(seed: int) -> np.ndarray:
    """A day's load."""
    return 1_000.0 + np.random.default_rng(seed).normal(0.0, 50.0, 5_760)


def observed(*parts: pd.DataFrame) -> pd.DataFrame:
    return observe(as_one(pd.concat(parts, ignore_index=True)), "ads", DAY)[0]


def test_an_export_that_is_delivered_twice_counts_once() -> None:
    """As JSON of the query every 15 s, and as the dashboard's CSV every minute; whichever came first."""
    alone = observed(series(1, "a.json"))
    for parts in ((series(1, "a.json"), series(2, "b.csv", 4)), (series(2, "b.csv", 4), series(1, "a.json"))):
        pd.testing.assert_frame_equal(observed(*parts), alone)


def test_a_longer_copy_goes_on_where_the_original_ends() -> None:
    found = observed(series(1, "a.json")[:120], series(2, "b.csv"))
    assert np.nanmax(found["workload_per_s"]) < 1_101.0
    assert found["workload_per_s"].notna().all()


def test_a_worker_that_a_dashboard_does_not_name_is_the_one_that_is_known() -> None:
    named = series(1, "a.json", metric="throughput_per_s", worker="w1")
    alone = observed(named)
    assert observed(named, series(2, "b.csv", metric="throughput_per_s")).equals(alone)


def test_a_short_copy_of_several_workers_counts_once() -> None:
    """The dashboard was exported for the half hour of an incident, and the query for a day."""
    days = [series(k, "a.json", metric="throughput_per_s", worker=f"w{k}", load=noise(k)) for k in range(3)]
    copies = [
        day[2_000:2_120].assign(source="b.csv", series_id=10 + k, labels='{"panel": "1"}') for k, day in enumerate(days)
    ]
    assert observed(*days, *copies).equals(observed(*days))


def test_a_short_copy_of_one_of_two_exports_counts_once() -> None:
    """Two topics are two exports of a day, and the dashboard of one of them that of half an hour."""
    topics = [series(k, f"{k}.json", load=noise(k)) for k in range(2)]
    short = topics[0][2_000:2_120].assign(source="b.csv", series_id=2, labels='{"panel": "1"}')
    assert observed(*topics, short).equals(observed(*topics))


def test_a_copy_without_a_worker_is_of_every_pod_in_turn() -> None:
    before, after = ({"metric": "throughput_per_s", "worker": worker} for worker in ("pod-a", "pod-b"))
    pods = (series(1, "a.json", **before)[:120], series(2, "a.json", **after)[120:])
    found = observed(*pods, series(3, "b.csv", metric="throughput_per_s"))
    assert np.nanmax(found["throughput_per_s"]) < 1_101.0


@pytest.mark.parametrize("other", [series(2, "b.csv", 4), series(2, "b.csv")[120:]], ids=["coarser", "finer"])
def test_each_stretch_is_held_at_the_interval_of_what_reports_there(other: pd.DataFrame) -> None:
    """A sample a minute is not held for 15 s only because others, of another hour, came every 15 s."""
    rest = series(1, "a.json")[:120] if len(other) == 60 else series(1, "a.json", 4)
    found = observed(rest, other)["workload_per_s"].to_numpy()
    np.testing.assert_allclose(found, LOAD[: len(found)], rtol=0.02)
    assert len(found) > 230


def test_a_copy_of_two_workers_that_are_alike_is_of_one_of_them() -> None:
    workers = [series(k, "a.json", metric="throughput_per_s", worker=f"w{k}") for k in range(2)]
    alone = observed(*workers)
    assert observed(*workers, series(3, "b.csv", metric="throughput_per_s")).equals(alone)


def test_a_finer_copy_without_a_worker_is_of_the_pod_that_runs() -> None:
    named = ({"metric": "throughput_per_s", "worker": worker} for worker in ("pod-a", "pod-b"))
    before, after = (series(k, "a.json", 4, **worker) for k, worker in enumerate(named))
    found = observed(before[:30], after[30:], series(3, "b.csv", metric="throughput_per_s"))
    np.testing.assert_allclose(found["throughput_per_s"], LOAD, rtol=0.02)
    assert found["scale_out"].max() == 1


def test_an_export_by_hand_of_what_was_pulled_before_counts_instead() -> None:
    """By another query, and so not to the last digit. Where there is one already nothing is pulled."""
    pulled, by_hand = series(1, PULLED), series(2, "by-hand.csv", load=2.0 + LOAD)[80:160]
    for before in (pulled, pulled.drop(index=range(80, 160))):
        found = observed(before, by_hand)
        np.testing.assert_allclose(found["workload_per_s"], LOAD + np.repeat([0.0, 2.0, 0.0], 80))


def test_a_coarser_copy_of_what_was_pulled_changes_nothing() -> None:
    assert observed(series(1, PULLED), series(2, "by-hand.csv", 4)).equals(observed(series(1, PULLED)))


@pytest.mark.parametrize(("name", "counting"), [("w0", 1.5), ("pod-w0", 1.0), ("", 1.0)], ids=["one", "other", "none"])
def test_an_export_by_hand_of_one_worker_leaves_the_others_that_were_pulled(name: str, counting: float) -> None:
    """Where it names none of them, it is all of them under other names, or their sum."""
    workers = [series(k, PULLED, metric="throughput_per_s", worker=f"w{k}", load=LOAD / 2.0) for k in range(2)]
    by_hand = series(3, "by-hand.csv", metric="throughput_per_s", worker=name)
    np.testing.assert_allclose(observed(*workers, by_hand)["throughput_per_s"], LOAD * counting)


@pytest.mark.parametrize("gap", [slice(0), slice(100, 101)], ids=["whole", "gap"])
@pytest.mark.parametrize("still", [0.0, 500.0])
@pytest.mark.parametrize(
    "names", [None, ("w0", "w0", "w0", "w0"), ("w0", "w1", "", "")], ids=["topics", "subtasks", "workers"]
)
def test_what_never_changes_is_counted_with_the_copies_that_were_exported_beside_it(
    names: tuple[str, ...] | None, still: float, gap: slice
) -> None:
    """Where it cannot be told to be a copy itself, it would be taken for all of the metric if it counted alone."""
    loads = [LOAD, np.full(240, still)] * 2
    metric = "throughput_per_s" if names else "workload_per_s"
    parts = [
        series(k, PULLED if k < 2 else "by-hand.csv", metric=metric, worker=worker, load=load)
        for k, (worker, load) in enumerate(zip(names or [""] * 4, loads, strict=True))
    ]
    parts[1] = parts[1].drop(index=parts[1].index[gap])
    found = observed(*parts)
    np.testing.assert_allclose(found[metric], LOAD + still)
    if names:
        assert set(found["scale_out"]) == {len({*names[:2]})}


@pytest.mark.parametrize("still", [0.0, 500.0])
def test_what_never_changes_and_says_nothing_beyond_what_was_pulled_is_a_copy(still: float) -> None:
    """Each topic was exported to a file of its own."""
    topics = [series(1, PULLED), series(2, PULLED, load=np.full(240, still))]
    copies = [series(3, "busy.csv"), series(4, "idle.csv", 4, load=np.full(240, still))]
    assert observed(*topics, *copies).equals(observed(*topics))


@pytest.mark.parametrize("still", [0.0, 500.0])
@pytest.mark.parametrize(("every", "lacking"), [(1, range(100, 140)), (4, range(0))], ids=["gap", "coarse"])
def test_what_never_changes_is_a_copy_also_where_it_fills_what_was_not_pulled(
    still: float, every: int, lacking: range
) -> None:
    """Else it would be taken for all of the metric, which is busy."""
    topics = [
        series(k, PULLED, every, load=load).drop(index=lacking) for k, load in enumerate((LOAD, LOAD * 0 + still))
    ]
    found = observed(*topics, series(4, "idle.csv", load=np.full(240, still)))["workload_per_s"]
    assert found.isna().sum() == pytest.approx(len(lacking), abs=1)
    assert len(found) == 240
    np.testing.assert_allclose(found.dropna(), (LOAD + still)[found.notna()], rtol=0.02)


def test_two_topics_that_never_change_are_no_copies_of_the_same() -> None:
    still = np.full(240, 500.0)
    topics = [series(1, PULLED), series(2, PULLED, load=still)]
    by_hand = [series(3 + k, "by-hand.csv", load=load) for k, load in enumerate((LOAD + 2.0, still, still))]
    np.testing.assert_allclose(observed(*topics, *by_hand)["workload_per_s"], LOAD + 1_002.0)


def test_a_topic_that_came_last_is_counted_with_the_copies_that_were_exported_beside_it() -> None:
    """It shares too few samples with what was pulled to be told as a copy."""
    topics = [series(1, PULLED), series(2, PULLED, load=LOAD[::-1])[235:]]
    copies = [topic.assign(source="by-hand.csv", series_id=3 + k) for k, topic in enumerate(topics)]
    labelled = [copy.assign(labels=f'{{"panel": "{k}"}}') for k, copy in enumerate(copies)]
    pd.testing.assert_frame_equal(observed(*topics, *labelled), observed(*topics))


def test_copies_fill_a_gap_of_one_of_two_topics_that_were_pulled() -> None:
    topics = [series(1, PULLED), series(2, PULLED, load=LOAD[::-1])]
    copies = [
        topic[60:180].assign(source="by-hand.csv", series_id=3 + k, labels=f'{{"panel": "{k}"}}')
        for k, topic in enumerate(topics)
    ]
    found = observed(topics[0].drop(index=range(100, 140)), topics[1], *copies)
    np.testing.assert_allclose(found["workload_per_s"], LOAD + LOAD[::-1])


def test_a_copy_without_values_is_not_what_an_export_by_hand_has_beside_others() -> None:
    topics = [series(1, PULLED), series(2, PULLED, load=LOAD[::-1])]
    by_hand = [series(3, "by-hand.csv"), series(4, "by-hand.csv", load=np.full(240, np.nan))]
    np.testing.assert_allclose(observed(*topics, *by_hand)["workload_per_s"], LOAD + LOAD[::-1])


def test_two_exports_of_an_idle_topic_are_copies_of_what_was_pulled() -> None:
    """At a shorter interval than what was pulled, one of them beside a copy of the busy topic."""
    still = np.zeros(240)
    topics = [series(1, PULLED, 4), series(2, PULLED, 4, load=still)]
    by_hand = [series(3, "both.csv"), series(4, "both.csv", load=still), series(5, "idle.csv", load=still)]
    np.testing.assert_allclose(observed(*topics, *by_hand)["workload_per_s"], LOAD)


def test_a_copy_of_a_copy_is_one_of_its_original() -> None:
    """The first and the last of these share no time."""
    parts = [series(1, "a.json")[120:], series(2, "b.csv", 4), series(3, "c.json", 4)[:25]]
    np.testing.assert_allclose(observed(*parts)["workload_per_s"], LOAD, rtol=0.02)


@pytest.mark.parametrize("decimals", [0, 3])
def test_long_fractions_need_few_samples_to_be_copies(decimals: int) -> None:
    """An export that ends just after midnight has few of a day; of short numbers, that could be chance."""
    few = [series(1, "a.json")[:6], series(2, "b.csv")[:6]]
    assert observed(*few).equals(observed(few[0]))
    short = [rows.assign(value=np.round(rows["value"], decimals)) for rows in few]
    np.testing.assert_allclose(observed(*short)["workload_per_s"], 2.0 * np.round(LOAD[:6], decimals))


@pytest.mark.parametrize("decimals", [0, 2, 6])
def test_a_copy_may_be_rounded(decimals: int) -> None:
    whole, rounded = series(1, "a.json"), series(2, "b.csv", 4, load=np.round(LOAD, decimals))
    np.testing.assert_allclose(observed(whole, rounded)["workload_per_s"], LOAD, atol=0.5)
    shifted = series(2, "b.csv", 4, load=np.round(LOAD, decimals) + max(10.0**-decimals, 0.02))
    assert observed(whole, shifted)["workload_per_s"].max() > 2_000.0


@pytest.mark.parametrize(("digits", "scale"), [(6, 1e3), (7, 1e4), (12, 1e-3), (15, 1e-3)])
def test_a_copy_may_have_fewer_significant_digits(digits: int, scale: float) -> None:
    """As of awk, of single precision, of R and of spreadsheets."""
    load = LOAD * np.pi * scale
    both = series(1, "a.json", load=load), series(2, "b.csv", load=np.array([float(f"{x:.{digits}g}") for x in load]))
    np.testing.assert_allclose(observed(*both)["workload_per_s"], load, rtol=1e-5)


def test_copies_of_another_export_by_hand_are_not_added() -> None:
    pulled, copy = series(1, PULLED), series(2, "copy.csv")
    other = series(3, "by-hand.csv", load=2.0 + LOAD)
    np.testing.assert_allclose(observed(pulled, copy, other)["workload_per_s"], LOAD + 2.0)


@pytest.mark.parametrize("names", [("",), ("pod-0",), ("pod-0", "pod-1")], ids=["sum", "other", "others"])
@pytest.mark.parametrize("part", [slice(None), slice(80, 160), slice(80, 84)], ids=["day", "middle", "minute"])
def test_throughput_by_hand_of_other_workers_is_the_total_of_those_that_were_pulled(
    names: tuple[str, ...], part: slice
) -> None:
    """Which workers there are, and what each does at which CPU, is as it was pulled."""
    workers = [
        series(2 * k + n, PULLED, metric=metric, worker=f"w{k}", load=load)
        for k in range(2)
        for n, (metric, load) in enumerate({"throughput_per_s": LOAD / 2.0, "cpu_load": LOAD / 2_000.0}.items())
    ]
    load = (LOAD + 2.0) / len(names)
    by_hand = [
        series(10 + k, "by-hand.csv", metric="throughput_per_s", worker=name, load=load)[part]
        for k, name in enumerate(names)
    ]
    alone, alone_of_workers, _ = observe(pd.concat(workers, ignore_index=True), "ads", DAY)
    found, of_workers, _ = observe(as_one(pd.concat([*workers, *by_hand], ignore_index=True)), "ads", DAY)
    alone.loc[alone.index[part], "throughput_per_s"] += 2.0
    pd.testing.assert_frame_equal(found, alone)
    pd.testing.assert_frame_equal(of_workers, alone_of_workers)


@pytest.mark.parametrize("silent", [slice(100, 101), slice(80, 160)], ids=["a_scrape", "long"])
def test_workers_by_hand_are_there_where_those_that_were_pulled_are_not(silent: slice) -> None:
    workers = [series(k, PULLED, metric="throughput_per_s", worker=f"w{k}", load=LOAD / 2.0) for k in range(2)]
    pulled = [rows.drop(index=rows.index[silent]) for rows in workers]
    by_hand = [
        series(10 + k, "by-hand.csv", metric="throughput_per_s", worker=f"pod-{k}", load=LOAD / 2.0 + 1.0)
        for k in range(2)
    ]
    found = observed(*pulled, *by_hand)
    np.testing.assert_allclose(found["throughput_per_s"], LOAD + 2.0)
    assert set(found["scale_out"]) == {2}


def test_a_worker_that_only_an_export_by_hand_has_is_one_more() -> None:
    workers = [series(k, PULLED, metric="throughput_per_s", worker=f"w{k}", load=LOAD / 2.0) for k in range(2)]
    by_hand = [
        series(10 + k, "by-hand.csv", metric="throughput_per_s", worker=f"w{k}", load=LOAD / 2.0 + 1.0)
        for k in range(3)
    ]
    found = observed(*workers, *by_hand)
    np.testing.assert_allclose(found["throughput_per_s"], 1.5 * LOAD + 3.0)
    assert set(found["scale_out"]) == {3}


@pytest.mark.parametrize(
    ("rows", "other"),
    [
        (series(1, "a.json"), series(2, "a.json")),  # of one export: two topics
        (
            series(1, "a.csv", load=np.full(240, 500.0)),
            series(2, "b.csv", load=np.full(240, 500.0)),
        ),  # two that never change
        (series(1, "a.csv"), series(2, "b.csv", load=LOAD + 0.02)),
        (
            series(1, "a.csv", load=noise(1)),
            series(2, "b.csv", load=np.where(np.arange(5_760) == 3_001, 1.0, noise(1))),
        ),
        (series(1, "a.csv")[:5], series(2, "b.csv")[:5]),
        (series(1, PULLED, load=LOAD / 1e4), series(2, "b.csv", load=np.zeros(240))),
        (
            series(1, "a.csv", metric="throughput_per_s", worker="w1"),
            series(2, "b.csv", metric="throughput_per_s", worker="w2"),
        ),
    ],
    ids=["one export", "constant", "almost", "but once", "few", "small", "two workers"],
)
def test_what_may_be_two_series_is_added_up(rows: pd.DataFrame, other: pd.DataFrame) -> None:
    both = pd.concat([rows, other], ignore_index=True)
    pd.testing.assert_frame_equal(as_one(both), both)
