"""From sights of pods and nodes to the events of an engine: each task has exactly one last event.

A task's life is a frozen value; a sight of its pod takes it one step further. Nothing here asks anybody.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from edge.core import engine as port
from edge.engines.kubernetes_objects import PodSeen

#: Reasons for which a pod fails without its program's doing: the work may be done again elsewhere.
_LOST_REASONS: Final = frozenset(
    {"Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "Preempted", "NodeAffinity",
     "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "DeadlineExceeded"}
)  # fmt: skip
#: Reasons that would come again.
_OWN_REASONS: Final = {
    "OOMKilled": "it needs more memory than its task asked for",
    "StartError": "its command cannot be started",
    "ContainerCannotRun": "its container cannot be started",
}


@dataclass(frozen=True)
class TaskLife:
    """A task that was launched as the pod `pod` at `since_s`; `waits`: why it does not run yet. `bound`: a kubelet
    has it, so something of it may run."""

    task: port.EngineTask
    pod: str
    since_s: float
    started: bool = False
    cancelling: bool = False
    bound: bool = False
    waits: str = ""


@dataclass(frozen=True)
class LifeStep:
    """The life after a sight (None: it is over) and its events."""

    life: TaskLife | None
    events: tuple[port.EngineEvent, ...] = ()


@dataclass(frozen=True)
class LastWords:
    """The message that a pod's program left: its `answer`, or `why` it raised; not `readable`: neither."""

    answer: Any = None
    ran_s: float | None = None
    why: str | None = None
    readable: bool = False


def seen(life: TaskLife, pod: PodSeen, at_s: float) -> LifeStep:
    """A life's pod was seen."""
    at = life.task.at
    begun = pod.began or pod.phase == "Succeeded"
    events: tuple[port.EngineEvent, ...] = ()
    if begun and not life.started:
        events = (port.EngineTaskStarted(at_s, at),)
    life = replace(life, started=life.started or begun, bound=life.bound or pod.phase != "Pending", waits=pod.waits)
    if pod.phase == "Succeeded":
        return LifeStep(None, (*events, _ended(life, pod, at_s)))
    if pod.phase == "Failed":
        return LifeStep(None, (*events, _failed(life, pod, at_s)))
    return LifeStep(life, events)


def gone(life: TaskLife, at_s: float, why: str = "its pod was deleted") -> LifeStep:
    """A life's pod is there no longer."""
    if life.cancelling:
        return LifeStep(None, (port.EngineTaskCancelled(at_s, life.task.at),))
    return LifeStep(None, (port.EngineTaskFailed(at_s, life.task.at, lost=True, why=why),))


def pending_too_long(life: TaskLife, at_s: float, limit_s: float) -> bool:
    """Whether a task has waited for its start beyond the limit."""
    return not life.started and not life.cancelling and at_s - life.since_s > limit_s


def last_words(message: str) -> LastWords:
    """A pod's termination message."""
    try:
        row = json.loads(message)
    except ValueError:
        return LastWords()
    if not isinstance(row, dict) or not ("answer" in row or isinstance(row.get("why"), str)):
        return LastWords()
    ran_s = row.get("ran_s")
    ran_s = float(ran_s) if isinstance(ran_s, int | float) else None
    return LastWords(row.get("answer"), ran_s, row.get("why"), readable=True)


def _ended(life: TaskLife, pod: PodSeen, at_s: float) -> port.EngineEvent:
    words = last_words(pod.message)
    if not words.readable or words.why is not None:
        why = "its program ended without an answer that can be read"
        return port.EngineTaskFailed(at_s, life.task.at, lost=False, why=words.why or why)
    return port.EngineTaskEnded(at_s, life.task.at, pod.ran_s if words.ran_s is None else words.ran_s, words.answer)


def _failed(life: TaskLife, pod: PodSeen, at_s: float) -> port.EngineEvent:
    """A program that raised reports that itself; every other end is a loss."""
    if life.cancelling:
        return port.EngineTaskCancelled(at_s, life.task.at)
    words = last_words(pod.message)
    if words.why is not None and pod.reason not in _LOST_REASONS:
        return port.EngineTaskFailed(at_s, life.task.at, lost=False, why=words.why)
    if pod.reason in _OWN_REASONS:
        return port.EngineTaskFailed(at_s, life.task.at, lost=False, why=_OWN_REASONS[pod.reason])
    code = "" if pod.exit_code is None else f", exit code {pod.exit_code}"
    return port.EngineTaskFailed(at_s, life.task.at, lost=True, why=f"its pod failed: {pod.reason or 'unknown'}{code}")
