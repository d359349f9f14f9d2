"""The serving front: the service behind the protocol's transports.

A request is checked against its model's description, waits in its model's queue with a deadline, is handed to an
executor in a batch, and is answered; or it is dropped, rejected or failed with a reason. Each is counted once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from edge.core.batching import Batching
from edge.core.errors import Overloaded, Unavailable, reported_error
from edge.core.front_messages import Layout, RepositoryAnswer, RepositoryCommand, TrafficReport
from edge.core.oip import InferRequest, InferResponse, ModelMetadata, RepositoryEntry, TensorSpec
from edge.serving.dispatch import Dispatcher, Event
from edge.serving.front_link import FrontLink
from edge.serving.open_requests import OpenRequests
from edge.serving.queues import DEFAULT_LEVEL, Pending
from edge.serving.requests import check, nbytes_of
from edge.serving.routing import RoutingTable
from edge.version import magpie_version

EXTENSIONS = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
#: Default limit on tensors of all requests that wait or run, in bytes.
QUEUED_BYTES = 512 * 2**20
#: Loading a model may take so long: its files are read, checked, and run once per batch size under a small share.
_REPOSITORY_S = 600.0
_REPOSITORY_COMMANDS = 64


class Front:
    """Implements `edge.core.oip.InferenceService`. Used from one event loop; make it inside of it.

    `on_event` receives executors that come, go and are drained; `on_command` gets clients' repository commands, which
    `answer` answers.
    """

    def __init__(
        self,
        batching: Batching,
        on_event: Callable[[Event], None],
        on_command: Callable[[RepositoryCommand], None],
        max_queued_bytes: int = QUEUED_BYTES,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._routing, self._requests = RoutingTable(), OpenRequests(clock)
        self._dispatcher = Dispatcher(batching, self._routing, self._requests, on_event, clock, wall)
        self._on_command = on_command
        self._max_queued_bytes = max_queued_bytes
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._numbers = 0
        self._commands: dict[int, asyncio.Future[RepositoryAnswer]] = {}
        self._reported_s = clock()
        self._stopping = False

    # -- the control process's side

    def joined(self, link: FrontLink) -> None:
        """An executor has connected (edge.serving.front_server.FrontServer's `on_executor`)."""
        self._dispatcher.joined(link)

    def apply(self, layout: Layout) -> None:
        """Routes in force from the next batch on; nothing that waits or runs is lost or delayed by it."""
        self._dispatcher.apply(layout)

    def answer(self, answer: RepositoryAnswer) -> None:
        """The control process has done what a client asked, or says why not."""
        waiting = self._commands.pop(answer.number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def report(self) -> TrafficReport:
        """The counts since the last report."""
        now_s = self._clock()
        period_s, self._reported_s = now_s - self._reported_s, now_s
        return self._routing.traffic(now_s, period_s)

    @property
    def open(self) -> int:
        """Requests that wait or run."""
        return self._routing.open

    def close(self) -> None:
        """Fail what is still open. Safe to repeat."""
        self._stopping = True
        self._dispatcher.close()
        for waiting in self._commands.values():
            if not waiting.done():
                waiting.set_exception(Unavailable("the serving front stops"))
        self._commands.clear()

    # -- InferenceService

    def live(self) -> bool:
        """The server answers."""
        return True

    def ready(self) -> bool:
        """A layout is in force, and every model of it that was not refused has an executor."""
        return self._routing.ready and not self._stopping

    def model_ready(self, model: str, version: str | None) -> bool:
        """An executor has it loaded, warm and placed. Raises NotFound."""
        layout = self._routing.layout
        if layout is not None and model in layout.refused and model not in self._routing.current:
            return False
        return bool(self._routing.find(model, version).live_lanes())

    def server_metadata(self) -> Mapping[str, Any]:
        """{"name", "version", "extensions"}."""
        return {"name": "magpie", "version": magpie_version(), "extensions": list(EXTENSIONS)}

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        """Raises NotFound, Unavailable (refused)."""
        found = self._routing.find(model, version).version
        versions = tuple(s.version.version for s in self._routing.versions(model))
        return ModelMetadata(found.model, versions, found.platform, found.inputs, found.outputs)

    def model_config(self, model: str, version: str | None) -> Mapping[str, Any]:
        """The protocol's model configuration. Raises NotFound, Unavailable (refused)."""
        served = self._routing.find(model, version)
        v = served.version
        return {
            "name": v.model,
            "platform": v.platform,
            "backend": "magpie",
            "version_policy": {"specific": {"versions": [int(v.version)] if v.version.isdigit() else []}},
            "max_batch_size": v.max_batch,
            "input": [_config_tensor(t) for t in v.inputs],
            "output": [_config_tensor(t) for t in v.outputs],
            "dynamic_batching": {
                "preferred_batch_size": sorted(
                    {lane.batch for queue in (served, *served.beside) for lane in queue.lanes}
                ),
                "default_priority_level": DEFAULT_LEVEL,
                "default_queue_policy": {
                    "timeout_action": "REJECT",
                    "default_timeout_microseconds": int(v.slo_ms * 1000),
                    "allow_timeout_override": True,
                    "max_queue_size": v.depth,
                },
            },
            "parameters": {
                "slo_ms": {"string_value": f"{v.slo_ms:g}"},
                "priority": {"string_value": str(v.priority)},
                "digest": {"string_value": v.digest},
            },
        }

    def statistics(self, model: str | None, version: str | None) -> list[Mapping[str, Any]]:
        """Entries of "model_stats". Raises NotFound."""
        if model is None:
            chosen = sorted(self._routing.current)
            return [s.statistics.to_json() for name in chosen for s in self._routing.versions(name)]
        if version is not None:
            return [self._routing.find(model, version).statistics.to_json()]
        self._routing.find(model, None)
        return [s.statistics.to_json() for s in self._routing.versions(model)]

    async def repository_index(self, ready_only: bool) -> list[RepositoryEntry]:
        """See InferenceService. Raises Unavailable."""
        answer = await self._command("index", "", {"ready": ready_only})
        return [entry for entry in answer.index if not ready_only or entry.state == "READY"]

    async def load_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """See InferenceService. Raises what the control process answers."""
        await self._command("load", model, parameters)

    async def unload_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """See InferenceService. Raises what the control process answers."""
        await self._command("unload", model, parameters)

    async def infer(self, request: InferRequest) -> InferResponse:
        """One request. Raises NotFound, InvalidValue, DeadlineMissed, Overloaded, Unavailable."""
        served = self._routing.find(request.model, request.version, request.asked_by)
        asked = check(served.version, request)
        now_s = self._clock()
        nbytes = nbytes_of(request.inputs)
        counts = served.counts
        counts.arrived += 1
        counts.rows += asked.rows
        if self._stopping:
            counts.end("failed")
            raise Unavailable("the serving front stops")
        held_bytes = self._requests.held_bytes
        if held_bytes + nbytes > self._max_queued_bytes:
            counts.end("rejected")
            raise Overloaded(
                f"{request.model}: {held_bytes} bytes of requests wait or run, as many as may with this one",
                f"at most {self._max_queued_bytes} bytes",
            )
        within_s = served.version.slo_ms / 1000.0
        if request.timeout_us > 0:
            within_s = min(within_s, request.timeout_us / 1e6)
        self._numbers += 1
        future: asyncio.Future[InferResponse] = self._loop.create_future()
        level = request.priority or DEFAULT_LEVEL
        pending = Pending(asked, nbytes, now_s, now_s + within_s, level, self._numbers, future, served.queue)
        self._dispatcher.admit(served, pending)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():  # else it was answered, and counted so, in this very instant
                self._dispatcher.cancelled(pending)
            raise

    # -- inside

    async def _command(self, action: str, model: str, parameters: Mapping[str, Any]) -> RepositoryAnswer:
        if self._stopping:
            raise Unavailable("the serving front stops")
        if len(self._commands) >= _REPOSITORY_COMMANDS:
            raise Overloaded(f"{len(self._commands)} repository commands are waiting", "try again later")
        self._numbers += 1
        number = self._numbers
        waiting: asyncio.Future[RepositoryAnswer] = self._loop.create_future()
        self._commands[number] = waiting
        try:
            self._on_command(RepositoryCommand(number, action, model, dict(parameters)))
            async with asyncio.timeout(_REPOSITORY_S):
                answer = await waiting
        except TimeoutError:
            raise Unavailable(f"{action} {model}: no answer within {_REPOSITORY_S:.0f} s") from None
        finally:
            self._commands.pop(number, None)
        if answer.error:
            raise reported_error(answer.code, answer.error)
        return answer


def _config_tensor(spec: TensorSpec) -> Mapping[str, Any]:
    kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
    # By the protocol's convention the batch dimension is implied by max_batch_size.
    return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": list(spec.shape[1:])}
