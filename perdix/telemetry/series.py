"""One time series as it was read: the common form of exports, live pulls and the twin's emission."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True)
class Series:
    """Samples of one series, in the order in which they were read."""

    metric: str  # canonical name where it is known, else the exporter's own name
    worker: str | None  # the worker that the series belongs to; ``None`` for a job-level series
    times_ms: NDArray[np.int64]  # epoch milliseconds (UTC), int64, shape ``(n,)``
    # float64, shape ``(n,)``; NaN where the exporter wrote NaN or a staleness marker, infinities kept
    values: NDArray[np.float64]
    labels: Mapping[str, str] = field(default_factory=dict)  # the exporter's labels, without ``__name__``
    kind: Kind = "gauge"  # ``counter`` values only grow but for resets, and are turned into rates on alignment

    def __post_init__(self) -> None:
        if self.times_ms.shape != self.values.shape or self.times_ms.ndim != 1:
            raise ValueError(f"series {self.metric}: {self.times_ms.shape} times against {self.values.shape} values")

    def __len__(self) -> int:
        return len(self.times_ms)
