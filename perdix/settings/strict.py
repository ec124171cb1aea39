"""The base of everything that an operator may write: frozen, and a key that is not known is an error."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Frozen, and a key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
