"""One job's last hours as Dagster metadata: why, the picture, and the numbers that its page plots over time."""

from __future__ import annotations

from typing import Any

import dagster as dg

from perdix.assets.job_picture import job_picture
from perdix.assets.metadata import picture
from perdix.control.course import JobCourse
from perdix.control.explain_text import render


def metadata_of(course: JobCourse) -> dict[str, Any]:
    """Return what the page of a job shows: texts, a picture, and numbers as far as they are known."""
    explained, drawn = course.explanation, job_picture(course)
    why = explained.of_last_rescale if course.rescales else explained
    entry = explained.entry
    numbers = {
        "load_per_s": course.load_per_s,
        "late_percent": None if course.late_share is None else 100.0 * course.late_share,
        "error_budget_left_percent": None if course.budget_left is None else 100.0 * course.budget_left,
    }
    return {
        "why": dg.MetadataValue.md(f"```\n{render(why, now_s=course.now_s)}\n```"),
        **({} if drawn is None else {"picture": picture(drawn, f"the last hours of {course.job.name}")}),
        **({} if drawn is not None else {"no picture": dg.MetadataValue.text(course.unread)}),
        **({} if entry is None else {"workers": entry.intent.scale_out, "now": entry.intent.sentence}),
        "rescales": len(course.rescales),
        **{name: round(value, 3) for name, value in numbers.items() if value is not None},
    }
