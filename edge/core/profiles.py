"""Profiles of the micro-profiler: cost and accuracy of retraining, and accuracy of inference by share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from edge.core import checks
from edge.core.configs import InferenceConfig, RetrainingConfig
from edge.core.errors import InvalidValue


@dataclass(frozen=True)
class Estimate:
    """A value with an interval (`low` <= `value` <= `high`) that holds it with probability about 0.8."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise InvalidValue("estimate", (self.low, self.value, self.high), "low <= value <= high")

    @staticmethod
    def exact(value: float) -> Estimate:
        """A value without uncertainty."""
        return Estimate(value, value, value)

    def times(self, factor: float) -> Estimate:
        """A multiple of it; `factor` is at least 0."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def to_json(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class RetrainingProfile:
    """Estimate of one retraining configuration on one camera's window (thesis section 2.4.4).

    `end_accuracy` is held-out accuracy [0, 1] after all epochs; `device_seconds` the work at 100 % of one device,
    set-up included; `curve` are (device_seconds, accuracy) points of the fitted accuracy curve, the first at 0 work.
    `throughput` are (share, speed) points: speed relative to the full device at that share (measured, not linear).
    `profiled` is False where no trial ran in this window: the numbers are what past windows taught.
    """

    config: RetrainingConfig
    start_accuracy: float
    end_accuracy: Estimate
    device_seconds: Estimate
    curve: tuple[tuple[float, float], ...] = ()
    throughput: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    profiled: bool = True

    def __post_init__(self) -> None:
        checks.in_range("retraining_profile.start_accuracy", self.start_accuracy, 0.0, 1.0)
        checks.in_range("retraining_profile.end_accuracy", self.end_accuracy.value, 0.0, 1.0)
        checks.in_range("retraining_profile.gpu_seconds", self.device_seconds.value, 0.0, 1e9)

    def to_json(self) -> dict[str, Any]:
        """Records, traces and boxes of earlier versions say "gpu_seconds"."""
        return {
            "config": self.config.to_json(),
            "start_accuracy": self.start_accuracy,
            "end_accuracy": self.end_accuracy.to_json(),
            "gpu_seconds": self.device_seconds.to_json(),
            "curve": [list(p) for p in self.curve],
            "throughput": [list(p) for p in self.throughput],
            "profiled": self.profiled,
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> RetrainingProfile:
        """Inverse of `to_json`."""
        return RetrainingProfile(
            RetrainingConfig.from_json(value["config"]),
            value["start_accuracy"],
            Estimate(**value["end_accuracy"]),
            Estimate(**value["gpu_seconds"]),
            tuple((p[0], p[1]) for p in value["curve"]),
            tuple((p[0], p[1]) for p in value["throughput"]),
            value.get("profiled", True),
        )


@dataclass(frozen=True)
class InferencePoint:
    """One inference configuration: the share of the device that keeps up with it, and its accuracy factor [0, 1]."""

    config: InferenceConfig
    share: float
    factor: float

    def __post_init__(self) -> None:
        checks.in_range("inference_point.share", self.share, 0.0, 1024.0, low_open=True)
        checks.in_range("inference_point.factor", self.factor, 0.0, 1.0)

    @staticmethod
    def from_json(value: Any, path: str = "inference_point") -> InferencePoint:
        """Raises InvalidValue naming the field."""
        if not isinstance(value, dict):
            raise InvalidValue(path, value, "an object")
        checks.known_keys(path, value.keys(), ("config", "share", "factor"))
        for key in ("config", "share", "factor"):
            if value.get(key) is None:
                raise InvalidValue(f"{path}.{key}", None, "a value (the field is required)")
        config = value["config"]
        if not isinstance(config, dict) or "frame_rate" not in config:
            raise InvalidValue(f"{path}.config", config, "an object with frame_rate and resolution")
        return InferencePoint(InferenceConfig.from_json(config, f"{path}.config"), value["share"], value["factor"])


@dataclass(frozen=True)
class InferenceProfile:
    """Accuracy factor as a function of the inference share s (in devices), as in "retrain-infer-window/1".

    kind "linear": min(1, s / max_gpu). kind "subsampling": linear interpolation of `factor` over `subsampling` at
    max_gpu / s; 0 beyond the last point. `points` are the measured configurations behind it, best factor first.
    """

    kind: Literal["linear", "subsampling"]
    max_gpu: float
    subsampling: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()
    name: str = ""
    points: tuple[InferencePoint, ...] = ()

    def __post_init__(self) -> None:
        checks.one_of("inference_profile.kind", self.kind, ("linear", "subsampling"))
        checks.in_range("inference_profile.max_gpu", self.max_gpu, 0.0, 1024.0, low_open=True)
        if self.kind == "subsampling":
            checks.not_empty("inference_profile.subsampling", self.subsampling)
            if len(self.subsampling) != len(self.factors):
                raise InvalidValue("inference_profile.factor", len(self.factors), f"{len(self.subsampling)} numbers")
            if any(b <= a for a, b in zip(self.subsampling, self.subsampling[1:], strict=False)):
                raise InvalidValue("inference_profile.subsampling", self.subsampling, "increasing numbers")
            for n, f in enumerate(self.factors):
                checks.in_range(f"inference_profile.factor[{n}]", f, 0.0, 1.0)

    def factor(self, share: float) -> float:
        """Accuracy factor at `share` devices."""
        if share <= 0:
            return 0.0
        if self.kind == "linear":
            return min(1.0, share / self.max_gpu)
        x = self.max_gpu / share
        xs, ys = self.subsampling, self.factors
        if x <= xs[0]:
            return ys[0]
        if x > xs[-1]:
            return 0.0
        for n in range(1, len(xs)):
            if x <= xs[n]:
                return ys[n - 1] + (ys[n] - ys[n - 1]) * (x - xs[n - 1]) / (xs[n] - xs[n - 1])
        return ys[-1]

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "name": self.name, "max_gpu": self.max_gpu}
        if self.kind == "subsampling":
            out["subsampling"], out["factor"] = list(self.subsampling), list(self.factors)
        if self.points:
            out["points"] = [{"config": p.config.to_json(), "share": p.share, "factor": p.factor} for p in self.points]
        return out

    @staticmethod
    def from_json(value: dict[str, Any], path: str = "inference_profile") -> InferenceProfile:
        """Raises InvalidValue naming the field."""
        allowed = {"kind", "name", "max_gpu", "subsampling", "factor", "points"}
        if not isinstance(value, dict):
            raise InvalidValue(path, value, "an object")
        checks.known_keys(path, value.keys(), allowed)
        for key in ("kind", "max_gpu"):
            if key not in value:
                raise InvalidValue(f"{path}.{key}", None, "a value (the field is required)")
        for key in ("subsampling", "factor", "points"):
            if not isinstance(value.get(key) or [], (list, tuple)):
                raise InvalidValue(f"{path}.{key}", value[key], "a list")
        for key in ("subsampling", "factor"):
            for n, number in enumerate(value.get(key) or ()):
                checks.in_range(f"{path}.{key}[{n}]", number, 0.0, 1e6)
        points = tuple(
            InferencePoint.from_json(p, f"{path}.points[{n}]") for n, p in enumerate(value.get("points") or ())
        )
        return InferenceProfile(
            value["kind"],
            value["max_gpu"],
            tuple(value.get("subsampling") or ()),
            tuple(value.get("factor") or ()),
            value.get("name") or "",
            points,
        )
