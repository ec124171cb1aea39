"""Great Expectations' Validator on one table in memory or on Spark, without the stores that it fills for later runs.

Its usual way (a data context, a data source and a validation definition) writes each of them, and the results, as text
into stores that nobody reads here: 20 ms a run. And it asks each expectation again which metrics it needs, which takes
half of what is left. That depends on the expectation alone, so here it is asked once per process.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pandas as pd

from assets.checked_frames import Frame

_MOST_KEPT = 1_000  # expectations whose metrics are known; a suite has some ten
_kept: dict[tuple[str, ...], list[Any]] = {}


def great_expectations() -> Any:
    """Return the package, which takes seconds to import."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        # It imports sre_constants, which Python 3.11 deprecates: a fault that warnings-as-errors would make fatal.
        warnings.simplefilter("ignore", DeprecationWarning)
        import great_expectations
    return great_expectations


def validated(frame: Frame, expectations: Sequence[Any], result_format: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what Great Expectations finds, as JSON documents, in an order of its own."""
    great_expectations()
    with _quiet():
        validator = _validator_class()(execution_engine=_engine(frame))
        validator.metrics_calculator.show_progress_bars = False
        asked = validator.process_expectations_for_validation([item.configuration for item in expectations])
        found = validator.graph_validate(asked, {"result_format": dict(result_format)})
        return [result.to_json_dict() for result in found]


def _engine(frame: Frame) -> Any:
    from great_expectations import execution_engine as engines

    if isinstance(frame, pd.DataFrame):
        return engines.PandasExecutionEngine(batch_data_dict={"t": frame})
    return engines.SparkDFExecutionEngine(spark=frame.sparkSession, persist=False, batch_data_dict={"t": frame})


@cache
def _validator_class() -> Any:
    from great_expectations.validator.validation_graph import ExpectationValidationGraph, ValidationGraph
    from great_expectations.validator.validator import Validator

    class KeepingValidator(Validator):
        """Asks an expectation only once which metrics it needs.

        A Great Expectations that no longer calls this method judges as well, only slower.
        """

        def _generate_metric_dependency_subgraphs_for_each_expectation_configuration(
            self,
            expectation_configurations: list[Any],
            processed_configurations: list[Any],
            catch_exceptions: bool,
            runtime_configuration: dict[str, Any] | None = None,
        ) -> tuple[list[Any], list[Any], list[Any]]:
            ask = super()._generate_metric_dependency_subgraphs_for_each_expectation_configuration
            graphs, failed = [], []
            for asked in expectation_configurations:
                key = (
                    type(self.execution_engine).__name__,
                    asked.type,
                    repr(asked.kwargs),
                    repr(runtime_configuration),
                )
                if key not in _kept:
                    found, problems, _ = ask([asked], [], catch_exceptions, runtime_configuration)
                    failed += problems
                    if not found:
                        continue
                    if len(_kept) >= _MOST_KEPT:
                        _kept.clear()
                    _kept[key] = found[0].graph.edges  # not the graph, which holds the table
                graph = ValidationGraph(execution_engine=self.execution_engine, edges=_kept[key])
                graphs.append(ExpectationValidationGraph(configuration=asked, graph=graph))
                processed_configurations.append(asked)
            return graphs, failed, processed_configurations

    return KeepingValidator


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Great Expectations from logging what the outcomes say anyway, stack traces included."""
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
