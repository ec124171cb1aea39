"""An explanation as plain text, for a terminal, a chat or a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from control.explain import Explanation
from control.state_ledger import Entry, Intent, State
from policies.planning.course import STAGE_S
from policies.wording import workers
from settings.durations import in_words

Document = Mapping[str, Any]


def render(explanation: Explanation) -> str:
    """Return the explanation as lines of plain text; no colours, no width assumed."""
    return "\n".join(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    entry = explanation.entry
    if explanation.status is not None:
        yield f"{explanation.job}: {explanation.status.status}. {explanation.status.sentence}".rstrip()
    if explanation.pause is not None:
        yield f"Paused until {_time(explanation.pause.until_s)}. {explanation.pause.why}".rstrip()
    if entry is None:
        yield f"{explanation.job}: no decision is in the ledger{_by(explanation.at_s)}."
        return
    yield from _decided(explanation.job, entry)
    told = entry.intent.explanation
    yield from _seen(told.get("seen", {}))
    yield from _rejected(told.get("rejected", {}))
    yield from _believed(told.get("believed"), explanation)
    yield from _planned(told)
    yield from _candidates(told.get("candidates", ()))
    yield from _came_of(entry)
    last = explanation.last_rescale
    if last is not None and last.decision_id != entry.decision_id:
        change = _change(last.intent)
        yield f"Last rescale: {_time(last.intent.made_s)}, {change}, {last.state}: {last.intent.sentence}"
        yield from _came_of(last)
    for note in told.get("notes", ()):
        yield f"Note: {note}"


def _decided(job: str, entry: Entry) -> Iterator[str]:
    intent = entry.intent
    stay = workers(intent.scale_out, intent.mix or intent.from_mix)
    change = _change(intent) if intent.rescales else f"{stay} stay{'s' if intent.scale_out == 1 else ''}"
    how = "" if intent.act else ", advice only"
    yield f"{job} at {_time(intent.made_s)}: {change} ({intent.reason}, by {intent.policy}{how})"
    yield f"  {intent.sentence}"
    if entry.ticks > 1 and entry.last_s is not None:
        yield f"  The same in {entry.ticks} ticks until {_time(entry.last_s)}, of which the figures are"
    proposed = intent.explanation.get("proposed")
    if proposed:
        asked = workers(proposed["scale_out"], proposed.get("mix"))
        yield f"  The policy had proposed {asked}: {proposed['sentence']}"


def _change(intent: Intent) -> str:
    if not intent.mix:
        return f"{intent.from_scale_out} to {intent.scale_out} workers"
    return f"{workers(intent.from_scale_out, intent.from_mix)} to {workers(intent.scale_out, intent.mix)}"


def _seen(seen: Document) -> Iterator[str]:
    parts = [
        _part(seen, "workload_per_s", "workload", "/s"),
        _part(seen, "throughput_per_s", "throughput", "/s"),
        _part(seen, "consumer_lag_records", "consumer lag", " records"),
        _part(seen, "latency_p95_ms", "p95 latency", " ms"),
        None if seen.get("cpu_load") is None else f"CPU {seen['cpu_load']:.0%}",
        None if seen.get("memory_ratio") is None else f"memory {seen['memory_ratio']:.0%}",
        _part(seen, "age_s", "newest sample", " s old"),
    ]
    yield "Seen: " + (", ".join(part for part in parts if part) or "nothing")
    for problem in seen.get("problems", ()):
        yield f"  {problem}"


def _rejected(rejected: Document) -> Iterator[str]:
    for one in rejected.values():
        values = "1 value" if one["count"] == 1 else f"{one['count']:,} values"
        yield f"  Rejected so far: {values}, the newest at {_time(one['newest_s'])}: {one['sentence']}"


def _believed(believed: Document | None, explanation: Explanation) -> Iterator[str]:
    if believed is None:
        return
    forecast = believed["forecast"]
    text = f"Believed: at most {forecast['maximum_per_s']:,.0f}/s ahead"
    bounds = [
        f"p{p} {forecast[key]:,.0f}/s" for p in (90, 95) if forecast.get(key := f"maximum_p{p}_per_s") is not None
    ]
    if bounds:
        text += f" ({', '.join(bounds)})"
    text += f", by {forecast['family']} version {forecast['version']}"
    if forecast.get("wape") is not None:
        text += f", recent WAPE {forecast['wape']:.1%}"
        if forecast.get("horizon_wape") is not None:
            text += f" in the first minute and {forecast['horizon_wape']:.1%} over the horizon"
    if explanation.score is not None and explanation.score.wape is not None:
        text += f"; the champion's forecast of that moment turned out {explanation.score.wape:.1%} off"
    yield text
    for event in believed.get("events", ()):
        yield _event(event)
    if forecast.get("members"):
        yield "  Members by weight: " + ", ".join(_member(one) for one in forecast["members"])
    yield "Capacity by workers (90 % interval), and how it is known:"
    for name, size in believed.get("sizes", {}).items():
        guess = ", a guess beyond what was sampled" if size["extrapolated"] else ""
        given = f"{size['cpu_cores']:g} cores, {size['memory_mb']:g} MB, {size['price_per_h'] or 0:g}/h"
        yield f"  {name} ({given}): {size['per_s'] or 0:,.0f}/s each{guess}"
    for one in believed["capacities"]:
        if one["per_s"] is None:
            continue
        interval = f"{one['low_per_s'] or 0:,.0f} to {one['high_per_s'] or 0:,.0f}"
        yield f"  {one['scale_out']:>3}: {one['per_s']:,.0f}/s ({interval}), {one['basis']}"


def _event(event: Document) -> str:
    lasts = in_words(event["end_s"] - event["start_s"])
    said = f"  Known event {event['name']}, {_time(event['start_s'])} for {lasts}: {event['factor']:g} times the load"
    if event["reckoned_with"]:
        return f"{said}, believed to {event['share']:.0%}"
    return f"{said}, left out: lately {event['share']:.0%} of that change came true"


def _member(member: Document) -> str:
    off = "" if member["wape"] is None else f" (WAPE {member['wape']:.1%})"
    return f"{member['family']} {member['weight']:.0%}{off}"


def _planned(told: Document) -> Iterator[str]:
    left = told.get("error_budget_left")
    if left is not None:
        state = f"{left:.0%} is left" if left >= 0 else f"overspent by {-left:.0%}"
        yield f"Error budget of a rolling day: {state}"
    if told.get("against_fixed"):
        yield _against_fixed(told["against_fixed"])
    if not told.get("plan"):
        return
    yield "Plan:        load  workers   late  cost, worker-minutes"
    for one in told["plan"]:
        when = "now" if one["after_s"] < STAGE_S else f"+{(one['after_s'] + STAGE_S) // 300 * 5:.0f} min"
        yield (
            f"  {when:>7} {one['load_per_s'] or 0:>9,.0f}/s {one['scale_out']:>6} {one['late_share'] or 0:>6.1%}"
            f" {(one['worker_s'] or 0) / 60:>7.1f}"
        )


def _against_fixed(against: Document) -> str:
    lost = "; the plans lose" if against["loses"] else ""
    return (
        f"Last hours: {against['workers']:.1f} workers on average, late in {against['late_share']:.1%}; the best fixed "
        f"size, {against['fixed_workers']:.0f}, would have been late in {against['fixed_late_share']:.1%}{lost}"
    )


def _candidates(candidates: list[Document]) -> Iterator[str]:
    if candidates:
        yield "Examined, by workers:"
    for one in candidates:
        recovery = "" if one["recovery_s"] is None else f", recovery in {one['recovery_s']:.0f} s"
        verdict = "accepted" if one["rejected_by"] is None else f"rejected: {one['rejected_by']}"
        which = workers(one["scale_out"], one["mix"]) if one.get("mix") else f"{one['scale_out']:>3}"
        yield f"  {which}: {verdict}{recovery}"


def _came_of(entry: Entry) -> Iterator[str]:
    if entry.state in (State.HELD, State.ADVISED):
        return
    text = f"What came of it: {entry.state} after {entry.attempts} attempt{'s' if entry.attempts != 1 else ''}"
    if entry.applied_s is not None:
        text += f", accepted at {_time(entry.applied_s)}"
    if entry.error:
        text += f" ({entry.error})"
    yield text
    predicted, observed = entry.intent.predicted_recovery_s, entry.observed_recovery_s
    if observed is not None:
        against = "" if predicted is None else f", {predicted:.0f} s had been predicted"
        yield f"  Caught up after {observed:.0f} s{against}"
    elif entry.outcome is not None:
        yield f"  {entry.outcome.get('why', 'it did not recover')}"


def _part(seen: Document, key: str, name: str, unit: str) -> str | None:
    value = seen.get(key)
    return None if value is None else f"{name} {value:,.0f}{unit}"


def _by(at_s: float | None) -> str:
    return "" if at_s is None else f" up to {_time(at_s)}"


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
