"""Contenders: from what a user writes to a policy with options."""

import pytest

from perdix.policies import phoebe
from perdix.policies.build import POLICIES
from perdix.policies.daedalus_options import AS_PRINTED, DaedalusOptions
from perdix.replay.contenders import FORMS, contender, contenders
from perdix.replay.operators.campaign import dataflow_contenders
from perdix.settings.stream_job import Bounds
from perdix.settings.yaml_files import SettingsError

BOUNDS = Bounds(minimum=2, maximum=12)


@pytest.mark.parametrize(
    ("label", "policy", "options", "tick_s"),
    [
        ("daedalus", "daedalus", {}, 60),
        ("daedalus-paper", "daedalus", dict(AS_PRINTED), 60),
        ("daedalus-paper:worth_delay_s=3.0:tick_s=30", "daedalus", {**AS_PRINTED, "worth_delay_s": 3.0}, 30),
        ("hpa-80", "hpa", {"target_cpu": 0.8}, 15),
        ("hpa-60-paper", "hpa", {"target_cpu": 0.6, "stabilisation": "paper"}, 15),
        ("static-12", "static", {"scale_out": 12}, 60),
        ("phoebe", "phoebe", {}, 60),
        ("phoebe-paper", "phoebe", dict(phoebe.AS_PRINTED), 60),
        ("twres:latency_ms=1500", "twres", {"latency_ms": 1_500}, 60),
        ("daedalus:long_lived=false:grace_s=120", "daedalus", {"long_lived": False, "grace_s": 120}, 60),
        ("qescalor:epoch_s=60", "qescalor", {"epoch_s": 60}, 60),
        ("cba", "cba", {}, 60),
        ("cba-small:headroom=0.2", "cba", {"size": "small", "headroom": 0.2}, 60),
        ("cba:size=small", "cba", {"size": "small"}, 60),
        ("hpa-80:tick_s=60:stabilisation=paper", "hpa", {"target_cpu": 0.8, "stabilisation": "paper"}, 60),
        ("hpa-80:target_cpu=0.85", "hpa", {"target_cpu": 0.85}, 15),
    ],
)
def test_a_label_names_a_policy_its_options_and_how_often_it_looks(
    label: str, policy: str, options: dict[str, object], tick_s: int
) -> None:
    found = contender(label, BOUNDS)
    assert found.label == label
    assert (found.settings.name, found.settings.options, found.tick_interval_s) == (policy, options, tick_s)


@pytest.mark.parametrize(
    ("label", "grace_s"),
    [
        ("daedalus", None),  # as its restarts ask for
        ("daedalus:grace_s=60", None),  # the policy's own
        ("daedalus:job_grace_s=60", 60.0),
        ("hpa-80", 0.0),
        ("hpa-80-paper", 0.0),
        ("flink-autoscaler", 0.0),
        ("ds2-global", 0.0),
        ("hpa-80:job_grace_s=120", 120.0),
    ],
)
def test_autoscalers_with_guards_of_their_own_are_not_held_by_ours(label: str, grace_s: float | None) -> None:
    assert contender(label, BOUNDS).grace_s == grace_s


def test_a_list_keeps_its_order() -> None:
    assert [rival.label for rival in contenders("static-12, daedalus,hpa-80,")] == ["static-12", "daedalus", "hpa-80"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no policy is named; known: perdix, daedalus, daedalus-paper, hpa-80"),
        ("dedalus", "unknown policy 'dedalus'; did you mean 'daedalus'?"),
        ("daedalus-papr", "did you mean 'daedalus-paper'?"),
        ("hpa80", "did you mean 'hpa-80'?"),
        ("hpa", "did you mean 'hpa-80'?"),
        ("static", "did you mean 'static-12'?"),
        ("oracle", "unknown policy 'oracle'; known: perdix, daedalus"),
        ("daedalus,hpa-80,daedalus", "policy daedalus: given twice"),
        ("hpa-80:ticks=60", "unknown option 'ticks'; did you mean 'tick_s'?"),
        ("daedalus:grace=120", "unknown option 'grace'; did you mean 'grace_s'?"),
        ("daedalus:grace_s=soon", "option 'grace_s'"),
        ("daedalus:grace_s", "option 'grace_s' has no value; write grace_s=VALUE"),
        ("daedalus:=3", "has no value"),
        ("daedalus:grace_s=NaN", "option 'grace_s'"),
        ("hpa-0", "target_cpu"),
        ("hpa-120", "target_cpu"),
        ("hpa-80:tick_s=0", "tick_s must be whole seconds from 1 to 3,600, found 0"),
        ("hpa-80:job_grace_s=-1", "job_grace_s must be seconds from 0 to 86400, found -1"),
        ("hpa-80:job_grace_s=NaN", "job_grace_s must be seconds"),
        ("hpa-80:tick_s=true", "tick_s must be whole seconds"),
        ("static-1", "1 workers are outside the bounds 2..12"),
        ("static-13", "13 workers are outside the bounds 2..12"),
        ("daedalus:grace_s=1e-2,daedalus:grace_s=1e+2", "their files would have the same name"),
        ("daedalus/../x", "unknown policy"),
    ],
)
def test_what_cannot_take_part_is_said_with_the_mend(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        contenders(text, BOUNDS)
    assert words in str(caught.value)


def test_daedalus_of_the_paper_doubts_no_capacity_and_scales_in_as_early_as_it_may() -> None:
    options = DaedalusOptions(**contender("daedalus-paper").settings.options)
    assert (options.confidence, options.worth_delay_s) == (0.5, None)
    assert options != DaedalusOptions()


def test_every_form_can_be_written_as_its_example_says() -> None:
    for form in FORMS:
        assert form.policy in POLICIES, form.example
        assert contender(form.example, BOUNDS).settings.name == form.policy


def test_an_option_that_is_named_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="policy 'ds2:activation=3:activation=5': activation is given twice"):
        dataflow_contenders("ds2:activation=3:activation=5")
