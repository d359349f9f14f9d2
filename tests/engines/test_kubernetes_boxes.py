"""Boxes of a fleet on nodes of a cluster: who may take tasks, and with which amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed (magpie-edge[kubernetes])")

from engine_kit import started, until
from kubernetes_kit import StandIn, api_server, kubeconfig

from edge.core import engine as port
from edge.core.errors import NotFound, Unavailable
from edge.core.fleet import TaskAt
from edge.engines.kubernetes_api import ApiAccount, ApiPatience
from edge.engines.kubernetes_boxes import BoxNode, KubernetesBoxes
from edge.engines.kubernetes_engine import KubernetesSettings, open_kubernetes
from edge.engines.kubernetes_pods import PodSettings

NODE = {"cpu": "4", "memory": "16G"}
EAST, WEST = BoxNode("east", "n1.yard", {"cpu": 2.0}), BoxNode("west", "n2.yard", {"cpu": 2.0})


class Opened:
    """Two nodes, the engine on them, and a clock that the test moves."""

    def __init__(self, stand_in: StandIn, account: ApiAccount, **more: Any) -> None:
        self.stand_in, self.now_s, self.is_head = stand_in, 0.0, True
        patience = ApiPatience(tries=1)
        settings = KubernetesSettings("yard", PodSettings("magpie:1"), account=account, patience=patience, **more)
        self.engine = KubernetesBoxes(
            open_kubernetes(settings, clock=lambda: self.now_s), lambda: self.now_s, lambda: self.is_head
        )

    def joined(self, *boxes: BoxNode) -> dict[str, dict[str, float]]:
        """The amounts of these boxes, once they have joined."""
        self.engine.know(boxes)
        events = until(self.engine, lambda seen: len(seen) == len(boxes))
        return {e.box.name: dict(e.box.total) for e in events if isinstance(e, port.EngineBoxJoined)}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    made: list[Opened] = []
    with api_server() as (stand_in, address):
        stand_in.add_node("n1.yard", NODE)
        stand_in.add_node("n2.yard", NODE)

        def open_it(**more: Any) -> Opened:
            made.append(Opened(stand_in, ApiAccount(kubeconfig(tmp_path, address)), **more))
            return made[-1]

        yield open_it
        for one in made:
            one.engine.close()


def task(job: str, box: str, **demand: float) -> port.EngineTask:
    return port.EngineTask(TaskAt(job, 0, box, 1), demand, port.EngineWork("wait", {"seconds": None}))


def test_a_node_without_a_box_takes_nothing_and_a_box_that_left_loses_its_tasks(opened: Callable[..., Opened]) -> None:
    one = opened()
    twice = BoxNode("alpha", EAST.node, {"cpu": 1.0})
    assert one.joined(EAST) == {"east": {"cpu": 2.0}}
    assert [box.name for box in one.engine.status()] == ["east"]
    for box in ("n1.yard", "n2.yard", "west"):
        with pytest.raises(NotFound):
            one.engine.launch((task("long", box),))
    one.engine.launch((task("long", "east", cpu=2.0),))
    until(one.engine, started)
    (pod,) = one.stand_in.pods.values()
    assert pod["spec"]["nodeName"] == "n1.yard"
    one.engine.know([WEST, twice, EAST])
    assert [e.box.name for e in until(one.engine, bool) if isinstance(e, port.EngineBoxJoined)] == ["west"]
    one.engine.know([WEST])
    failed, gone = until(one.engine, lambda seen: len(seen) == 2)
    assert isinstance(failed, port.EngineTaskFailed)
    assert (failed.lost, failed.task.box, one.engine.running) == (True, "east", 0)
    assert gone == port.EngineBoxGone(one.now_s, "east")
    assert pod["metadata"]["name"] not in one.stand_in.pods or pod["metadata"]["deletionTimestamp"]


def test_a_box_has_no_more_than_its_node_and_joins_when_its_resources_are_made(opened: Callable[..., Opened]) -> None:
    one = opened(mode="dynamic")
    asked = [("GET", "/api/v1/nodes"), ("GET", "/api/v1/namespaces/magpie/pods")]
    while any(one.stand_in.requests.count(row) < 3 for row in asked):  # twice lists, then it follows
        one.engine.events(0.01)
    one.stand_in.fail_next(503)
    one.engine.know([BoxNode("east", "n1.yard", {"cpu": 99.0, "gpu": 1.0, "seat": 2.0})])
    while one.stand_in.failures:  # its resources are refused
        assert one.engine.events(0.01) == ()
    assert one.engine.events(0.05) == ()
    one.now_s = 6.0
    (joined,) = until(one.engine, bool)
    assert isinstance(joined, port.EngineBoxJoined)
    assert joined.box.total == {"cpu": 4.0, "gpu": 0.0, "seat": 2.0}
    assert one.stand_in.nodes["n1.yard"]["status"]["allocatable"]["magpie.example/seat"] == "2000"
    one.engine.launch((task("long", "east", seat=1.5),))
    assert [dict(box.free)["seat"] for box in one.engine.status()] == [0.5]


def test_nothing_begins_without_the_lease_and_a_late_pod_is_reported(
    opened: Callable[..., Opened],
) -> None:
    one = opened()
    one.joined(EAST)
    one.is_head = False
    with pytest.raises(Unavailable, match="lease"):
        one.engine.launch((task("long", "east", cpu=2.0),))
    assert one.stand_in.pods == {}
    one.is_head = True
    with one.stand_in.lock:
        one.stand_in.nodes["n1.yard"]["spec"]["unschedulable"] = True
    one.engine.launch((task("long", "east", cpu=2.0),))
    one.now_s = 20.0
    while not one.engine.waiting(10.0):
        one.engine.events(0.1)
    assert one.engine.waiting(10.0) == ("long/0 has not begun on east: Unschedulable: 0/2 nodes are available")
    assert one.engine.waiting(30.0) == ""
