"""Names of the fleet as Kubernetes allows them, and back.

An ephemeral resource `KIND:NAME` becomes `magpie.example/KIND.NAME`. The name behind the slash has at most 63 letters,
digits and `- _ .`, a letter or digit first and last, so other characters are escaped: `_` and one letter. A name that
is longer is replaced by a hash, and its pods carry the whole name in an annotation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edge.core.errors import InvalidValue
from edge.core.fleet import TaskAt, check_resource, is_ephemeral

DOMAIN: Final = "magpie.example"
APP_LABEL: Final = "app"
APP: Final = "magpie"
JOB_LABEL: Final = f"{DOMAIN}/job"
TASK_LABEL: Final = f"{DOMAIN}/task"
EPOCH_LABEL: Final = f"{DOMAIN}/epoch"
FLEET_LABEL: Final = f"{DOMAIN}/fleet"
GROUP_LABEL: Final = f"{DOMAIN}/apart"
#: Each opening of the engine has an identity of its own: pods of another one are not its own.
LIFE_LABEL: Final = f"{DOMAIN}/life"
#: The whole task as JSON: labels cannot hold every name.
TASK_ANNOTATION: Final = f"{DOMAIN}/task-at"
#: Whole names of resources that are hashed, as JSON: resource of Kubernetes -> name of the fleet.
NAMES_ANNOTATION: Final = f"{DOMAIN}/resources"
GANG_GATE: Final = f"{DOMAIN}/gang"

_LONGEST: Final = 63
_HASH_DIGITS: Final = 28
_LEGAL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NODE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_ESCAPES: Final = {"_": "_u", "/": "_s", "@": "_a", "=": "_e", "-": "_m", ".": "_d"}
_PLAIN: Final = {escape: character for character, escape in _ESCAPES.items()}
_ESCAPE: Final = re.compile(r"_[usaemd]")
_HASHED: Final = re.compile(rf"(?:.*\.|p)_h[0-9a-f]{{{_HASH_DIGITS}}}")


def resource_of(name: str) -> str:
    """The resource of Kubernetes for a resource of the fleet. Raises InvalidValue for a name that is not one."""
    check_resource("name", name, physical=False)
    kind, _, rest = name.partition(":")
    if is_ephemeral(name):
        short = f"{kind}.{_escaped(rest, always='')}"
        hashed = f"{kind}._h{_digest(name)}"
    else:  # has no dot, so it is never taken for an ephemeral one
        short, hashed = _escaped(name, always="."), f"p_h{_digest(name)}"
    return f"{DOMAIN}/{short if len(short) <= _LONGEST else hashed}"


def is_ours(resource: str) -> bool:
    """Whether a node's resource is one of the fleet."""
    return resource.startswith(f"{DOMAIN}/")


def is_hashed(resource: str) -> bool:
    """Whether the name alone does not show which resource of the fleet it is."""
    return _HASHED.fullmatch(resource.removeprefix(f"{DOMAIN}/")) is not None


def name_of(resource: str, known: Mapping[str, str]) -> str | None:
    """The fleet's name of a resource of Kubernetes; `known` has those that are hashed. None: it is not of the fleet, or
    its whole name is not known."""
    if not is_ours(resource):
        return None
    if is_hashed(resource):
        return known.get(resource)
    short = resource.removeprefix(f"{DOMAIN}/")
    kind, dot, rest = short.partition(".")
    return f"{kind}:{_unescaped(rest)}" if dot else _unescaped(short)


def hashed_names(names: Mapping[str, float]) -> dict[str, str]:
    """Of these resources of the fleet those whose name in Kubernetes is a hash: resource of Kubernetes -> name."""
    pairs = ((resource_of(name), name) for name in names)
    return {resource: name for resource, name in pairs if is_hashed(resource)}


def label_value(text: str) -> str:
    """A label's value for any name: the name itself where it is allowed, else as much of it as is, with a hash."""
    return text if _LEGAL.fullmatch(text) else f"{_slug(text)[:40].strip('-.')}-{_digest(text)[:12]}".lstrip("-")


def pod_name(task: TaskAt) -> str:
    """The pod of a task on its box: the same task of the same epoch has the same name, so that a request which got no
    answer may be repeated."""
    whole = json.dumps([task.job, task.task, task.box, task.epoch])
    slug = re.sub(r"[^a-z0-9-]", "-", task.job.lower())[:30].strip("-") or "job"
    return f"{slug}-{task.task}-{task.epoch}-{_digest(whole)[:10]}"


def gang_name(tasks: Sequence[TaskAt]) -> str:
    """One name for tasks that begin together, whatever their jobs and epochs are."""
    return label_value(f"{tasks[0].job[:30]}-{_digest(json.dumps([pod_name(task) for task in tasks]))[:12]}")


def task_annotation(task: TaskAt) -> str:
    """A task as JSON."""
    return json.dumps({"job": task.job, "task": task.task, "box": task.box, "epoch": task.epoch}, sort_keys=True)


def task_of(metadata: Mapping[str, Any]) -> TaskAt | None:
    """The task whose pod has this metadata; None: it is no task's pod."""
    try:
        return TaskAt(**json.loads((metadata.get("annotations") or {})[TASK_ANNOTATION]))
    except (KeyError, TypeError, ValueError):
        return None


def check_node_name(path: str, name: str) -> None:
    """A box is a node: its name is the node's. Raises InvalidValue."""
    if len(name) > 253 or not _NODE.fullmatch(name):
        raise InvalidValue(path, name, "the name of a node: up to 253 lower-case letters, digits, - and .")


def check_label_value(path: str, value: str) -> None:
    """Raises InvalidValue where Kubernetes would refuse the value of a label."""
    if not _LEGAL.fullmatch(value):
        raise InvalidValue(path, value, "up to 63 letters, digits and - _ ., a letter or digit first and last")


def _escaped(text: str, always: str) -> str:
    """Escapes for what may not stand there; `-` and `.` only at the end, those in `always` everywhere."""
    kept = "".join(_ESCAPES[c] if c in "_/@=" or c in always else c for c in text)
    return kept[:-1] + _ESCAPES[kept[-1]] if kept[-1] in "-." else kept


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _PLAIN[found[0]], text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text).strip("-_.")
