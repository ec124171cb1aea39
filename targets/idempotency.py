"""Keys that make a repeated request harmless."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from policies.wording import workers
from targets.contract import TargetError

REMEMBERED = 4_096


class Keys:
    """The last keys that were used, and for which workers."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, str] = OrderedDict()

    def is_new(self, key: str, scale_out: int, mix: Mapping[str, int] | None = None) -> bool:
        """Take note of ``key``; return False when it was used before for the same workers.

        Raises
        ------
        TargetError
            When the key is empty, or was used for others.
        """
        asked = workers(scale_out, mix)
        if not key:
            raise TargetError("an idempotency key must not be empty", retriable=False)
        if key in self._seen:
            if self._seen[key] != asked:
                raise TargetError(
                    f"key {key!r} was used for {self._seen[key]}; use another for {asked}", retriable=False
                )
            return False
        self._seen[key] = asked
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True

    @contextmanager
    def forgotten_on_failure(self, key: str) -> Iterator[None]:
        """Forget ``key`` when what is done with it raises, so that it may be tried again."""
        try:
            yield
        except BaseException:
            self._seen.pop(key, None)
            raise
