"""Which partitions a run is of."""

import dagster as dg
import pytest

from perdix.assets.partitions import by_spark, partitions_of


def days_of(start: str, end: str) -> object:
    """Return how many days a run of this range is asked for."""

    @by_spark("tests", [])
    def counted(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={"days": len(partitions_of(context))})

    tags = {"dagster/asset_partition_range_start": start, "dagster/asset_partition_range_end": end}
    defs = dg.Definitions(assets=[counted], jobs=[dg.define_asset_job("count", [counted])])
    result = defs.resolve_job_def("count").execute_in_process(tags=tags)
    return result.asset_materializations_for_node("counted")[0].metadata["days"].value


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_a_range_that_begins_after_it_ends_is_refused_with_its_fix() -> None:
    """Dagster finds no partition in it, and steps ended in an IndexError."""
    with pytest.raises(dg.Failure, match="range from 2026-01-05 to 2026-01-02: exchange the two tags of the run"):
        days_of("2026-01-05", "2026-01-02")
    assert days_of("2026-01-02", "2026-01-05") == 4
