"""One table from the errors of a service to the protocol's statuses, for both transports."""

from __future__ import annotations

import logging
import secrets

from edge.core import errors as e

log = logging.getLogger(__name__)

#: Error -> HTTP status, name of the gRPC status. The first class that the error is an instance of decides.
STATUSES: tuple[tuple[type[e.MagpieError], int, str], ...] = (
    (e.InvalidValue, 400, "INVALID_ARGUMENT"),
    (e.InvalidValues, 400, "INVALID_ARGUMENT"),
    (e.WeightsError, 400, "INVALID_ARGUMENT"),
    (e.NotLoggedIn, 401, "UNAUTHENTICATED"),
    (e.Forbidden, 403, "PERMISSION_DENIED"),
    (e.NotFound, 404, "NOT_FOUND"),
    (e.Conflict, 409, "FAILED_PRECONDITION"),
    (e.Overloaded, 429, "RESOURCE_EXHAUSTED"),
    (e.DeadlineMissed, 504, "DEADLINE_EXCEEDED"),
    (e.DiskFull, 507, "RESOURCE_EXHAUSTED"),
    (e.Unavailable, 503, "UNAVAILABLE"),
    (e.StoreError, 503, "UNAVAILABLE"),
    (e.ShareError, 503, "UNAVAILABLE"),
    (e.WorkerFailed, 503, "UNAVAILABLE"),
)


def http_status(error: e.MagpieError) -> int:
    """500 for an error that the table does not know."""
    return next((status for kind, status, _ in STATUSES if isinstance(error, kind)), 500)


def grpc_status(error: e.MagpieError) -> str:
    """ "INTERNAL" for an error that the table does not know."""
    return next((name for kind, _, name in STATUSES if isinstance(error, kind)), "INTERNAL")


def unexpected(error: BaseException, where: str) -> str:
    """Log an unforeseen error under an id; return the answer, which names the id only."""
    number = secrets.token_hex(6)
    log.error("error %s in %s", number, where, exc_info=error)
    return f"something went wrong inside the server; its log tells more under {number}"
