"""Messages that leave the appliance, and the decisions about them: the receivers of each, when to try again, which to
give up.

Everything here is a frozen value or a pure function.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from edge.core.alarms import Alarm
from edge.core.counts import CountedMinute, DayReport
from edge.core.errors import InvalidValue
from edge.core.tracks import ObjectNews

Json = dict[str, Any]
Kind = Literal["alarm", "object", "count", "report"]
#: The kinds of messages.
OutputEvent = Alarm | ObjectNews | CountedMinute | DayReport

MQTT: Final = "mqtt"
WEBHOOK: Final = "webhook/"
#: A message that is larger is refused when it is made: no broker or receiver takes it.
MAX_BYTES: Final = 256 * 1024
#: A row's size beside its body, roughly.
ROW_BYTES: Final = 200
#: A receiver that asks for a longer pause is asked again after this.
LONGEST_PAUSE_S: Final = 3600.0
#: Answers 4xx that may be another one later: login, access and names can be put right, conflicts and limits pass.
_PASSING: Final = frozenset({401, 403, 404, 407, 408, 409, 421, 423, 424, 425, 429})
#: Answers that speak of the receiver, not of the message.
_AWAY: Final = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class NewMessage:
    """One message for one destination. `lane` is the camera ("" for the whole appliance): order is kept inside it.
    `message` is the id that stays the same however often it is sent. `at_utc_s` is when it was made."""

    destination: str
    lane: str
    kind: str
    message: str
    at_utc_s: float
    body: Json
    bytes: int


@dataclass(frozen=True)
class WaitingMessage:
    """A message of the outbox; `id` grows in the order of arrival."""

    id: int
    destination: str
    lane: str
    kind: str
    message: str
    at_utc_s: float
    body: Json
    bytes: int


@dataclass(frozen=True)
class DeadLetter:
    """A message that was given up, and why."""

    id: int
    destination: str
    lane: str
    kind: str
    message: str
    at_utc_s: float
    died_utc_s: float
    tries: int
    reason: str
    body: Json

    def to_json(self) -> Json:
        """For REST."""
        return {
            "id": self.id,
            "destination": self.destination,
            "camera": self.lane or None,
            "kind": self.kind,
            "message": self.message,
            "utc_s": self.at_utc_s,
            "died_utc_s": self.died_utc_s,
            "tries": self.tries,
            "reason": self.reason,
            "body": self.body,
        }


@dataclass(frozen=True)
class QueueLimits:
    """How much may wait for one destination: messages, bytes, and seconds since they were made."""

    messages: int = 100_000
    bytes: int = 100_000_000
    age_s: float = 86_400.0


@dataclass(frozen=True)
class Wanted:
    """Which messages a destination gets; an empty list is no restriction. A message of the whole appliance (no camera)
    goes to those that do not name cameras. Severities count for alarms only, phases
    for alarms and objects."""

    kinds: frozenset[str] = frozenset()
    cameras: frozenset[str] = frozenset()
    severities: frozenset[str] = frozenset()
    phases: frozenset[str] = frozenset()

    def takes(self, event: OutputEvent) -> bool:
        """Whether this destination gets it."""
        if self.kinds and kind_of(event) not in self.kinds:
            return False
        if self.cameras and event.camera not in self.cameras:
            return False
        if isinstance(event, CountedMinute | DayReport):
            return True
        if self.phases and event.phase not in self.phases:
            return False
        return not isinstance(event, Alarm) or not self.severities or event.severity in self.severities


@dataclass(frozen=True)
class DeliveryVerdict:
    """The meaning of an answer. "delivered"; "refused": never try this message again; "later": try it again, its
    camera's later ones wait; "away": the receiver is not there, everything waits."""

    outcome: Literal["delivered", "refused", "later", "away"]
    reason: str = ""
    retry_after_s: float | None = None


@dataclass
class DestinationCounts:
    """One destination's counts since the start; `waiting` and `bytes` now. `lost` by cause: "limit"
    (too many or too large together), "age", "memory" (the database was away), "refused" (could not be kept)."""

    waiting: int = 0
    bytes: int = 0
    sent: int = 0
    dead: int = 0
    lost: dict[str, int] = field(default_factory=dict)

    def lose(self, cause: str, messages: int) -> None:
        """Count messages that will never be delivered."""
        if messages:
            self.lost[cause] = self.lost.get(cause, 0) + messages


def kind_of(event: OutputEvent) -> Kind:
    """The kind that destinations ask for."""
    if isinstance(event, CountedMinute):
        return "count"
    if isinstance(event, DayReport):
        return "report"
    return "alarm" if isinstance(event, Alarm) else "object"


def message_id(sender: str, event: OutputEvent) -> str | None:
    """The id of a message that must be the same if it is made again after a crash; None: any new one. A number that is
    given again (the database was lost, or is an older copy) has another beginning, and so another id. `sender`: the
    site, or the box of it."""
    if isinstance(event, CountedMinute):
        about = f"count/{sender}/{event.camera}/{event.start_s}"
    elif isinstance(event, DayReport):
        about = f"report/{sender}/{event.camera}/{event.day}"
    elif event.phase == "update":
        return None
    elif isinstance(event, Alarm):
        about = f"alarm/{sender}/{event.id}/{float(event.began_utc_s)!r}/{event.phase}"
    else:
        about = f"object/{sender}/{event.object.id}/{float(event.object.began_utc_s)!r}/{event.phase}"
    return hashlib.sha256(about.encode()).hexdigest()[:32]


def size_of(body: Mapping[str, Any]) -> int:
    """Bytes that a message counts for. Raises InvalidValue for values that JSON cannot hold, or that are too large."""
    try:
        size = len(json.dumps(body, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue("body", str(error), "values that can be written as JSON (no NaN)") from None
    if size > MAX_BYTES:
        raise InvalidValue("body", f"{size} bytes", f"at most {MAX_BYTES} bytes")
    return size + ROW_BYTES


def surplus(oldest: Sequence[int], messages: int, total: int, limits: QueueLimits) -> int:
    """How many of the oldest messages have to go so that the rest is within the limits. `oldest` has their bytes,
    the oldest first; of `messages` messages with `total` bytes in all."""
    gone = 0
    for size in oldest:
        if messages - gone <= limits.messages and total <= limits.bytes:
            break
        gone += 1
        total -= size
    return gone


def judge(status: int, retry_after: str | None, now_utc_s: float) -> DeliveryVerdict:
    """The meaning of a receiver's HTTP status for the message that it answers. See docs/outputs.md."""
    pause = retry_after_s(retry_after, now_utc_s)
    reason = f"the receiver answered {status}"
    if 200 <= status < 300:
        return DeliveryVerdict("delivered")
    if 300 <= status < 400:
        return DeliveryVerdict("later", f"{reason}: another address (redirects are not followed)", pause)
    if status in _AWAY:
        return DeliveryVerdict("away", reason, pause)
    if 400 <= status < 500 and status not in _PASSING:
        return DeliveryVerdict("refused", reason)
    return DeliveryVerdict("later", reason, pause)


def retry_after_s(value: str | None, now_utc_s: float) -> float | None:
    """Seconds that a Retry-After header (a number or a date) asks for, 0 to an hour; None if there is none."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    else:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now_utc_s
    return min(max(0.0, seconds), LONGEST_PAUSE_S) if math.isfinite(seconds) else None
