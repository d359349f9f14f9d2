"""A box's part of a Ray cluster, as the main of a child process: the raylet, and on the head the cluster's store (GCS).

Ray's own `ray start` would add processes that are not needed here (dashboard, autoscaler, log monitor) and end the
raylet with the store. `ray._private.node.Node` is Ray's own code below it; the exact version of Ray is pinned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from edge.core.errors import MagpieError, Unavailable
from edge.engines import ray_messages as msg
from edge.engines.child import Child, ChildChannel, kinds_of
from edge.engines.ray_settings import BOX_LABEL, RayNodeSpec

#: The processes are looked at so often, in s.
_LOOK_S = 0.5
_STOP_S = 10.0


class RayNode:
    """The owner's end of a box's part. `on_message` (from another thread) gets its messages, `on_exit` its end: the
    owner starts another one, with back-off."""

    def __init__(
        self, spec: RayNodeSpec, on_message: Callable[[Any], None], on_exit: Callable[[int], None] | None = None
    ) -> None:
        self._child = Child(
            "edge.engines.ray_node",
            spec.environment(),
            spec.folder / "node.log",
            kinds_of(msg),
            on_message,
            on_exit or (lambda code: None),
        )
        self.pid = self._child.pid
        self._child.send(
            msg.RayNodeStart(
                spec.box,
                str(spec.folder),
                spec.address,
                spec.warm_workers,
                spec.restart_s,
                spec.object_store_bytes,
                spec.head,
                spec.port,
            )
        )

    def close(self) -> None:
        """End it, and all that it started. May be called twice."""
        self._child.send(msg.RayStop())
        if not self._child.join(_STOP_S):
            self._child.kill()
            self._child.join(_STOP_S)


def main() -> None:
    """Run the box's part until the owner stops it, or until the raylet ended."""
    channel = ChildChannel(kinds_of(msg))
    spec = channel.receive()
    assert isinstance(spec, msg.RayNodeStart)
    try:
        _run(channel, spec)
    except MagpieError as error:
        channel.send(msg.RayFailed(str(error)))
        raise SystemExit(1) from None
    except Exception as error:
        channel.send(msg.RayFailed(f"Ray could not be started on {spec.box}: {type(error).__name__}"))
        raise


def _run(channel: ChildChannel, spec: msg.RayNodeStart) -> None:
    node = _start(spec)
    channel.send(msg.RayNodeUp(node.gcs_address, node.node_id, _pids(node)))
    down_s: float | None = None
    try:
        while not isinstance(channel.receive(_LOOK_S), msg.RayStop):
            ended = {kind for kind, _ in node.dead_processes()}
            if "raylet" in ended:
                raise Unavailable(f"the raylet of {spec.box} ended")
            if "gcs_server" in ended:
                node.kill_gcs_server(check_alive=False)
                channel.send(msg.RayStoreDown())
                down_s = time.monotonic()
            if down_s is not None and time.monotonic() - down_s >= spec.restart_s:
                down_s = None
                node.start_gcs_server()
                channel.send(msg.RayStoreUp(_pids(node)))
    finally:
        node.kill_all_processes(check_alive=False, allow_graceful=True)


def _pids(node: Any) -> dict[str, int]:
    return {kind: infos[0].process.pid for kind, infos in node.all_processes.items()}


def _start(spec: msg.RayNodeStart) -> Any:
    """Start the processes; they end with this one. Raises Unavailable."""
    try:
        from ray._private.node import Node
        from ray._private.parameter import RayParams
    except ImportError:
        raise Unavailable("Ray is not installed", "pip install 'magpie-edge[ray]'") from None

    class QuietNode(Node):  # type: ignore[misc]
        """Without the dashboard's server, which Ray starts even where the dashboard is off."""

        def start_api_server(self, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
            self._webui_url = ""

    params = RayParams(
        gcs_address=spec.head,
        gcs_server_port=spec.port if spec.head is None else None,
        node_ip_address=spec.address,
        node_name=spec.box,
        # Tasks ask for no CPU: these only set how many workers are kept.
        num_cpus=spec.warm_workers,
        num_gpus=0,
        resources={},
        labels={BOX_LABEL: spec.box},
        object_store_memory=spec.object_store_bytes,
        temp_dir=spec.folder,
        include_dashboard=False,
        include_log_monitor=False,
        no_monitor=True,
        dashboard_agent_listen_port=0,
        min_worker_port=0,
        max_worker_port=0,
    )
    return QuietNode(params, head=spec.head is None, shutdown_at_exit=False, spawn_reaper=True)


if __name__ == "__main__":
    main()
