"""What ``dg list defs`` looks at: all of both code locations."""

from __future__ import annotations

import tomllib
import warnings
from importlib import import_module

import dagster as dg

from perdix.settings.home import PROJECT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines import both_locations
    from perdix.pipelines.control_location import build_control_defs
    from perdix.pipelines.training_location import build_training_defs


def keys(definitions: dg.Definitions) -> set[dg.AssetKey]:
    return set(definitions.resolve_asset_graph().get_all_asset_keys())


def test_both_hold_what_each_holds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
        both = both_locations.both()
        parts = [build_control_defs(), build_training_defs()]
    assert keys(both) == keys(parts[0]) | keys(parts[1])
    assert {sensor.name for sensor in both.sensors or ()} == {"control_loop", "retrain_on_drift"}


def test_whatever_has_a_page_says_what_it_is() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
        both = both_locations.both()
    graph, named = both.resolve_asset_graph(), both.get_repository_def()
    said = {str(key.to_user_string()): graph.get(key).description for key in graph.get_all_asset_keys()}
    said |= {str(key): graph.get_check_spec(key).description for key in graph.asset_check_keys}
    of_time = (*named.sensor_defs, *named.schedule_defs)
    said |= {each.name: each.description for each in (*of_time, *named.get_all_jobs()) if "__" not in each.name}
    assert [name for name, text in said.items() if not text] == []


def test_the_project_names_modules_that_there_are() -> None:
    named = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    for key in ("root_module", "code_location_target_module", "defs_module"):
        assert import_module(named[key])
