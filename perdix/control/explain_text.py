"""An explanation as plain text, for a terminal, a chat or a log: short for whoever is on call, or all of it.

A number is one number: what a table says of a size is what the policy counted on, and what its reason says.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from perdix.control.explain import Explanation
from perdix.control.freshness import Freshness, silence
from perdix.control.state.journal import USUAL, Status
from perdix.control.state.ledger import Entry, Intent, State
from perdix.policies.contract import Reason
from perdix.policies.planning.course import STAGE_S
from perdix.policies.wording import workers
from perdix.settings.counting import counted
from perdix.settings.durations import in_minutes, in_words
from perdix.settings.moments import in_utc

Document = Mapping[str, Any]
ROWS: Final = 5  # of the short table: sizes around the one that is wanted
EACH_MINUTE: Final = Freshness()
LATELY_S: Final = 3_600.0  # values that were rejected before are left to the long text


def render(
    explanation: Explanation,
    *,
    verbose: bool = False,
    now_s: float | None = None,
    freshness: Freshness = EACH_MINUTE,
) -> str:
    """Return the explanation as lines of plain text; no colours, no width assumed.

    ``verbose``: all that was seen, believed and examined, in place of what somebody on call needs.
    ``now_s``: epoch seconds, for how long ago something was; ``None``: that is left out.
    ``freshness``: until when the last tick is news.
    """
    entry = explanation.entry
    lines = _lines(explanation) if verbose or entry is None else _short(explanation, entry, now_s)
    silent = _silent(explanation, now_s, freshness)
    return "\n".join((silent, *lines) if silent else lines)


def _short(explanation: Explanation, entry: Entry, now_s: float | None) -> Iterator[str]:
    job, intent, account = explanation.job, entry.intent, entry.intent.explanation
    unusual = _unusual(explanation)
    if unusual:
        yield f"{job}: {unusual}"
    yield f"{'Before that' if unusual else job}: {_wanted(intent)}. {intent.sentence}"
    past_s = 0.0 if now_s is None else max(now_s - intent.made_s, 0.0)
    ago = "" if now_s is None or explanation.at_s is not None else f" ({in_minutes(past_s)} ago)"
    yield f"Decided {_made(entry, ago)}, by {intent.policy}{'' if intent.act else ', advice only'}."
    yield from _came_of(entry)
    yield from _seen(account.get("seen", {}))
    lately_s = (entry.last_s or intent.made_s) - LATELY_S
    yield from _rejected({name: row for name, row in account.get("rejected", {}).items() if row["newest_s"] > lately_s})
    yield from _table(intent)
    last = explanation.last_rescale
    if last is not None and last.decision_id != entry.decision_id:
        yield f"Last rescale: {in_utc(last.intent.made_s)}, {change(last.intent)}, {last.state.value}."
    at_s = explanation.at_s
    at = "" if at_s is None else f" --at {datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    yield f"All of it: perdix explain {job}{at} --verbose"


def _unusual(explanation: Explanation) -> str:
    """Return what of a job's status its decision does not say, in words."""
    status, pause = explanation.status, explanation.pause
    if pause is not None:
        if explanation.entry is not None and explanation.entry.intent.reason == Reason.HOLD_PAUSED:
            return ""
        return f"paused until {in_utc(pause.until_s)}. {pause.why}".rstrip()
    repeated = (
        explanation.entry is not None and status is not None and status.sentence == explanation.entry.intent.sentence
    )
    if status is None or status.status in USUAL or repeated:
        return ""
    return _standing(status.status, status.sentence)


def _standing(status: Status, sentence: str) -> str:
    """Return how a job stands, in words; the sentence of a blind or paused job begins with that word."""
    return sentence if sentence.lower().startswith(status.value) else f"{status.value}. {sentence}".rstrip()


def _wanted(intent: Intent) -> str:
    if intent.rescales:
        return change(intent)
    return f"{workers(intent.scale_out, intent.mix or intent.from_mix)} stay{'s' if intent.scale_out == 1 else ''}"


def _made(entry: Entry, ago: str) -> str:
    made = f"{in_utc(entry.intent.made_s)}{ago}"
    if entry.ticks > 1 and entry.last_s is not None:
        return f"{made}, the same in {entry.ticks} ticks until {_clock(entry.last_s, entry.intent.made_s)}"
    return made


def _silent(explanation: Explanation, now_s: float | None, freshness: Freshness) -> str:
    """Return how long no tick looked at the job, where that is too long."""
    entry, status = explanation.entry, explanation.status
    looks = [] if entry is None else [entry.last_s or entry.intent.made_s]
    looks += [] if status is None else [status.updated_s]
    if now_s is None or explanation.at_s is not None or not looks or not freshness.is_silent(max(looks), now_s):
        return ""
    return silence([explanation.job], now_s - max(looks))


def _sizes(account: Document) -> dict[int, dict[str, Any]]:
    """Return scale-out -> what the policy counted on, and its verdict; of one without candidates, what is believed."""
    found = {row["scale_out"]: {"per_s": row["per_s"]} for row in (account.get("believed") or {}).get("capacities", ())}
    candidates = [candidate for candidate in account.get("candidates", ()) if not candidate.get("mix")]
    for candidate in candidates:
        known = found.get(candidate["scale_out"], {})
        counted = candidate["capacity_per_s"]
        found[candidate["scale_out"]] = {
            **known,
            **candidate,
            "per_s": known.get("per_s") if counted is None else counted,
        }
    return {n: found[n] for n in sorted(found) if not candidates or "rejected_by" in found[n]}


class Size(NamedTuple):
    """A number of workers, what it can process in records/s as the policy counts on it, and why it is (not) the one."""

    workers: int
    per_s: float | None
    verdict: str


def sizes_around(intent: Intent) -> list[Size]:
    """Return the sizes around the one that is wanted, ascending, with those that run and that the policy wants."""
    account = intent.explanation
    sizes, proposed = _sizes(account), (account.get("proposed") or {}).get("scale_out", intent.scale_out)
    shown = _around(list(sizes), intent.scale_out, {intent.from_scale_out, proposed})
    return [Size(n, sizes[n].get("per_s"), _verdict(n, sizes[n], intent)) for n in shown]


def _table(intent: Intent) -> Iterator[str]:
    account = intent.explanation
    if any(candidate.get("mix") for candidate in account.get("candidates", ())):
        yield from _candidates(_beside_accepted(account["candidates"]), _chosen(intent))
        return
    shown = sizes_around(intent)
    if shown:
        yield "  workers  can process  verdict"
    for candidate in shown:
        yield f"  {candidate.workers:>7}  {_rate(candidate.per_s):>11}  {candidate.verdict}".rstrip()


def _beside_accepted(candidates: Sequence[Document]) -> Sequence[Document]:
    ordered = sorted(candidates, key=lambda candidate: candidate["scale_out"])
    accepted = next((at for at, row in enumerate(ordered) if row["rejected_by"] is None), 0)
    first = max(0, min(accepted - ROWS // 2, len(ordered) - ROWS))
    return ordered[first : first + ROWS]


def _around(sizes: Sequence[int], wanted: int, also: Collection[int]) -> list[int]:
    nearest = sorted(sizes, key=lambda n: (abs(n - wanted), n))[:ROWS]
    return sorted({*nearest, *(n for n in sizes if n in also)})


def _verdict(n: int, size: Document, intent: Intent) -> str:
    rejected, proposed = size.get("rejected_by"), intent.explanation.get("proposed") or {}
    why = "" if rejected is None else f"rejected: {rejected}"
    if why and n == intent.scale_out:  # a guard holds what the policy would leave
        why = f"the policy {why}"
    parts = [
        "runs" if n == intent.from_scale_out else "",
        "wanted" if n == intent.scale_out else "",
        "the policy wants it" if proposed.get("scale_out") == n else "",
        why,
        "" if size.get("recovery_s") is None or rejected is not None else f"recovery in {size['recovery_s']:,.0f} s",
    ]
    return ", ".join(filter(None, parts))


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:,.0f}/s"


def _lines(explanation: Explanation) -> Iterator[str]:
    entry = explanation.entry
    if explanation.status is not None:
        decided = "" if entry is None else entry.intent.sentence  # which follows
        more = explanation.status.sentence.removeprefix(decided).strip()
        yield f"{explanation.job}: {_standing(explanation.status.status, more)}"
    if explanation.pause is not None:
        yield f"Paused until {in_utc(explanation.pause.until_s)}. {explanation.pause.why}".rstrip()
    if entry is None:
        until = "" if explanation.at_s is None else f" up to {in_utc(explanation.at_s)}"
        yield f"{explanation.job}: no decision is in the ledger{until}."
        return
    yield from _decided(explanation.job, entry)
    account = entry.intent.explanation
    yield from _seen(account.get("seen", {}))
    yield from _rejected(account.get("rejected", {}))
    yield from _believed(account.get("believed"), explanation, _sizes(account))
    yield from _planned(account)
    yield from _candidates(account.get("candidates", ()), _chosen(entry.intent))
    yield from _came_of(entry)
    last = explanation.last_rescale
    if last is not None and last.decision_id != entry.decision_id:
        yield f"Last rescale: {in_utc(last.intent.made_s)}, {change(last.intent)}, {last.state}: {last.intent.sentence}"
        yield from _came_of(last)
    for note in account.get("notes", ()):
        yield f"Note: {note}"


def _decided(job: str, entry: Entry) -> Iterator[str]:
    intent = entry.intent
    how = "" if intent.act else ", advice only"
    yield f"{job} at {in_utc(intent.made_s)}: {_wanted(intent)} ({intent.reason}, by {intent.policy}{how})"
    yield f"  {intent.sentence}"
    if entry.ticks > 1 and entry.last_s is not None:
        until = _clock(entry.last_s, intent.made_s)
        yield f"  The same in {entry.ticks} ticks until {until}; the figures are those of the last"
    proposed = intent.explanation.get("proposed")
    if proposed:
        asked = workers(proposed["scale_out"], proposed.get("mix"))
        yield f"  The policy had proposed {asked}: {proposed['sentence']}"


def change(intent: Intent) -> str:
    """Return from how many workers to how many a decision goes."""
    if not intent.mix:
        return f"{intent.from_scale_out} to {intent.scale_out} workers"
    return f"{workers(intent.from_scale_out, intent.from_mix)} to {workers(intent.scale_out, intent.mix)}"


def _seen(seen: Document) -> Iterator[str]:
    objective_ms = seen.get("latency_objective_ms")
    allowed = "" if objective_ms is None else f" of {objective_ms:,.0f} ms allowed"
    parts = [
        _part(seen, "workload_per_s", "workload", "/s"),
        _part(seen, "throughput_per_s", "throughput", "/s"),
        _part(seen, "consumer_lag_records", "consumer lag", " records"),
        _part(seen, "latency_p95_ms", "p95 latency", f" ms{allowed}"),
        None if seen.get("cpu_load") is None else f"CPU {seen['cpu_load']:.0%}",
        None if seen.get("memory_ratio") is None else f"memory {seen['memory_ratio']:.0%}",
        _part(seen, "age_s", "newest sample", " s old"),
    ]
    yield "Seen: " + (", ".join(part for part in parts if part) or "nothing")
    for problem in seen.get("problems", ()):
        yield f"  {problem}"


def _rejected(rejected: Document) -> Iterator[str]:
    for row in rejected.values():
        values = counted(row["count"], "value")
        yield f"  Rejected so far: {values}, the newest at {in_utc(row['newest_s'])}: {row['sentence']}"


def _believed(believed: Document | None, explanation: Explanation, counted: Mapping[int, Document]) -> Iterator[str]:
    if believed is None:
        return
    forecast = believed["forecast"]
    text = f"Forecast: 15-minute peak: mean {forecast['maximum_per_s']:,.0f}/s"
    for p in (90, 95):
        if forecast.get(key := f"maximum_p{p}_per_s") is not None:
            text += f", p{p} {forecast[key]:,.0f}/s"
    text += f"; by {forecast['family']}"
    text += f" version {forecast['version']}" if forecast["version"] else ", not from the registry"
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
        yield "  Members by weight: " + ", ".join(_member(member) for member in forecast["members"])
    for name, size in believed.get("sizes", {}).items():
        guess = ", extrapolated beyond what was sampled" if size["extrapolated"] else ""
        given = f"{size['cpu_cores']:g} cores, {size['memory_mb']:g} MB, {size['price_per_h'] or 0:g}/h"
        yield f"  {name} ({given}): {size['per_s'] or 0:,.0f}/s each{guess}"
    yield from _capacities(believed["capacities"], counted)


def _capacities(capacities: Sequence[Document], counted: Mapping[int, Document]) -> Iterator[str]:
    """Yield what each size can process: the estimate, and less where the policy counts on less of it."""
    known = [capacity for capacity in capacities if capacity["per_s"] is not None]
    if known:
        yield "Estimated capacity by workers, 90 % interval, and evidence (ages count from the decision):"
    for row in known:
        interval = f"{row['low_per_s'] or 0:,.0f} to {row['high_per_s'] or 0:,.0f}"
        used = counted.get(row["scale_out"], {}).get("per_s")
        less = "" if used is None or _rate(used) == _rate(row["per_s"]) else f"; the policy counts on {_rate(used)}"
        yield f"  {workers(row['scale_out']):>10}: {_rate(row['per_s'])} ({interval}), {row['basis']}{less}"


def _event(event: Document) -> str:
    lasts = in_words(event["end_s"] - event["start_s"])
    said = f"  Known event {event['name']}, {in_utc(event['start_s'])} for {lasts}: {event['factor']:g} times the load"
    if event["reckoned_with"]:
        return f"{said}, believed to {event['share']:.0%}"
    return f"{said}, left out: lately {event['share']:.0%} of that change came true"


def _member(member: Document) -> str:
    off = "" if member["wape"] is None else f" (WAPE {member['wape']:.1%})"
    return f"{member['family']} {member['weight']:.0%}{off}"


def _planned(account: Document) -> Iterator[str]:
    left = account.get("error_budget_left")
    if left is not None:
        state = f"{left:.0%} is left" if left >= 0 else f"overspent by {-left:.0%}"
        yield f"Error budget of the last hours, fading over 8 h: {state}"
    if account.get("against_fixed"):
        yield _against_fixed(account["against_fixed"])
    if not account.get("plan"):
        return
    yield "Plan:        load  workers   late  cost, worker-minutes"
    for step in account["plan"]:
        ends_s = step["after_s"] + step.get("lasts_s", STAGE_S)
        when = "now" if step["after_s"] < STAGE_S else f"+{ends_s / 60.0:.0f} min"
        yield (
            f"  {when:>7} {step['load_per_s'] or 0:>9,.0f}/s {step['scale_out']:>6} {step['late_share'] or 0:>6.1%}"
            f" {(step['worker_s'] or 0) / 60:>7.1f}"
        )


def _against_fixed(against: Document) -> str:
    lost = "; the plans lose" if against["loses"] else ""
    return (
        f"Last hours: {against['workers']:.1f} workers on average, late in {against['late_share']:.1%}; the best fixed "
        f"size, {against['fixed_workers']:.0f}, would have been late in {against['fixed_late_share']:.1%}{lost}"
    )


def _candidates(candidates: Sequence[Document], chosen: Collection[int]) -> Iterator[str]:
    """Yield each candidate with its verdict; ``chosen`` are the scale-outs that the policy or a guard came to."""
    if candidates:
        yield "Examined: workers, what the policy counts on, verdict"
    for candidate in sorted(candidates, key=lambda candidate: candidate["scale_out"]):
        recovery = "" if candidate["recovery_s"] is None else f", recovery in {candidate['recovery_s']:,.0f} s"
        holds = "accepted" if candidate["scale_out"] in chosen else "not rejected, and not the one"
        verdict = holds if candidate["rejected_by"] is None else f"rejected: {candidate['rejected_by']}"
        which = (
            workers(candidate["scale_out"], candidate["mix"])
            if candidate.get("mix")
            else f"{candidate['scale_out']:>3}"
        )
        yield f"  {which} {_rate(candidate['capacity_per_s']):>11}  {verdict}{recovery}"


def _chosen(intent: Intent) -> set[int]:
    return {intent.scale_out, (intent.explanation.get("proposed") or {}).get("scale_out", intent.scale_out)}


def _came_of(entry: Entry) -> Iterator[str]:
    if entry.state in (State.HELD, State.ADVISED):
        return
    text = f"What came of it: {entry.state} after {counted(entry.attempts, 'attempt')}"
    if entry.applied_s is not None:
        text += f", accepted at {_clock(entry.applied_s, entry.intent.made_s)}"
    if entry.error:
        text += f" ({entry.error})"
    yield text
    if said := recovery(entry):
        yield f"  {said}"


def recovery(entry: Entry) -> str:
    """Return how a job recovered from a rescale, and what had been predicted; empty where that is not known."""
    predicted, observed = entry.intent.predicted_recovery_s, entry.observed_recovery_s
    if observed is not None:
        against = "" if predicted is None else f", {predicted:.0f} s had been predicted"
        return f"Caught up after {observed:.0f} s{against}"
    return "" if entry.outcome is None else str(entry.outcome.get("why", "it did not recover"))


def _part(seen: Document, key: str, name: str, unit: str) -> str | None:
    value = seen.get(key)
    return None if value is None else f"{name} {value:,.0f}{unit}"


def _clock(at_s: float, beside_s: float) -> str:
    """Return a time without the date that stands beside it already."""
    whole = in_utc(at_s)
    return whole.split(" ", 1)[1] if whole[:10] == in_utc(beside_s)[:10] else whole
