"""The policy of Hochreiner et al. (PeerJ CS 2018): hosts are used to the end of the time that is paid for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from perdix.policies.contract import Reason
from perdix.policies.hosts.billing_unit import SETTLE_S, UNIT_SHARE, end_of_unit_s, is_due, margin_s
from perdix.policies.hosts.contract import HostsDecision, HostsSituation, LeaseAgain, Seen, impossible
from perdix.policies.hosts.fleet import Fleet
from perdix.policies.hosts.host_selection import CACHED_FACTOR
from perdix.policies.hosts.operator_selection import PENALTY, QUEUE_LOAD, Standing, Weights, utilities
from perdix.policies.hosts.plan import Plan
from perdix.policies.hosts.release import carry_out, simulate
from perdix.policies.hosts.scale_out_trigger import DURATIONS, QUEUE_THRESHOLD, Trigger, trigger
from perdix.policies.hosts.spare import Spare, capped
from perdix.policies.remembering import number, parts_by_name
from perdix.policies.wording import seconds
from perdix.settings.strict import Strict

AGAIN = "leased_again"
NOTHING = Seen()
TOO_FEW = "too few of it run"


class BtuOptions(Strict):
    """Options of the policy; the defaults are the paper's, where it names any.

    ``durations``, ``queue_threshold``: algorithm 1: how many durations make the trend, and how many items must wait.
    ``cached_factor``: CF of Algorithm 2.
    ``penalty``, ``queue_load``, ``weight_instances``, ``weight_queue_load``, ``weight_delay``, ``weight_scalings``: p,
    QL and W1 to W4 of Algorithm 3.
    ``most_dropped``: share of a type's instances that may go at one look; one of two or more may always.
    ``out_step``: instances that Algorithm 1 adds at once.
    ``make_room``: whether another type is scaled down where a new instance finds no room, before a host is leased. The
    published program leases one all the same.
    ``moves_alone``: whether a host may be given back by moving instances alone, none of which goes.
    ``unit_share``, ``settle_s``: a host is decided about within the last share of its unit, or at the last look that
    leaves ``settle_s`` seconds for what was decided, whichever is earlier.
    """

    durations: Annotated[int, Field(ge=1, le=1_000)] = DURATIONS
    queue_threshold: Annotated[float, Field(ge=0)] = QUEUE_THRESHOLD
    cached_factor: Annotated[float, Field(ge=0, le=1)] = CACHED_FACTOR
    penalty: Annotated[float, Field(ge=0)] = PENALTY
    queue_load: Annotated[float, Field(ge=0)] = QUEUE_LOAD
    weight_instances: Annotated[float, Field(ge=0)] = 1.0
    weight_queue_load: Annotated[float, Field(ge=0)] = 1.0
    weight_delay: Annotated[float, Field(ge=0)] = 1.0
    weight_scalings: Annotated[float, Field(ge=0)] = 1.0
    most_dropped: Annotated[float, Field(ge=0, le=1)] = 0.2
    out_step: Annotated[int, Field(ge=1, le=1_000)] = 1
    make_room: bool = True
    moves_alone: bool = True
    unit_share: Annotated[float, Field(ge=0, le=1)] = UNIT_SHARE
    settle_s: Annotated[float, Field(ge=0)] = SETTLE_S


@dataclass(frozen=True)
class Wanted:
    """Instances that a type should get at this look, and why."""

    operator: str
    instances: int
    why: str


class Btu:
    """Scale out as soon as needed, scale in only for room or at the end of a host's unit.

    Where it differs from the paper, and from its program: docs/decisions/0021-policies-of-hosts.md.
    """

    name = "btu"

    def __init__(self, options: BtuOptions | None = None) -> None:
        self.options = options or BtuOptions()

    def decide(self, situation: HostsSituation) -> HostsDecision:
        """Choose what to start, stop, move, lease and give back."""
        wrong = impossible(situation)
        if wrong is not None:
            return HostsDecision(self.name, (), f"Held: {wrong}.", situation.memory)
        fleet, triggers = Fleet.of(situation), self._triggers(situation)
        ends = {
            name: end_of_unit_s(host.paid_until_s, situation.unit_s, situation.now_s)
            for name, host in situation.hosts.items()
        }
        again = {
            name: end
            for name, end in parts_by_name(situation.memory.get(AGAIN), number).items()
            if name in ends and end > situation.now_s
        }
        due = self._due(situation, ends, again)
        plan = Plan(situation, fleet, due=due, cached_factor=self.options.cached_factor)
        wanted = self._wanted(situation, fleet, triggers)
        growing = {change.operator for change in wanted}
        spares = {name: spare for name, spare in self._spares(situation, fleet).items() if name not in growing}
        self._scale_out(plan, wanted, spares if self.options.make_room else {})
        again |= self._go_on(plan, ends)
        again |= self._end_units(plan, due, ends, triggers, spares)
        return plan.decision(self.name, self._nothing(situation, ends), {AGAIN: again} if again else {})

    def _wanted(self, situation: HostsSituation, fleet: Fleet, triggers: Mapping[str, Trigger]) -> tuple[Wanted, ...]:
        """Return what is wanted, the most urgent first: types that lack instances, then what Algorithm 1 asks for.

        A type of which an instance starts already has what it asked for at an earlier look.
        """
        lacking = {name: operator.least - fleet.count(name) for name, operator in sorted(situation.operators.items())}
        slow = [n for n, found in triggers.items() if found.needed and lacking[n] <= 0 and not fleet.starting(n)]
        slow.sort(key=lambda name: (-triggers[name].excess, name))
        added = [Wanted(name, self._at_most(situation, fleet, name), triggers[name].why) for name in slow]
        return (*(Wanted(name, count, TOO_FEW) for name, count in lacking.items() if count > 0), *added)

    def _at_most(self, situation: HostsSituation, fleet: Fleet, name: str) -> int:
        """Return how many instances one look may add to a type."""
        most = situation.operators[name].most
        return self.options.out_step if most is None else max(0, min(self.options.out_step, most - fleet.count(name)))

    def _spares(self, situation: HostsSituation, fleet: Fleet) -> dict[str, Spare]:
        """Return what may go by Algorithm 3: of types with a positive utility up to the cap."""
        options = self.options
        standings = {name: _standing(situation, fleet, name) for name in situation.operators}
        weights = Weights(
            options.weight_instances, options.weight_queue_load, options.weight_delay, options.weight_scalings
        )
        found = utilities(standings, weights, queue_load=options.queue_load, penalty=options.penalty)
        spares = {}
        for name, utility in found.items():
            most = capped(fleet.count(name), options.most_dropped, situation.operators[name].least)
            most = most if utility > 0 else 0
            spares[name] = Spare(most, utility, f"utility {utility:.3g}")
        return spares

    def _triggers(self, situation: HostsSituation) -> dict[str, Trigger]:
        found = {}
        for name, operator in situation.operators.items():
            seen = situation.seen.get(name, NOTHING)
            found[name] = trigger(
                seen.durations_s,
                operator.duration_s,
                seen.queue_items,
                most_durations=self.options.durations,
                queue_threshold=self.options.queue_threshold,
            )
        return found

    def _due(self, situation: HostsSituation, ends: Mapping[str, float], again: Mapping[str, float]) -> set[str]:
        """Return the hosts to decide about now: once for each unit, and none that leaves anyway."""
        options = self.options
        margin = margin_s(situation.unit_s, situation.check_interval_s, options.unit_share, options.settle_s)
        return {
            name
            for name, end in ends.items()
            if is_due(end, situation.now_s, margin)
            and not situation.hosts[name].releasing
            and again.get(name, 0.0) < end - 1e-6
        }

    def _scale_out(self, plan: Plan, wanted: tuple[Wanted, ...], spares: Mapping[str, Spare]) -> None:
        for change in wanted:
            for _ in range(change.instances):
                if not plan.start(change.operator, change.why, spares):
                    break

    def _go_on(self, plan: Plan, ends: Mapping[str, float]) -> dict[str, float]:
        """Plan anew for hosts that were given back and hold instances that go nowhere: their new place is gone.

        Returns host -> end of the unit after which it is leased again, where there is no other place.
        """
        again = {}
        for host_id in (name for name, host in plan.situation.hosts.items() if host.releasing):
            members = (member for name in plan.fleet.members for member in plan.members(name))
            if all(member.host_id != host_id for member in members):
                continue
            found = simulate(plan, host_id, {})
            if isinstance(found, str):
                again[host_id] = ends[host_id]
                self._lease_again(plan, host_id, f"its instances cannot move: {found}")
            else:
                carry_out(plan, found, "its instances move elsewhere than planned", {})
                plan.said.append(f"{host_id} is still given back: {found.in_words()}")
        return again

    def _end_units(
        self,
        plan: Plan,
        due: set[str],
        ends: Mapping[str, float],
        triggers: Mapping[str, Trigger],
        spares: Mapping[str, Spare],
    ) -> dict[str, float]:
        """Give back what can be, and lease the rest again; return host -> end of the unit of which that was decided."""
        here: dict[str, list[str]] = {name: [] for name in due}
        for name in plan.fleet.members:
            for member in plan.members(name):
                here.get(member.host_id, []).append(name)
        again = {}
        for host_id in sorted(due, key=lambda name: (len(here[name]), name)):
            left = seconds(ends[host_id] - plan.situation.now_s)
            found = self._blind(here[host_id], triggers) or simulate(plan, host_id, spares)
            if not isinstance(found, str) and found.moved and not found.dropped and not self.options.moves_alone:
                found = "none of its instances could go for good"
            if isinstance(found, str):
                again[host_id] = ends[host_id]
                self._lease_again(plan, host_id, f"its unit ends in {left}, and {found}")
            else:
                carry_out(plan, found, f"its unit ends in {left}", spares)
                plan.said.append(f"{host_id} is given back, its unit ends in {left}: {found.in_words()}")
        return again

    def _blind(self, operators: list[str], triggers: Mapping[str, Trigger]) -> str | None:
        """Return why a host with these types is kept: it is not known how they do."""
        for name in operators:
            if not triggers[name].measured:
                return f"of {name} {triggers[name].why}"
        if not any(found.measured for found in triggers.values()):
            return "nothing is measured"
        return None

    def _lease_again(self, plan: Plan, host_id: str, why: str) -> None:
        plan.add(LeaseAgain(host_id), Reason.HOLD_GOOD, why)
        plan.said.append(f"{host_id} is leased again: {why}")

    def _nothing(self, situation: HostsSituation, ends: Mapping[str, float]) -> str:
        if not ends:
            return "There is nothing to run"
        first = min(ends, key=lambda name: (ends[name], name))
        ahead = seconds(ends[first] - situation.now_s)
        return f"Nothing is needed; the next unit that ends is that of {first}, in {ahead}"


def _standing(situation: HostsSituation, fleet: Fleet, name: str) -> Standing:
    seen = situation.seen.get(name, NOTHING)
    duration_s = seen.durations_s[-1] if seen.durations_s else None
    objective_s = situation.operators[name].duration_s
    return Standing(fleet.count(name), duration_s, objective_s, seen.scalings, seen.queue_items)
