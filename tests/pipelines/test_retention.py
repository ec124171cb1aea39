"""What Dagster itself would keep without end."""

import time
from pathlib import Path

import dagster as dg
import pytest

from perdix.pipelines.control_sensor import KEPT_REVIEWS_S, forget_reviews, forget_ticks

TICKS, OTHER = dg.AssetKey("scaling_decisions"), dg.AssetKey("observations")


def numbers(instance: dg.DagsterInstance, asset: dg.AssetKey) -> list[int]:
    """The newest first."""
    records = instance.fetch_materializations(asset, limit=100).records
    return [
        int(str(record.asset_materialization.metadata["tick"].value))
        for record in records
        if record.asset_materialization
    ]


@pytest.mark.parametrize("stored", ["files", "memory"])
def test_the_newest_ticks_stay_and_other_assets_are_left_alone(tmp_path: Path, stored: str) -> None:
    with (
        dg.instance_for_test(temp_dir=str(tmp_path)) if stored == "files" else dg.DagsterInstance.ephemeral()
    ) as instance:
        for tick in range(6):
            for asset in (TICKS, OTHER):
                instance.report_runless_asset_event(dg.AssetMaterialization(asset, metadata={"tick": tick}))
            forget_ticks(instance, TICKS, keep=3)
        assert numbers(instance, TICKS) == [5, 4, 3]
        assert numbers(instance, OTHER) == [5, 4, 3, 2, 1, 0]
        latest = instance.get_latest_materialization_event(TICKS)
        assert latest is not None
        assert len(instance.all_logs("")) == 9, "nor are they kept as events of no run"


def test_old_reviews_are_removed_with_what_they_logged(tmp_path: Path) -> None:
    @dg.op
    def say(context: dg.OpExecutionContext) -> None:
        context.log_event(dg.AssetMaterialization("job_review", partition="ads"))

    @dg.job
    def review() -> None:
        say()

    @dg.job
    def other() -> None:
        say()

    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        first = review.execute_in_process(instance=instance).run_id
        kept = other.execute_in_process(instance=instance).run_id
        now_s = time.time()
        forget_reviews(instance, "review", now_s)
        assert instance.get_run_by_id(first) is not None
        forget_reviews(instance, "review", now_s + KEPT_REVIEWS_S + 60.0)
        assert [run.run_id for run in instance.get_runs()] == [kept]
        assert list(tmp_path.rglob(f"{kept}.db"))
        assert not list(tmp_path.rglob(f"{first}.db"))
