"""What an ingest did, file by file, in numbers that add up."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perdix.telemetry.landing import ExportFile


@dataclass(frozen=True)
class FileReport:
    """One file.

    ``read``, ``kept``, ``masked``, ``quarantined``: samples; ``read == kept + masked + quarantined``.
    ``unmapped``: series without a canonical metric; they are kept under their own names.
    ``seconds``: reading time, summed over the slices of the file.
    ``reasons``: reason of quarantine -> samples.
    ``stored``: false when the file was not read at all, and what the lake holds of it is unchanged.
    ``removed``: day -> samples of an earlier file of the same name, on days that this one does not cover: the lake lost
    them.
    """

    file: str
    source: str
    format: str = "unknown"
    digest: str = ""
    bytes: int = 0
    kept: int = 0
    masked: int = 0
    quarantined: int = 0
    series: int = 0
    unmapped: int = 0
    seconds: float = 0.0
    days: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    reasons: dict[str, int] = field(default_factory=dict)
    stored: bool = True
    removed: dict[str, int] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Samples seen, readable or not."""
        return self.kept + self.masked + self.quarantined

    @property
    def failed(self) -> bool:
        """Whether nothing of it could be read, and that was not for want of samples."""
        return self.quarantined > 0 and self.kept + self.masked == 0

    def removal(self) -> str:
        """Return what the lake lost in one sentence; empty where it lost nothing."""
        if not self.removed:
            return ""
        days = " to ".join(dict.fromkeys((min(self.removed), max(self.removed))))
        name = Path(self.file).name
        return f"{name} replaced an earlier file: {sum(self.removed.values()):,} samples of {days} removed"


def unread_file(file: ExportFile, problem: str) -> FileReport:
    """Return the report of a file that was not read at all: one quarantined sample stands for it."""
    remarks = ("not read; what the lake holds of it is unchanged",)
    return FileReport(file.name, file.source, quarantined=1, remarks=remarks, reasons={problem: 1}, stored=False)


@dataclass(frozen=True)
class IngestReport:
    """All files of one ingest."""

    job: str
    files: tuple[FileReport, ...]
    seconds: float = 0.0
    left: tuple[str, ...] = ()  # days that lost samples of earlier files and still hold some of others
    warnings: tuple[str, ...] = ()  # what is wrong with the files as a whole, in words: series of several jobs

    @property
    def totals(self) -> dict[str, int]:
        """Sums over the files: read, kept, masked, quarantined, series, unmapped, bytes, files."""
        names = ("read", "kept", "masked", "quarantined", "series", "unmapped", "bytes")
        return {"files": len(self.files)} | {name: sum(getattr(file, name) for file in self.files) for name in names}

    @property
    def failed(self) -> bool:
        """Whether there were files, and every one of them failed."""
        return bool(self.files) and all(file.failed for file in self.files)

    @property
    def days(self) -> tuple[str, ...]:
        """Days that hold samples of these files, sorted."""
        return tuple(sorted({day for file in self.files for day in file.days}))

    @property
    def to_observe(self) -> tuple[str, ...]:
        """Days whose observations are to be derived anew, sorted."""
        return tuple(sorted({*self.days, *self.left}))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values (JSON)."""
        files = [{**asdict(file), "read": file.read, "removal": file.removal()} for file in self.files]
        return {
            "job": self.job,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "totals": self.totals,
            "days": list(self.days),
            "warnings": list(self.warnings),
            "files": [{**file, "days": list(file["days"]), "remarks": list(file["remarks"])} for file in files],
        }
