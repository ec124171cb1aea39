"""The table of a scan as CSV: a row per job, plain numbers."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FORMULAS: Final = ("=", "+", "-", "@")  # what a spreadsheet would take a text for
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "job": ("job",),
    "engine": ("engine",),
    "advice": ("advice",),
    "average_workers_now": ("now", "average_workers"),
    "peak_workers_now": ("now", "peak_workers"),
    "late_share_now": ("now", "late_share"),
    "fixed_workers": ("fixed", "workers"),
    "fixed_late_share": ("fixed", "late_share"),
    "fixed_late_share_at_low_end": ("fixed", "late_share_at_low_end"),
    "perdix_average_workers": ("perdix", "average_workers"),
    "perdix_peak_workers": ("perdix", "peak_workers"),
    "perdix_late_share": ("perdix", "late_share"),
    "perdix_method": ("perdix", "method"),
    "saved_worker_h_per_month": ("saved_worker_h_per_month",),
    "saved_cost_per_month": ("saved_cost_per_month",),
    "late_share": ("late_share",),
    "latency_objective_ms": ("objective", "latency_p95_ms"),
    "confidence": ("confidence", "grade"),
    "confidence_reason": ("confidence", "reason"),
    "why": ("why",),
}


def write_csv(path: Path, document: Mapping[str, Any]) -> None:
    """Write the table; what is not known is empty. Raises ``OSError`` when that cannot be."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*COLUMNS, "currency"])
        currency = _cell(document, ("price", "currency"))
        writer.writerows([*(_cell(row, keys) for keys in COLUMNS.values()), currency] for row in document["jobs"])


def _cell(row: Mapping[str, Any], keys: tuple[str, ...]) -> object:
    found: Any = row
    for key in keys:
        found = None if found is None else found[key]
    text = isinstance(found, str) and found.startswith(FORMULAS)
    return f"'{found}" if text else found
