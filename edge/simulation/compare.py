"""Policies compared on one trace: the same luck for each in every seed, and the differences in pairs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.shares import ShareCaps, ideal_caps
from edge.settings import ServingPlanning
from edge.simulation.box import BoxPolicies, BoxResult, simulate_box
from edge.simulation.box_trace import BoxTrace
from edge.simulation.chance import varied
from scheduler.follow import planner
from scheduler.gpulets.policies import SERVING_POLICIES
from scheduler.policies import TAKE_FIXED, WINDOW_POLICIES, WindowPolicy, window_policy
from scheduler.tenants.policies import SHARING_POLICIES
from scheduler.truth.students_t import quantile
from scheduler.window_planning import PlanFunction

#: Of an interval of a difference.
CONFIDENCE = 0.95
#: Parts of a box and the policies that each has.
_REGISTRIES = {"window": WINDOW_POLICIES, "serving": SERVING_POLICIES, "sharing": SHARING_POLICIES}


@dataclass(frozen=True)
class NamedPolicies:
    """Policies under the name that a person gave them; `plan` plans windows."""

    name: str
    policies: BoxPolicies
    plan: PlanFunction


def contender(
    text: str, caps: ShareCaps | None = None, fixed: str | None = None, planning: ServingPlanning | None = None
) -> NamedPolicies:
    """Read "relay", "uniform=CONFIG", or several with a plus, one for each part of a box: "relay+mosaic+ew". A name
    that two parts have is written as "window:NAME", "serving:NAME" or "sharing:NAME". `fixed`: the configuration of
    policies that take one, where the text names none. `planning`: the box's settings of served models. Raises
    InvalidValue."""
    policies, config = BoxPolicies(planning=planning or ServingPlanning()), fixed
    seen: set[str] = set()
    for word in text.split("+"):
        name, _, own = word.partition("=")
        part, name = _part(name)
        if part in seen:
            raise InvalidValue("--policy", text, f"one policy for each part of a box: {part} has two")
        seen.add(part)
        if part == "window":
            policies, config = replace(policies, window=name), own or config
            window_policy(name, config if name in TAKE_FIXED else None)
        elif part == "serving":
            policies = replace(policies, planning=policies.planning.model_copy(update={"policy": name}))
        else:
            policies = replace(policies, sharing=name)

    def chosen(name: str) -> WindowPolicy:
        return window_policy(name, config if name in TAKE_FIXED else None)

    return NamedPolicies(text, policies, planner(caps or ideal_caps(), policies=chosen))


def _part(name: str) -> tuple[str, str]:
    """(part of the box, name of its policy)."""
    part, colon, rest = name.partition(":")
    if colon:
        if part not in _REGISTRIES or rest not in _REGISTRIES[part]:
            raise InvalidValue("--policy", name, "window:NAME, serving:NAME or sharing:NAME with a policy's name")
        return part, rest
    known = [part for part, names in _REGISTRIES.items() if name in names]
    if len(known) > 1:
        raise InvalidValue("--policy", name, f"which part: {' or '.join(f'{p}:{name}' for p in known)}")
    if not known:
        every = "; ".join(f"{part}: {', '.join(names)}" for part, names in _REGISTRIES.items())
        raise InvalidValue("--policy", name, every)
    return known[0], name


def measures(result: BoxResult) -> dict[str, float]:
    """The compared measures of a run, by name; parts (0-1), higher is better."""
    out: dict[str, float] = {}
    if result.windows is not None:
        out |= {"accuracy": result.windows.mean_accuracy, "worst camera": result.windows.worst_camera}
        if result.windows.mean_people is not None:
            out["accuracy by people"] = result.windows.mean_people
    if result.serving is not None:
        out["within objective"] = result.serving.within_slo
    if result.welfare is not None and result.least is not None:
        out |= {"welfare": result.welfare, "worst tenant": result.least}
    return out


@dataclass(frozen=True)
class MeasureSpread:
    """A measure of one contender over the seeds: its mean and standard deviation (0: one seed)."""

    mean: float
    spread: float

    @staticmethod
    def of(values: Sequence[float]) -> MeasureSpread:
        return MeasureSpread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True)
class PolicyDifference:
    """`measure` of the first contender less that of `against`, in pairs of equal seeds: the mean, and its interval of
    95 % (None: one seed tells none)."""

    against: str
    measure: str
    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PolicyComparison:
    """All contenders on one trace, the first one against each of the others."""

    trace: str
    seeds: int
    values: Mapping[str, Mapping[str, MeasureSpread]]
    differences: tuple[PolicyDifference, ...]

    def to_json(self) -> dict[str, Any]:
        values = {c: {m: vars(v) for m, v in by_name.items()} for c, by_name in self.values.items()}
        return {
            "trace": self.trace, "seeds": self.seeds, "values": values,
            "differences": [vars(d) for d in self.differences],
        }  # fmt: skip


def compare(trace: BoxTrace, contenders: Sequence[NamedPolicies], seeds: int = 1) -> PolicyComparison:
    """Play `trace` once per contender and seed. With one seed the windows are as they were recorded; with more they
    have other luck in each (edge.simulation.chance), and requests come at other moments. Raises InvalidValue."""
    if seeds < 1:
        raise InvalidValue("--seeds", seeds, "1 or more")
    if len({c.name for c in contenders}) < len(contenders):
        raise InvalidValue("--against", [c.name for c in contenders], "each policy once")
    found: dict[str, list[dict[str, float]]] = {c.name: [] for c in contenders}
    for seed in [0] if seeds == 1 else range(1, seeds + 1):
        windows = None if trace.windows is None else varied(trace.windows, seed)
        lucky = replace(trace, windows=windows)
        for one in contenders:
            found[one.name].append(measures(simulate_box(lucky, one.policies, seed=seed, plan=one.plan)))
    values = {
        name: {m: MeasureSpread.of([run[m] for run in runs]) for m in runs[0] if all(m in run for run in runs)}
        for name, runs in found.items()
    }
    first, *others = contenders
    differences = []
    for other in others:
        for measure in values[first.name]:
            if measure in values[other.name]:
                pairs = zip(found[first.name], found[other.name], strict=True)
                differences.append(_difference(other.name, measure, [a[measure] - b[measure] for a, b in pairs]))
    return PolicyComparison(trace.name, seeds, values, tuple(differences))


def _difference(against: str, measure: str, gaps: Sequence[float]) -> PolicyDifference:
    mean = statistics.fmean(gaps)
    if len(gaps) < 2:
        return PolicyDifference(against, measure, mean)
    half = quantile(CONFIDENCE, len(gaps) - 1) * statistics.stdev(gaps) / len(gaps) ** 0.5
    return PolicyDifference(against, measure, mean, mean - half, mean + half)
