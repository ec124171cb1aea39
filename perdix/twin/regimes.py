"""Restart regimes: what a planned rescale costs on another cluster than the one that a twin was measured on.

``conf/regimes/<name>.yaml`` takes the place of a twin's own restarts; a failure, with its warm-up, stays the twin's.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from perdix.settings.home import conf_part
from perdix.settings.strict import Strict
from perdix.settings.yaml_files import load_known
from perdix.twin.parameters import RandomTime, TwinParameters


class Regime(Strict):
    """What a planned rescale costs; each as :class:`perdix.twin.parameters.Restart` has it."""

    in_place: bool = False
    out: RandomTime
    in_: Annotated[RandomTime, Field(alias="in")]
    rescale_replay_s: Annotated[int, Field(ge=0, le=3_600)]
    warm_up_s: Annotated[int, Field(ge=0, le=600)]
    warm_up_speed: Annotated[float, Field(gt=0, le=1)]


def load_regime(name: str, folder: Path | None = None) -> Regime:
    """Read the regime called ``name``, or a YAML file. Raises ``SettingsError``, naming file, line and fix."""
    return load_known(name, folder or conf_part("regimes"), Regime, "regime")


def under(parameters: TwinParameters, name: str, folder: Path | None = None) -> TwinParameters:
    """Return a twin whose rescales cost what they do in the regime ``name``; raises as :func:`load_regime` does."""
    regime = load_regime(name, folder)
    changed = {field: getattr(regime, field) for field in Regime.model_fields}
    own = parameters.restart
    changed["failure_warm_up"] = own.failure_warm_up or (own.warm_up_s, own.warm_up_speed)
    return parameters.model_copy(update={"restart": own.model_copy(update=changed)})
