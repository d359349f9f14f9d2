"""A change of a box as values: the change, the forecast of it, and its outcome.

Accuracies are means over windows [0, 1], times in milliseconds, shares in devices. An `Estimate` holds its value with
probability about 0.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from edge.core import checks
from edge.core.capacity_notes import CapacityNote
from edge.core.errors import InvalidValue
from edge.core.profiles import Estimate

#: "camera": one more; "frame_rate": each camera (or one) is answered at up to `factor` times its rate; "window":
#: windows of `factor` of the length; "device": `factor` of the device; "box": a second box like this one.
ChangeKind = Literal["camera", "frame_rate", "window", "device", "box"]
CHANGE_KINDS: Final = get_args(ChangeKind)
#: So many closed windows that were measured are needed for a forecast.
LEAST_WINDOWS: Final = 3
#: The factor where none is given.
FACTORS: Final[Mapping[str, float]] = {"camera": 1.0, "frame_rate": 2.0, "window": 0.5, "device": 2.0, "box": 1.0}
_ALLOWED: Final[Mapping[str, tuple[float, float]]] = {"frame_rate": (1.0, 8.0), "device": (0.25, 4.0)}


@dataclass(frozen=True)
class BoxChange:
    """A change that is asked about. `camera`: of "camera" the one that the new one is like, of "frame_rate" the only
    one with another rate; None: chosen, and every camera. Raises InvalidValue that names the field."""

    kind: ChangeKind
    factor: float = 1.0
    camera: str | None = None

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, CHANGE_KINDS)
        if self.kind in _ALLOWED:
            low, high = _ALLOWED[self.kind]
            checks.in_range("factor", self.factor, low, high)
            if self.factor == 1.0:
                raise InvalidValue("factor", self.factor, "another number than 1, which changes nothing")
        else:
            checks.one_of("factor", self.factor, (FACTORS[self.kind],))
        if self.camera is not None and self.kind not in ("camera", "frame_rate"):
            raise InvalidValue("camera", self.camera, f"no camera: the change {self.kind} is of the whole box")

    @staticmethod
    def of(kind: ChangeKind, factor: float | None = None, camera: str | None = None) -> BoxChange:
        """With the usual factor where `factor` is None. Raises InvalidValue."""
        checks.one_of("kind", kind, CHANGE_KINDS)
        return BoxChange(kind, FACTORS[kind] if factor is None else factor, camera)

    def alike(self, other: BoxChange) -> bool:
        """Whether both are of one kind and to one side: half the device is not like twice the device."""
        return self.kind == other.kind and (self.factor > 1.0) == (other.factor > 1.0)

    @property
    def words(self) -> str:
        """For people."""
        match self.kind:
            case "camera":
                return "one more camera" + ("" if self.camera is None else f" like {self.camera}")
            case "frame_rate":
                return f"{self.factor:g} times the frame rate" + ("" if self.camera is None else f" of {self.camera}")
            case "window":
                return "a window half as long"
            case "device":
                known = {0.5: "half the device", 2.0: "twice the device"}
                return known.get(self.factor, f"{self.factor:g} times the device")
        return "a second box"


@dataclass(frozen=True)
class BoxWindow:
    """A closed window of the box, with the share and the accuracy of its cameras. `share`: cores or SMs for cameras and
    their retraining (devices, where it is not known what a device has);
    `realised` accuracy by camera (None: not measured), `frozen` that of the frozen student, where it was measured;
    `rates`: the highest measured answers per second; `policy`: the policy that planned it ("": not known); `device`:
    cores or SMs of the device (None: not known)."""

    number: int
    length_s: float
    share: float
    realised: Mapping[str, float | None]
    rates: Mapping[str, float] = field(default_factory=dict)
    policy: str = ""
    device: float | None = None
    frozen: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CameraForecast:
    """A camera's mean accuracy now (None: it is not there) and with the change, and the box that it is on (1: this
    one). `unchanged`: its mean accuracy at the time of `then` without the change, for students go on learning (None: it
    is not there, or the forecast is of an earlier version); errors of past answers move both alike."""

    camera: str
    now: float | None
    then: Estimate
    box: int = 1
    unchanged: float | None = None


@dataclass(frozen=True)
class ModelForecast:
    """A served model's latency in ms now and with the change (None: it is not served), and the part of its rate that
    is served."""

    model: str
    slo_ms: float
    now_ms: float | None
    then_ms: Estimate | None
    now_part: float
    then_part: float


@dataclass(frozen=True)
class CapacityForecast:
    """The answer, from `windows` windows of which `last_window` is the newest. `share_now` and `share_then` are the
    devices of this box's cameras and their retraining. Kept for the comparison with what came: `last`, the newest
    window (None: of an earlier version), and `unwidened`, the estimates by camera before past errors moved and widened
    them."""

    change: BoxChange
    windows: int
    last_window: int
    share_now: float
    share_then: float
    cameras: tuple[CameraForecast, ...]
    models: tuple[ModelForecast, ...] = ()
    notes: tuple[CapacityNote, ...] = ()
    last: BoxWindow | None = None
    unwidened: Mapping[str, Estimate] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CapacityForecast:
        """Inverse of `to_json`. Raises KeyError, TypeError, InvalidValue for anything else."""
        cameras = tuple(CameraForecast(**{**c, "then": Estimate(**c["then"])}) for c in value["cameras"])
        models = tuple(
            ModelForecast(**{**m, "then_ms": None if m["then_ms"] is None else Estimate(**m["then_ms"])})
            for m in value["models"]
        )
        notes = tuple(CapacityNote(**n) for n in value["notes"])
        last = value.get("last")
        parts = {
            "change": BoxChange(**value["change"]), "cameras": cameras, "models": models, "notes": notes,
            "last": None if last is None else BoxWindow(**last),
            "unwidened": {c: Estimate(**e) for c, e in value.get("unwidened", {}).items()},
        }  # fmt: skip
        return CapacityForecast(**{**value, **parts})


@dataclass(frozen=True)
class CameraOutcome:
    """A forecast accuracy beside the mean that came; `held`: inside the interval. `outside`: how far outside
    the interval as it was before past errors moved and widened it, 0 inside; `first`: the estimate as it was then
    (None: the forecast is of an earlier version, whose errors say nothing of later ones)."""

    camera: str
    forecast: float
    came: float
    held: bool
    outside: float = 0.0
    first: Estimate | None = None


@dataclass(frozen=True)
class ModelOutcome:
    """A forecast latency in ms beside the one that came."""

    model: str
    forecast_ms: float
    came_ms: float
    held: bool


@dataclass(frozen=True)
class CapacityOutcome:
    """The outcome of a change that was forecast: it was made before window `window`, and `windows` windows were
    compared. `error`: mean of the cameras' absolute errors [0, 1]."""

    window: int
    windows: int
    error: float
    cameras: tuple[CameraOutcome, ...]
    models: tuple[ModelOutcome, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CapacityOutcome:
        """Inverse of `to_json`. Raises KeyError, TypeError for anything else."""
        cameras = tuple(
            CameraOutcome(**{**c, "first": None if c.get("first") is None else Estimate(**c["first"])})
            for c in value["cameras"]
        )
        return CapacityOutcome(
            **{**value, "cameras": cameras, "models": tuple(ModelOutcome(**m) for m in value["models"])}
        )


@dataclass(frozen=True)
class PastChange:
    """A change that was forecast and made, and its outcome."""

    change: BoxChange
    outcome: CapacityOutcome


@dataclass(frozen=True)
class StoredForecast:
    """A forecast as it was given; `outcome` None: the change was not made yet, or cannot be compared yet."""

    id: int
    at_utc_s: float
    asked_by: str
    forecast: CapacityForecast
    outcome: CapacityOutcome | None = None
