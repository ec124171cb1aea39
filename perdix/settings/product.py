"""Settings of the whole product: ``conf/perdix.yaml``."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from perdix.settings.home import conf_folder
from perdix.settings.known_events import checked_cron
from perdix.settings.strict import Strict
from perdix.settings.yaml_files import load_model

# Dagster takes these as well as five fields
CRON_NAMES = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_LAST = re.compile(r"\dL|LW", re.IGNORECASE)  # and of what cron takes not the last Friday, nor the last working day


def _known_cron(cron: str) -> str:
    if _LAST.search(cron):
        raise ValueError("Dagster takes no last weekday, 5L or LW; write for example 30 2 * * MON")
    return cron if cron in CRON_NAMES else checked_cron(cron)


class SparkSettings(Strict):
    """Where Spark runs: ``local[*]``, ``spark://...``, ``k8s://...``; plus any ``spark.*`` keys."""

    master: str = "local[*]"
    conf: dict[str, str] = Field(default_factory=dict)


class ControlSettings(Strict):
    """The control loop."""

    tick_interval_s: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    soft_deadline_s: Annotated[float, Field(gt=0, lt=60)] = 25.0
    # That serve a fleet at most: one for each 250 jobs, within the cores of the machine when left out
    processes: Annotated[int, Field(ge=1, le=256)] | None = None


class TrainingSettings(Strict):
    """The training pipeline.

    ``forecast_families``: families of forecasters that every job is tried with; ``ensemble`` stands for its members.
    ``thorough_families``: tried as well in runs of at most ``thorough_up_to_jobs`` jobs: each costs seconds a job.
    ``performance_repeats``: repeats of the cross-validation that judges models of a worker's size (QEScalor: 10); one
    alone has no spread.
    """

    cron: Annotated[str, AfterValidator(_known_cron)] = "30 2 * * *"
    forecast_families: Annotated[tuple[str, ...], Field(min_length=1)] = ("ensemble",)
    thorough_families: tuple[str, ...] = (
        "linear", "mstl", "gaussian-process", "log-gaussian-process", "lagged-trees", "auto-arima",
    )  # fmt: skip
    thorough_up_to_jobs: Annotated[int, Field(ge=0)] = 20
    horizon_s: Annotated[float, Field(gt=0, le=86_400)] = 900.0
    history_days: Annotated[int, Field(ge=1, le=3_660)] = 14
    seed: Annotated[int, Field(ge=0, le=4_000_000_000)] = 7  # NumPy's are below 2^32; some are counted up from it
    performance_repeats: Annotated[int, Field(ge=2, le=100)] = 10

    def families_for(self, jobs: int) -> tuple[str, ...]:
        """Return the names of the families that a run of this many jobs tries."""
        return self.forecast_families + (self.thorough_families if jobs <= self.thorough_up_to_jobs else ())


class LakeSettings(Strict):
    """The lake of samples.

    ``keep_days``: how many days of a job are kept of what perdix pulled itself, up to the newest one.
    """

    keep_days: Annotated[int, Field(ge=1, le=36_500)] = 90


class ProductSettings(Strict):
    """Everything that is not about one stream job."""

    spark: SparkSettings = SparkSettings()
    control: ControlSettings = ControlSettings()
    training: TrainingSettings = TrainingSettings()
    lake: LakeSettings = LakeSettings()

    @property
    def kept_days(self) -> int:
        """How many days of what was pulled stay in the lake: never fewer than a training's history touches."""
        return max(self.lake.keep_days, self.training.history_days + 1)  # it begins within a day


def load_product_settings(path: Path | None = None) -> ProductSettings:
    """Read ``conf/perdix.yaml``; absent: the defaults. Raises ``SettingsError``, naming file, line and fix."""
    path = path or conf_folder() / "perdix.yaml"
    return load_model(path, ProductSettings) if path.exists() else ProductSettings()
