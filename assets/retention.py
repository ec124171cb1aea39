"""How long the lake keeps what perdix pulled itself. Knows no Dagster."""

from collections.abc import Collection

from perdix.assets.history import newest_of
from perdix.settings.durations import DAY_S
from perdix.settings.home import Home
from perdix.telemetry.ingest import days_left
from perdix.telemetry.lacking import forget_asked
from perdix.telemetry.lake import Lake
from perdix.telemetry.landing import pulled_day, pulled_name


def forget_pulled(
    home: Home, lake: Lake, job: str, keep_days: int, now_s: float, asked: Collection[str] = ()
) -> list[str]:
    """Remove the days of a job that perdix pulled before its last ``keep_days``; return them (ISO, ascending).

    They leave the landing folder and every table. The last days are counted from the newest one that was pulled, so
    a job of which nothing new comes loses none. What a user ingested stays, with all that was made of it. Days that
    are gone are pulled again once trainings read that far back, where Prometheus still has them.

    Raises ``LakeError`` for a broken manifest, ``OSError`` where a file cannot be removed.

    ``asked``: days that stay whatever their age, as those of a backfill.
    """
    parts = lake.manifests("sources", job)
    pulled = sorted(day for part in parts if (day := pulled_day(part.keys["source"])) is not None)
    last = newest_of(pulled, keep_days, now_s - DAY_S)  # which counts tomorrow: nothing was pulled of that
    old = [day for day in pulled if day < last[0] and day not in asked]
    if old:
        forget_asked(home, job, old[-1])
    for day in old:
        source = pulled_name(day)
        (home.landing / job / source).unlink(missing_ok=True)  # first: what is landed would be ingested again
        lake.drop("samples", {"job": job, "day": day, "source": source})
    days_left(lake, job, set(old))
    for day in old:
        for table in ("series", "quarantine", "sources"):  # the row that names the source last
            lake.drop(table, {"job": job, "source": pulled_name(day)})
    return old
