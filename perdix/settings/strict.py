"""The base of everything that an operator may write: frozen, and a key that is not known is an error."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Spread = Share  # a relative standard deviation


class Strict(BaseModel):
    """Frozen, and a key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
