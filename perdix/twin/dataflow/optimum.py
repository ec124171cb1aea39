"""The least parallelism that sustains given source rates, from the true curves."""

from collections.abc import Mapping

from perdix.twin.dataflow.parameters import DataflowParameters

BY_ROUNDING = 1.0 + 1e-9  # 20 words x 50,000/s need not be 1,000,000.0000000001/s


def demands(parameters: DataflowParameters, source_per_s: Mapping[str, float]) -> Mapping[str, float]:
    """Return operator -> records/s that it must process (a source: emit) when everything keeps up.

    Raises ``ValueError``, naming a source whose rate is not given.
    """
    found: dict[str, float] = {}
    for name, operator in parameters.operators.items():
        if operator.source is not None:
            if name not in source_per_s:
                raise ValueError(f"the rate of source '{name}' is not given; give records/s for every source")
            found[name] = source_per_s[name]
        else:
            ups = parameters.operators
            found[name] = sum(found[up] * ups[up].selectivity * share for up, share in operator.inputs.items())
    return found


def least_instances(parameters: DataflowParameters, name: str, per_s: float) -> int | None:
    """Return the least instances of an operator that take ``per_s``; ``None`` when its maximum does not."""
    operator = parameters.operators[name]
    for instances in range(1, parameters.maximum(name) + 1):
        if operator.capacity(instances) * BY_ROUNDING >= per_s:
            return instances
    return None


def optimum(
    parameters: DataflowParameters, source_per_s: Mapping[str, float], *, even: bool = False
) -> Mapping[str, int]:
    """Return operator -> the least instances that sustain these source rates (DS2, section 3.1).

    Noise and bursts left out: in the mean. Operators that are not to be scaled keep what they start with.

    Raises ``ValueError``, naming the operator that cannot take its part with all the instances that it can have, or
    the slots that do not hold all together.

    ``even``: as if no instance were hotter than the others.
    """
    needed = demands(parameters, source_per_s)
    found = {}
    for name, operator in parameters.operators.items():
        if not operator.may_scale:
            found[name] = operator.start
            continue
        asked = parameters if not even else parameters.with_skew(1e-9, (name,))
        least = least_instances(asked, name, needed[name])
        if least is None:
            hot = "" if operator.hottest is None else f", of which the hottest gets {operator.hottest:.0%}"
            raise ValueError(
                f"operator '{name}' cannot take {needed[name]:,.0f} records/s with its {parameters.maximum(name)} "
                f"instances{hot}; lower the rates, or raise its maximum"
            )
        found[name] = least
    lacking = parameters.without_room(found)
    if lacking is not None:
        raise ValueError(f"{lacking}; lower the rates, or raise slots")
    return found


def sustains(parameters: DataflowParameters, parallelism: Mapping[str, int], source_per_s: Mapping[str, float]) -> bool:
    """Return whether every operator takes what must come to it."""
    needed = demands(parameters, source_per_s)
    return all(
        operator.capacity(parallelism[name]) * BY_ROUNDING >= needed[name]
        for name, operator in parameters.operators.items()
    )
