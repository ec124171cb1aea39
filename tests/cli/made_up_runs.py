"""Dagster as far as commands look at it, with runs that were never made."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import dagster as dg


class Instance:
    """A Dagster instance that knows another job between the two that are trained, so that these are two stretches."""

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None: ...

    def add_dynamic_partitions(self, *_: object) -> None: ...

    def get_dynamic_partitions(self, _: str) -> list[str]:
        return ["alpha", "between", "omega"]


def came_of(run_id: str, produced: Mapping[str, Mapping[str, object]], failed: Mapping[str, str]) -> SimpleNamespace:
    """Return a Dagster run as far as the command looks at it: assets with their metadata, steps with their errors."""
    materialized = [
        SimpleNamespace(
            asset_key=dg.AssetKey(asset),
            materialization=SimpleNamespace(
                metadata={name: SimpleNamespace(value=value) for name, value in said.items()}
            ),
        )
        for asset, said in produced.items()
    ]
    errors = {step: SimpleNamespace(cause=None, cls_name="Failure", message=said) for step, said in failed.items()}
    events = [
        SimpleNamespace(is_step_failure=True, step_key=step, step_failure_data=SimpleNamespace(error=error))
        for step, error in errors.items()
    ]
    return SimpleNamespace(
        success=not failed,
        run_id=run_id,
        all_events=events,
        get_asset_materialization_events=lambda: materialized,
        get_asset_check_evaluations=list,
    )
