"""Keys that make a repeated request harmless."""

from collections import OrderedDict
from collections.abc import Mapping

from perdix.policies.wording import workers
from perdix.targets.contract import Fault, TargetError

REMEMBERED = 4_096


class Keys:
    """The last keys that were used, and for which workers.

    A key says which requests are one and the same, and not that something came of them: an answer may get lost, and a
    target may forget. So the newest may be sent as often as what runs does not show it, and one that a later key has
    overtaken never again.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, str] = OrderedDict()

    def may_be_sent(self, key: str, scale_out: int, mix: Mapping[str, int] | None = None) -> bool:
        """Take note of ``key``; return False when another was used since.

        Raises ``TargetError`` when the key is empty, or was used for others.
        """
        asked = workers(scale_out, mix)
        if not key:
            raise TargetError("an idempotency key must not be empty", retriable=False, fault=Fault.LASTING)
        known = self._seen.get(key)
        if known is None:
            self._seen[key] = asked
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        elif known != asked:
            message = f"key {key!r} was used for {known}; use another for {asked}"
            raise TargetError(message, retriable=False, fault=Fault.LASTING)
        return next(reversed(self._seen)) == key
