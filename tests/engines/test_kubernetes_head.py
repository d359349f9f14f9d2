"""One head by a Lease on a stand-in API server, by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed (magpie-edge[kubernetes])")

from kubernetes_kit import StandIn, api_server, client_of

from edge.engines.kubernetes_api import ApiPatience, KubernetesApi
from edge.engines.kubernetes_head import LeasedHead
from edge.engines.kubernetes_lease import LeaseRules


@dataclass
class Pair:
    """Two candidates, whose wall clocks are five minutes apart."""

    stand_in: StandIn
    api: KubernetesApi
    now_s: float = 0.0

    def candidate(self, name: str, minute: int) -> LeasedHead:
        moment = datetime(2026, 11, 22, 0, minute, tzinfo=UTC)
        return LeasedHead(self.api, LeaseRules(name), clock=lambda: self.now_s, utc=lambda: moment)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with api_server() as (stand_in, address):
        patience = ApiPatience(tries=2, first_s=0.0, most_s=0.0)
        yield Pair(stand_in, KubernetesApi(client_of(address), "magpie", patience))


def test_the_second_candidate_takes_over_when_the_first_is_silent_for_the_lease(pair: Pair) -> None:
    first, second = pair.candidate("a", 0), pair.candidate("b", 5)
    assert first.tick()
    assert not second.tick()
    assert second.holder == "a"
    pair.now_s = 6.0
    assert first.tick()  # renewed
    assert not second.tick()
    pair.now_s = 19.5  # 13.5 s after it was renewed: the first counts itself out, the second may not yet
    assert not first.is_head
    assert not second.tick()
    pair.now_s = 21.5
    assert second.tick()
    assert not first.tick()
    assert first.holder == "b"
    renewed = pair.stand_in.leases["magpie-head"]["spec"]["renewTime"]
    assert "." in renewed  # an API server reads it with parts of a second only


def test_a_lost_race_and_an_api_server_that_is_away_make_it_step_down(pair: Pair) -> None:
    first, second = pair.candidate("a", 0), pair.candidate("b", 5)
    assert first.tick()
    pair.stand_in.fail_next(503, 503)
    pair.now_s = 6.0
    assert first.tick()  # its time is not over
    pair.now_s = 14.0
    pair.stand_in.fail_next(503, 503)
    assert not first.tick()
    assert first.tick()  # no other took it meanwhile
    first.release()
    assert not first.is_head
    assert second.tick()
    answer = pair.stand_in.answer

    def slower(method: str, path: str, query: object, body: object) -> tuple[int, dict[str, object]]:
        if method == "PUT":  # another one writes between the read and the write
            pair.stand_in.leases["magpie-head"]["metadata"]["resourceVersion"] = "999"
        return answer(method, path, query, body)  # type: ignore[arg-type]

    pair.stand_in.answer = slower  # type: ignore[method-assign,assignment]
    pair.now_s = 20.0
    assert not second.tick()
