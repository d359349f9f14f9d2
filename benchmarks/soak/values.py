"""What a soak sees, as frozen values. Times `at_s` are seconds since the soak began, by the monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.soak.schedule import FaultName


@dataclass(frozen=True)
class FaultDone:
    """A fault that was done: from `began_s`, taken away at `ended_s` (the same for an instant). `note` says where, or
    why it was left out (`tried` is false then)."""

    number: int
    fault: FaultName
    camera: str
    began_s: float
    ended_s: float
    tried: bool = True
    note: str = ""


@dataclass(frozen=True)
class BoxSeen:
    """One look at the appliance by REST. `life` counts its starts. `models` in force by camera; `states` of cameras;
    `reasons` of its health and `complaints` by code; `counters` by name (they begin anew with a life, those of a camera
    with its worker), which were read at `counters_read_s`; `waiting` messages by destination."""

    at_s: float
    life: int
    models: Mapping[str, str]
    states: Mapping[str, str]
    reasons: frozenset[str]
    counters: Mapping[str, float]
    counters_read_s: float
    waiting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class InForce:
    """A journal entry that puts a version in force on a camera."""

    entry: int
    camera: str
    version: str


@dataclass(frozen=True)
class ReceivedMessage:
    """A message that came to a destination: of an object or an alarm (`what`), with its number and phase."""

    at_s: float
    destination: str
    what: str
    number: int
    phase: str
    message: str


@dataclass(frozen=True)
class RecordedEvent:
    """An object or alarm that the appliance has a record of; `ended_utc_s`: None while it has not ended."""

    what: str
    number: int
    began_utc_s: float
    ended_utc_s: float | None


@dataclass(frozen=True)
class RequestTotal:
    """A served model's requests since the front or appliance started, and those in its queue and under work."""

    at_s: float
    model: str
    arrived: int
    answered: int
    dropped: int
    rejected: int
    failed: int
    cancelled: int
    inside: int


@dataclass(frozen=True)
class Gap:
    """A time without a fresh answer of `subject`: "camera NAME", "page", "model NAME" (any answer of it, also that a
    request cannot be in time) or "answered NAME" (a model's results alone)."""

    subject: str
    from_s: float
    to_s: float

    @property
    def length_s(self) -> float:
        """Seconds."""
        return self.to_s - self.from_s


@dataclass(frozen=True)
class EarlierProcess:
    """A process that ran when the appliance was killed in its start number `life`, at `killed_s`; it was seen last, by
    its number and beginning, at `seen_s`."""

    life: int
    name: str
    pid: int
    killed_s: float
    seen_s: float


@dataclass(frozen=True)
class ProcessSample:
    """What one process has: memory of its own in MB, threads, open files."""

    at_s: float
    name: str
    pid: int
    memory_mb: float
    threads: int
    files: int


@dataclass(frozen=True)
class MemorySample:
    """A process's memory in MB by kind of mapping (benchmarks.soak.mappings)."""

    at_s: float
    name: str
    pid: int
    mb: Mapping[str, float]


@dataclass(frozen=True)
class Break:
    """An invariant that did not hold, in words, and when."""

    invariant: str
    at_s: float
    said: str


@dataclass(frozen=True)
class Checked:
    """An invariant: how often it was checked, and where it broke."""

    name: str
    checks: int
    breaks: tuple[Break, ...]
