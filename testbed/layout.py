"""The folders of one testbed: one place that knows where its state lives."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from perdix.settings.yaml_files import SettingsError
from testbed.settings import Testbed

SOURCES = Path(__file__).resolve().parent
TEMPLATES = SOURCES / "templates"


@dataclass(frozen=True)
class Layout:
    """Folders and files below ``root`` (default ``.testbed`` in the working folder)."""

    root: Path

    @property
    def pids(self) -> Path:
        """What was started, a file each."""
        return self.root / "pids"

    @property
    def logs(self) -> Path:
        """Logs, a file per process."""
        return self.root / "logs"

    @property
    def conf(self) -> Path:
        """The configuration that the processes read."""
        return self.root / "conf"

    @property
    def kafka_data(self) -> Path:
        """The broker's log segments."""
        return self.root / "data" / "kafka"

    @property
    def flink_data(self) -> Path:
        """Uploaded jars and temporary files of Flink."""
        return self.root / "data" / "flink"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the job."""
        return self.root / "checkpoints"

    @property
    def prometheus_data(self) -> Path:
        """Prometheus' database; kept from one run to the next."""
        return self.root / "data" / "prometheus"

    @property
    def loads(self) -> Path:
        """What the workload generator sent, a file per run."""
        return self.root / "loads"

    @property
    def lock(self) -> Path:
        """Held while something is started or stopped."""
        return self.root / "lock"

    @property
    def remembered(self) -> Path:
        """The settings that ``up`` was given."""
        return self.root / "testbed.json"

    @property
    def tag(self) -> str:
        """A name that no other testbed of this machine has."""
        return "perdix-testbed-" + hashlib.sha256(str(self.root).encode()).hexdigest()[:8]

    def prepare(self) -> None:
        """Make the folders. Raises ``SettingsError`` when the folder cannot be written."""
        try:
            for folder in (self.pids, self.logs, self.conf, self.loads, self.prometheus_data, self.flink_data):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"{self.root}: cannot be written ({error.strerror}); give --state another folder"
            ) from None

    def forget_data(self) -> None:
        """Remove what a new cluster must not find: records, checkpoints, uploaded jars."""
        for folder in (self.kafka_data, self.flink_data, self.checkpoints):
            shutil.rmtree(folder, ignore_errors=True)

    def purge(self) -> None:
        """Remove the whole folder."""
        shutil.rmtree(self.root, ignore_errors=True)

    def remember(self, testbed: Testbed) -> None:
        """Keep the settings for the other verbs."""
        self.remembered.write_text(testbed.model_dump_json(indent=2) + "\n", encoding="utf-8")

    def recall(self) -> Testbed | None:
        """Return the settings of the last ``up``; None before the first.

        Raises ``SettingsError`` when the file cannot be used.
        """
        try:
            return Testbed.model_validate_json(self.remembered.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "settings"
            raise SettingsError(
                f"{self.remembered}: {place}: {first['msg']}; `python -m testbed down`, then remove it"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self.remembered}: cannot be read ({error})") from None
