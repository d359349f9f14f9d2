"""One head by a Lease: the requests around the steps of `kubernetes_lease`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from edge.core.errors import MagpieError, Unavailable
from edge.engines import kubernetes_lease as steps
from edge.engines.kubernetes_api import ApiRefusal, KubernetesApi

log = logging.getLogger(__name__)

_NONE: Final = 404
_OTHER_WAS_FASTER: Final = 409


class LeasedHead:
    """One candidate. `tick` is called about each second, by one thread; in between `is_head` answers by the clock
    alone. `rules.me` must be another one for each process."""

    def __init__(
        self,
        api: KubernetesApi,
        rules: steps.LeaseRules,
        *,
        clock: Callable[[], float] = time.monotonic,
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._rules, self._clock, self._utc = api, rules, clock, utc
        self._state = steps.LeaseState()

    @property
    def is_head(self) -> bool:
        """Whether this candidate is the head."""
        return steps.holds(self._rules, self._state, self._clock())

    @property
    def holder(self) -> str:
        """The head by the lease as it was last read; empty where no head is known."""
        return self._state.seen.holder if self._state.seen is not None else ""

    def tick(self) -> bool:
        """Read the lease; make, renew or take it where that is due. Answers whether this candidate is the head. An API
        server that does not answer has no effect at once: the head steps down when its time is over."""
        was = self.is_head
        try:
            self._step()
        except MagpieError as error:
            log.warning("lease %s: %s", self._rules.name, error)
        if self.is_head != was:
            log.info("%s is %s", self._rules.me, "the head now" if self.is_head else "the head no longer")
        return self.is_head

    def release(self) -> None:
        """Give the lease back, so that another one need not wait."""
        state = self._state
        if state.held_s is None or state.seen is None:
            return
        self._state = steps.lost(state)
        try:
            body = steps.release_body(self._rules, self._api.namespace, self._now(), state.seen.version)
            self._api.replace_lease(self._rules.name, body)
        except MagpieError as error:
            log.warning("lease %s is not given back and runs out: %s", self._rules.name, error)

    def _step(self) -> None:
        seen = self._read()
        self._state = steps.observe(self._state, seen, self._clock())
        if seen is None or seen.holder != self._rules.me:
            self._state = steps.lost(self._state)
        asked_s = self._clock()
        match steps.next_step(self._rules, self._state, asked_s):
            case steps.CreateLease():
                version = None
            case steps.WriteLease(version):
                pass
            case steps.LeaveLease():
                return
        body = steps.lease_body(self._rules, self._api.namespace, self._now(), version)
        try:
            if version is None:
                answer = self._api.create_lease(body)
            else:
                answer = self._api.replace_lease(self._rules.name, body)
        except ApiRefusal as refusal:
            if refusal.status != _OTHER_WAS_FASTER:
                raise Unavailable(f"the API server refused: {refusal}") from None
            self._state = steps.lost(self._state)
            return
        self._state = steps.written(self._state, steps.lease_seen(answer), asked_s)

    def _read(self) -> steps.LeaseSeen | None:
        try:
            return steps.lease_seen(self._api.read_lease(self._rules.name))
        except ApiRefusal as refusal:
            if refusal.status != _NONE:
                raise Unavailable(f"the API server refused: {refusal}") from None
            return None

    def _now(self) -> datetime:
        """Now, with a part of a second: an API server reads `renewTime` with microseconds only."""
        now = self._utc()
        return now if now.microsecond else now.replace(microsecond=1)
