"""What contenders are called in pictures."""

import pytest

from perdix.replay.labels import WIDE, short_names

LIVE = "daedalus:tick_s=15:grace_s=30:job_grace_s=30"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["daedalus", "hpa-80"], ["daedalus", "hpa-80"]),
        ([LIVE, f"{LIVE} (trained)", "hpa-80"], ["daedalus", "daedalus (trained)", "hpa-80"]),
        (["hpa-80", "hpa-80:tick_s=60"], ["hpa-80", "hpa-80:tick_s=60"]),
        (["apache-flink-autoscaler:tuned"], ["apache-flink-autoscaler:tuned"]),
    ],
)
def test_options_are_left_out_where_nothing_is_mistaken_for_another(labels: list[str], names: list[str]) -> None:
    assert short_names(labels) == dict(zip(labels, names, strict=True))


def test_what_stays_long_is_broken_into_lines_and_loses_nothing() -> None:
    labels = [LIVE, "daedalus:tick_s=30:grace_s=30:job_grace_s=30"]
    for label, name in short_names(labels).items():
        assert name.replace("\n", "") == label
        assert all(len(line) <= WIDE for line in name.splitlines())
