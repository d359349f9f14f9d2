"""Recorded windows as values and as a file, "magpie-trace/1" and "/2" (docs/formats.md).

A trace holds the recorded facts: per camera the accuracy of the frozen student in every window, and per window the
micro-profiler's profiles, the time of labelling and profiling, and the real gain and cost of retrainings. Accuracies
are [0, 1], on fresh answers (before the inference factor) where a camera's `factors` say nothing else; work is in
device seconds at 100 % of one device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import number, points, sequence
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.shares import ShareCaps

TRACE_FORMAT = "magpie-trace/1"
#: With people's labels, or with more of the box than its windows (edge.simulation.box_trace).
BOX_FORMAT = "magpie-trace/2"
#: Parts of the box in a file of BOX_FORMAT beside the windows.
BOX_PARTS = ("capacity", "serving", "sharing")
#: Keys of files where they differ from the fields of the types.
_FILE_KEYS: Final = MappingProxyType({"device_seconds": "gpu_seconds", "profiling_device_s": "profiling_gpu_s"})


@dataclass(frozen=True)
class RecordedOutcome:
    """One retraining's outcome: `accuracy` on the held-out data it was gated with, `device_seconds` of work, and
    `live`, its accuracy on the data of the window it was made in and of later ones, by window number, where measured.
    `people` is the same against people's labels, where there are any. `promoted`: whether the gate let it into force,
    where the record says so."""

    accuracy: float
    device_seconds: float
    live: Mapping[int, float] = field(default_factory=dict)
    people: Mapping[int, float] = field(default_factory=dict)
    promoted: bool | None = None

    def __post_init__(self) -> None:
        checks.in_range("outcome.accuracy", self.accuracy, 0.0, 1.0)
        checks.in_range("outcome.gpu_seconds", self.device_seconds, 0.0, 1e9)
        for window, accuracy in self.live.items():
            checks.in_range(f"outcome.live[{window}]", accuracy, 0.0, 1.0)
        for window, accuracy in self.people.items():
            checks.in_range(f"outcome.people[{window}]", accuracy, 0.0, 1.0)

    def to_json(self) -> dict[str, Any]:
        out = {"accuracy": self.accuracy, "gpu_seconds": self.device_seconds, "live": _windows(self.live)}
        out |= {"people": _windows(self.people)} if self.people else {}
        return out | ({} if self.promoted is None else {"promoted": self.promoted})


@dataclass(frozen=True)
class RecordedWindow:
    """One camera in one window: retraining in it uses the data of the window before.

    `start_accuracy` is that of the recorded run's model at the boundary, on the same held-out data as the profiles and
    outcomes; `start_live`, where known, is the same model's on all data of the window before, as `live` is for
    outcomes. `outcomes` are by configuration id; a profile without one is taken at its word. `labelling_s` is time
    from the boundary; `profiling_device_s` is work.
    """

    start_accuracy: float
    profiles: tuple[RetrainingProfile, ...] = ()
    outcomes: Mapping[str, RecordedOutcome] = field(default_factory=dict)
    labelling_s: float = 0.0
    profiling_device_s: float = 0.0
    train_frames: int = 0
    held_out_frames: int = 0
    inference_profile: InferenceProfile | None = None
    start_live: float | None = None

    def __post_init__(self) -> None:
        checks.in_range("recorded_window.start_accuracy", self.start_accuracy, 0.0, 1.0)
        if self.start_live is not None:
            checks.in_range("recorded_window.start_live", self.start_live, 0.0, 1.0)
        checks.in_range("recorded_window.labelling_s", self.labelling_s, 0.0, 1e7)
        checks.in_range("recorded_window.profiling_gpu_s", self.profiling_device_s, 0.0, 1e9)
        checks.in_range("recorded_window.train_frames", self.train_frames, 0, 1e9)
        checks.in_range("recorded_window.held_out_frames", self.held_out_frames, 0, 1e9)
        checks.unique("recorded_window.profiles", [p.config.id for p in self.profiles])

    def to_json(self) -> dict[str, Any]:
        return {
            "start_accuracy": self.start_accuracy,
            "profiles": [p.to_json() for p in self.profiles],
            "outcomes": {i: o.to_json() for i, o in self.outcomes.items()},
            "labelling_s": self.labelling_s,
            "profiling_gpu_s": self.profiling_device_s,
            "train_frames": self.train_frames,
            "held_out_frames": self.held_out_frames,
            "inference_profile": None if self.inference_profile is None else self.inference_profile.to_json(),
            "start_live": self.start_live,
        }


@dataclass(frozen=True)
class RecordedCamera:
    """One camera's record. `frozen` is the accuracy of the student that was never retrained, by window number, and
    `frozen_people` the same against people's labels, where there are any. `factors`: the inference factor that is in
    the accuracies of whole windows (`frozen`, `live`, `start_live`, `people`, `begins_with`), by window number; 1 where
    there is none.
    `inference_at`: (seconds from the beginning, profile), where inference was measured anew inside of a window.
    `begins_with`: accuracies, by window number, of the student in force as the record begins, where it had learned
    already; else that is the frozen student.
    """

    id: str
    inference_profile: InferenceProfile
    frozen: Mapping[int, float]
    windows: Mapping[int, RecordedWindow] = field(default_factory=dict)
    every_kth_window: int = 1
    frozen_people: Mapping[int, float] = field(default_factory=dict)
    factors: Mapping[int, float] = field(default_factory=dict)
    inference_at: tuple[tuple[float, InferenceProfile], ...] = ()
    begins_with: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.in_range(f"cameras[{self.id}].every_kth_window", self.every_kth_window, 1, 1_000_000)
        if not self.frozen:
            raise InvalidValue(f"cameras[{self.id}].frozen", {}, "an accuracy for at least one window")
        for window, accuracy in self.frozen.items():
            checks.in_range(f"cameras[{self.id}].frozen[{window}]", accuracy, 0.0, 1.0)
        for window, accuracy in self.frozen_people.items():
            checks.in_range(f"cameras[{self.id}].frozen_people[{window}]", accuracy, 0.0, 1.0)
        for window, accuracy in self.begins_with.items():
            checks.in_range(f"cameras[{self.id}].begins_with[{window}]", accuracy, 0.0, 1.0)
        for window, factor in self.factors.items():
            checks.in_range(f"cameras[{self.id}].factors[{window}]", factor, 0.0, 1.0, low_open=True)
        for n, (at_s, _) in enumerate(self.inference_at):
            checks.in_range(f"cameras[{self.id}].inference_at[{n}].at_s", at_s, 0.0, 1e12)

    def to_json(self) -> dict[str, Any]:
        more: dict[str, Any] = {
            "frozen_people": _windows(self.frozen_people),
            "factors": _windows(self.factors),
            "inference_at": [{"at_s": at_s, "profile": profile.to_json()} for at_s, profile in self.inference_at],
            "begins_with": _windows(self.begins_with),
        }
        return {
            "id": self.id,
            "inference_profile": self.inference_profile.to_json(),
            "frozen": _windows(self.frozen),
            "windows": {str(w): r.to_json() for w, r in sorted(self.windows.items())},
            "every_kth_window": self.every_kth_window,
        } | {key: known for key, known in more.items() if known}


@dataclass(frozen=True)
class Trace:
    """A recorded run: windows are numbered from 1, window w lasts from (w - 1) to w times `window_s`. `caps` are those
    of the device that it ran on, where known. `num_gpus_at`: (seconds from the beginning, devices from then on), where
    the devices were not always `num_gpus`."""

    name: str
    window_s: float
    num_gpus: float
    cameras: tuple[RecordedCamera, ...]
    windows: int
    delta: float = 0.05
    a_min: float | None = None
    notes: str = ""
    caps: ShareCaps | None = None
    num_gpus_at: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        checks.positive("window_s", self.window_s)
        for n, (at_s, num_gpus) in enumerate(self.num_gpus_at):
            checks.in_range(f"num_gpus_at[{n}][0]", at_s, 0.0, 1e12)
            checks.in_range(f"num_gpus_at[{n}][1]", num_gpus, 0.0, 4096, low_open=True)
        checks.in_range("num_gpus", self.num_gpus, 0.0, 4096, low_open=True)
        checks.in_range("delta", self.delta, 0.0, 1.0, low_open=True)
        checks.in_range("windows", self.windows, 1, 100_000)
        if self.a_min is not None:
            checks.in_range("a_min", self.a_min, 0.0, 1.0)
        checks.not_empty("cameras", self.cameras)
        checks.unique("cameras[].id", [c.id for c in self.cameras])

    def to_json(self) -> dict[str, Any]:
        return {
            "format": BOX_FORMAT if any(c.frozen_people for c in self.cameras) else TRACE_FORMAT,
            "name": self.name,
            "window_s": self.window_s,
            "num_gpus": self.num_gpus,
            "windows": self.windows,
            "delta": self.delta,
            "a_min": self.a_min,
            "notes": self.notes,
            "cameras": [c.to_json() for c in self.cameras],
        } | self._known()

    def _known(self) -> dict[str, Any]:
        """Fields of the file that only a live run has."""
        out: dict[str, Any] = {} if self.caps is None else {"caps": self.caps.to_json()}
        return out | ({"num_gpus_at": [list(p) for p in self.num_gpus_at]} if self.num_gpus_at else {})

    @staticmethod
    def from_json(value: Any) -> Trace:
        """The windows of a file of either format; parts of the box beside them are left to edge.simulation.box_trace.
        Raises InvalidValue naming the field, the value given, the values allowed."""
        value = _object(value, "(file)")
        checks.one_of("format", value.get("format"), (TRACE_FORMAT, BOX_FORMAT))
        if value["format"] == BOX_FORMAT:
            value = {k: v for k, v in value.items() if k not in BOX_PARTS}
        _keys(
            "", value, {"format", *Trace.__dataclass_fields__}, {"name", "window_s", "num_gpus", "cameras", "windows"}
        )
        if not isinstance(value["cameras"], list):
            raise InvalidValue("cameras", value["cameras"], "a list")
        plain = {k: v for k, v in value.items() if k not in ("format", "cameras", "caps", "num_gpus_at")}
        cameras = tuple(_camera(c, f"cameras[{n}]") for n, c in enumerate(value["cameras"]))
        return Trace(
            cameras=cameras, caps=_caps(value.get("caps")), num_gpus_at=points(value, "num_gpus_at", "(file)"), **plain
        )


def _caps(value: Any) -> ShareCaps | None:
    if value is None:
        return None
    fields = _object(value, "caps")
    _keys("caps.", fields, set(ShareCaps.__dataclass_fields__), set(ShareCaps.__dataclass_fields__) - {"evidence"})
    return ShareCaps(**fields)


def read_trace(path: Path) -> Trace:
    """Raises InvalidValue where the file cannot be read, is not JSON, or breaks the format."""
    return Trace.from_json(read_document(path))


def read_document(path: Path) -> Any:
    """The JSON value in a trace's file. Raises InvalidValue where it cannot be read, or is not JSON."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(str(path), str(error), f"a readable file in the format {TRACE_FORMAT}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidValue(str(path), f"line {error.lineno}: {error.msg}", "JSON") from None


def _camera(value: Any, path: str) -> RecordedCamera:
    value = _object(value, path)
    _keys(path, value, set(RecordedCamera.__dataclass_fields__), {"id", "inference_profile", "frozen"})
    windows = _object(value.get("windows") or {}, f"{path}.windows")
    return RecordedCamera(
        str(value["id"]),
        InferenceProfile.from_json(value["inference_profile"], f"{path}.inference_profile"),
        _by_window(value["frozen"], f"{path}.frozen"),
        {_number(w, f"{path}.windows"): _window(r, f"{path}.windows[{w}]") for w, r in windows.items()},
        value.get("every_kth_window", 1),
        _by_window(value.get("frozen_people") or {}, f"{path}.frozen_people"),
        _by_window(value.get("factors") or {}, f"{path}.factors"),
        _inference_at(value.get("inference_at") or [], f"{path}.inference_at"),
        _by_window(value.get("begins_with") or {}, f"{path}.begins_with"),
    )


def _inference_at(value: Any, path: str) -> tuple[tuple[float, InferenceProfile], ...]:
    out = []
    for n, one in enumerate(sequence(value, path)):
        where = f"{path}[{n}]"
        one = _object(one, where)
        _keys(where, one, {"at_s", "profile"}, {"at_s", "profile"})
        profile = InferenceProfile.from_json(one["profile"], f"{where}.profile")
        out.append((float(number(one, "at_s", where)), profile))
    return tuple(out)


def _window(value: Any, path: str) -> RecordedWindow:
    value = _object(value, path)
    _keys(path, value, _file_keys(RecordedWindow), {"start_accuracy"})
    profiles = value.get("profiles") or []
    if not isinstance(profiles, list):
        raise InvalidValue(f"{path}.profiles", profiles, "a list")
    outcomes = {}
    for i, o in _object(value.get("outcomes") or {}, f"{path}.outcomes").items():
        o = _object(o, f"{path}.outcomes[{i}]")
        where = f"{path}.outcomes[{i}]"
        _keys(where, o, _file_keys(RecordedOutcome), {"accuracy", "gpu_seconds"})
        live = _by_window(o.get("live") or {}, f"{where}.live")
        people = _by_window(o.get("people") or {}, f"{where}.people")
        promoted = o.get("promoted")
        if not isinstance(promoted, bool | None):
            raise InvalidValue(f"{where}.promoted", promoted, "true, false or null")
        outcomes[i] = RecordedOutcome(o["accuracy"], o["gpu_seconds"], live, people, promoted)
    inference = value.get("inference_profile")
    return RecordedWindow(
        value["start_accuracy"],
        tuple(_profile(p, f"{path}.profiles[{n}]") for n, p in enumerate(profiles)),
        outcomes,
        value.get("labelling_s", 0.0),
        value.get("profiling_gpu_s", 0.0),
        value.get("train_frames", 0),
        value.get("held_out_frames", 0),
        None if inference is None else InferenceProfile.from_json(inference, f"{path}.inference_profile"),
        value.get("start_live"),
    )


def _profile(value: Any, path: str) -> RetrainingProfile:
    value = _object(value, path)
    fields = _file_keys(RetrainingProfile)
    _keys(path, value, fields, fields - {"profiled"})  # which older traces do not have
    try:
        return RetrainingProfile.from_json(value)
    except (TypeError, KeyError, IndexError) as error:
        raise InvalidValue(path, str(error), "a retraining profile as `magpie` writes it") from None


def _file_keys(kind: type[RecordedOutcome | RecordedWindow | RetrainingProfile]) -> set[str]:
    return {_FILE_KEYS.get(name, name) for name in kind.__dataclass_fields__}


def _object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue(path, value, "a JSON object")
    return value


def _keys(path: str, value: Mapping[str, Any], allowed: set[str], required: set[str]) -> None:
    checks.known_keys(path, value.keys(), allowed)
    for key in sorted(required - value.keys()):
        raise InvalidValue(f"{path}.{key}" if path else key, None, "a value (the field is required)")


def _number(value: str, path: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise InvalidValue(path, value, "window numbers from 1 as keys")
    return int(value)


def _windows(by_window: Mapping[int, float]) -> dict[str, float]:
    return {str(w): a for w, a in sorted(by_window.items())}


def _by_window(value: Any, path: str) -> dict[int, float]:
    return {_number(w, path): a for w, a in _object(value, path).items()}
