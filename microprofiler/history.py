"""A camera's micro-profiler history between windows: a frozen value, kept by the store as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.profiles import Estimate, RetrainingProfile
from microprofiler.known import FROM_PROFILE, FROM_RETRAINING, ConfigGain, part_gained, seen
from microprofiler.pareto import PruningState
from microprofiler.scaling import ExponentWeights

#: Outcomes that are remembered.
MEMORY = 40
#: A mean of n residuals is multiplied by n / (n + SHRINK).
SHRINK = 4.0
#: A bias correction is never larger than this (accuracy).
MOST_BIAS = 0.1
#: |error| over half-width that an interval of 80 % should show: 9 quantiles of |normal|, worth that many outcomes. On
#: recorded retrainings (benchmarks/bench_microprofiler.py) the fitted intervals were too narrow by `_TOO_NARROW`.
_TOO_NARROW = 1.3
_PRIOR_RATIOS = tuple(_TOO_NARROW * q for q in (0.098, 0.198, 0.301, 0.409, 0.526, 0.657, 0.809, 1.0, 1.283))
#: Keys of the JSON, on disk and between boxes, where they differ from the fields.
_KEYS: Final = MappingProxyType({"device_seconds": "gpu_seconds", "predicted_device_seconds": "predicted_gpu_seconds"})


@dataclass(frozen=True)
class Prediction:
    """The prediction for a configuration before it ran; `raw` is the fit's value before any correction learnt here, and
    `by_exponent` the same under each exponent of scaling.EXPONENTS (none: without a trial, from past windows).
    `start` is the student's own accuracy then, `frames` what it is trained on (0: not known)."""

    family: str
    raw: float
    half_width: float
    device_seconds: float
    by_exponent: tuple[float, ...]
    start: float = 0.0
    frames: int = 0

    def to_json(self) -> dict[str, Any]:
        return _document(self) | {"by_exponent": list(self.by_exponent)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Prediction:
        return Prediction(**(_fields(value) | {"by_exponent": tuple(value["by_exponent"])}))


@dataclass(frozen=True)
class ProfileOutcome:
    """A prediction that came true or not: accuracies [0, 1] on held-out data, costs in device seconds at full share."""

    family: str
    predicted: float
    half_width: float
    achieved: float
    predicted_device_seconds: float
    device_seconds: float


@dataclass(frozen=True)
class ProfilerHistory:
    """`pending` holds this window's predictions by configuration id; `trial_seconds` what a trial of each family cost
    per frame last time; `outcomes` the latest completed retrainings; `known` what is known of each configuration."""

    pruning: PruningState = field(default_factory=PruningState)
    exponents: ExponentWeights = field(default_factory=ExponentWeights)
    outcomes: tuple[ProfileOutcome, ...] = ()
    pending: Mapping[str, Prediction] = field(default_factory=dict)
    trial_seconds: Mapping[str, float] = field(default_factory=dict)
    known: Mapping[str, ConfigGain] = field(default_factory=dict)

    def profiled(self, profiles: Sequence[RetrainingProfile], train_frames: int) -> ProfilerHistory:
        """After these profiles were made by trials on a window of `train_frames` training frames."""
        known = dict(self.known)
        for p in profiles:
            gain = part_gained(p.start_accuracy, p.end_accuracy.value)
            cost = p.device_seconds.value / max(1, train_frames)
            known[p.config.id] = seen(known.get(p.config.id), gain, cost, self.pruning.windows, FROM_PROFILE)
        return replace(self, known=known)

    def offered(self, profiles: Sequence[RetrainingProfile], train_frames: int) -> ProfilerHistory:
        """After these profiles were made without a trial: their results are learned from all the same."""
        pending = {
            p.config.id: Prediction(
                "", p.end_accuracy.value, 0.0, p.device_seconds.value, (), p.start_accuracy, train_frames
            )
            for p in profiles
        }
        return replace(self, pending=dict(self.pending) | pending)

    def learned(self, config_id: str, achieved: float, device_seconds: float) -> ProfilerHistory:
        """After the retraining `config_id` of this window ended with `achieved` held-out accuracy after
        `device_seconds`. A configuration that was not predicted in this window teaches nothing.
        """
        checks.in_range("achieved", achieved, 0.0, 1.0)
        checks.in_range("device_seconds", device_seconds, 0.0, 1e9)
        p = self.pending.get(config_id)
        if p is None:
            return self
        known = dict(self.known)
        if p.frames > 0:
            gain, cost = part_gained(p.start, achieved), device_seconds / p.frames
            known[config_id] = seen(known.get(config_id), gain, cost, self.pruning.windows, FROM_RETRAINING)
        pending = {k: v for k, v in self.pending.items() if k != config_id}
        if not p.by_exponent:
            return replace(self, pending=pending, known=known)
        outcome = ProfileOutcome(p.family, p.raw, p.half_width, achieved, p.device_seconds, device_seconds)
        return replace(
            self,
            exponents=self.exponents.learned(p.by_exponent, achieved),
            outcomes=(*self.outcomes, outcome)[-MEMORY:],
            pending=pending,
            known=known,
        )

    def accuracy_bias(self, family: str) -> float:
        """The correction of a fitted end accuracy: the shrunken mean error of all, then of the family's own."""
        every = [o.achieved - o.predicted for o in self.outcomes]
        overall = _shrunken(every)
        own = _shrunken([o.achieved - o.predicted - overall for o in self.outcomes if o.family == family])
        return min(MOST_BIAS, max(-MOST_BIAS, overall + own))

    def width_scale(self) -> float:
        """Factor on an interval's width so that four in five outcomes fall inside; `_TOO_NARROW` at first."""
        ratios = list(_PRIOR_RATIOS)
        for o in self.outcomes:
            error = abs(o.achieved - o.predicted - self.accuracy_bias(o.family))
            ratios.append(error / max(o.half_width, 1e-3))
        ratios.sort()
        return min(4.0, max(0.5, ratios[math.ceil(0.8 * (len(ratios) + 1)) - 1]))

    def cost_factor(self, family: str) -> float:
        """Factor on a computed cost: geometric mean of measured over computed, shrunken like `accuracy_bias`."""
        logs = [
            (o.family, math.log(o.device_seconds) - math.log(o.predicted_device_seconds))
            for o in self.outcomes
            if o.device_seconds > 0 and o.predicted_device_seconds > 0
        ]
        overall = _shrunken([v for _, v in logs])
        own = _shrunken([v - overall for f, v in logs if f == family])
        return math.exp(min(1.5, max(-1.5, overall + own)))

    def corrected(self, family: str, estimate: Estimate) -> Estimate:
        """`estimate` of an end accuracy after what was learnt."""
        bias, scale = self.accuracy_bias(family), self.width_scale()
        value = min(1.0, max(0.0, estimate.value + bias))
        low = value - scale * (estimate.value - estimate.low)
        high = value + scale * (estimate.high - estimate.value)
        return Estimate(value, min(value, max(0.0, low)), max(value, min(1.0, high)))

    def to_json(self) -> dict[str, Any]:
        return {
            "pruning": self.pruning.to_json(),
            "exponents": list(self.exponents.weights),
            "outcomes": [_document(o) for o in self.outcomes],
            "pending": {k: p.to_json() for k, p in self.pending.items()},
            "trial_seconds": dict(self.trial_seconds),
            "known": {k: v.to_json() for k, v in self.known.items()},
        }

    @staticmethod
    def from_json(value: Any) -> ProfilerHistory:
        """Inverse of `to_json`. Raises InvalidValue on unknown or missing keys."""
        if not isinstance(value, Mapping):
            raise InvalidValue("profiler_history", type(value).__name__, "a JSON object")
        checks.known_keys("profiler_history", value.keys(), ProfilerHistory.__dataclass_fields__.keys())
        for key in ProfilerHistory.__dataclass_fields__:
            if key not in value and key != "known":  # an earlier version did not write it
                raise InvalidValue(f"profiler_history.{key}", None, "a value (the field is required)")
        return ProfilerHistory(
            PruningState.from_json(value["pruning"]),
            ExponentWeights(tuple(value["exponents"])),
            tuple(ProfileOutcome(**_fields(o)) for o in value["outcomes"]),
            {k: Prediction.from_json(p) for k, p in value["pending"].items()},
            dict(value["trial_seconds"]),
            {k: ConfigGain(**v) for k, v in value.get("known", {}).items()},
        )


def _document(value: Prediction | ProfileOutcome) -> dict[str, Any]:
    return {_KEYS.get(name, name): getattr(value, name) for name in value.__dataclass_fields__}


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    names = {key: name for name, key in _KEYS.items()}
    return {names.get(key, key): value for key, value in document.items()}


def _shrunken(values: list[float]) -> float:
    return sum(values) / (len(values) + SHRINK)
