"""Fleet scenarios: arriving jobs, faults, and expectations ("fleet-scenario/1", docs/fleet.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence
from edge.core.fleet import FLEET_DISCIPLINES, FleetBox, FleetJob, FleetQueue, FleetTenant
from edge.core.fleet_job_file import JOB_KEYS, amounts_of, flag, job_of, whole
from scheduler.fleet.fair import TenantTree
from scheduler.fleet.order import circle

SCENARIO_FORMAT: Final = "fleet-scenario/1"

FaultKind = Literal["box_down", "box_up", "box_cut", "box_healed", "drain", "head_down", "head_up"]
_OF_A_BOX: Final = ("box_down", "box_up", "box_cut", "box_healed", "drain")
_OF_THE_HEAD: Final = ("head_down", "head_up")
_PLACEMENTS: Final = ("spread", "pack")
_JOB_KEYS: Final = (*JOB_KEYS, "t", "infeasible")


@dataclass(frozen=True)
class ArrivingJob:
    """A job that comes in at `at_s`; `infeasible`: the right answer is a refusal."""

    at_s: float
    job: FleetJob
    infeasible: bool = False


@dataclass(frozen=True)
class InjectedFault:
    """A fault at `at_s`; `box` is empty where it strikes the head."""

    at_s: float
    kind: FaultKind
    box: str = ""


@dataclass(frozen=True)
class CountedTasks:
    """How the running tasks of jobs whose id begins with `jobs` may be spread over boxes at `at_s`."""

    jobs: str
    at_s: float
    most: float


@dataclass(frozen=True)
class FairShareExpected:
    """From `from_s` to `to_s` no tenant is further from its fair share of `resource` than `max_error` of the whole."""

    resource: str
    from_s: float
    to_s: float
    max_error: float


@dataclass(frozen=True)
class FleetExpectation:
    """Conditions on a run; None: no condition. Times in s (see docs/fleet.md)."""

    deadline_s: float | None = None
    max_gap_s: float | None = None
    replace_s: float | None = None
    detect_s: float = 15.0
    merge_s: float = 5.0
    hfs: FairShareExpected | None = None
    balance: tuple[CountedTasks, ...] = ()
    pack: tuple[CountedTasks, ...] = ()


@dataclass(frozen=True)
class FleetScenario:
    """One scenario. `placement`: work is spread over the boxes, or packed on few."""

    name: str
    boxes: tuple[FleetBox, ...]
    jobs: tuple[ArrivingJob, ...]
    tenants: tuple[FleetTenant, ...] = ()
    queues: tuple[FleetQueue, ...] = ()
    faults: tuple[InjectedFault, ...] = ()
    expect: FleetExpectation = FleetExpectation()
    placement: Literal["spread", "pack"] = "spread"


def read_scenario(path: Path) -> FleetScenario:
    """The scenario in a file. Raises InvalidValue with the field's path."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue("SCENARIO", str(path), f"a file that can be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue("SCENARIO", str(path), f"JSON ({error})") from None
    return scenario_from_json(value)


def scenario_from_json(value: Any) -> FleetScenario:
    """The scenario of a JSON value. Raises InvalidValue with the field's path."""
    given = mapping(value, "scenario")
    keys = ("format", "name", "about", "simulation_only", "placement", "boxes", "tenants", "queues", "jobs", "faults")
    checks.known_keys("", given, (*keys, "expect"))
    checks.one_of("format", given.get("format"), (SCENARIO_FORMAT,))
    placement = given.get("placement", "spread")
    checks.one_of("placement", placement, _PLACEMENTS)
    scenario = FleetScenario(
        name=str(given.get("name", "")),
        boxes=_each(given, "boxes", _box),
        tenants=_each(given, "tenants", _tenant),
        queues=_each(given, "queues", _queue),
        jobs=_each(given, "jobs", _job),
        faults=tuple(sorted(_each(given, "faults", _fault), key=lambda fault: fault.at_s)),
        expect=_expectation(mapping(given.get("expect") or {}, "expect")),
        placement=placement,
    )
    _check(scenario)
    return scenario


def _each(value: Mapping[str, Any], key: str, make: Callable[[Mapping[str, Any], str], Any]) -> tuple[Any, ...]:
    """A list of objects; errors of the values that they make get the place in the list."""
    out = []
    for n, item in enumerate(sequence(value.get(key) or (), key)):
        path = f"{key}[{n}]"
        row = mapping(item, path)
        try:
            out.append(make(row, path))
        except InvalidValue as error:
            inside = error.path == path or error.path.startswith((f"{path}.", f"{path}["))
            raise InvalidValue(error.path if inside else f"{path}.{error.path}", error.given, error.allowed) from None
    return tuple(out)


def _box(row: Mapping[str, Any], path: str) -> FleetBox:
    checks.known_keys(path, row, ("name", "resources", "labels"))
    labels = mapping(row.get("labels") or {}, f"{path}.labels")
    for name, label in labels.items():
        if not isinstance(label, str) or not label:
            raise InvalidValue(f"{path}.labels.{name}", label, "text")
        checks.plain_text(f"{path}.labels.{name}", [name, label])
    resources = amounts_of(required(row, "resources", path), f"{path}.resources")
    return FleetBox(required(row, "name", path), resources, dict(labels))


def _tenant(row: Mapping[str, Any], path: str) -> FleetTenant:
    checks.known_keys(path, row, ("name", "weight", "parent"))
    return FleetTenant(required(row, "name", path), number(row, "weight", path), row.get("parent"))


def _queue(row: Mapping[str, Any], path: str) -> FleetQueue:
    checks.known_keys(path, row, ("name", "slots", "discipline"))
    discipline = row.get("discipline", "fifo")
    checks.one_of(f"{path}.discipline", discipline, FLEET_DISCIPLINES)
    slots = None if row.get("slots") is None else whole(row, "slots", path, 1)
    return FleetQueue(required(row, "name", path), slots, discipline)


def _job(row: Mapping[str, Any], path: str) -> ArrivingJob:
    checks.known_keys(path, row, _JOB_KEYS)
    at_s = number(row, "t", path)
    checks.in_range(f"{path}.t", at_s, 0.0, 1e9)
    return ArrivingJob(at_s, job_of(row, path), flag(row, "infeasible", path))


def _fault(row: Mapping[str, Any], path: str) -> InjectedFault:
    checks.known_keys(path, row, ("t", "kind", "box"))
    kind = row.get("kind")
    checks.one_of(f"{path}.kind", kind, (*_OF_A_BOX, *_OF_THE_HEAD))
    at_s = number(row, "t", path)
    checks.in_range(f"{path}.t", at_s, 0.0, 1e9)
    return InjectedFault(at_s, kind, str(required(row, "box", path)) if kind in _OF_A_BOX else "")  # type: ignore[arg-type]


def _expectation(row: Mapping[str, Any]) -> FleetExpectation:
    times = ("deadline_s", "max_gap_s", "replace_s", "detect_s", "merge_s")
    checks.known_keys("expect", row, (*times, "hfs", "balance", "pack"))
    hfs = None
    if row.get("hfs") is not None:
        given = mapping(row["hfs"], "expect.hfs")
        checks.known_keys("expect.hfs", given, ("resource", "from", "to", "max_error"))
        hfs = FairShareExpected(
            str(required(given, "resource", "expect.hfs")),
            *(number(given, key, "expect.hfs") for key in ("from", "to", "max_error")),
        )
    counted: dict[str, tuple[CountedTasks, ...]] = {}
    for key in ("balance", "pack"):
        rows = []
        for n, item in enumerate(sequence(row.get(key) or (), f"expect.{key}")):
            path = f"expect.{key}[{n}]"
            given = mapping(item, path)
            checks.known_keys(path, given, ("jobs", "at", "most"))
            at_s, most = (number(given, name, path) for name in ("at", "most"))
            rows.append(CountedTasks(str(given.get("jobs", "")), at_s, most))
        counted[key] = tuple(rows)
    given_times = {key: number(row, key, "expect") for key in times if row.get(key) is not None}
    return FleetExpectation(**given_times, hfs=hfs, balance=counted["balance"], pack=counted["pack"])


def _check(scenario: FleetScenario) -> None:
    """Names that stand for something, once each; no circle of signals unless a refusal is expected."""
    checks.not_empty("boxes", scenario.boxes)
    boxes = _once("boxes", "name", [box.name for box in scenario.boxes])
    queues = _once("queues", "name", [queue.name for queue in scenario.queues])
    leaves = set(TenantTree(scenario.tenants).leaves)
    jobs = _once("jobs", "id", [arriving.job.id for arriving in scenario.jobs])
    for n, fault in enumerate(scenario.faults):
        if fault.box and fault.box not in boxes:
            raise InvalidValue(f"faults[{n}].box", fault.box, "the name of a box")
    needs = {a.job.id: (*a.job.after, *a.job.rule.near) for a in scenario.jobs}
    for n, arriving in enumerate(scenario.jobs):
        job, path = arriving.job, f"jobs[{n}]"
        if job.queue is not None and job.queue not in queues:
            raise InvalidValue(f"{path}.queue", job.queue, "the name of a queue")
        if job.tenant is not None and job.tenant not in leaves:
            raise InvalidValue(f"{path}.tenant", job.tenant, "the name of a tenant without children")
        named = [("after", job.after), ("near", job.rule.near)]
        named += [(f"prefer[{k}].near", choice.near) for k, choice in enumerate(job.choices)]
        for key, names in named:
            for other in names:
                if other not in jobs:
                    raise InvalidValue(f"{path}.{key}", other, "the id of a job")
        chain = () if arriving.infeasible else circle(needs, job.id)
        if chain:
            field = "after" if job.after else "near"
            raise InvalidValue(f"{path}.{field}", " -> ".join(chain), "no circle of jobs that wait for each other")


def _once(key: str, field: str, names: Sequence[str]) -> set[str]:
    seen: set[str] = set()
    for n, name in enumerate(names):
        if name in seen:
            raise InvalidValue(f"{key}[{n}].{field}", name, "each name once")
        seen.add(name)
    return seen
