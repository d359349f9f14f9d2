"""The link to Ray, as the main of a child process: it is the driver of the cluster.

60 s after the cluster's store has gone Ray ends every process that called `ray.init`: the control process must not be
one. Tasks are generators of Ray ("streaming"): their start, checkpoints and answer come without further connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from edge.core.errors import MagpieError, Unavailable
from edge.engines import ray_messages as msg
from edge.engines.child import ChildChannel, kinds_of
from edge.engines.ray_settings import BOX_LABEL, RESOURCE_PREFIX
from edge.engines.ray_task import task as ray_task

#: Ray has so long for a question, in s.
_ANSWER_S = 3.0
#: A task that was asked to stop has so long; then its worker is killed.
_CANCEL_S = 1.0
_CONNECT_S = 1.0
#: Processes that were started for Ray have so long to end with the driver.
_LEAVE_S = 3.0
_NODE_ID_LABEL = "ray.io/node-id"


@dataclass
class _RayBox:
    """A box that is there: Ray's id of it, and where its raylet listens."""

    node_id: str
    address: tuple[str, int]


@dataclass
class _RayRun:
    """A task of Ray."""

    box: str
    stream: Any
    cancelled: bool = False
    started: bool = False


class RayLink:
    """The driver. All methods run on its event loop."""

    def __init__(self, ray: Any, channel: ChildChannel, spec: msg.RayConnect) -> None:
        self._ray, self._channel, self._spec = ray, channel, spec
        self._task = ray.remote(num_returns="streaming", num_cpus=0, max_retries=0)(ray_task)
        self._boxes: dict[str, _RayBox] = {}
        #: Ids of Ray that are gone for good: Ray itself may count them as alive for some seconds more.
        self._gone: set[str] = set()
        self._runs: dict[int, _RayRun] = {}
        #: asyncio keeps no tasks alive by itself.
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking = asyncio.Lock()
        #: Asks the cluster's store, one question at a time: without a store all of them hang, and shall not take the
        #: threads in which tasks are cancelled.
        self._store = ThreadPoolExecutor(1, "store")
        self._asked: asyncio.Future[Any] | None = None

    async def run(self) -> None:
        """Look after the boxes until the owner stops the link."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop, stop), name="link-commands", daemon=True).start()
        while not stop.is_set():
            await self._look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._spec.look_s):
                    await stop.wait()
        for run in self._runs.values():
            await asyncio.to_thread(self._ray.cancel, run.stream, force=True)

    def _read(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        while not isinstance(message := self._channel.receive(), msg.RayStop):
            loop.call_soon_threadsafe(self._obey, message)
        loop.call_soon_threadsafe(stop.set)

    def _obey(self, message: Any) -> None:
        match message:
            case msg.RayLaunch():
                self._launch(message)
            case msg.RayCancel(key=key):
                if key in self._runs and not self._runs[key].cancelled:
                    self._runs[key].cancelled = True
                    self._go(self._cancel(key))
            case msg.RayResize():
                self._go(self._resize(message))
            case msg.RayKnow(boxes=boxes):
                self._spec = replace(self._spec, boxes=boxes)

    def _go(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- tasks ---------------------------------------------------------------------------------------------------
    def _launch(self, order: msg.RayLaunch) -> None:
        box = self._boxes.get(order.box)
        if box is None:
            self._channel.send(msg.RayTaskFailed(order.key, True, f"box {order.box} is gone"))
            return
        stream = self._task.options(
            label_selector={BOX_LABEL: order.box, _NODE_ID_LABEL: box.node_id}, resources=order.resources
        ).remote(order.program, order.arguments)
        run = self._runs[order.key] = _RayRun(order.box, stream)
        self._go(self._follow(order.key, run))

    async def _follow(self, key: int, run: _RayRun) -> None:
        """Pass on the messages of a task until its end."""
        ended: Any = None
        try:
            async for item in run.stream:
                kind, value = await item
                if self._runs.get(key) is not run:
                    return
                if kind == "started":
                    run.started = True
                    self._channel.send(msg.RayStarted(key))
                elif kind == "kept":
                    self._channel.send(msg.RayCheckpoint(key, value))
                else:
                    ended = msg.RayEnded(key, value)
            last = ended or msg.RayTaskFailed(key, True, "its worker ended without an answer")
        except Exception as error:
            last = self._last_word(key, run, error)
        if isinstance(last, msg.RayTaskFailed) and last.lost and run.box in self._boxes:
            await self._suspect(run.box)
        if self._runs.get(key) is run:
            del self._runs[key]
            self._channel.send(last)

    def _last_word(self, key: int, run: _RayRun, error: Exception) -> Any:
        raised = self._ray.exceptions
        if run.cancelled and isinstance(error, (raised.TaskCancelledError, raised.WorkerCrashedError)):
            return msg.RayCancelled(key)
        if isinstance(error, raised.RayTaskError):
            cause = error.cause
            if run.cancelled and isinstance(cause, (KeyboardInterrupt, raised.TaskCancelledError)):
                return msg.RayCancelled(key)
            # The one line for people; the traceback holds paths of the box.
            return msg.RayTaskFailed(key, False, f"{type(cause).__name__}: {cause}")
        return msg.RayTaskFailed(key, True, type(error).__name__)

    async def _cancel(self, key: int) -> None:
        run = self._runs[key]
        for force in (False, True):
            if self._runs.get(key) is not run:
                return
            await asyncio.to_thread(self._ray.cancel, run.stream, force=force)
            await asyncio.sleep(_CANCEL_S)

    # --- boxes ---------------------------------------------------------------------------------------------------
    async def _look(self) -> None:
        """Compare the cluster's boxes with those that are known. Without an answer no change is known."""
        nodes = await self._nodes()
        if nodes is None:
            return
        async with self._looking:
            there: dict[str, list[tuple[str, _RayBox]]] = {}
            for node in nodes:
                name, node_id = node.get("Labels", {}).get(BOX_LABEL), node["NodeID"]
                if node["Alive"] and name in self._spec.boxes and node_id not in self._gone:
                    box = _RayBox(node_id, (node["NodeManagerAddress"], node["NodeManagerPort"]))
                    there.setdefault(name, []).append((node_id, box))
            for name in [name for name in self._boxes if name not in there]:
                self._lose(name)
            for name, found in there.items():
                # One that began anew is another one for Ray, which may not have missed the first yet.
                new = [box for node_id, box in found if name not in self._boxes or node_id != self._boxes[name].node_id]
                if new:
                    if name in self._boxes:
                        self._lose(name)
                    await self._greet(name, new[-1])

    async def _nodes(self) -> list[dict[str, Any]] | None:
        """The nodes of the cluster; None: the store has not answered yet, or with an error."""
        if self._asked is None:
            self._asked = self._ask(self._ray.nodes)
        await asyncio.wait({self._asked}, timeout=_ANSWER_S)
        if not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        return None if asked.exception() else asked.result()

    def _ask(self, call: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._store, call, *args)

    async def _greet(self, name: str, box: _RayBox) -> None:
        if self._spec.mode == "dynamic":
            amounts = {RESOURCE_PREFIX + key: amount for key, amount in self._spec.boxes[name].items()}
            try:
                await self._set(box.node_id, amounts)
            except Exception:
                return  # asked again at the next look
        self._boxes[name] = box
        self._channel.send(msg.RayBoxJoined(name))

    def _lose(self, name: str) -> None:
        """The box is gone, and its tasks with it."""
        self._gone.add(self._boxes.pop(name).node_id)
        self._channel.send(msg.RayBoxGone(name))
        for key in [key for key, run in self._runs.items() if run.box == name]:
            run = self._runs.pop(key)
            if not run.started:  # Ray would hold it for a box that never comes
                self._go(asyncio.to_thread(self._ray.cancel, run.stream))

    async def _suspect(self, name: str) -> None:
        """A worker died: ask the box's raylet. A machine that refuses the connection runs no raylet."""
        box = self._boxes.get(name)
        if box is None:
            return
        try:
            await asyncio.to_thread(_touch, box.address)
        except ConnectionRefusedError:
            async with self._looking:
                if self._boxes.get(name) is box:
                    self._lose(name)
        except OSError:
            return

    # --- resources -----------------------------------------------------------------------------------------------
    async def _set(self, node_id: str, capacities: dict[str, float]) -> dict[str, float]:
        """The private call of Ray; see docs/fleet.md. Raises what it raises, TimeoutError."""
        client = self._ray._private.worker.global_worker.gcs_client
        async with asyncio.timeout(_ANSWER_S):
            return dict(await self._ask(client.resize_raylet_resource_instances, node_id, capacities))

    async def _resize(self, order: msg.RayResize) -> None:
        box = self._boxes.get(order.box)
        if box is None:
            self._channel.send(msg.RayResized(order.number, None, "gone"))
            return
        try:
            found = await self._set(box.node_id, order.capacities)
        except Exception as error:
            self._channel.send(msg.RayResized(order.number, None, type(error).__name__))
            return
        self._channel.send(msg.RayResized(order.number, {n: float(found.get(n, 0.0)) for n in order.capacities}))

    def leave(self) -> None:
        """End the connection: Ray ends the workers of this driver."""
        self._ray.shutdown()

    def probe(self) -> None:
        """Whether this Ray has the private call. Raises Unavailable."""
        client = self._ray._private.worker.global_worker.gcs_client
        if not hasattr(client, "resize_raylet_resource_instances"):
            raise Unavailable(f"Ray {self._ray.__version__} has no call to resize resources", "use mode: pinned")
        node = next((n for n in self._ray.nodes() if n["Alive"]), None)
        if node is None:
            raise Unavailable("no box is part of the cluster yet")
        for amount in (1.0, 0.0):
            asked = threading.Thread(
                target=client.resize_raylet_resource_instances,
                args=(node["NodeID"], {RESOURCE_PREFIX + "probe": amount}),
                daemon=True,
            )
            asked.start()
            asked.join(_ANSWER_S)
            if asked.is_alive():
                raise Unavailable(
                    f"Ray {self._ray.__version__} does not answer the call to resize resources", "use mode: pinned"
                )


def _touch(address: tuple[str, int]) -> None:
    socket.create_connection(address, _CONNECT_S).close()


def main() -> None:
    """Be the driver until the owner stops it."""
    channel = ChildChannel(kinds_of(msg))
    spec = channel.receive()
    assert isinstance(spec, msg.RayConnect)
    try:
        link = _connect(channel, spec)
        if spec.mode == "dynamic":
            link.probe()
    except MagpieError as error:
        channel.send(msg.RayFailed(str(error)))
        os._exit(1)
    channel.send(msg.RayLinkUp())
    asyncio.run(link.run())
    # Without a store Ray's own end would wait for one.
    leaving = threading.Thread(target=link.leave, daemon=True)
    leaving.start()
    leaving.join(_LEAVE_S)
    os._exit(0)


def _unauthenticated(error: BaseException | None) -> bool:
    """Whether a refusal of the token is behind an error of Ray."""
    while error is not None:
        if "uthenticat" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _connect(channel: ChildChannel, spec: msg.RayConnect) -> RayLink:
    try:
        import ray
    except ImportError:
        raise Unavailable("Ray is not installed", "pip install 'magpie-edge[ray]'") from None
    try:
        ray.init(
            address=spec.head,
            _node_ip_address=spec.address,
            namespace="magpie",
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:
        traceback.print_exc()
        why = "refused this token or certificate" if _unauthenticated(error) else "cannot be joined"
        raise Unavailable(f"the Ray cluster at {spec.head} {why} ({type(error).__name__})") from None
    return RayLink(ray, channel, spec)


if __name__ == "__main__":
    main()
