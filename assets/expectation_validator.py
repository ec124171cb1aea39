"""Great Expectations' Validator on one table in memory or on Spark, without the stores that it fills for later runs.

Its usual way (a data context, a data source and a validation definition) writes each of them, and the results, as text
into stores that nobody reads here: 20 ms a run. And it asks each expectation twice which metrics it needs, which takes
most of what is left. That depends on the expectation alone, so here it is asked once per process.
"""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pandas as pd

from perdix.assets.checked_frames import Frame

_MOST_KEPT = 1_000  # expectations whose metrics are known; a suite has some ten


@dataclass(frozen=True)
class _Needs:
    """What an expectation needs to be judged, by Great Expectations' own account."""

    metrics: Mapping[str, Any]  # metrics by name
    result_format: Mapping[str, Any]  # with every choice spelled out
    # Which metric is computed from which. Not Great Expectations' graph, which holds the table
    edges: Sequence[Any]


_kept: dict[tuple[str, ...], _Needs] = {}


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


class _Known:
    """An expectation that is not asked again what it needs; all else it does itself."""

    def __init__(self, expectation: Any, needs: _Needs) -> None:
        self._expectation = expectation
        self._needs = needs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._expectation, name)

    def get_validation_dependencies(self, **_: Any) -> Any:
        from great_expectations.validator.validator import ValidationDependencies

        needs = self._needs
        return ValidationDependencies(dict(needs.metrics), deepcopy(dict(needs.result_format)))

    def metrics_validate(self, **given: Any) -> Any:
        return type(self._expectation).metrics_validate(self, **given)


@cache
def _validator_class() -> Any:
    from great_expectations.validator.validation_graph import ExpectationValidationGraph, ValidationGraph
    from great_expectations.validator.validator import Validator

    class KeepingValidator(Validator):
        """Asks an expectation only once what it needs.

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
            engine = self.execution_engine
            graphs, failed = [], []
            for asked in expectation_configurations:
                key = (type(engine).__name__, asked.type, repr(asked.kwargs), repr(runtime_configuration))
                expectation = asked.to_domain_obj()
                if key not in _kept:
                    found, problems, _ = ask([asked], [], catch_exceptions, runtime_configuration)
                    failed += problems
                    if not found:
                        continue
                    _keep(key, expectation.get_validation_dependencies(engine, runtime_configuration), found[0].graph)
                asked.to_domain_obj = partial(_Known, expectation, _kept[key])
                graph = ValidationGraph(execution_engine=engine, edges=_kept[key].edges)
                graphs.append(ExpectationValidationGraph(configuration=asked, graph=graph))
                processed_configurations.append(asked)
            return graphs, failed, processed_configurations

    return KeepingValidator


def _keep(key: tuple[str, ...], needs: Any, graph: Any) -> None:
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[key] = _Needs(needs.metric_configurations, needs.result_format, graph.edges)


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
