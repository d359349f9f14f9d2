"""The window planning problem and its answer, as values and as files.

"retrain-infer-window/1" and "retrain-infer-plan/1" are the file formats (docs/formats.md). Shares are in devices
(GPUs, or the CPU set); work is in device seconds at 100 % of one device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import number, points, required
from edge.core.learning import Promise
from edge.core.plan_faults import PlanFault
from edge.core.plan_reasons import PlanReason, reasons_from_json, reasons_in_words, reasons_to_json
from edge.core.profiles import InferenceProfile

PROBLEM_FORMAT = "retrain-infer-window/1"
PLAN_FORMAT = "retrain-infer-plan/1"


def _throughput(value: Mapping[str, Any], path: str) -> tuple[tuple[float, float], ...]:
    """(share, speed) points, rising shares and speeds that do not fall."""
    measured = points(value, "throughput", path)
    x, y = 0.0, 0.0
    for n, (share, speed) in enumerate(measured):
        checks.in_range(f"{path}.throughput[{n}][0]", share, x, 1024.0, low_open=True)
        checks.in_range(f"{path}.throughput[{n}][1]", speed, y, 1024.0)
        x, y = share, speed
    return measured


@dataclass(frozen=True)
class RetrainingOption:
    """One candidate retraining of a stream: accuracy afterwards [0, 1] and work in device seconds at full share.

    `throughput` are measured (share, relative speed) points, increasing in both; empty means linear speed-up.
    `teaches`: how much it teaches the members of a group, beside one of equal work that trains all layers [0, 1].
    `members`: of a group's retraining, the other cameras in it; `end_accuracy` counts their gains too, and may be up to
    1 + `members`.
    `details` carries all other fields of the file, untouched.
    """

    id: str
    end_accuracy: float
    device_seconds: float
    curve: tuple[tuple[float, float], ...] = ()
    throughput: tuple[tuple[float, float], ...] = ()
    end_accuracy_low: float | None = None
    teaches: float = 1.0
    members: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.in_range(f"retrain_configs[{self.id}].members", self.members, 0, 1000)
        checks.in_range(f"retrain_configs[{self.id}].end_accuracy", self.end_accuracy, 0.0, 1.0 + self.members)
        checks.in_range(f"retrain_configs[{self.id}].gpu_seconds", self.device_seconds, 0.0, 1e9)
        if self.end_accuracy_low is not None:
            checks.in_range(f"retrain_configs[{self.id}].end_accuracy_low", self.end_accuracy_low, 0.0, 1.0)
        checks.in_range(f"retrain_configs[{self.id}].teaches", self.teaches, 0.0, 1.0)

    def speed(self, share: float) -> float:
        """device seconds of work done per second at `share` (<= 1); linear where nothing was measured."""
        if share <= 0:
            return 0.0
        if not self.throughput:
            return share
        x0, y0 = 0.0, 0.0
        for x1, y1 in self.throughput:
            if share <= x1:
                return y0 + (y1 - y0) * (share - x0) / (x1 - x0)
            x0, y0 = x1, y1
        return y0


@dataclass(frozen=True)
class Arrival:
    """A model that another box (`box`) trains: in force from `at_s` (seconds after the window's start) on, with this
    accuracy [0, 1] before the inference factor. It costs nothing here."""

    at_s: float
    accuracy: float
    box: str = ""

    def __post_init__(self) -> None:
        checks.in_range("arrival.at_s", self.at_s, 0.0, 1e7)
        checks.in_range("arrival.accuracy", self.accuracy, 0.0, 1.0)


@dataclass(frozen=True)
class StreamProblem:
    """One camera in a window problem. `start_accuracy` is that of the model in force, before the inference factor.

    `promise` says how this stream's accuracies were corrected already to what the window will show; planning does not
    look at it.
    """

    id: str
    start_accuracy: float
    inference_profile: InferenceProfile
    options: tuple[RetrainingOption, ...] = ()
    model: str = ""
    running: str | None = None  # option already being trained (replanning inside a window)
    device_seconds_done: float = 0.0  # on `running`
    promise: Promise | None = None
    arrival: Arrival | None = None

    def __post_init__(self) -> None:
        most = 1.0 + max((o.members for o in self.options), default=0)  # a planner goes on from a group's end
        checks.in_range(f"streams[{self.id}].start_accuracy", self.start_accuracy, 0.0, most)
        checks.unique(f"streams[{self.id}].retrain_configs", [o.id for o in self.options])
        checks.in_range(f"streams[{self.id}].work_done", self.device_seconds_done, 0.0, 1e9)


@dataclass(frozen=True)
class WindowProblem:
    """Everything a window policy may look at. `num_gpus` devices (may be a fraction: the rest that serving leaves),
    `window_s` seconds, shares in multiples of `delta`, floor `a_min` or None, `label_delay_s` taken off the start.

    `share_step` is the finest share that can be granted (devices); None: not known, any share may be asked for.
    `carry_s` seconds after the window the models that it ends with still count for a policy that looks so far (the next
    window serves with them until it has retrained); the objective of a plan is that of the window alone.
    """

    name: str
    num_gpus: float
    window_s: float
    streams: tuple[StreamProblem, ...]
    delta: float = 0.1
    a_min: float | None = None
    label_delay_s: float = 0.0
    seed: int | None = None
    share_step: float | None = None
    carry_s: float = 0.0

    def __post_init__(self) -> None:
        checks.in_range("carry_s", self.carry_s, 0.0, 1e7)
        if self.share_step is not None:
            checks.in_range("share_step", self.share_step, 0.0, 1.0, low_open=True)
        checks.in_range("num_gpus", self.num_gpus, 0.0, 4096, low_open=True)
        checks.in_range("window_s", self.window_s, 0.0, 1e7, low_open=True)
        checks.in_range("delta", self.delta, 0.0, 1.0, low_open=True)
        checks.in_range("label_delay_s", self.label_delay_s, 0.0, self.window_s)
        if self.a_min is not None:
            checks.in_range("a_min", self.a_min, 0.0, 1.0)
        checks.not_empty("streams", self.streams)
        checks.unique("streams[].id", [s.id for s in self.streams])

    def to_json(self) -> dict[str, Any]:
        streams = []
        for s in self.streams:
            configs = []
            for o in s.options:
                c: dict[str, Any] = dict(o.details) | {
                    "id": o.id,
                    "end_accuracy": o.end_accuracy,
                    "gpu_seconds": o.device_seconds,
                    "curve": [list(p) for p in o.curve],
                }
                if o.throughput:
                    c["throughput"] = [list(p) for p in o.throughput]
                if o.end_accuracy_low is not None:
                    c["end_accuracy_low"] = o.end_accuracy_low
                if o.teaches < 1.0:
                    c["teaches"] = o.teaches
                if o.members:
                    c["members"] = o.members
                configs.append(c)
            stream: dict[str, Any] = {
                "id": s.id,
                "start_accuracy": s.start_accuracy,
                "model": s.model,
                "inference_profile": s.inference_profile.to_json(),
                "retrain_configs": configs,
            }
            if s.running is not None:
                stream["running"], stream["work_done"] = s.running, s.device_seconds_done
            if s.promise is not None:
                stream["promise"] = s.promise.to_json()
            if s.arrival is not None:
                stream["arrival"] = asdict(s.arrival)
            streams.append(stream)
        return {
            "format": PROBLEM_FORMAT,
            "name": self.name,
            "seed": self.seed,
            "num_gpus": self.num_gpus,
            "window_s": self.window_s,
            "delta": self.delta,
            "a_min": self.a_min,
            "label_delay_s": self.label_delay_s,
            "streams": streams,
        } | {k: v for k, v in (("share_step", self.share_step), ("carry_s", self.carry_s)) if v}

    @staticmethod
    def from_json(value: Any) -> WindowProblem:
        """Reads "retrain-infer-window/1". Raises InvalidValue naming the field, the value given, the values allowed."""
        if not isinstance(value, dict):
            raise InvalidValue("(file)", type(value).__name__, "a JSON object")
        allowed = {
            "format", "name", "seed", "num_gpus", "window_s", "delta", "a_min", "label_delay_s", "share_step",
            "carry_s", "streams",
        }  # fmt: skip
        checks.known_keys("", value.keys(), allowed)
        checks.one_of("format", value.get("format"), (PROBLEM_FORMAT,))
        raw = required(value, "streams", "")
        if not isinstance(raw, list):
            raise InvalidValue("streams", raw, "a list")
        return WindowProblem(
            name=str(value.get("name") or ""),
            num_gpus=number(value, "num_gpus", ""),
            window_s=number(value, "window_s", ""),
            streams=tuple(_stream_from_json(s, f"streams[{n}]") for n, s in enumerate(raw)),
            delta=number(value, "delta", "", 0.1),
            a_min=value.get("a_min"),
            label_delay_s=number(value, "label_delay_s", "", 0.0),
            seed=value.get("seed"),
            share_step=value.get("share_step"),
            carry_s=number(value, "carry_s", "", 0.0),
        )


def _stream_from_json(value: Any, path: str) -> StreamProblem:
    if not isinstance(value, dict):
        raise InvalidValue(path, value, "an object")
    allowed = {
        "id",
        "start_accuracy",
        "model",
        "inference_profile",
        "retrain_configs",
        "running",
        "work_done",
        "promise",
        "arrival",
    }
    checks.known_keys(path, value.keys(), allowed)
    options = []
    configs = value.get("retrain_configs") or []
    if not isinstance(configs, list):
        raise InvalidValue(f"{path}.retrain_configs", configs, "a list")
    for n, c in enumerate(configs):
        where = f"{path}.retrain_configs[{n}]"
        if not isinstance(c, dict):
            raise InvalidValue(where, c, "an object")
        own = {"id", "end_accuracy", "gpu_seconds", "curve", "throughput", "end_accuracy_low", "teaches", "members"}
        options.append(
            RetrainingOption(
                id=str(required(c, "id", where)),
                end_accuracy=number(c, "end_accuracy", where),
                device_seconds=number(c, "gpu_seconds", where),
                curve=points(c, "curve", where),
                throughput=_throughput(c, where),
                end_accuracy_low=c.get("end_accuracy_low"),
                teaches=number(c, "teaches", where, 1.0),
                members=int(number(c, "members", where, 0)),
                details={k: v for k, v in c.items() if k not in own},
            )
        )
    profile = InferenceProfile.from_json(required(value, "inference_profile", path), f"{path}.inference_profile")
    if value.get("running") is not None:
        checks.one_of(f"{path}.running", value["running"], [o.id for o in options])
    return StreamProblem(
        id=str(required(value, "id", path)),
        start_accuracy=number(value, "start_accuracy", path),
        inference_profile=profile,
        options=tuple(options),
        model=str(value.get("model") or ""),
        running=value.get("running"),
        device_seconds_done=number(value, "work_done", path, 0.0),
        promise=None if value.get("promise") is None else Promise.from_json(value["promise"], f"{path}.promise"),
        arrival=None if value.get("arrival") is None else _arrival_from_json(value["arrival"], f"{path}.arrival"),
    )


def _arrival_from_json(value: Any, path: str) -> Arrival:
    if not isinstance(value, dict):
        raise InvalidValue(path, value, "an object")
    checks.known_keys(path, value.keys(), ("at_s", "accuracy", "box"))
    return Arrival(number(value, "at_s", path), number(value, "accuracy", path), str(value.get("box") or ""))


@dataclass(frozen=True)
class StreamAllocation:
    """Shares (in devices) of one stream in one segment, and the retraining configuration that runs, if any."""

    inference_share: float
    retraining_share: float = 0.0
    retrain_config: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "inference_share": self.inference_share,
            "retraining_share": self.retraining_share,
            "retrain_config": self.retrain_config,
        }


@dataclass(frozen=True)
class Segment:
    """Allocations that hold from `start_s` (seconds after the window's start) until the next segment or the end."""

    start_s: float
    streams: Mapping[str, StreamAllocation]

    def to_json(self) -> dict[str, Any]:
        return {"start_s": self.start_s, "streams": {k: v.to_json() for k, v in self.streams.items()}}


@dataclass(frozen=True)
class WindowPlan:
    """A policy's answer: the predicted timeline of the whole window, its objective and why it was chosen.

    `objective` is the mean over streams of the time-averaged inference accuracy, as the scoring rule computes it.
    `reasons` are by stream id ("": of the whole). `faults` are rules that could not be kept (floor).
    """

    policy: str
    problem: str
    objective: float
    segments: tuple[Segment, ...]
    decision_seconds: float = 0.0
    reasons: Mapping[str, tuple[PlanReason, ...]] = field(default_factory=dict)
    faults: tuple[PlanFault, ...] = ()

    def chosen(self) -> dict[str, str | None]:
        """Per stream the retraining configuration that runs first, or None."""
        out: dict[str, str | None] = {}
        for segment in self.segments:
            for stream, a in segment.streams.items():
                if out.get(stream) is None:
                    out[stream] = a.retrain_config
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "format": PLAN_FORMAT,
            "policy": self.policy,
            "problem": self.problem,
            "objective": self.objective,
            "decision_seconds": self.decision_seconds,
            "segments": [s.to_json() for s in self.segments],
            "reasons": reasons_in_words(self.reasons),
            "reason_values": reasons_to_json(self.reasons),
            "faults": [f.words for f in self.faults],
            "fault_values": [asdict(f) for f in self.faults],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> WindowPlan:
        """Inverse of `to_json`. Faults and reasons of which only the sentences are there come back as "recorded"."""
        segments = tuple(
            Segment(s["start_s"], {k: StreamAllocation(**a) for k, a in s["streams"].items()})
            for s in value["segments"]
        )
        return WindowPlan(
            value["policy"], value["problem"], value["objective"], segments, value.get("decision_seconds", 0.0),
            reasons_from_json(value), _faults(value),
        )  # fmt: skip


def _faults(plan: dict[str, Any]) -> tuple[PlanFault, ...]:
    if "fault_values" in plan:
        return tuple(PlanFault(**f) for f in plan["fault_values"])
    return tuple(PlanFault.recorded(f) for f in plan.get("faults", ()))
