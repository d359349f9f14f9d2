"""Applications behind the protocol: a request to one asks its stages' models and joins their answers.

`ApplicationService` stands before the service that serves models; a request for a model passes through unchanged.
A stage gets its budget's part of the time that is left (`Application.part_of_rest`), and is given up only where it also
used what later stages can spare (`Application.most_of_rest`). Descriptions are read in edge.serving.pipeline_files.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge.core.application_sources import SOURCE_FAULTS
from edge.core.applications import COUNT, PLATFORM, Application, Normalise, Stage, ValueSource
from edge.core.errors import DeadlineMissed, InvalidValue, MagpieError, NotFound, Overloaded, Unavailable
from edge.core.front_messages import ModelTraffic, StageTraffic
from edge.core.oip import (
    DATATYPES,
    InferenceService,
    InferRequest,
    InferResponse,
    ModelMetadata,
    RepositoryEntry,
    Tensor,
    TensorSpec,
)
from edge.serving import glue
from edge.serving.stage_counts import StageCounts

#: Operations on more bytes than this leave the event loop: other requests are not to wait for them.
_INLINE_BYTES = 1 << 18
_RECENT = 4096

Values = dict[ValueSource, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Description:
    """The outputs of one request by name, and of each stage that cuts boxes out which box of its input is at which of
    its places: (rows, `most`), int32; -1: unused."""

    outputs: Mapping[str, NDArray[Any]]
    boxes: Mapping[str, NDArray[np.int32]]


@dataclass
class _Counts:
    """Every request that arrived ends as answered, dropped, rejected, failed or cancelled; the rest is running."""

    arrived: int = 0
    answered: int = 0
    late: int = 0
    dropped: int = 0
    rejected: int = 0
    failed: int = 0
    cancelled: int = 0
    rows: int = 0
    answered_rows: int = 0
    answered_ns: int = 0
    failed_ns: int = 0
    last_ms: int = 0
    recent_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    @property
    def ended(self) -> tuple[int, ...]:
        """Arrived and how they ended, in the order of ModelTraffic's fields; then cancelled, and rows that arrived."""
        ends = self.answered, self.late, self.dropped, self.rejected, self.failed
        return self.arrived, *ends, self.cancelled, self.rows

    @property
    def running(self) -> int:
        return self.arrived - self.answered - self.dropped - self.rejected - self.failed - self.cancelled


class ApplicationService:
    """An InferenceService that also answers for applications, by asking `inner` for their stages.

    `clock` gives seconds (monotonic), `wall` seconds since 1970. The methods are those of InferenceService.
    """

    def __init__(
        self,
        inner: InferenceService,
        applications: Iterable[Application] = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._inner = inner
        self._clock, self._wall = clock, wall
        self._applications: dict[str, Application] = {}
        self._counts: dict[str, _Counts] = {}
        self._reported: dict[str, tuple[int, ...]] = {}
        self._stages: dict[tuple[str, str], StageCounts] = {}
        self._pool: ThreadPoolExecutor | None = None
        self.apply(applications)

    def apply(self, applications: Iterable[Application]) -> None:
        """Serve these applications from now on; requests that run go on as they began."""
        self._applications = {a.name: a for a in applications}
        for application in self._applications.values():
            self._counts.setdefault(application.name, _Counts())
        stages = {(a.name, s.name) for a in self._applications.values() for s in a.stages}
        self._stages = {key: self._stages.get(key, StageCounts()) for key in stages}

    def close(self) -> None:
        """End the thread for large pictures, if it was started."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    # the models served

    def live(self) -> bool:
        """The server answers."""
        return self._inner.live()

    def ready(self) -> bool:
        """Every model is ready, and every application that clients ask: a camera that is off keeps no client away."""
        asked = (a for a in self._applications.values() if a.source is None)
        return self._inner.ready() and not any(self.problems(a) for a in asked)

    def model_ready(self, model: str, version: str | None) -> bool:
        """An application is ready when all its models are and fit it. Raises NotFound."""
        application = self._find(model, version)
        return self._inner.model_ready(model, version) if application is None else not self.problems(application)

    def problems(self, application: Application) -> list[str]:
        """Why it cannot be answered now, in words; empty if it can."""
        found = [] if application.unfed is None else [SOURCE_FAULTS[application.unfed]]
        specs = {ValueSource(None, t.name): t for t in application.inputs}
        known: dict[str, Mapping[str, TensorSpec]] = {}
        for stage in application.stages:
            try:
                metadata = self._inner.model_metadata(stage.model, stage.version)
                if not self._inner.model_ready(stage.model, stage.version):
                    found.append(f"stage {stage.name}: model {stage.model} is not ready")
            except (NotFound, Unavailable) as error:
                found.append(f"stage {stage.name}: {error}")
                continue
            known[stage.name] = {o.name: o for o in metadata.outputs}
            wanted = {i.name: i for i in metadata.inputs}
            found += [
                f"stage {stage.name}: the input {name} of model {stage.model} gets nothing"
                for name in sorted(wanted.keys() - stage.inputs.keys())
            ]
            found += [
                f"stage {stage.name}: model {stage.model} has no input {name} (it has {', '.join(wanted)})"
                for name in sorted(stage.inputs.keys() - wanted.keys())
            ]
        specs |= {ValueSource(stage, name): spec for stage, outputs in known.items() for name, spec in outputs.items()}
        for stage in application.stages:
            for source in stage.sources:
                found += self._source_problem(f"stage {stage.name}", source, specs, known)
        for output in application.outputs:
            at = f"output {output.spec.name}"
            found += self._source_problem(at, output.source, specs, known)
            given = specs.get(output.source)
            if given is not None and given.datatype != output.spec.datatype:
                found.append(f"{at}: {output.source.text} is {given.datatype}, not {output.spec.datatype}")
        return found

    @staticmethod
    def _source_problem(
        at: str,
        source: ValueSource,
        specs: Mapping[ValueSource, TensorSpec],
        known: Mapping[str, Mapping[str, TensorSpec]],
    ) -> list[str]:
        if source in specs or source.tensor == COUNT or source.stage is None or source.stage not in known:
            return []
        return [f"{at}: {source.stage} has no output {source.tensor} (it has {', '.join(known[source.stage])})"]

    def server_metadata(self) -> Mapping[str, Any]:
        """As the inner service's."""
        return self._inner.server_metadata()

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        """Raises NotFound."""
        application = self._find(model, version)
        return self._inner.model_metadata(model, version) if application is None else application.metadata

    def model_config(self, model: str, version: str | None) -> Mapping[str, Any]:
        """The stages are listed as the protocol lists those of an ensemble. Raises NotFound."""
        application = self._find(model, version)
        if application is None:
            return self._inner.model_config(model, version)
        return {
            "name": application.name,
            "platform": PLATFORM,
            "max_batch_size": 0,
            "input": [_config_tensor(t) for t in application.inputs],
            "output": [_config_tensor(o.spec) for o in application.outputs],
            "ensemble_scheduling": {
                "step": [
                    {
                        "model_name": s.model,
                        "model_version": int(s.version) if s.version else -1,
                        "input_map": {name: feed.source.text for name, feed in s.inputs.items()},
                        "output_map": {
                            o.source.tensor: o.spec.name for o in application.outputs if o.source.stage == s.name
                        },
                    }
                    for s in application.stages
                ]
            },
            "parameters": {
                "slo_ms": {"string_value": f"{application.slo_ms:g}"},
                "priority": {"string_value": str(application.priority)},
            },
        }

    def statistics(self, model: str | None, version: str | None) -> list[Mapping[str, Any]]:
        """Entries of "model_stats", the applications' after the models'. Raises NotFound."""
        if model is not None:
            application = self._find(model, version)
            return self._inner.statistics(model, version) if application is None else [self._entry(application)]
        return [*self._inner.statistics(None, None), *(self._entry(a) for a in self._applications.values())]

    def _entry(self, application: Application) -> Mapping[str, Any]:
        counts = self._counts[application.name]
        failures = counts.dropped + counts.rejected + counts.failed
        nothing = {"count": 0, "ns": 0}
        return {
            "name": application.name,
            "version": application.version,
            "last_inference": counts.last_ms,
            "inference_count": counts.answered_rows,
            "execution_count": counts.answered,
            "inference_stats": {
                "success": {"count": counts.answered, "ns": counts.answered_ns},
                "fail": {"count": failures, "ns": counts.failed_ns},
                "queue": nothing,
                "compute_input": nothing,
                "compute_infer": {"count": counts.answered, "ns": counts.answered_ns},
                "compute_output": nothing,
            },
            "batch_stats": [],
        }

    def traffic(self) -> tuple[ModelTraffic, ...]:
        """Counts of each application's requests since the last call; times are from end to end."""
        out = []
        for name, counts in list(self._counts.items()):
            before, now = self._reported.get(name, (0,) * 8), counts.ended
            recent = list(counts.recent_ms)
            counts.recent_ms.clear()
            quantiles = tuple(float(q) for q in np.percentile(recent, (50, 90, 99))) if recent else ()
            arrived, answered, late, dropped, rejected, failed, cancelled, rows = (
                a - b for a, b in zip(now, before, strict=True)
            )
            ends = ModelTraffic(name, arrived, answered, late, dropped, rejected, failed, 0, counts.running, quantiles)
            out.append(replace(ends, cancelled=cancelled, rows=rows))
            self._reported[name] = now
            if name not in self._applications and not counts.running:
                del self._counts[name], self._reported[name]  # its last requests have just been reported
        return tuple(out)

    def stage_traffic(self) -> tuple[StageTraffic, ...]:
        """Counts of each stage since the last call."""
        return tuple(self._stages[a.name, s.name].taken(a, s) for a in self._applications.values() for s in a.stages)

    async def repository_index(self, ready_only: bool) -> list[RepositoryEntry]:
        """Models, then applications; an application that cannot be answered says why."""
        entries = [e for e in await self._inner.repository_index(ready_only) if e.name not in self._applications]
        for application in self._applications.values():
            problems = self.problems(application)
            if not (problems and ready_only):
                state: Literal["READY", "UNAVAILABLE"] = "UNAVAILABLE" if problems else "READY"
                entries.append(RepositoryEntry(application.name, application.version, state, "; ".join(problems)))
        return entries

    async def load_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """As the inner service's: the owner of the repository answers with new applications, too (`apply`)."""
        await self._inner.load_model(model, parameters)

    async def unload_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """As the inner service's."""
        await self._inner.unload_model(model, parameters)

    def _find(self, model: str, version: str | None) -> Application | None:
        application = self._applications.get(model)
        if application is not None and version not in (None, "", application.version):
            raise NotFound(f"{model}: no version {version} (there is {application.version})")
        return application

    # one request

    async def infer(self, request: InferRequest) -> InferResponse:
        """One request of a client. Raises what InferenceService.infer does; errors of a stage name it. An application
        that a camera feeds is no model that clients may ask (InvalidValue)."""
        application = self._find(request.model, request.version)
        if application is None:
            return await self._inner.infer(request)
        if application.source is not None:
            raise InvalidValue("model", request.model, "a model that clients ask; a camera is the source of this one")
        outputs, _ = await self._answer(application, request)
        return InferResponse(application.name, application.version, outputs, request.id)

    def fed_by(self, camera: str, name: str) -> Application | None:
        """The application `name` if `camera` is its source now."""
        application = self._applications.get(name)
        source = None if application is None else application.source
        return application if source is not None and source.camera == camera else None

    async def describe(self, application: Application, inputs: tuple[Tensor, ...]) -> Description:
        """One request of the camera that feeds `application`, counted as those of clients are. Raises what
        InferenceService.infer does, but NotFound."""
        asked = InferRequest(application.name, inputs)
        outputs, boxes = await self._answer(application, asked)
        return Description({o.name: o.array for o in outputs}, boxes)

    async def _answer(
        self, application: Application, request: InferRequest
    ) -> tuple[tuple[Tensor, ...], dict[str, NDArray[np.int32]]]:
        """The outputs, and of each stage that cuts boxes out which box is at which place (glue.Prepared)."""
        counts = self._counts[application.name]
        values = _checked(application, request)
        boxes: dict[str, NDArray[np.int32]] = {}
        begin = self._clock()
        counts.arrived += 1
        counts.rows += _rows(application, values)
        counts.last_ms = int(self._wall() * 1000)
        outcome = "failed"
        try:
            objective_s = application.slo_ms / 1000
            if request.timeout_us > 0:
                objective_s = min(objective_s, request.timeout_us / 1e6)
            await self._run(application, request, values, begin + objective_s, boxes)
            outputs = _outputs(application, request, values)
            outcome = "answered"
            counts.late += self._clock() - begin > objective_s
            return outputs, boxes
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except DeadlineMissed:
            outcome = "dropped"
            raise
        except Overloaded:
            outcome = "rejected"
            raise
        finally:
            took_s = self._clock() - begin
            setattr(counts, outcome, getattr(counts, outcome) + 1)
            if outcome == "answered":
                counts.answered_rows += _rows(application, values)
                counts.answered_ns += int(took_s * 1e9)
                counts.recent_ms.append(took_s * 1000)
            elif outcome != "cancelled":
                counts.failed_ns += int(took_s * 1e9)

    async def _run(
        self,
        application: Application,
        request: InferRequest,
        values: Values,
        deadline: float,
        boxes: dict[str, NDArray[np.int32]],
    ) -> None:
        """All stages, each as soon as its inputs are there; `values` gets their answers, `boxes` the boxes that were
        cut out. The first error ends it."""
        tasks: dict[str, asyncio.Task[None]] = {}

        async def one(stage: Stage) -> None:
            for before in stage.after:
                await tasks[before]
            places = await self._ask(application, stage, request, values, deadline)
            if places is not None:
                boxes[stage.name] = places

        try:
            async with asyncio.TaskGroup() as group:
                for stage in sorted(application.stages, key=lambda s: application.depths[s.name]):
                    tasks[stage.name] = group.create_task(one(stage))
        except BaseExceptionGroup as errors:
            # The others were cancelled because of the first, or wait for the stage that failed.
            raise errors.exceptions[0] from None

    async def _ask(
        self, application: Application, stage: Stage, request: InferRequest, values: Values, deadline: float
    ) -> NDArray[np.int32] | None:
        """Put the stage's answers into `values`; returns the boxes that were cut out for it, if it cuts."""
        at = f"{application.name}, stage {stage.name}"
        from_client = not stage.after
        try:
            prepared = await self._prepare(stage, values)
        except InvalidValue as error:
            if from_client:
                raise
            raise Unavailable(
                f"{at}: {error}", "the stage's answers do not fit the application's description"
            ) from None
        counts = next((p.counts for p in prepared.values() if p.counts is not None), None)
        rows = len(next(iter(prepared.values())).array)
        # A request that runs goes on as it began, also where its stage is gone by now.
        stage_counts = self._stages.get((application.name, stage.name)) or StageCounts()
        stage_counts.asked(rows, _rows(application, values))
        if rows:
            begun_s = self._clock()
            left_s = deadline - begun_s
            if left_s <= 0:
                raise DeadlineMissed(f"{at}: no time is left of {application.slo_ms:g} ms")
            allowed_s = left_s * application.part_of_rest(stage.name)
            asked = InferRequest(
                stage.model,
                tuple(
                    Tensor(name, self._datatype(application, stage, name, p.array), p.array)
                    for name, p in prepared.items()
                ),
                stage.version,
                request.id,
                priority=request.priority,
                timeout_us=max(1, round(left_s * application.most_of_rest(stage.name) * 1e6)),
                asked_by=(application.name, stage.name),
            )
            answers = {o.name: o.array for o in (await _named(at, self._inner.infer(asked), from_client)).outputs}
            stage_counts.ended(self._clock() - begun_s, allowed_s)
        else:
            answers = self._none(stage)
        for name, array in answers.items():
            if len(array) != rows:
                raise Unavailable(f"{at}: {name} has {len(array)} rows", f"{rows} were asked for")
            cut = stage.cut
            if cut is not None and counts is not None:
                array = glue.spread(array, counts, cut.most)
            values[ValueSource(stage.name, name)] = array
        if counts is not None:
            values[ValueSource(stage.name, COUNT)] = counts
        return next((p.boxes for p in prepared.values() if p.boxes is not None), None)

    async def _prepare(self, stage: Stage, values: Values) -> dict[str, glue.Prepared]:
        missing = [s for s in stage.sources if s not in values]
        if missing:
            raise InvalidValue(f"stages[{stage.name}].inputs", missing[0].text, "an output that the stage's model has")
        work = functools.partial(_prepare_all, stage, values)
        size = sum(values[f.source].nbytes for f in stage.inputs.values() if f.operations)
        if size <= _INLINE_BYTES:
            return work()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "pictures", _one_thread)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _datatype(self, application: Application, stage: Stage, name: str, array: NDArray[Any]) -> str:
        """Of a stage's input: the result of its operations, else its source's value."""
        feed = stage.inputs[name]
        if any(isinstance(o, Normalise) for o in feed.operations):
            return "FP32"
        source = feed.source
        if source.stage is None:
            return next(spec.datatype for spec in application.inputs if spec.name == source.tensor)
        if source.tensor == COUNT:
            return "INT32"
        model = next(s for s in application.stages if s.name == source.stage)
        outputs = self._inner.model_metadata(model.model, model.version).outputs
        return next((o.datatype for o in outputs if o.name == source.tensor), _datatype_of(array))

    def _none(self, stage: Stage) -> dict[str, NDArray[Any]]:
        """The answers of a stage that had nothing to ask: no rows, of the shapes that its model declares."""
        metadata = self._inner.model_metadata(stage.model, stage.version)
        return {
            o.name: np.zeros((0, *(max(0, n) for n in o.shape[1:])), DATATYPES[o.datatype]) for o in metadata.outputs
        }


def _rows(application: Application, values: Values) -> int:
    """Of the request."""
    return len(values[ValueSource(None, application.inputs[0].name)])


def _prepare_all(stage: Stage, values: Values) -> dict[str, glue.Prepared]:
    return {name: glue.prepare(feed, values) for name, feed in stage.inputs.items()}


def _one_thread() -> None:
    import cv2

    cv2.setNumThreads(1)


async def _named(at: str, asking: Coroutine[Any, Any, InferResponse], from_client: bool) -> InferResponse:
    """The answer; an error says which stage it came from. An error caused by a client's tensors stays the client's
    error.
    """
    try:
        return await asking
    except (InvalidValue, NotFound) as error:
        if from_client and isinstance(error, InvalidValue):
            raise InvalidValue(f"{at}: {error.path}", error.given, error.allowed) from None
        raise Unavailable(f"{at}: {error}") from None
    except (DeadlineMissed, Overloaded, Unavailable) as error:
        raise type(error)(f"{at}: {error.message}", error.hint) from None
    except MagpieError as error:
        raise Unavailable(f"{at}: {error}") from error


def _checked(application: Application, request: InferRequest) -> Values:
    """The request's tensors. Raises InvalidValue."""
    if request.timeout_us < 0:
        raise InvalidValue("parameters.timeout", request.timeout_us, "microseconds, 0 or more")
    given = {t.name: t for t in request.inputs}
    if len(given) != len(request.inputs):
        raise InvalidValue("inputs", [t.name for t in request.inputs], "each input once")
    specs = {s.name: s for s in application.inputs}
    if given.keys() != specs.keys():
        raise InvalidValue("inputs", sorted(given), f"the inputs {', '.join(specs)}, all of them")
    rows = None
    for name, spec in specs.items():
        tensor = given[name]
        if tensor.datatype != spec.datatype:
            raise InvalidValue(f"inputs[{name}].datatype", tensor.datatype, spec.datatype)
        shape = tensor.array.shape
        if len(shape) != len(spec.shape) or any(w not in (-1, g) for w, g in zip(spec.shape, shape, strict=True)):
            raise InvalidValue(f"inputs[{name}].shape", list(shape), f"{list(spec.shape)}, -1 being any size")
        if not shape[0]:
            raise InvalidValue(f"inputs[{name}].shape", list(shape), "at least one row")
        if rows is not None and shape[0] != rows:
            raise InvalidValue(f"inputs[{name}].shape", list(shape), f"{rows} rows, as the other inputs have")
        rows = shape[0]
    known = {o.spec.name for o in application.outputs}
    for name in request.outputs:
        if name not in known:
            raise InvalidValue("outputs", name, f"one of {', '.join(sorted(known))}")
    return {ValueSource(None, name): t.array for name, t in given.items()}


def _outputs(application: Application, request: InferRequest, values: Values) -> tuple[Tensor, ...]:
    """In the order asked for. Raises Unavailable where a stage's answer is not what the application declares."""
    outputs = {o.spec.name: o for o in application.outputs}
    tensors = []
    for name in request.outputs or tuple(outputs):
        output = outputs[name]
        array = values.get(output.source)
        spec = output.spec
        dtype = DATATYPES[spec.datatype]
        fits = array is not None and array.dtype == dtype and len(array.shape) == len(spec.shape)
        if array is None or not fits or any(w not in (-1, g) for w, g in zip(spec.shape, array.shape, strict=True)):
            given = "nothing" if array is None else f"{array.dtype} {list(array.shape)}"
            message = f"{application.name}, output {name}: {output.source.text} gives {given}"
            raise Unavailable(message, f"declared is {spec.datatype} {list(spec.shape)}")
        tensors.append(Tensor(name, spec.datatype, np.ascontiguousarray(array)))
    return tuple(tensors)


def _datatype_of(array: NDArray[Any]) -> str:
    return next((name for name, dtype in DATATYPES.items() if dtype == array.dtype), "FP32")


def _config_tensor(spec: TensorSpec) -> Mapping[str, Any]:
    kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
    return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": list(spec.shape)}
