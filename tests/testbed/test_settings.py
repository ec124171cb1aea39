"""A testbed's settings: ports that do not collide, and names that never change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdix.settings.home import PROJECT
from perdix.settings.stream_job import load_stream_job
from perdix.settings.targets import FlinkSettings
from testbed.exported import selector
from testbed.settings import Ports, Testbed


@given(st.integers(1, 32), st.integers(-1_000, 40_000))
def test_every_part_listens_on_ports_of_its_own(workers: int, offset: int) -> None:
    testbed = Testbed(workers=workers, ports=Ports().shifted(offset))
    uses = testbed.listening()
    assert len(uses) == 8 + workers
    assert set(uses.values()) == {"kafka", "jobmanager", "prometheus", *testbed.worker_names()}


def test_two_parts_on_one_port_are_refused() -> None:
    with pytest.raises(ValidationError, match="share a port"):
        Testbed(workers=3, ports=Ports(prometheus=Ports().taskmanager_metrics + 3))


def test_the_base_of_the_workers_ports_is_free_for_another_part() -> None:
    assert Testbed(ports=Ports(prometheus=Ports().taskmanager_metrics)).ports.prometheus == 19_250


def test_a_worker_beyond_the_last_port_is_refused() -> None:
    with pytest.raises(ValidationError, match="65536"):
        Testbed(workers=2, ports=Ports(taskmanager_metrics=65_534))


def test_a_shift_out_of_the_range_is_refused() -> None:
    with pytest.raises(ValidationError):
        Ports().shifted(60_000)


def test_a_worker_shows_its_metrics_where_its_number_says() -> None:
    assert Testbed().metrics_port("tm-1") == 19_251
    assert Testbed().metrics_port("tm-8") == 19_258


def test_the_topic_has_a_partition_per_worker_unless_told_otherwise() -> None:
    assert Testbed(workers=6).topic_partitions == 6
    assert Testbed(workers=6, partitions=12).topic_partitions == 12


def test_the_job_file_beside_the_page_is_of_the_job_that_up_starts() -> None:
    job, testbed = load_stream_job(PROJECT / "testbed" / "wordcount.yaml"), Testbed()
    assert isinstance(job.target, FlinkSettings)
    assert job.prometheus is not None
    found = (job.name, str(job.target.url), str(job.prometheus.url), job.prometheus.selector, job.bounds.maximum)
    urls = (f"{testbed.flink_url}/", f"{testbed.prometheus_url}/")
    assert found == (testbed.job, *urls, selector(testbed), testbed.workers)
    assert job.mode == "advise"  # `perdix operators --apply` sizes nothing that the control loop scales
    for page in ("README.md", "testbed/README.md"):
        assert "cp testbed/wordcount.yaml conf/jobs/" in (PROJECT / page).read_text(encoding="utf-8")
