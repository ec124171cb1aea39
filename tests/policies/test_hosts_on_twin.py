"""Policies of hosts against the twin of the manufacturing topology: what they ask for can be done, come what may."""

import pytest

from perdix.policies.hosts.build import HOSTS_POLICIES
from perdix.replay.hosts.run import HostsCase, hosts_contenders, play
from perdix.twin.hosts.parameters import load_topology


@pytest.mark.parametrize("name", HOSTS_POLICIES)
def test_nothing_that_is_asked_for_is_refused_though_hosts_die(name: str) -> None:
    (contender,) = hosts_contenders(f"{name}:unit_min=10")
    outcome = play(HostsCase(contender, load_topology("manufacturing"), "random-walk-1", 3, 2_400, failures=3)).outcome
    assert outcome.problems == ()
    assert outcome.refused == 0
    assert outcome.dead_hosts == 3
    last = {step.operator for step in outcome.steps if step.action == "StartInstance"}
    assert last  # what died with its host was started again
    assert outcome.compliance["near"] > 0.3
