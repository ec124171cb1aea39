"""How figures become Dagster metadata: numbers that the asset page plots over time, and tables that a person reads."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

MOST_ROWS = 20
MOST_PICTURE_BYTES = 100_000  # metadata stays in the event log without end


def records(rows: Sequence[Mapping[Any, Any]], columns: Sequence[str]) -> dg.TableMetadataValue:
    """Return at most twenty rows as a table; numbers keep their type so that the page aligns them."""
    schema = dg.TableSchema(columns=[dg.TableColumn(name, _kind(rows, name)) for name in columns])
    shown = [dg.TableRecord({name: _cell(row.get(name)) for name in columns}) for row in rows[:MOST_ROWS]]
    return dg.MetadataValue.table(shown, schema)


def picture(png: bytes, caption: str) -> dg.MarkdownMetadataValue | dg.TextMetadataValue:
    """Return a PNG that the page shows, or a sentence when it is too large for the event log."""
    if len(png) > MOST_PICTURE_BYTES:
        return dg.MetadataValue.text(f"{caption}: {len(png):,} bytes; see the MLflow run")
    return dg.MetadataValue.md(f"![{caption}](data:image/png;base64,{base64.b64encode(png).decode()})")


def _kind(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    cells = [row.get(name) for row in rows if row.get(name) is not None]
    if cells and all(isinstance(cell, int) and not isinstance(cell, bool) for cell in cells):
        return "int"
    return "float" if cells and all(isinstance(cell, int | float) for cell in cells) else "string"


def _cell(value: Any) -> str | float | int | None:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return str(value)
