"""A resource of Kubernetes with the ``scale`` subresource: Deployment, StatefulSet, or a custom one."""

from collections.abc import Mapping

from perdix.settings.targets import KubernetesSettings
from perdix.targets.contract import Connected, Fault, Guard, Running, TargetError, unguarded
from perdix.targets.http import TIMEOUT_S
from perdix.targets.idempotency import Keys
from perdix.targets.kubernetes.api import Scale, ScaleApi
from perdix.targets.kubernetes.refusals import ConflictError

ATTEMPTS = 5


class KubernetesTarget(Connected):
    """Reads and sets the number of replicas, and nothing else of the resource.

    ``settled`` says that as many pods exist as are asked for (``status.replicas`` equals ``spec.replicas``): that is
    what the subresource reports, and it asks for no right but ``get`` and ``update`` on it. A pod that exists may still
    wait for a node. With ``settings.ready`` the Deployment or StatefulSet itself is read as well, and ``scale_out``
    counts the pods that are ready.

    A resource that somebody has scaled to 0 is left alone: it cannot be read as running.

    ``settings``: which resource, and how its cluster is reached. Nothing is read or asked before the first call.
    ``job``: the stream job, for messages.
    ``timeout_s``: seconds that each of connecting and reading may take; nothing is tried again by itself but a
    conflict.
    """

    def __init__(self, settings: KubernetesSettings, job: str, timeout_s: float = TIMEOUT_S) -> None:
        self._api = ScaleApi(settings, timeout_s)
        self._ready, self._job = settings.ready, job
        self._keys = Keys()

    def read(self) -> Running:
        """Return what really runs."""
        if not self._ready:
            return self._running(self._api.scale())
        pods = self._api.workload()
        self._refuse_zero(pods.wanted)
        return Running(pods.ready, pods.wanted, settled=pods.followed and pods.ready == pods.wanted)

    def scale(
        self, scale_out: int, idempotency_key: str, mix: Mapping[str, int] | None = None, guard: Guard = unguarded
    ) -> Running:
        """Ask for ``scale_out`` pods; where they are asked for already, nothing is written."""
        if mix:
            raise TargetError(
                f"{self._api.place}: its replicas are all alike, so '{self._job}' cannot have workers of several "
                "sizes; leave out 'sizes'",
                retriable=False,
                fault=Fault.LASTING,
            )
        if scale_out < 1:
            raise TargetError(f"scale-out {scale_out} is below 1", retriable=False)
        if not self._keys.may_be_sent(idempotency_key, scale_out):
            return self.read()
        after = self._ask(scale_out, guard)
        return self.read() if self._ready else self._running(after)

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    def _ask(self, scale_out: int, guard: Guard) -> Scale:
        before = now = self._api.scale()
        for _ in range(ATTEMPTS):
            self._refuse_zero(now.wanted)
            if now.wanted == scale_out:
                return now
            if now.wanted != before.wanted:
                raise TargetError(
                    f"{self._api.place}: someone else asked for {now.wanted} instead of {before.wanted} meanwhile"
                )
            # What others do after this look raises a conflict; what they did before it, the guard knows.
            guard()
            try:
                return self._api.replace(now, scale_out)
            except ConflictError:
                now = self._api.scale()  # mostly the status has changed, which is nobody's decision
        raise TargetError(
            f"{self._api.place}: it changes faster than it can be written; {ATTEMPTS} attempts were refused"
        )

    def _running(self, scale: Scale) -> Running:
        self._refuse_zero(scale.wanted)
        return Running(scale.running, scale.wanted, settled=scale.running == scale.wanted)

    def _refuse_zero(self, wanted: int) -> None:
        if wanted == 0:
            raise TargetError(
                f"{self._api.place}: somebody has scaled it to 0, and perdix does not wake it; scale it to 1 by hand"
            )
