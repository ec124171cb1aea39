"""The dashboard: what Grafana needs of it, as far as that can be told without Grafana."""

import itertools
from typing import Any

from tests.deploy.promql import dashboard

PANELS = {"row", "stat", "timeseries", "state-timeline", "table"}


def panels() -> list[dict[str, Any]]:
    return list(dashboard()["panels"])


def test_it_is_a_dashboard_of_grafana_11() -> None:
    board = dashboard()
    assert board["schemaVersion"] >= 39
    assert board["id"] is None, "an id belongs to one installation"
    assert board["uid"] == "perdix-why"
    assert board["title"]
    assert "__inputs" not in board, "the data source is a variable, nothing is asked at import"


def test_data_source_and_job_are_variables() -> None:
    source, job = dashboard()["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (job["name"], job["type"]) == ("job", "query")
    assert job["definition"] == job["query"]["query"]
    assert job["datasource"]["uid"] == "${datasource}"


def test_every_panel_has_a_place_of_its_own_and_a_query_that_names_the_source() -> None:
    assert {panel["type"] for panel in panels()} == PANELS
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["targets"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references), panel["title"]
        for row in (panel, *panel["targets"]):
            assert row["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        assert set(panel["fieldConfig"]) == {"defaults", "overrides"}
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


def test_no_panel_covers_another() -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in panels()]
    for (place, a), (other, b) in itertools.combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{place} and {other}"


def test_a_colour_is_given_to_lines_that_there_are() -> None:
    for panel in panels():
        legends = {target["legendFormat"] for target in panel.get("targets", [])}
        for override in panel.get("fieldConfig", {}).get("overrides", []):
            by_label = any("{{" in legend for legend in legends) or panel["type"] == "table"
            assert by_label or override["matcher"]["options"] in legends, panel["title"]


def test_the_question_why_is_answered() -> None:
    said = " ".join(target["expr"] for panel in panels() for target in panel.get("targets", []))
    for name in ("workload", "forecast_mean", "capacity", "desired_scale_out", "current_scale_out", "consumer_lag"):
        assert f"perdix_{name}" in said
    for name in ("latency_p95", "latency_objective", "forecast_wape", "status_info", "decision_info"):
        assert f"perdix_{name}" in said
