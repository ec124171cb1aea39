"""The fixed scale-out, and policies by name and options."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from perdix.policies.build import POLICIES, build_policy, check_policy
from perdix.policies.contract import Reason, Situation
from perdix.policies.static import Static, StaticOptions
from perdix.settings.stream_job import load_stream_job
from perdix.settings.yaml_files import SettingsError

Situate = Callable[..., Situation]


def test_static_runs_the_upper_bound_unless_told_otherwise(situate: Situate) -> None:
    assert Static().decide(situate(scale_out=5)).scale_out == 12
    fixed = Static(StaticOptions(scale_out=5)).decide(situate(scale_out=5))
    assert (fixed.scale_out, fixed.reason, fixed.sentence) == (5, Reason.HOLD_GOOD, "Fixed at 5 workers.")
    assert Static(StaticOptions(scale_out=3)).decide(situate(scale_out=5)).reason is Reason.SCALE_IN


def test_static_stays_in_the_bounds_and_says_so(situate: Situate) -> None:
    decision = Static(StaticOptions(scale_out=24)).decide(situate(scale_out=5))
    assert (decision.scale_out, decision.sentence) == (12, "Fixed at 12 workers, moved into the bounds from 24.")


def test_static_needs_no_metrics(situate: Situate) -> None:
    blind = situate(load=math.nan, capacities={}, lag_records=None, cpu_load=None)
    assert Static(StaticOptions(scale_out=4)).decide(blind).scale_out == 4


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_built_with_its_defaults_and_decides(situate: Situate, name: str) -> None:
    policy = build_policy(name)
    decision = policy.decide(situate())
    assert policy.name == name == decision.policy
    assert 1 <= decision.scale_out <= 12


@pytest.mark.parametrize("name", POLICIES)
def test_job_files_may_name_every_policy(tmp_path: Path, name: str) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(f"policy: {{name: {name}}}\n", encoding="utf-8")
    assert load_stream_job(path, check_policy).policy.name == name


def test_a_job_file_with_a_policy_that_is_not_known_says_where(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("engine: flink\npolicy:\n  name: dedalus\n", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_stream_job(path, check_policy)
    assert str(caught.value) == f"{path}:2: unknown policy 'dedalus'; did you mean 'daedalus'?"


@pytest.mark.parametrize("target", ["kind: flink, url: http://127.0.0.1:8081", "kind: kubernetes, name: orders"])
@pytest.mark.parametrize("name", ["qescalor", "cba"])
def test_a_target_of_one_size_of_workers_cannot_follow_a_policy_that_chooses_among_sizes(
    name: str, target: str, tmp_path: Path
) -> None:
    """It was refused only once a rescale was due, by the target, and again every half an hour."""
    path = tmp_path / "orders.yaml"
    advises = f"target: {{{target}}}\npolicy: {{name: {name}}}\n"
    path.write_text(advises, encoding="utf-8")
    assert load_stream_job(path, check_policy).mode == "advise"
    path.write_text(f"{advises}mode: act\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=rf"orders\.yaml:2: policy '{name}' chooses among sizes of workers"):
        load_stream_job(path, check_policy)


def test_every_wrong_option_of_a_job_file_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("policy: {name: hpa, options: {target_cpu: 80, zzz: 1}}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_stream_job(tmp_path / "bad.yaml", check_policy)
    assert [line.split(": policy")[0] for line in str(caught.value).splitlines()] == [f"{tmp_path / 'bad.yaml'}:1"] * 2


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("dedalus", {}, "unknown policy 'dedalus'; did you mean 'daedalus'?"),
        (
            "zzz",
            {},
            f"unknown policy 'zzz'; known: {', '.join(sorted(POLICIES))}",
        ),
        ("daedalus", {"grace": 60}, "policy 'daedalus': unknown option 'grace'; did you mean 'grace_s'?"),
        ("hpa", {"target_cp": 0.8}, "policy 'hpa': unknown option 'target_cp'; did you mean 'target_cpu'?"),
        ("static", {"zzz": 1}, "policy 'static': unknown option 'zzz'; leave it out; known: scale_out"),
        (
            "daedalus",
            {"grace_s": -1},
            "policy 'daedalus': option 'grace_s': Input should be greater than or equal to 0",
        ),
        ("daedalus", {"recovery_time_s": float("nan")}, "option 'recovery_time_s': Input should be a finite number"),
        ("hpa", {"target_cpu": 80}, "policy 'hpa': option 'target_cpu': Input should be less than or equal to 1"),
        ("hpa", {"stabilisation": "papers"}, "option 'stabilisation': Input should be 'kubernetes' or 'paper'"),
    ],
)
def test_a_wrong_name_or_option_is_answered_with_the_mend(name: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        build_policy(name, options)
    assert says in str(caught.value)


def test_every_wrong_option_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        build_policy("daedalus", {"grace": 1, "recent_s": "x"})
    assert len(str(caught.value).splitlines()) == 2
