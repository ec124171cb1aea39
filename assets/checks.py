"""Outcomes of expectations as Dagster asset checks; what one means is in :mod:`perdix.assets.expectation_suite`."""

import json
from collections.abc import Callable, Iterator, Sequence

import dagster as dg

from perdix.assets.expectation_suite import Suite
from perdix.assets.expectations import ExpectationOutcome
from perdix.assets.judging import Judged
from perdix.assets.metadata import records
from perdix.settings.counting import named

Judge = Callable[[dg.AssetCheckExecutionContext, Suite], Judged]
MOST_NAMED = 20  # jobs in one sentence


def check_specs(
    asset: "dg.CoercibleToAssetKey", suite: Suite, partitions: "dg.PartitionsDefinition[str]"
) -> list[dg.AssetCheckSpec]:
    """Return one spec per expectation; critical ones block what is downstream in the same run."""
    return [
        dg.AssetCheckSpec(
            rule.name,
            asset=asset,
            description=rule.meaning,
            blocking=rule.severity == "critical",
            partitions_def=partitions,
            metadata={"expectation": rule.expect, "kwargs": json.dumps(rule.arguments(), default=str)},
        )
        for rule in (*suite.rules, *suite.facts)
    ]


def check_results(
    asset: "dg.CoercibleToAssetKey", outcomes: Sequence[ExpectationOutcome], partition: str
) -> list[dg.AssetCheckResult]:
    """Return the outcomes as results: a failed critical one is an ERROR, any other failure a WARN.

    ``unexpected_percent``, ``observed`` and ``checked`` are numbers, so that the check's page plots them.
    """
    return [
        dg.AssetCheckResult(
            asset_key=asset,
            check_name=outcome.name,
            passed=outcome.success,
            severity=dg.AssetCheckSeverity.ERROR if outcome.severity == "critical" else dg.AssetCheckSeverity.WARN,
            description=_sentence(outcome),
            metadata=_metadata(outcome, partition),
        )
        for outcome in outcomes
    ]


def suite_checks(
    asset: "dg.CoercibleToAssetKey",
    suite: Suite,
    judge: Judge,
    *,
    partitions: "dg.PartitionsDefinition[str]",
    required_resource_keys: set[str] | None = None,
    pool: str | None = None,
) -> dg.AssetChecksDefinition:
    """Return one definition for all checks of a table: a single pass over the data, of which a part can be chosen.

    ``judge``: given the context and the suite of the chosen checks, reads the table and judges it.
    """
    key = dg.AssetKey.from_coercible(asset)

    @dg.multi_asset_check(
        name=f"{'_'.join(key.path)}_expectations",
        specs=check_specs(key, suite, partitions),
        can_subset=True,
        required_resource_keys=required_resource_keys,
        pool=pool,
    )
    def expectations(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        chosen = {selected.name for selected in context.selected_asset_check_keys}
        judged = judge(context, suite.only(chosen))
        yield from of_each_partition(
            context, key, lambda days: check_results(key, judged.outcomes(days), _range_of(days))
        )

    return expectations


def of_each_partition(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
    asset: "dg.CoercibleToAssetKey",
    judge: Callable[[Sequence[str]], Sequence[dg.AssetCheckResult]],
) -> Sequence[dg.AssetCheckResult]:
    """Return the outcomes of a run's partitions; of a run over several, each partition gets its own as well.

    Dagster plans each check once for every partition of the run, and shows it as skipped where a partition has none.

    ``judge``: given some of the run's partitions, returns what came of the checks on them.
    """
    partitions = context.partition_keys
    for partition in partitions if len(partitions) > 1 else ():
        for result in judge([partition]):
            outcome = dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey.from_coercible(asset),
                check_name=str(result.check_name),
                passed=result.passed,
                severity=result.severity,
                description=result.description,
                metadata=result.metadata,
                partition=partition,
            )
            context.op_execution_context.log_event(outcome)  # type: ignore[arg-type]  # it takes them, its hints do not
    return judge(partitions)


def _range_of(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _sentence(outcome: ExpectationOutcome) -> str:
    if outcome.success:
        return "holds"
    if outcome.error:
        return f"could not be judged: {outcome.error}.{_blocked(outcome.blocked)}"
    if outcome.unexpected is not None and outcome.checked:
        found = (
            f"{outcome.unexpected:,} of {outcome.checked:,} rows ({outcome.unexpected_percent:.3g} %) are unexpected"
        )
    else:
        found = f"observed {outcome.observed}"
    return f"{found}.{_blocked(outcome.blocked)} {outcome.meaning}"


def _blocked(jobs: Sequence[str]) -> str:
    if not jobs:
        return ""
    return f" {named(jobs, MOST_NAMED)} {'goes' if len(jobs) == 1 else 'go'} no further."


def _metadata(outcome: ExpectationOutcome, partition: str) -> dict[str, dg.MetadataValue]:
    values: dict[str, dg.MetadataValue] = {
        "expectation": dg.MetadataValue.text(outcome.expectation),
        "kwargs": dg.MetadataValue.json(json.loads(json.dumps(dict(outcome.kwargs), default=str))),
        "meaning": dg.MetadataValue.text(outcome.meaning),
        "partition": dg.MetadataValue.text(partition),
    }
    for name in ("unexpected_percent", "observed", "checked", "unexpected"):
        value = getattr(outcome, name)
        if isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            values[name] = dg.MetadataValue.float(float(value))
        elif value is not None:
            values[name] = dg.MetadataValue.text(str(value))
    if outcome.blocked:
        values["blocked_jobs"] = dg.MetadataValue.int(len(outcome.blocked))
    if outcome.examples:
        values["examples"] = records(outcome.examples, list(outcome.examples[0]))
    if outcome.error:
        values["error"] = dg.MetadataValue.text(outcome.error)
    return values
