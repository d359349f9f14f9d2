"""Opens the engine `kubernetes` on the fleet's head: first the lease, so that one engine at most works in a namespace,
whatever the agents believe; then the engine, which ends the pods that an earlier one left.

The agents choose the head. The lease guards the pods only: two heads may believe for some seconds that they decide.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

from edge.core.errors import Unavailable
from edge.engines.child import ChildChannel
from edge.engines.kubernetes_api import ApiPatience, KubernetesApi, client_for
from edge.engines.kubernetes_boxes import BoxNode, KubernetesBoxes
from edge.engines.kubernetes_engine import KubernetesSettings, open_kubernetes
from edge.engines.kubernetes_head import LeasedHead
from edge.engines.kubernetes_lease import LeaseRules
from edge.engines.kubernetes_pods import PodSettings
from edge.fleet import engine_messages as msg
from edge.fleet.cluster_place import ClusterPlace, cluster_place
from edge.fleet.engine_check import check_engine
from edge.fleet.engine_cost import IdleCost, ProcessesNow, processes_now
from edge.fleet.engine_run import OpenedEngine
from edge.settings import FleetSettings, KubernetesEngineSettings

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0
_LOOK_S: Final = 0.25
#: A request about the lease is over long before the lease is: the next tick asks again.
_LEASE_PATIENCE: Final = ApiPatience(tries=1, timeout_s=3.0)
#: The engine reports a pod that has not begun after so long, with the reason.
_SLOW_S: Final = 10.0


class RenewedLease:
    """The fleet's lease, asked for and renewed by a thread of its own while it is entered; given back at the end. The
    engine's requests may take longer than the lease."""

    def __init__(self, head: LeasedHead, me: str) -> None:
        self._head, self._me = head, me
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def __enter__(self) -> RenewedLease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._head.release()

    @property
    def held(self) -> bool:
        """Whether it is held now."""
        return self._head.is_head

    @property
    def waits(self) -> str:
        """The reason why it is not held yet, for people; empty: it is held."""
        if self.held:
            return ""
        holder = self._head.holder
        return f"the lease is held by {holder}" if self._another(holder) else "the lease is not held yet"

    def check(self) -> None:
        """Raises Unavailable where another one took it. An API server that is away takes no lease: nothing
        begins until it is back."""
        holder = self._head.holder
        if not self.held and self._another(holder):
            raise Unavailable(f"another box took the lease of the fleet's head: {holder}")

    def _another(self, holder: str) -> bool:
        return holder not in ("", self._me)

    def _run(self) -> None:
        while True:
            try:
                self._head.tick()
            except Exception:  # without this thread the lease would end, and nothing would begin again
                log.exception("the lease of the fleet's head: asked again")
            if self._stopped.wait(_TICK_S):
                return


def open_on_kubernetes(settings: FleetSettings, channel: ChildChannel, parts: ExitStack) -> OpenedEngine | None:
    """Wait for the lease, then open the engine; None where the agent ends it meanwhile. Raises
    InvalidValue, Unavailable."""
    kubernetes = settings.engine.kubernetes
    assert kubernetes is not None
    check_engine(settings.engine)
    place = cluster_place(kubernetes)
    # Another name for each process: this one must not take the lease of its predecessor for its own.
    me = f"{settings.name}-{secrets.token_hex(4)}"
    asking = KubernetesApi(client_for(place.account), place.namespace, _LEASE_PATIENCE)
    lease = parts.enter_context(RenewedLease(LeasedHead(asking, LeaseRules(me)), me))
    early = _until_held(lease, channel)
    if early is None:
        return None
    opened = open_kubernetes(_engine_settings(kubernetes, place, settings.engine.folders))
    engine = KubernetesBoxes(opened, time.monotonic, lambda: lease.held)
    parts.callback(engine.close)

    def cost() -> ProcessesNow:
        return replace(processes_now(), busy=engine.running > 0)

    return OpenedEngine(
        engine,
        lambda rows: engine.know(box_nodes(rows)),
        lease.check,
        lambda: lease.waits or engine.waiting(_SLOW_S),
        IdleCost(cost),
        early,
    )


def box_nodes(rows: Sequence[Mapping[str, Any]]) -> list[BoxNode]:
    """The boxes of the fleet that are nodes, of rows of `EngineBoxes`."""
    return [BoxNode(row["name"], row["node"], row["resources"]) for row in rows if row["node"]]


def _until_held(lease: RenewedLease, channel: ChildChannel) -> list[Any] | None:
    """The agent's messages until the lease is held; None: it shall end."""
    early: list[Any] = []
    reported = ""
    while not lease.held:
        if lease.waits != reported:
            reported = lease.waits
            channel.send(msg.EngineWaits(reported))
        message = channel.receive(_LOOK_S)
        if isinstance(message, msg.EngineStop):
            return None
        if message is not None:
            early.append(message)
    return early


def _engine_settings(
    settings: KubernetesEngineSettings, place: ClusterPlace, folders: Mapping[str, str]
) -> KubernetesSettings:
    return KubernetesSettings(
        place.fleet,
        PodSettings(place.image, ttl_s=settings.ttl_s, queue=settings.queue or None, folders=dict(folders)),
        place.namespace,
        settings.mode,
        place.account,
        pending_s=settings.pending_s,
    )
