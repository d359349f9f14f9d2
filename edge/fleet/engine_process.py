"""The process of a fleet's engine, started by the agent beside it: it opens the engine and runs the fleet's jobs while
this box is the head; with Ray it is the box's part of the cluster, on every box. It ends with its agent.

The appliance's control process and camera workers never load any of this: a part of Ray ends itself without a head.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge.core.errors import MagpieError, Unavailable
from edge.engines import job_folders, ray_messages
from edge.engines.child import ChildChannel, kinds_of
from edge.engines.inbox import Inbox
from edge.files import os_errors
from edge.fleet import engine_messages as msg
from edge.fleet.engine_check import check_engine, ray_security
from edge.fleet.engine_cost import IdleCost
from edge.fleet.engine_run import EngineRun, OpenedEngine
from edge.logs import log_in_worker
from edge.settings import FleetSettings, parse

log = logging.getLogger(__name__)

#: Messages of the agent are looked for so often, in s.
_LOOK_S: Final = 0.25
#: It shows so often that it lives, in s.
_ALIVE_S: Final = 5.0
#: A part of Ray has so long to begin.
_NODE_S: Final = 60.0


def main() -> None:
    """Run until the agent ends this process, or the agent is gone."""
    channel = ChildChannel(kinds_of(msg))
    log_in_worker("fleet engine")
    begin = channel.receive()
    assert isinstance(begin, msg.EngineBegin)
    settings = parse(FleetSettings, begin.fleet)
    os.environ[job_folders.VARIABLE] = job_folders.folders_text(settings.engine.folders)  # for the workers of programs
    try:
        with ExitStack() as parts:
            if settings.engine.kind == "ray":
                _be_part_of_ray(settings, begin, channel, parts)
            elif (opened := _opened(settings, channel, parts)) is not None:
                _run(settings, opened, channel)
    except MagpieError as error:
        channel.send(msg.EngineFailed(str(error)))
        raise SystemExit(1) from None


class _Alive:
    """Shows the agent that this process goes round."""

    def __init__(self, channel: ChildChannel) -> None:
        self._channel, self._shown_s = channel, float("-inf")

    def show(self) -> None:
        """To be called with each round."""
        now_s = time.monotonic()
        if now_s - self._shown_s >= _ALIVE_S:
            self._shown_s = now_s
            self._channel.send(msg.EngineAlive())


def _run(settings: FleetSettings, opened: OpenedEngine, channel: ChildChannel) -> None:
    """Run jobs until the agent ends it. Raises Unavailable where the engine dies."""
    run = EngineRun(settings.jobs, opened.engine, time.monotonic, channel.send, opened.know)
    channel.send(msg.EngineUp())
    for message in opened.early:
        run.take(message)
    waited, alive = "", _Alive(channel)
    while True:
        alive.show()
        while (message := channel.receive(0.0)) is not None:
            if isinstance(message, msg.EngineStop):
                return
            run.take(message)
        run.turn(_LOOK_S)
        opened.check()
        if (waits := opened.waits()) != waited:
            channel.send(msg.EngineWaits(waits))
            waited = waits
        if opened.idle is not None:
            _send_cost(channel, opened.idle)
        if run.died is not None:
            raise Unavailable(run.died)


def _opened(settings: FleetSettings, channel: ChildChannel, parts: ExitStack) -> OpenedEngine | None:
    """The engine; None where the agent wanted it no longer before it was open."""
    if settings.engine.kind == "local":
        return _open_local(settings, parts)
    from edge.fleet.engine_kubernetes import open_on_kubernetes

    return open_on_kubernetes(settings, channel, parts)


def _open_local(settings: FleetSettings, parts: ExitStack) -> OpenedEngine:
    from edge.runtime.local_engine import LocalEngine, LocalSettings

    engine = LocalEngine(LocalSettings(settings.name, dict(settings.engine.amounts)))
    parts.callback(engine.close)
    return OpenedEngine(engine)


# --- Ray ---------------------------------------------------------------------------------------------------------
def _be_part_of_ray(settings: FleetSettings, begin: msg.EngineBegin, channel: ChildChannel, parts: ExitStack) -> None:
    """Be this box's part of the cluster; on the head run jobs, too. Raises Unavailable where the part ended."""
    from edge.engines.ray_engine import RayEngine, RaySettings
    from edge.engines.ray_node import RayNode
    from edge.engines.ray_settings import RayNodeSpec

    ray = settings.engine.ray
    assert ray is not None
    check_engine(settings.engine)
    security, folder = ray_security(ray), Path(ray.folder)
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(folder / "node", ignore_errors=True)  # of a run before: its cluster is gone
    inbox = Inbox(time.monotonic)
    spec = RayNodeSpec(
        settings.name, folder / "node", security, ray.address, begin.head_at or None,
        0 if begin.head_at else ray.port, ray.warm_workers, headless_s=ray.headless_s,
    )  # fmt: skip
    node = RayNode(spec, inbox.put, lambda code: inbox.put(_NodeEnded(code)))
    parts.callback(node.close)
    up = _node_up(inbox)
    if begin.head_at:
        channel.send(msg.EngineUp())
        _wait_as_member(channel, inbox)
        return
    boxes = {settings.name: dict(settings.engine.amounts)}
    engine = RayEngine(RaySettings(up.head, security, boxes, folder / "link", ray.address, ray.mode), time.monotonic)
    parts.callback(engine.close)

    def know(rows: Sequence[Mapping[str, Any]]) -> None:
        boxes.update((row["name"], dict(row["resources"])) for row in rows)
        engine.know(boxes)

    _run(settings, OpenedEngine(engine, know, lambda: _check_node(inbox), idle=IdleCost()), channel)


@dataclass(frozen=True)
class _NodeEnded:
    """The process of this box's part of Ray ended."""

    code: int


def _node_up(inbox: Inbox) -> ray_messages.RayNodeUp:
    """Wait until the box's part runs. Raises Unavailable."""
    first = inbox.take_one(_NODE_S)
    if isinstance(first, ray_messages.RayNodeUp):
        return first
    if isinstance(first, ray_messages.RayFailed):
        raise Unavailable(first.why)
    raise Unavailable("this box's part of Ray did not begin", "see node.log in fleet.engine.ray.folder")


def _wait_as_member(channel: ChildChannel, inbox: Inbox) -> None:
    """Wait until the agent ends it; raises Unavailable where the box's part ended."""
    idle, alive = IdleCost(), _Alive(channel)
    while not isinstance(channel.receive(1.0), msg.EngineStop):
        alive.show()
        _check_node(inbox)
        _send_cost(channel, idle)


def _send_cost(channel: ChildChannel, idle: IdleCost) -> None:
    cost = idle.look(time.monotonic())
    if cost is not None:
        channel.send(cost)


def _check_node(inbox: Inbox) -> None:
    for _, message in inbox.take(0.0):
        if isinstance(message, _NodeEnded):
            raise Unavailable(f"this box's part of Ray ended with code {message.code}")


if __name__ == "__main__":
    main()
