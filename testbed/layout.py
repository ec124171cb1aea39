"""The folders of one testbed: one place that knows where its state lives."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from pydantic import ValidationError

from perdix.settings.yaml_files import SettingsError
from testbed.settings import Testbed

SOURCES = Path(__file__).resolve().parent
TEMPLATES = SOURCES / "templates"


class Layout:
    """Folders and files below ``root`` (default ``.testbed`` in the working folder)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pids = root / "pids"  # what was started, a file each
        self.logs = root / "logs"  # a file per process
        self.conf = root / "conf"  # what the processes read
        self.kafka_data = root / "data" / "kafka"  # the broker's log segments
        self.flink_data = root / "data" / "flink"  # uploaded jars and temporary files
        self.prometheus_data = root / "data" / "prometheus"  # its database; kept from one run to the next
        self.checkpoints = root / "checkpoints"  # of the job
        self.loads = root / "loads"  # what the workload generator sent, a file per run
        self.lock = root / "lock"  # held while something is started or stopped
        self.remembered = root / "testbed.json"  # the settings that ``up`` was given
        # A name that no other testbed of this machine has
        self.tag = "perdix-testbed-" + hashlib.sha256(str(root).encode()).hexdigest()[:8]

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
