"""A target that only takes note of what it would have been advised to run."""

from collections.abc import Mapping

from perdix.targets.contract import Guard, Running, TargetError, unguarded
from perdix.targets.idempotency import Keys


class AdvisoryTarget:
    """Changes nothing. It reads the scale-out it is given, and remembers what was advised.

    ``scale_out``: workers that run, as far as is known; :meth:`observe` corrects it from the metrics.
    """

    def __init__(self, scale_out: int | None = None) -> None:
        self._scale_out: int | None = None
        self._advised: int | None = None
        self._advised_mix: Mapping[str, int] = {}
        self._keys = Keys()
        self.observe(scale_out)

    def observe(self, scale_out: int | None) -> None:
        """Tell the target how many workers the metrics show; ``None``: they show it no longer."""
        if scale_out is not None and scale_out < 1:
            raise TargetError(f"scale-out {scale_out} is below 1", retriable=False)
        self._scale_out = scale_out

    def read(self) -> Running:
        """Return what runs, as it was given; advice never unsettles it."""
        if self._scale_out is None:
            raise TargetError("the metrics do not show how many workers run; wait for the metric scale_out")
        return Running(self._scale_out, self._advised, settled=True, requested_mix=self._advised_mix)

    def scale(
        self,
        scale_out: int,
        idempotency_key: str,
        mix: Mapping[str, int] | None = None,
        guard: Guard = unguarded,  # noqa: ARG002 - nothing leaves
    ) -> Running:
        """Remember the advice."""
        if scale_out < 1:
            raise TargetError(f"scale-out {scale_out} is below 1", retriable=False)
        running = self.read()
        if not self._keys.may_be_sent(idempotency_key, scale_out, mix):
            return running
        self._advised, self._advised_mix = scale_out, dict(mix or {})
        return self.read()

    def close(self) -> None:
        """Nothing to close."""
