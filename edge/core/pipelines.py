"""The pipeline problem (several models under one end-to-end objective) and its answer, as values and as files.

"pipeline-problem/1" and "pipeline-plan/1" are the file formats (docs/formats.md). Times are in seconds, rates in
requests per second, prices per machine in any unit. A pipeline is a graph of modules without circles; a request goes
through all of them, and the longest path from a module that nothing feeds to one that feeds nothing counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence

PIPELINE_PROBLEM_FORMAT = "pipeline-problem/1"
PIPELINE_PROBLEMS_FORMAT = "pipeline-problems/1"
PIPELINE_PLAN_FORMAT = "pipeline-plan/1"

#: How requests reach the machines of a module (docs/pipelines.md).
DISPATCHES = ("TC", "POOL", "DT", "RR")

MOST_MODULES = 64
MOST_ROWS = 512
_KNOWN = {
    "format",
    "name",
    "application",
    "slo_s",
    "edges",
    "structure",
    "modules",
    "expected",
    "about",
    "note",
    "seed",
}


@dataclass(frozen=True)
class ProfileRow:
    """A batch of `batch` requests takes `duration_s` on a machine of kind `hardware`, which costs `price`."""

    batch: int
    duration_s: float
    hardware: str
    price: float


@dataclass(frozen=True)
class PipelineModule:
    """A model in a pipeline: `rate` requests per second reach it (fan-out included), `profile` tells what it may run
    on, each batch of each hardware once."""

    name: str
    rate: float
    profile: tuple[ProfileRow, ...]

    def __post_init__(self) -> None:
        at = f"modules.{self.name}"
        checks.in_range(f"{at}.rate", self.rate, 0.0, 1e9, low_open=True)
        checks.not_empty(f"{at}.profile", self.profile)
        if len(self.profile) > MOST_ROWS:
            raise InvalidValue(f"{at}.profile", f"{len(self.profile)} rows", f"at most {MOST_ROWS} rows")
        for n, row in enumerate(self.profile):
            checks.in_range(f"{at}.profile[{n}].0", row.batch, 1, 1_000_000)
            checks.in_range(f"{at}.profile[{n}].1", row.duration_s, 1e-9, 1e6)
            checks.in_range(f"{at}.profile[{n}].3", row.price, 1e-9, 1e9)
        checks.unique(f"{at}.profile", [(row.batch, row.hardware) for row in self.profile])


@dataclass(frozen=True)
class PipelineProblem:
    """Modules, who feeds whom, and the objective: every request is answered within `slo_s`.

    Raises InvalidValue for an edge between unknown modules, an edge given twice, a circle, and a module without any
    edge in a graph that has edges.
    """

    name: str
    slo_s: float
    modules: tuple[PipelineModule, ...]
    edges: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        checks.positive("slo_s", self.slo_s)
        checks.not_empty("modules", self.modules)
        if len(self.modules) > MOST_MODULES:
            raise InvalidValue("modules", f"{len(self.modules)} modules", f"at most {MOST_MODULES} modules")
        names = [module.name for module in self.modules]
        checks.unique("modules", names)
        for n, edge in enumerate(self.edges):
            for k, end in enumerate(edge):
                checks.one_of(f"edges[{n}][{k}]", end, names)
        checks.unique("edges", self.edges)
        joined = {name for edge in self.edges for name in edge}
        for name in names:
            if self.edges and name not in joined:
                raise InvalidValue(f"modules.{name}", "a module that no edge names", "one that an edge feeds or leaves")
        if len(self.order) < len(names):
            left = [name for name in names if name not in self.order]
            raise InvalidValue("edges", f"a circle among {', '.join(left)}", "a graph without circles")

    @cached_property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """Module -> the modules that feed it."""
        return {m.name: tuple(a for a, b in self.edges if b == m.name) for m in self.modules}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The modules, each after those that feed it; modules in a circle or behind one are left out."""
        left = {name: set(parents) for name, parents in self.parents.items()}
        order: list[str] = []
        while ready := [name for name, parents in left.items() if parents <= set(order)]:
            order += ready
            for name in ready:
                del left[name]
        return tuple(order)

    @staticmethod
    def from_json(value: Any) -> PipelineProblem:
        """Read "pipeline-problem/1". Raises InvalidValue with the field's path."""
        value = mapping(value, "problem")
        checks.one_of("format", value.get("format", PIPELINE_PROBLEM_FORMAT), (PIPELINE_PROBLEM_FORMAT,))
        checks.known_keys("", value, _KNOWN)
        modules = mapping(required(value, "modules", ""), "modules")
        edges = []
        for n, edge in enumerate(sequence(value.get("edges") or [], "edges")):
            if not isinstance(edge, (list, tuple)) or len(edge) != 2 or not all(isinstance(e, str) for e in edge):
                raise InvalidValue(f"edges[{n}]", edge, "a pair of modules [from, to]")
            edges.append((edge[0], edge[1]))
        return PipelineProblem(
            _text(value.get("name", ""), "name"),
            float(number(value, "slo_s", "")),
            tuple(_module(_text(name, "modules"), given) for name, given in modules.items()),
            tuple(edges),
        )

    def to_json(self) -> dict[str, Any]:
        """Write "pipeline-problem/1"."""
        return {
            "format": PIPELINE_PROBLEM_FORMAT,
            "name": self.name,
            "slo_s": self.slo_s,
            "edges": [list(edge) for edge in self.edges],
            "modules": {
                m.name: {"rate": m.rate, "profile": [[r.batch, r.duration_s, r.hardware, r.price] for r in m.profile]}
                for m in self.modules
            },
        }


def problems_of(value: Any) -> tuple[PipelineProblem, ...]:
    """The problems of a file: one "pipeline-problem/1", or all under `problems` of a "pipeline-problems/1".

    Raises InvalidValue with the field's path, for many problems with the problem's place before it."""
    if not isinstance(value, Mapping) or "problems" not in value:
        return (PipelineProblem.from_json(value),)
    checks.one_of("format", value.get("format", PIPELINE_PROBLEMS_FORMAT), (PIPELINE_PROBLEMS_FORMAT,))
    problems = []
    for n, given in enumerate(sequence(value["problems"], "problems")):
        try:
            problems.append(PipelineProblem.from_json(given))
        except InvalidValue as error:
            raise InvalidValue(f"problems[{n}].{error.path}", error.given, error.allowed) from error
    return tuple(problems)


@dataclass(frozen=True)
class PipelineTuple:
    """`machines` machines (a part counts as a part) run batches of `batch` on `hardware` and are sent `rate` requests
    per second, `dummy_rate` of them dummies (empty places of batches that a timer closes)."""

    batch: int
    hardware: str
    machines: float
    rate: float
    dummy_rate: float = 0.0


@dataclass(frozen=True)
class ModulePlan:
    """A module's tuples in the order of dispatch, its worst case and its part of the objective."""

    dispatch: str
    budget_s: float
    worst_case_s: float
    tuples: tuple[PipelineTuple, ...]

    def __post_init__(self) -> None:
        checks.one_of("dispatch", self.dispatch, DISPATCHES)


@dataclass(frozen=True)
class PipelinePlan:
    """The answer: the machines of each module, or (`feasible` False) why there is no plan. `cost` is the sum of price x
    machines. `steps` were counted by the search; it was cut short at its limit where `complete` is False, and the plan
    is then the best that it had found."""

    problem: str
    policy: str
    feasible: bool
    cost: float | None
    modules: Mapping[str, ModulePlan]
    reasons: tuple[str, ...] = ()
    steps: int = 0
    complete: bool = True
    decision_seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Write "pipeline-plan/1"."""
        return {
            "format": PIPELINE_PLAN_FORMAT,
            "problem": self.problem,
            "policy": self.policy,
            "feasible": self.feasible,
            "cost": self.cost,
            "modules": {name: _module_json(module) for name, module in self.modules.items()},
            "reasons": list(self.reasons),
            "steps": self.steps,
            "complete": self.complete,
            **({} if self.decision_seconds is None else {"decision_seconds": self.decision_seconds}),
        }


def _module_json(module: ModulePlan) -> dict[str, Any]:
    return {
        "dispatch": module.dispatch,
        "budget_s": module.budget_s,
        "worst_case_s": module.worst_case_s,
        "tuples": [
            {
                "batch": t.batch,
                "hardware": t.hardware,
                "machines": t.machines,
                "rate": t.rate,
                "dummy_rate": t.dummy_rate,
            }
            for t in module.tuples
        ],
    }


def _module(name: str, given: Any) -> PipelineModule:
    at = f"modules.{name}"
    given = mapping(given, at)
    checks.known_keys(at, given, {"rate", "profile"})
    rows = []
    for n, row in enumerate(sequence(required(given, "profile", at), f"{at}.profile")):
        where = f"{at}.profile[{n}]"
        if not isinstance(row, (list, tuple)) or len(row) != 4:
            raise InvalidValue(where, row, "[batch, duration_s, hardware, price]")
        batch, duration, price = (number({str(k): row[k]}, str(k), where) for k in (0, 1, 3))
        if batch != int(batch):
            raise InvalidValue(f"{where}.0", batch, "a whole number from 1")
        rows.append(ProfileRow(int(batch), float(duration), _text(row[2], f"{where}.2"), float(price)))
    return PipelineModule(name, float(number(given, "rate", at)), tuple(rows))


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidValue(path, value, "a text")
    checks.plain_text(path, value)
    return value
