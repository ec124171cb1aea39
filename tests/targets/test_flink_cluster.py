"""What a Flink cluster's configuration says of its rescales, and what is better set otherwise."""

import pytest

from perdix.targets.flink.answers import CheckpointConfig
from perdix.targets.flink.cluster import (
    COOLDOWN,
    COOLDOWN_BEFORE_2,
    MAX_DELAY,
    SCHEDULER,
    STABILIZATION,
    Rescaling,
    advice,
    rescaling,
    seconds_of,
)

ADAPTIVE = {SCHEDULER: "Adaptive"}
OFTEN = CheckpointConfig(interval=10_000)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30 s", 30.0),
        ("0s", 0.0),
        ("500", 0.5),
        ("250 ms", 0.25),
        ("1min", 60.0),
        ("2 minutes", 120.0),
        ("1 h", 3_600.0),
        ("PT30S", 30.0),
        ("soon", None),
        ("", None),
    ],
)
def test_durations_are_read_as_flink_writes_them(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("values", "version", "found"),
    [
        ({}, (2, 2), Rescaling(at_once=False, cooldown_s=30.0)),
        ({MAX_DELAY: "0 ms", COOLDOWN: "5s"}, (2, 2), Rescaling(at_once=True, cooldown_s=5.0)),
        ({MAX_DELAY: "1 min"}, (2, 2), Rescaling(at_once=False, cooldown_s=30.0)),
        ({COOLDOWN: "whenever"}, (2, 2), Rescaling(at_once=False, cooldown_s=30.0)),
        ({COOLDOWN_BEFORE_2: "5 min"}, (2, 2), Rescaling(at_once=False, cooldown_s=300.0)),  # Flink 2 takes it, too
        ({COOLDOWN_BEFORE_2: "5 min", COOLDOWN: "10 s"}, (2, 2), Rescaling(at_once=False, cooldown_s=10.0)),
        ({}, (1, 20), Rescaling(at_once=True, cooldown_s=30.0)),
        ({COOLDOWN_BEFORE_2: "5 min"}, (1, 20), Rescaling(at_once=True, cooldown_s=300.0)),
        ({}, (0, 0), Rescaling(at_once=False, cooldown_s=30.0)),
    ],
)
def test_when_a_cluster_rescales(values, version, found):
    assert rescaling(values, version) == found


@pytest.mark.parametrize(
    ("values", "checkpoints", "told"),
    [
        ({}, OFTEN, ["set 'jobmanager.scheduler: adaptive'"]),
        (ADAPTIVE | {"scheduler-mode": "reactive"}, OFTEN, ["take out 'scheduler-mode: reactive'"]),
        (ADAPTIVE, None, ["set 'execution.checkpointing.interval'"]),
        (ADAPTIVE, CheckpointConfig(interval=(1 << 63) - 1), ["set 'execution.checkpointing.interval'"]),
        (ADAPTIVE, CheckpointConfig(interval=300_000), ["from 300 s to at most 60 s"]),
        (ADAPTIVE | {COOLDOWN: "10 min"}, OFTEN, ["from 600 s to at most 120 s"]),
        (ADAPTIVE | {COOLDOWN_BEFORE_2: "10 min"}, OFTEN, [f"lower '{COOLDOWN_BEFORE_2}' from 600 s"]),
        (ADAPTIVE | {COOLDOWN_BEFORE_2: "10 min", COOLDOWN: "10 s"}, OFTEN, []),
        (ADAPTIVE | {MAX_DELAY: "5 s"}, OFTEN, ["or set it to 0"]),
        (ADAPTIVE | {MAX_DELAY: "0 s"}, OFTEN, []),
        (ADAPTIVE | {STABILIZATION: "1s"}, OFTEN, ["from 1 s to at least the time"]),
        (ADAPTIVE, OFTEN, []),
    ],
)
def test_what_is_better_set_otherwise_is_said_in_plain_words(values, checkpoints, told):
    found = [finding.sentence for finding in advice(values, checkpoints, grace_s=120.0)]
    assert len(found) == len(told)
    assert all(part in sentence for part, sentence in zip(told, found, strict=True))


def test_what_nothing_can_be_rescaled_without_is_told_from_what_is_only_dearer():
    found = [finding.needed for finding in advice({}, CheckpointConfig(interval=300_000), grace_s=120.0)]
    assert found == [True, False]
