"""A fleet's job as JSON: as scenarios have it (docs/fleet.md), and as people submit it, with the work of its tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edge.core import checks
from edge.core.engine import EngineWork
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence
from edge.core.fleet import Avoidance, FleetJob, SpatialRule, check_name

JOB_KEYS: Final = (
    "id", "tasks", "demand", "duration_s", "tenant", "queue", "priority", "gang", "after", "near", "avoid", "zone",
    "prefer", "relax_after_s", "overlap", "checkpoints", "offers",
)  # fmt: skip
#: The most tasks of one job that is submitted.
MOST_TASKS: Final = 1000
_RULE_KEYS: Final = ("zone", "near", "avoid")
#: An id is part of an address of the API.
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")
#: A waiting program that may keep checkpoints keeps one so often, in s.
_CHECKPOINT_S: Final = 5.0


@dataclass(frozen=True)
class SubmittedJob:
    """A job and the work of each of its tasks."""

    job: FleetJob
    work: EngineWork


def submitted_job(value: Any) -> SubmittedJob:
    """A job of JSON that a user submits: that of a scenario without `t` and `infeasible`; `work` has the `program`
    and its `arguments`. Without `work` a task waits for its `duration_s`, as in a scenario. Raises InvalidValue with
    the field's path; whether there is such a program is not looked at."""
    row = mapping(value, "job")
    checks.plain_text("job", list(row))
    for key, item in row.items():
        checks.plain_text(str(key), item)
    checks.known_keys("", row, (*JOB_KEYS, "work"))
    job = job_of(row, "")
    if not _ID.fullmatch(job.id):
        raise InvalidValue("id", job.id, "1 to 100 letters, digits and _ . @ -, a letter or digit first")
    checks.in_range("tasks", job.tasks, 1, MOST_TASKS)
    for name in ("tenant", "queue"):
        if row.get(name) is not None:
            check_name(name, row[name])
    return SubmittedJob(job, _work(row, job))


def _work(row: Mapping[str, Any], job: FleetJob) -> EngineWork:
    if row.get("work") is None:
        kept = {"checkpoint_s": _CHECKPOINT_S} if job.checkpoints else {}
        return EngineWork("wait", {"seconds": job.duration_s, **kept})
    given = mapping(row["work"], "work")
    checks.known_keys("work", given, ("program", "arguments"))
    program = required(given, "program", "work")
    arguments = dict(mapping(given.get("arguments") or {}, "work.arguments"))
    try:
        return EngineWork(program, arguments)
    except InvalidValue as error:
        raise InvalidValue(f"work.{error.path}", error.given, error.allowed) from None


def job_of(row: Mapping[str, Any], path: str) -> FleetJob:
    """The job of a JSON object whose keys are known; `path` is its place. Raises InvalidValue, of the job's own values
    without the place."""
    overlap = row.get("overlap", "never")
    checks.one_of(_at(path, "overlap"), overlap, ("never", "allowed"))
    if "duration_s" not in row:
        allowed = "seconds, or null for a service (the field is required)"
        raise InvalidValue(_at(path, "duration_s"), None, allowed)
    choices = []
    for n, item in enumerate(sequence(row.get("prefer") or (), _at(path, "prefer"))):
        where = _at(path, f"prefer[{n}]")
        choice = mapping(item, where)
        checks.known_keys(where, choice, _RULE_KEYS)
        choices.append(_rule(choice, where))
    return FleetJob(
        id=required(row, "id", path),
        demand=amounts_of(required(row, "demand", path), _at(path, "demand")),
        tasks=whole(row, "tasks", path, 1),
        duration_s=None if row["duration_s"] is None else number(row, "duration_s", path),
        tenant=row.get("tenant"),
        queue=row.get("queue"),
        priority=number(row, "priority", path, 0.0),
        gang=flag(row, "gang", path),
        after=names_of(row.get("after"), _at(path, "after")),
        rule=_rule(row, path),
        choices=tuple(choices),
        relax_after_s=number(row, "relax_after_s", path, 0.0),
        overlap=overlap == "allowed",
        checkpoints=flag(row, "checkpoints", path),
        offers=amounts_of(row.get("offers") or {}, _at(path, "offers")),
    )


def _rule(row: Mapping[str, Any], path: str) -> SpatialRule:
    zone = {}
    for label, values in mapping(row.get("zone") or {}, _at(path, "zone")).items():
        where = _at(path, f"zone.{label}")
        zone[label] = names_of(values, where)
        checks.not_empty(where, zone[label])
    avoid = None
    if row.get("avoid") is not None:
        where = _at(path, "avoid")
        given = mapping(row["avoid"], where)
        checks.known_keys(where, given, ("group", "per"))
        group, per = required(given, "group", where), given.get("per", "box")
        check_name(f"{where}.group", group)
        check_name(f"{where}.per", per)
        avoid = Avoidance(group, per)
    return SpatialRule(zone, names_of(row.get("near"), _at(path, "near")), avoid)


def amounts_of(value: Any, path: str) -> dict[str, float]:
    """Amounts by resource."""
    given = mapping(value, path)
    return {name: number(given, name, path) for name in given}


def names_of(value: Any, path: str) -> tuple[str, ...]:
    """A list of names; null: none."""
    names = () if value is None else sequence(value, path)
    for n, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise InvalidValue(f"{path}[{n}]", name, "a name")
    return tuple(names)


def whole(row: Mapping[str, Any], key: str, path: str, default: int) -> int:
    """A whole number from 1."""
    given = number(row, key, path, default)
    if int(given) != given or given < 1:
        raise InvalidValue(_at(path, key), given, "a whole number from 1")
    return int(given)


def flag(row: Mapping[str, Any], key: str, path: str) -> bool:
    """True or false; false where there is nothing."""
    given = row.get(key, False)
    if not isinstance(given, bool):
        raise InvalidValue(_at(path, key), given, "true or false")
    return given


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
