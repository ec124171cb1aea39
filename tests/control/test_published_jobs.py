"""Which jobs are published: those of the job files, over HTTP too."""

from pathlib import Path

import httpx
import pytest

from perdix.control.job_files import FollowedFiles
from perdix.control.publish.metrics import PublishedCollector, serving
from perdix.control.publish.standing import PublishedState
from perdix.control.state.store import StateStore
from perdix.twin.living import SimulatedClock
from tests.control.published import NOW_S, a_status, an_intent, scrape


class TestJobFiles:
    """Which jobs are published, and what their files say."""

    def test_a_size_that_is_not_wanted_is_0_and_not_absent(self, store: StateStore, tmp_path: Path) -> None:
        """A series that vanished would leave those workers running."""
        (tmp_path / "mixed.yaml").write_text(
            "sizes:\n  small: {cpu_cores: 1, memory_mb: 1024, price_per_h: 1}\n"
            "  large: {cpu_cores: 4, memory_mb: 4096, price_per_h: 3}\n"
        )
        an_intent(store, NOW_S, "mixed", 2, mix={"small": 2})
        a_status(store, NOW_S, "mixed", scale_out=3, mix={"small": 1, "large": 2})
        seen = scrape(self.collector(store, tmp_path))
        assert seen("desired_workers", stream_job="mixed", size="small") == 2
        assert seen("desired_workers", stream_job="mixed", size="large") == 0
        assert seen("current_workers", stream_job="mixed", size="large") == 2

    def test_the_last_job_file_removed_is_a_job_removed(self, store: StateStore, tmp_path: Path) -> None:
        an_intent(store, NOW_S, "gone", 3)
        a_status(store, NOW_S, "gone", scale_out=3)
        (tmp_path / "gone.yaml").write_text("mode: act\n")
        collector = self.collector(store, tmp_path)
        assert scrape(collector)("desired_scale_out", stream_job="gone") == 3
        (tmp_path / "gone.yaml").unlink()
        assert scrape(collector)("desired_scale_out", stream_job="gone") is None

    def test_a_job_whose_file_was_removed_is_published_no_more(self, store: StateStore, tmp_path: Path) -> None:
        for name in ("gone", "here"):
            an_intent(store, NOW_S, name, 3)
            a_status(store, NOW_S, name, scale_out=3)
            (tmp_path / f"{name}.yaml").write_text("mode: act\n")
        collector = self.collector(store, tmp_path)
        assert scrape(collector)("desired_scale_out", stream_job="gone") == 3
        (tmp_path / "gone.yaml").unlink()
        seen = scrape(collector)
        assert seen("desired_scale_out", stream_job="gone") is None
        assert seen("desired_scale_out", stream_job="here") == 3
        assert (
            seen("job_info", stream_job="gone", engine="flink", mode="act", policy="daedalus", target="advisory")
            is None
        )

    def test_where_there_are_no_job_files_every_job_of_the_store_is_published(
        self, store: StateStore, tmp_path: Path
    ) -> None:
        an_intent(store, NOW_S, "elsewhere", 3)
        a_status(store, NOW_S, "elsewhere", scale_out=3)
        assert scrape(self.collector(store, tmp_path / "absent"))("desired_scale_out", stream_job="elsewhere") == 3

    def test_a_file_with_a_typo_is_counted_and_its_job_still_published(self, store: StateStore, tmp_path: Path) -> None:
        an_intent(store, NOW_S, "typo", 3)
        a_status(store, NOW_S, "typo", scale_out=3)
        (tmp_path / "typo.yaml").write_text("mod: act\n")
        seen = scrape(self.collector(store, tmp_path))
        assert seen("job_files_unreadable") == 1
        assert seen("desired_scale_out", stream_job="typo") == 3

    def test_a_change_is_seen_by_the_next_scrape(self, store: StateStore, tmp_path: Path) -> None:
        path = tmp_path / "ads.yaml"
        path.write_text("bounds: {minimum: 1, maximum: 8}\n")
        collector = self.collector(store, tmp_path)
        assert scrape(collector)("scale_out_maximum", stream_job="ads") == 8
        path.write_text("bounds: {minimum: 1, maximum: 16}\n")
        assert scrape(collector)("scale_out_maximum", stream_job="ads") == 16

    def test_many_changes_at_once_are_read_over_several_scrapes(self, tmp_path: Path) -> None:
        for number in range(5):
            (tmp_path / f"job{number}.yaml").write_text("mode: act\n")
        ticking = iter(range(100))
        files = FollowedFiles((tmp_path,), stopwatch_s=lambda: float(next(ticking)))
        assert len(files.look(budget_s=2.5).jobs) == 2
        assert len(files.look(budget_s=2.5).names) == 5, "and none is forgotten meanwhile"
        assert len(files.look(float("inf")).jobs) == 5

    @staticmethod
    def collector(store: StateStore, folder: Path) -> PublishedCollector:
        url = store.database.url.render_as_string(hide_password=False)
        return PublishedCollector(PublishedState(url), FollowedFiles((folder,)), SimulatedClock(NOW_S + 1))


def test_a_collector_answers_over_http_and_lets_go_of_the_port(store: StateStore, tmp_path: Path) -> None:
    collector = TestJobFiles.collector(store, tmp_path)
    with serving(collector, "127.0.0.1", 0) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
        assert answer.status_code == 200
        assert "perdix_up 1.0" in answer.text
        with pytest.raises(OSError, match="in use"), serving(collector, "127.0.0.1", port):
            pass
    with serving(collector, "127.0.0.1", port):
        assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 200
