"""Errors that a caller can act on. Every message says what was wrong; `hint` says what to do about it.

Domain errors know no HTTP: the web transport maps them to status codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class MagpieError(Exception):
    """Base of all errors of the product. `str(error)` is fit to be shown to a user."""

    code = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidValue(MagpieError, ValueError):
    """A field has a value that is not allowed: `path` names it, `given` is what came, `allowed` what may come."""

    code = "invalid_value"

    def __init__(self, path: str, given: object, allowed: str) -> None:
        shown = repr(given)
        shown = shown if len(shown) <= 120 else shown[:117] + "..."
        MagpieError.__init__(self, f"{path}: got {shown}, allowed: {allowed}")
        self.path, self.given, self.allowed = path, given, allowed

    def __reduce__(self) -> tuple[type[InvalidValue], tuple[str, object, str]]:
        return type(self), (self.path, self.given, self.allowed)


class ReportedInvalid(InvalidValue):
    """An invalid value that another process found, whose message is ready."""

    def __init__(self, message: str) -> None:
        MagpieError.__init__(self, message)
        self.path, self.given, self.allowed = "", None, ""

    def __reduce__(self) -> tuple[type[ReportedInvalid], tuple[str]]:  # type: ignore[override]
        return type(self), (self.message,)


class InvalidValues(MagpieError, ValueError):
    """Several fields are wrong at once; `problems` lists them."""

    code = "invalid_value"

    def __init__(self, problems: list[InvalidValue]) -> None:
        MagpieError.__init__(self, "; ".join(p.message for p in problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type[InvalidValues], tuple[list[InvalidValue]]]:
        return type(self), (self.problems,)


class NotFound(MagpieError):
    """The named resource does not exist."""

    code = "not_found"


class Conflict(MagpieError):
    """The request contradicts the present state (a name already taken, a pinned model, ...)."""

    code = "conflict"


class NotUnderstood(MagpieError):
    """Another box does not know a question, or cannot read it: it is of another version."""

    code = "not_understood"


class NotLoggedIn(MagpieError):
    """The client is not logged in, or the login is over, or name and password do not fit."""

    code = "not_logged_in"


class Forbidden(MagpieError):
    """The right to do this is missing."""

    code = "forbidden"


class PasswordChangeNeeded(Forbidden):
    """Another person chose the requester's password: before anything else the requester chooses a new one."""

    code = "password_change_needed"


class TooManyTries(MagpieError):
    """Too many logins were refused: try again after `retry_after_s` seconds."""

    code = "too_many_tries"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type[TooManyTries], tuple[str, float]]:
        return type(self), (self.message, self.retry_after_s)


class Unavailable(MagpieError):
    """Something outside that is needed cannot be reached or used now."""

    code = "unavailable"


class CameraError(MagpieError):
    """A camera cannot be read. `kind` is one of edge.core.camera.CameraFault; the message never holds a password."""

    code = "camera"

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.kind = kind

    def __reduce__(self) -> tuple[type[CameraError], tuple[str, str, str]]:
        return type(self), (self.kind, self.message, self.hint)


class WeightsError(MagpieError):
    """A weight file is missing, unreadable, damaged or does not fit the model."""

    code = "weights"


class LicenceRefused(MagpieError):
    """A model's licence is one that Magpie takes only if the operator says so: `name` of the model, `licence`."""

    code = "licence"

    def __init__(self, name: str, licence: str, why: str, hint: str = "") -> None:
        super().__init__(f"{name}: its licence is {licence}: {why}", hint)
        self.name, self.licence, self.why = name, licence, why

    def __reduce__(self) -> tuple[type[LicenceRefused], tuple[str, str, str, str]]:
        return type(self), (self.name, self.licence, self.why, self.hint)


class LabelError(MagpieError):
    """Labels cannot be produced (a class the teacher does not know, no labelled frame, ...)."""

    code = "labels"


class ShareError(MagpieError):
    """A share cannot be enforced as asked."""

    code = "share"


class StoreError(MagpieError):
    """The database or the model store cannot be read or written."""

    code = "store"


class UnreadableRecord(StoreError):
    """A stored record is not as this release knows it: `kind` and `name` say which one, `why` what is wrong with it."""

    code = "unreadable_record"

    def __init__(self, kind: str, name: str, why: str) -> None:
        super().__init__(f"{kind} {name} is stored in a form that this release cannot read: {why}")
        self.kind, self.name, self.why = kind, name, why

    def __reduce__(self) -> tuple[type[UnreadableRecord], tuple[str, str, str]]:
        return type(self), (self.kind, self.name, self.why)


class DiskFull(StoreError):
    """No space is left where Magpie writes. Serving goes on; recording stops until space is free."""

    code = "disk_full"


class WorkerFailed(MagpieError):
    """A worker process died, hung or ran out of memory; only its own work is lost."""

    code = "worker_failed"


class MemoryLimitExceeded(WorkerFailed):
    """A file needs more memory than one process may have: `about` names the file, `limit_bytes` is the limit."""

    code = "memory_limit"

    def __init__(self, about: str, limit_bytes: int, setting: str = "machine.worker_memory_mb") -> None:
        super().__init__(
            f"{about}: to open and try it takes more memory than one process may have "
            f"({setting}: {limit_bytes / 2**20:.0f} MiB)",
            f"raise {setting}, or take a smaller model",
        )
        self.about, self.limit_bytes, self.setting = about, limit_bytes, setting

    def __reduce__(self) -> tuple[type[MemoryLimitExceeded], tuple[str, int, str]]:
        return type(self), (self.about, self.limit_bytes, self.setting)


class DeadlineMissed(MagpieError):
    """A request could not be answered within its objective and was dropped; counted as a violation."""

    code = "deadline_missed"


class Overloaded(MagpieError):
    """A queue is full: the request was turned away at once; counted as a violation."""

    code = "overloaded"


#: By code: errors that another process reports by code and message.
_REPORTED: Mapping[str, Callable[[str], MagpieError]] = {
    InvalidValue.code: ReportedInvalid,
    **{kind.code: kind for kind in (NotFound, Conflict, Unavailable, Overloaded, DeadlineMissed, WeightsError)},
}


def reported_error(code: str, message: str) -> MagpieError:
    """The error that another process reports; Unavailable for a code that is not among those."""
    return _REPORTED.get(code, Unavailable)(message)


#: Messages of torch, onnxruntime and their libraries when they get no memory.
_NO_MEMORY = (
    "out of memory", "can't allocate memory", "not enough memory", "could not create a primitive", "bad_alloc",
    "bad allocation", "failed to allocate memory", "cannot allocate memory",
)  # fmt: skip


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, torch or oneDNN means that memory ran out."""
    by_type = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return by_type or (isinstance(error, RuntimeError) and says_no_memory(str(error)))


def says_no_memory(text: str) -> bool:
    """Whether an error's text says that memory ran out."""
    return any(words in text.lower() for words in _NO_MEMORY)
