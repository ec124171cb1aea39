"""Keys that make a repeated request harmless."""

from __future__ import annotations

from collections import OrderedDict

from targets.contract import TargetError

REMEMBERED = 4_096


class Keys:
    """The last keys that were used, and for how many workers."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()

    def is_new(self, key: str, scale_out: int) -> bool:
        """Take note of ``key``; return False when it was used before for the same number.

        Raises
        ------
        TargetError
            When the key is empty, or was used for another number.
        """
        if not key:
            raise TargetError("an idempotency key must not be empty", retriable=False)
        if key in self._seen:
            if self._seen[key] != scale_out:
                raise TargetError(
                    f"key {key!r} was used for {self._seen[key]} workers; use another for {scale_out}", retriable=False
                )
            return False
        self._seen[key] = scale_out
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True
