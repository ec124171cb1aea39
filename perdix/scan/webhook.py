"""The summary of a scan as a message that Slack, and what understands its form, takes."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from perdix.scan.saving import saves_in_words
from perdix.settings.access import HttpAccess
from perdix.settings.plain_error import PlainError
from perdix.telemetry.http_client import MIB, HttpClient, HttpError, Limits

MOST_JOBS: Final = 10
LONGEST: Final = 2_900  # characters of a section: Slack takes 3,000
LIMITS: Final = Limits(pause_s=5.0, total_s=15.0, largest_bytes=MIB)


class WebhookError(PlainError):
    """The message was not taken. The address is a secret: only its host is named."""


def send(access: HttpAccess, document: Mapping[str, Any]) -> None:
    """Send the summary. Raises ``WebhookError`` when the server cannot be reached or does not take it."""
    host = urlsplit(str(access.url)).hostname
    client = HttpClient(access, LIMITS)
    try:
        answer = client.ask("POST", "", json=message(document))
    except HttpError as error:
        raise WebhookError(f"the webhook at {host} {_without(str(error), access)}") from None
    finally:
        client.close()
    if not 200 <= answer.status < 300:
        raise WebhookError(f"the webhook at {host} answers HTTP {answer.status}: is the address still valid?")


def message(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary as Slack's JSON: a line for notifications, and blocks."""
    summary, price = document["summary"], document["price"]
    unit = "worker-hours" if price is None else price["currency"]

    def saved(row: Mapping[str, Any]) -> str:
        value = row["saved_worker_h_per_month"] if price is None else row["saved_cost_per_month"]
        return f"{value:,.0f} {unit}".rstrip()

    whole = summary["saved_worker_h_per_month"] if price is None else summary["saved_cost_per_month"]
    text = (
        f"What perdix advises {saves_in_words(whole, unit)} on {summary['judged']} of {summary['jobs']} stream jobs: "
        f"{summary['workers_advised']:.1f} workers on average in place of {summary['workers_now']:.1f}"
    )
    if not summary["judged"]:
        text = f"perdix could judge none of {summary['jobs']} stream jobs yet"
    rows = [row for row in document["jobs"] if row["advice"] is not None][:MOST_JOBS]
    lines = [
        f"*{_plain(row['job'])}*: {saved(row)} ({row['confidence']['grade']}), {_plain(row['why'])}" for row in rows
    ]
    blocks = [_section(text)]
    if lines:
        blocks.append(_section("\n".join(lines)))
    return {"text": text, "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    kept = text if len(text) <= LONGEST else text[:LONGEST].rsplit("\n", 1)[0] + "\n…"
    return {"type": "section", "text": {"type": "mrkdwn", "text": kept}}


def _plain(text: str) -> str:
    """Return a text in which nothing is markup of Slack's."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("*", "∗").replace("`", "'")


def _without(text: str, access: HttpAccess) -> str:
    """Return a text without the path of the address, in which Slack's secret stands."""
    path = urlsplit(str(access.url)).path.strip("/")
    return text.replace(path, "***") if path else text
