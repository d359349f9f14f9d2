"""Values of learning: measured costs, the learning budget of a window, and how a plan's promise is corrected.

Work is in device seconds: seconds of the whole device (a CPU's cores together, or one GPU). Shares are parts of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from edge.core import checks
from edge.core.errors import InvalidValue

T = TypeVar("T")

#: Name of the settings document that keeps what was learned over restarts.
LEARNED_DOCUMENT = "learning"


def _from_json(kind: type[T], value: Any, path: str) -> dict[str, Any]:
    """`value` as keyword arguments of `kind`. Raises InvalidValue on another type or unknown keys."""
    if not isinstance(value, Mapping):
        raise InvalidValue(path, type(value).__name__, "a JSON object")
    checks.known_keys(path, value.keys(), [f.name for f in fields(kind)])  # type: ignore[arg-type]
    return dict(value)


@dataclass(frozen=True)
class Cost:
    """A measured cost (or gain): exponential mean `value`, mean absolute deviation `spread`, `samples` seen so far."""

    value: float
    spread: float = 0.0
    samples: int = 0

    def __post_init__(self) -> None:
        checks.in_range("cost.value", self.value, -1e9, 1e9)
        checks.in_range("cost.spread", self.spread, 0.0, 1e9)
        checks.in_range("cost.samples", self.samples, 0, 1e12)

    @property
    def high(self) -> float:
        """The value to plan with where late is worse than early."""
        return self.value + self.spread

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "spread": self.spread, "samples": self.samples}

    @staticmethod
    def from_json(value: Any, path: str = "cost") -> Cost:
        """Raises InvalidValue."""
        return Cost(**_from_json(Cost, value, path))


@dataclass(frozen=True)
class LearningFacts:
    """Lessons of past windows about this box and site; None: nothing yet.

    Device seconds: `label_s` of one label; `trial_s` of one trial of the micro-profiler; `setup_s` of what precedes a
    camera's trials (pictures read, held-out accuracy of the student); `visit_s` of one picture in one epoch of a
    retraining; `memory_s` of picking one camera's exemplars; `evaluation_s` of measuring students in shadow on one
    labelled frame. `wait` is measured over predicted time until labels and
    profiles were ready. Accuracies [0, 1]: `gain` of one retraining (refused ones count 0), at `gain_labels` labels;
    `choice` is what the profiled choice was expected to bring over the best-known configuration.
    """

    label_s: Cost | None = None
    trial_s: Cost | None = None
    setup_s: Cost | None = None
    visit_s: Cost | None = None
    memory_s: Cost | None = None
    evaluation_s: Cost | None = None
    wait: Cost | None = None
    gain: Cost | None = None
    gain_labels: Cost | None = None
    choice: Cost | None = None

    def to_json(self) -> dict[str, Any]:
        return {k: None if (v := getattr(self, k)) is None else v.to_json() for k in self.__dataclass_fields__}

    @staticmethod
    def from_json(value: Any, path: str = "learning_facts") -> LearningFacts:
        """Raises InvalidValue on unknown keys."""
        given = _from_json(LearningFacts, value, path)
        return LearningFacts(**{k: None if v is None else Cost.from_json(v, f"{path}.{k}") for k, v in given.items()})


@dataclass(frozen=True)
class BudgetProblem:
    """The facts that decide the learning budget.

    `capacity` devices are there for cameras, their retraining and labelling together; `inference` is what the cameras'
    inference needs of them at its best; `evaluation` is kept for measuring windows. `thread` is the most of a device
    that one thread can use, be it for training, profiling (`profilers` run side by side) or labelling. `visits` are the
    epochs times data fraction of each configuration in the space, `families` how many trials would profile all of them.
    `exemplars` older frames are trained on too. `golden_share`, `labels` and `profiling_s` (device seconds of one
    camera) are fixed by the operator where they are not None. `least_trials`: something must be tried, past windows
    taught nothing. `ready` is the part of the window by which labels and profiles shall be there. `elsewhere`: labels a
    second that other boxes make for this one.
    """

    window_s: float
    cameras: int
    capacity: float
    inference: float
    facts: LearningFacts
    evaluation: float = 0.05
    thread: float = 1.0
    profilers: int = 1
    visits: tuple[float, ...] = (5.0, 10.0, 20.0)
    families: int = 1
    exemplars: int = 0
    held_out: float = 0.3
    most_labels: int = 400
    golden_share: float | None = None
    labels: int | None = None
    profiling_s: float | None = None
    least_trials: int = 0
    ready: float = 0.15
    elsewhere: float = 0.0

    def __post_init__(self) -> None:
        checks.in_range("budget.window_s", self.window_s, 0.0, 1e7, low_open=True)
        checks.in_range("budget.cameras", self.cameras, 1, 100_000)
        checks.in_range("budget.capacity", self.capacity, 0.0, 4096.0)
        checks.in_range("budget.inference", self.inference, 0.0, 4096.0)
        checks.in_range("budget.evaluation", self.evaluation, 0.0, 1.0)
        checks.in_range("budget.thread", self.thread, 0.0, 1.0, low_open=True)
        checks.in_range("budget.profilers", self.profilers, 1, 1000)
        checks.not_empty("budget.visits", self.visits)
        checks.in_range("budget.families", self.families, 0, 10_000)
        checks.in_range("budget.exemplars", self.exemplars, 0, 1e6)
        checks.in_range("budget.held_out", self.held_out, 0.0, 1.0)
        checks.in_range("budget.most_labels", self.most_labels, 1, 1e6)
        checks.in_range("budget.ready", self.ready, 0.0, 1.0, low_open=True)
        checks.in_range("budget.elsewhere", self.elsewhere, 0.0, 1e6)

    def to_json(self) -> dict[str, Any]:
        out = {k: getattr(self, k) for k in self.__dataclass_fields__}
        return out | {"facts": self.facts.to_json(), "visits": list(self.visits)}

    @staticmethod
    def from_json(value: Any, path: str = "budget_problem") -> BudgetProblem:
        """Raises InvalidValue on unknown or missing keys."""
        given = _from_json(BudgetProblem, value, path)
        for key in ("window_s", "cameras", "capacity", "inference", "facts"):
            if key not in given:
                raise InvalidValue(f"{path}.{key}", None, "a value (the field is required)")
        given["facts"] = LearningFacts.from_json(given["facts"], f"{path}.facts")
        if "visits" in given:
            given["visits"] = tuple(given["visits"])
        return BudgetProblem(**given)


@dataclass(frozen=True)
class LearningBudget:
    """The device time that a window spends on learning. Per camera: `labels`, `trials` and `profiling_s` device seconds
    for them; `golden_share` of the device labels as they come. `ready_s`: seconds after the boundary when labels and
    profiles are expected; `retraining_s` device seconds per camera are left for retraining, enough for `retrainings` of
    all cameras together. `value` is the accuracy [0, 1] that this is expected to bring per camera over the window.
    `known` is False while the cost of a label is a guess. `late` says that no budget is ready in time: this is the
    least. `looks`: exemplars are picked by what a student sees in their pictures; False: by their labels.
    """

    golden_share: float
    labels: int
    trials: int
    profiling_s: float
    ready_s: float
    retraining_s: float
    retrainings: float
    value: float
    known: bool = True
    late: bool = False
    reason: str = ""
    looks: bool = True

    def to_json(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self.__dataclass_fields__}


@dataclass(frozen=True)
class WindowChoice:
    """The window length that a box would choose, and the gain per hour of each length that was weighed."""

    window_s: float
    budget: LearningBudget
    weighed: tuple[tuple[float, LearningBudget], ...]
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "window_s": self.window_s,
            "budget": self.budget.to_json(),
            "weighed": [{"window_s": s, "budget": b.to_json()} for s, b in self.weighed],
            "reason": self.reason,
        }


@dataclass(frozen=True)
class LearningReport:
    """A box's learning, for people and programs: the `budget` in force in windows of `window_s`, the parts of it that
    the operator fixed (by setting), the facts behind it, the window length that it would `choose`, how promises were
    kept (predicted - realised [0, 1] over `camera_windows`), and counts since the start."""

    window_s: float
    cameras: int
    budget: LearningBudget
    golden_share: float
    fixed: Mapping[str, bool]
    facts: LearningFacts
    choice: WindowChoice
    bias: float = 0.0
    mean_error: float = 0.0
    camera_windows: int = 0
    late_labels_used: int = 0
    unprofiled_retrainings: int = 0
    handed_in: int = 0

    def to_json(self) -> dict[str, Any]:
        """`choice` without the lengths that were weighed and left."""
        out = {k: getattr(self, k) for k in self.__dataclass_fields__}
        choice = self.choice.to_json()
        del choice["weighed"]
        return out | {
            "budget": self.budget.to_json(),
            "fixed": dict(self.fixed),
            "facts": self.facts.to_json(),
            "choice": choice,
        }


@dataclass(frozen=True)
class Correction:
    """How the accuracies that were measured before a window become those that it will show, for one camera.

    The student's level over the window is its held-out accuracy `+ pull * (usual - held-out)` (`usual`: the camera's
    accuracy in past windows, None: not known) `- decay_per_s * half a window + offset`; a retraining brings `gain *
    reliability` of what its profile says (`reliability`: less than 1 where few frames were held out). All but that is
    learned; a plan is corrected once, before the policy sees the problem.
    """

    offset: float = 0.0
    gain: float = 1.0
    pull: float = 0.0
    usual: float | None = None
    decay_per_s: float = 0.0
    reliability: float = 1.0

    def __post_init__(self) -> None:
        checks.in_range("correction.reliability", self.reliability, 0.0, 1.0)
        checks.in_range("correction.offset", self.offset, -1.0, 1.0)
        checks.in_range("correction.gain", self.gain, 0.0, 2.0)
        checks.in_range("correction.pull", self.pull, 0.0, 1.0)
        if self.usual is not None:
            checks.in_range("correction.usual", self.usual, 0.0, 1.0)
        checks.in_range("correction.decay_per_s", self.decay_per_s, -1.0, 1.0)

    def to_json(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self.__dataclass_fields__}

    @staticmethod
    def from_json(value: Any, path: str = "correction") -> Correction:
        """Raises InvalidValue on unknown keys."""
        return Correction(**_from_json(Correction, value, path))


@dataclass(frozen=True)
class Promise:
    """The grounds of a stream's numbers in a problem: the accuracy `measured` before any correction (that of the
    student that the window began with), and the `correction` that was applied."""

    measured: float
    correction: Correction

    def __post_init__(self) -> None:
        checks.in_range("promise.measured", self.measured, 0.0, 1.0)

    def to_json(self) -> dict[str, Any]:
        return {"measured": self.measured, "correction": self.correction.to_json()}

    @staticmethod
    def from_json(value: Any, path: str = "promise") -> Promise:
        """Raises InvalidValue on unknown or missing keys."""
        given = _from_json(Promise, value, path)
        for key in ("measured", "correction"):
            if key not in given:
                raise InvalidValue(f"{path}.{key}", None, "a value (the field is required)")
        return Promise(given["measured"], Correction.from_json(given["correction"], f"{path}.correction"))


@dataclass(frozen=True)
class PromiseOutcome:
    """One camera's window, planned and seen: accuracies [0, 1] over the window, with the mean inference factor `factor`
    in `predicted` (None: not planned) and `realised` alone. `measured` (held-out; None: nothing was) and `usual` were
    known before it; `planned_gain` is what retraining added to the window's mean in the plan, before `gain` but with
    the `reliability` of its profiles; `drift_per_s` is by how much the same student fell per second inside the window
    (None: not measurable)."""

    window: int
    predicted: float | None
    realised: float
    measured: float | None
    factor: float
    planned_gain: float = 0.0
    usual: float | None = None
    drift_per_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def from_json(value: Any, path: str = "promise_outcome") -> PromiseOutcome:
        """Raises InvalidValue on unknown keys."""
        return PromiseOutcome(**_from_json(PromiseOutcome, value, path))


@dataclass(frozen=True)
class PromiseHistory:
    """Outcomes by camera, the oldest first."""

    cameras: Mapping[str, tuple[PromiseOutcome, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {camera: [o.to_json() for o in found] for camera, found in self.cameras.items()}

    @staticmethod
    def from_json(value: Any, path: str = "promise_history") -> PromiseHistory:
        """Raises InvalidValue."""
        if not isinstance(value, Mapping):
            raise InvalidValue(path, type(value).__name__, "a JSON object")
        return PromiseHistory(
            {
                str(camera): tuple(PromiseOutcome.from_json(o, f"{path}.{camera}[{n}]") for n, o in enumerate(found))
                for camera, found in value.items()
            }
        )
