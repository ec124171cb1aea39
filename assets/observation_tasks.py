"""What a Spark task does for one stream job and one day: samples to observations, observations to features.

Knows no Dagster, because Spark's workers import it.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from perdix.telemetry.copies import as_one
from perdix.telemetry.features import capacity_features, workload_features
from perdix.telemetry.lake import Lake
from perdix.telemetry.landing import was_pulled
from perdix.telemetry.metrics import THROUGHPUT, WORKLOAD
from perdix.telemetry.observations import observe
from perdix.telemetry.partitions import Manifest, content_of

FEW = 0.05  # of a metric's samples: exports that overlap by minutes
MADE_OF = "made_of"  # in what is counted of a partition: of which samples its rows were made (:func:`content_of`)


def made_of(part: Manifest) -> str | None:
    """Return of which samples a day's observations or features were made; ``None`` where that was not noted."""
    return part.counts.get(MADE_OF)


def write_observations(key: Mapping[str, Any]) -> dict[str, Any]:
    """Align the samples of ``key`` (``lake``, ``job``, ``day``) and replace both observation tables there."""
    lake, job, day = Lake(key["lake"]), key["job"], key["day"]
    noted = {MADE_OF: content_of(lake.manifests("samples", job, days=[day]))}  # before: what comes now is for later
    samples = as_one(samples_with_kind(lake, job, day))
    of_job, of_workers, counts = observe(samples, job, day)
    lake.replace("job_observations", job, day, of_job, counts={**asdict(counts), **noted})
    lake.replace("worker_observations", job, day, of_workers)
    again = samples.duplicated(["metric", "worker", "labels", "kind", "ts"])
    twice = again.groupby(samples["metric"]).mean().to_dict()
    found = {"twice": twice, "mixed": _counters_and_rates(samples)}
    return {"job_rows": len(of_job), "worker_rows": len(of_workers), **asdict(counts), **found}


def _counters_and_rates(samples: pd.DataFrame) -> list[str]:
    """Return the metrics that exports by hand have as counters and as rates (of one worker), which add up."""
    of_rates = samples[samples["metric"].isin([WORKLOAD.name, THROUGHPUT.name])]
    by_hand = of_rates[~of_rates["source"].isin([*filter(was_pulled, of_rates["source"].unique())])]
    kinds = by_hand.groupby(["metric", "worker"], dropna=False)["kind"].nunique()
    return sorted(set(kinds[kinds > 1].index.get_level_values("metric")))


def came_twice(key: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return in words of which metrics many samples of a job and day count as copies, and which may count twice.

    Empty where few of each are copies, and none is exported as counters and as rates.

    ``result``: of :func:`write_observations`; its ``twice`` is metric -> share of the samples that are copies.
    """
    found = []
    if many := {metric: share for metric, share in result.get("twice", {}).items() if share > FEW}:
        most = 100.0 * max(many.values())
        found.append(
            f"samples of {', '.join(many)} count once with others ({most:.0f} %), of the same series or equal but for "
            "rounding in another export; where these are two, name their workers, or export the sum"
        )
    found += [
        f"{metric} is the sum of counters and of rates; where both count the same records, export one of them"
        for metric in result.get("mixed", [])
    ]
    return f"{key['job']}, {key['day']}: {'; '.join(found)}" if found else ""


def samples_with_kind(lake: Lake, job: str, day: str) -> pd.DataFrame:
    """Return the day's samples of the canonical metrics, each with the kind and the labels of its series."""
    series = lake.read("series", job, columns=["series_id", "source", "labels", "kind", "mapped"])
    known = series.filter(pc.field("mapped")).drop_columns(["mapped"])
    samples = lake.read("samples", job, days=[day]).join(known, ["series_id", "source"], join_type="inner")
    frame: pd.DataFrame = samples.to_pandas()
    return frame


def write_features(key: Mapping[str, Any]) -> dict[str, Any]:
    """Derive both feature tables of ``key`` (``lake``, ``job``, ``day``) from its observations and replace them."""
    lake, job, day = Lake(key["lake"]), key["job"], key["day"]
    of_samples = next(map(made_of, lake.manifests("job_observations", job, days=[day])), None)
    of_job = lake.read("job_observations", job, days=[day]).to_pandas().sort_values("ts")
    of_workers = lake.read("worker_observations", job, days=[day]).to_pandas().sort_values(["ts", "worker"])
    workload = workload_features(of_job.drop(columns=["job", "day"]))
    capacity = capacity_features(of_workers.drop(columns=["job", "day"]), of_job.drop(columns=["job", "day"]))
    lake.replace("capacity_features", job, day, capacity)
    lake.replace("workload_features", job, day, workload, counts={MADE_OF: of_samples})
    return {"workload_rows": len(workload), "capacity_rows": len(capacity)}
