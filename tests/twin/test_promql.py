import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.telemetry.series import Series
from perdix.twin.promql import PromQLError, parse, seconds_of
from perdix.twin.promql_evaluation import evaluate


def series(metric, times_s, values, **labels):
    return Series(
        metric, None, (1000 * np.array(times_s, dtype=float)).astype(np.int64), np.array(values, dtype=float), labels
    )


STORE = [
    series("up", [0, 10, 20, 30], [1, 1, 0, 1], pod="a", job="x"),
    series("up", [0, 10, 20, 30], [1, 1, 1, np.nan], pod="b", job="x"),
    series("total", [0, 10, 20, 30, 40], [0, 100, 200, 50, 150], pod="a"),
    series("total", [0, 10, 20, 30, 40], [0, 10, 20, 30, 40], pod="b"),
]


def ask(text, *steps_s):
    def fetch(matchers, from_s, to_s):
        found = []
        for entry in STORE:
            labels = {"__name__": entry.metric, **entry.labels}
            if all(m.matches(labels.get(m.label, "")) for m in matchers):
                inside = (entry.times_ms >= 1000 * from_s) & (entry.times_ms <= 1000 * to_s)
                found.append(Series(entry.metric, None, entry.times_ms[inside], entry.values[inside], entry.labels))
        return found

    steps = np.array(steps_s or [40.0], dtype=float)
    return {tuple(sorted(r.labels.items())): r.values.tolist() for r in evaluate(parse(text), steps, fetch)}


def scalar(text, step_s=40.0):
    (values,) = ask(text, step_s).values()
    return values[0]


def test_instant_selector_takes_the_newest_sample_and_honours_staleness():
    found = ask("up", 25.0, 30.0)
    assert found[("__name__", "up"), ("job", "x"), ("pod", "a")] == [0.0, 1.0]
    b = found[("__name__", "up"), ("job", "x"), ("pod", "b")]
    assert b[0] == 1.0
    assert np.isnan(b[1])


def test_lookback_ends_after_five_minutes():
    assert ask('up{pod="a"}', 329.0)
    assert not ask('up{pod="a"}', 330.0)
    assert evaluate(parse('up{pod="a"}'), np.array([39.0]), lambda *_: [STORE[0]], lookback_s=10.0)
    assert not evaluate(parse('up{pod="a"}'), np.array([40.0]), lambda *_: [STORE[0]], lookback_s=10.0)


@pytest.mark.parametrize(
    ("matcher", "pods"),
    [
        ('pod="a"', {"a"}),
        ('pod!="a"', {"b"}),
        ('pod=~"a|c"', {"a"}),
        ('pod!~"a"', {"b"}),
        ('absent=""', {"a", "b"}),
        ('pod=~"A"', set()),
        ('pod=~"(?i:A)"', {"a"}),
    ],
)
def test_matchers(matcher, pods):
    assert {dict(k)["pod"] for k in ask(f"total{{{matcher}}}")} == pods
    assert {dict(k)["pod"] for k in ask(f'{{__name__=~"tot.*",{matcher}}}')} == pods


def test_rate_mends_resets_and_extrapolates_like_prometheus():
    # range (0, 40]: samples 10..40 s of b rise 30 in 30 s; 10 s to the start is within 1.1 intervals, so extended
    # to the start, yet not below zero: the first sample is 10, worth 10 s
    assert scalar('rate(total{pod="b"}[40s])') == pytest.approx((30 * 40 / 30) / 40)
    # a: 100, 200, reset, 50, 150: grown 250 in 30 s; zero is 12 s before the first sample, the start 10 s
    assert scalar('increase(total{pod="a"}[40s])') == pytest.approx(250 * 40 / 30)


def test_rate_needs_two_samples():
    assert not ask('rate(total{pod="b"}[9s])')
    assert ask('rate(total{pod="b"}[11s])')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('avg_over_time(total{pod="a"}[25s])', (200 + 50 + 150) / 3),
        ('min_over_time(total{pod="a"}[25s])', 50),
        ('max_over_time(total{pod="a"}[25s])', 200),
        ('sum_over_time(total{pod="a"}[25s])', 400),
        ('count_over_time(total{pod="a"}[25s])', 3),
        ('last_over_time(up{pod="b"}[25s])', 1),
        ("sum(total)", 190),
        ("avg(total)", 95),
        ("count(total)", 2),
        ("max(total) - min(total)", 110),
        ("sum by () (total)", 190),
        ("time()", 40),
        ("2 + 3 * 4", 14),
        ("-(2 + 3) / 5", -1),
        ('min(total{pod="b"} >= 0) / 1000', 0.04),
        ("1e3 * 2.5", 2500),
    ],
)
def test_values(text, expected):
    assert scalar(text) == pytest.approx(expected)


def test_grouping():
    assert ask("sum by (pod) (total)") == {(("pod", "a"),): [150.0], (("pod", "b"),): [40.0]}
    assert ask("sum(total) by (pod)") == ask("sum by (pod) (total)")
    assert ask("sum without (pod) (up)", 20.0) == {(("job", "x"),): [1.0]}
    assert ask("avg by (pod, nothing) (total)") == ask("sum by (pod) (total)")


def test_comparison_filters_and_sets_select_step_by_step():
    assert ask("sum(up) >= 2", 10.0, 20.0) == {(): [2.0, pytest.approx(np.nan, nan_ok=True)]}
    assert ask("sum(total) and (count(total) == 2)") == {(): [190.0]}
    assert ask("sum(total) and (count(total) == 3)") == {}
    assert ask("sum(total) unless (count(total) == 3)") == {(): [190.0]}
    assert ask("sum(nothing) or sum(total)") == {(): [190.0]}
    assert ask("1 < sum(total)") == {(): [190.0]}


def test_vectors_are_matched_on_labels():
    found = ask("total / on (pod) up", 20.0)
    assert found[(("pod", "b"),)] == [20.0]
    assert found[(("pod", "a"),)] == [np.inf]
    with pytest.raises(PromQLError, match="duplicate series"):
        ask("total / on (job) up", 20.0)


def test_many_to_one_needs_group_left_as_prometheus_does():
    with pytest.raises(PromQLError, match="many-to-one matching must be explicit"):
        ask("up / on (job) sum by (job) (up)", 20.0)
    assert ask("up * on (job) group_left () sum by (job) (up)", 20.0) == {
        (("job", "x"), ("pod", "a")): [0.0],
        (("job", "x"), ("pod", "b")): [1.0],
    }
    assert ask("up > on (job) (sum by (job) (up) - 0.5)", 20.0) == {(("job", "x"),): [1.0]}  # one is left of the many
    assert ask("up * on (pod) total", 20.0) == {(("pod", "a"),): [0.0], (("pod", "b"),): [20.0]}


def test_series_that_follow_each_other_are_one_partner():
    assert ask('sum(total) * on () (up{pod="a"} < 1 or up{pod="b"} > 0)', 10.0) == {(): [110.0]}


@pytest.mark.parametrize("text", ['rate({__name__=~"up|total",pod="a"}[40s])', 'rate({__name__=~".+"}[40s]) * 2'])
def test_no_two_series_have_the_same_labels(text, monkeypatch):
    monkeypatch.setitem(globals(), "STORE", [*STORE, series("total_", [0, 10, 20, 30, 40], [0, 1, 2, 3, 4], pod="a")])
    with pytest.raises(PromQLError, match="same labelset"):
        ask(text.replace("up|total", "total_?"))


def test_infinity_and_nan_are_numbers():
    assert ask("sum(total) < Inf") == {(): [190.0]}
    assert ask("sum(total) > inf") == {}
    assert ask("sum(total) > NaN") == {}
    assert scalar("-Inf") == -np.inf


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sum(",
        "up{",
        'up{pod="a"',
        "up{pod=a}",
        "up[5m]",
        "rate(up)",
        "rate(sum(up))",
        "histogram_quantile(0.9, up)",
        "{}",
        '{pod=~".*"}',
        'up{pod=~"("}',
        "up $",
        "sum(3)",
        "2 and 3",
        "5 > 3",
        "up up",
        "rate(up[20])",
    ],
)
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(PromQLError):
        ask(text)


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(text):
    with contextlib.suppress(PromQLError):
        parse(text)


def test_endless_nesting_is_refused():
    with pytest.raises(PromQLError, match="nested"):
        parse("(" * 100_000 + "1" + ")" * 100_000)
    with pytest.raises(PromQLError, match="nested"):
        ask("+".join("1" * 3_000))


def test_durations():
    assert seconds_of("1h30m") == 5_400
    assert seconds_of("1500ms") == 1.5
    assert seconds_of("15") == 15
    with pytest.raises(PromQLError):
        seconds_of("soon")
