"""The engine `kubernetes` on a stand-in API server: what the contract suite of engines does not know of."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed (magpie-edge[kubernetes])")

from engine_kit import AMOUNTS, EngineContract, OpenEngine, begin, over, started, until
from kubernetes_kit import TOKEN, StandIn, api_server, kubeconfig

from edge.core import engine as port
from edge.core.errors import Conflict, InvalidValue, NotFound, Unavailable
from edge.core.fleet import UNBOUNDED, Avoidance, SpatialRule, TaskAt
from edge.engines.kubernetes_api import ApiAccount, ApiPatience
from edge.engines.kubernetes_boxes import BoxNode, KubernetesBoxes
from edge.engines.kubernetes_engine import KubernetesEngine, KubernetesSettings, open_kubernetes
from edge.engines.kubernetes_pods import PodSettings

NODE = {"cpu": "4", "memory": "16G"}
PODS = PodSettings("magpie:1")
PATIENT = ApiPatience(tries=3, first_s=0.01, most_s=0.05)


@pytest.fixture
def served() -> Iterator[tuple[StandIn, str]]:
    with api_server() as (stand_in, address):
        stand_in.add_node("b1", NODE, site="north")
        stand_in.add_node("b2", NODE, site="south")
        yield stand_in, address


@pytest.fixture
def opened(served: tuple[StandIn, str], tmp_path: Path) -> Iterator[Callable[..., KubernetesEngine]]:
    """Opens an engine whose two boxes have joined; it is closed at the end."""
    engines = []

    def open_it(rule_of: Callable[[str], SpatialRule | None] = lambda job: None, **more: Any) -> KubernetesEngine:
        account = ApiAccount(kubeconfig(tmp_path, served[1]))
        settings = KubernetesSettings("yard", **{"pods": PODS, "account": account, "patience": PATIENT, **more})
        engine = open_kubernetes(settings, rule_of=rule_of)
        engines.append(engine)
        events = until(engine, lambda seen: len(seen) == 2)
        assert {e.box.name for e in events if isinstance(e, port.EngineBoxJoined)} == {"b1", "b2"}
        return engine

    yield open_it
    for engine in engines:
        engine.close()


def task(job: str, box: str = "b1", number: int = 0, seconds: float | None = 0.0, **demand: float) -> port.EngineTask:
    work = port.EngineWork("wait", {"seconds": seconds})
    return port.EngineTask(TaskAt(job, number, box, 1), {k.replace("__", ":"): v for k, v in demand.items()}, work)


class TestKubernetesEngine(EngineContract):
    """The contract, in both modes, on boxes as a fleet opens the engine: a box has another name than its node."""

    @pytest.fixture(params=port.ENGINE_MODES)
    def opened(
        self, request: pytest.FixtureRequest, served: tuple[StandIn, str], tmp_path: Path
    ) -> Iterator[OpenEngine]:
        stand_in, address = served

        def kill(at: TaskAt) -> None:
            for pod in tuple(stand_in.pods):
                stand_in.kill(pod)

        account = ApiAccount(kubeconfig(tmp_path, address))
        settings = KubernetesSettings("yard", PODS, mode=request.param, account=account)
        engine = KubernetesBoxes(open_kubernetes(settings), time.monotonic)
        engine.know([BoxNode("east", "b1", AMOUNTS), BoxNode("west", "b2", AMOUNTS)])
        yield begin(engine, 2, kill, checkpoints=False)
        engine.close()
        engine.close()


def test_dynamic_resources_are_on_the_node_and_tasks_ask_for_them(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened(mode="dynamic")
    assert engine.set_resources("b1", {"teacher:heavy": 0.5, "zone:gate": UNBOUNDED}) == {
        "teacher:heavy": 0.5,
        "zone:gate": UNBOUNDED,
    }
    counts = {"magpie.example/teacher.heavy": "500", "magpie.example/zone.gate": "1000000"}
    assert counts.items() <= stand_in.nodes["b1"]["status"]["allocatable"].items()
    engine.launch((task("label", seconds=None, teacher__heavy=0.3, zone__gate=1.0, cpu=1.5),))
    free = {box.name: box.free for box in engine.status()}["b1"]
    assert free["teacher:heavy"] == pytest.approx(0.2)
    assert free["zone:gate"] == UNBOUNDED - 1.0
    assert free["cpu"] == 2.5
    assert engine.set_resource("b1", "teacher:heavy", 0.0) == pytest.approx(0.3)  # in use
    engine.close()
    assert not [r for r in stand_in.nodes["b1"]["status"]["capacity"] if r.startswith("magpie")]
    assert stand_in.pods == {} or all(p["metadata"].get("deletionTimestamp") for p in stand_in.pods.values())


def test_another_writer_of_a_resource_is_noticed_and_written_over(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened(mode="dynamic")
    engine.set_resource("b1", "teacher:heavy", 1.0)
    with stand_in.lock:
        stand_in.nodes["b1"]["status"]["capacity"]["magpie.example/teacher.heavy"] = "7"
    assert engine.set_resource("b1", "teacher:heavy", 2.0) == 2.0
    assert stand_in.nodes["b1"]["status"]["allocatable"]["magpie.example/teacher.heavy"] == "2000"
    stand_in.fail_next(*[409] * 10)
    with pytest.raises(Unavailable):
        engine.set_resource("b1", "teacher:heavy", 3.0)
    stand_in.failures.clear()
    with pytest.raises(InvalidValue, match=r"capacity.*thousandths"):
        engine.set_resource("b1", "teacher:heavy", 1234.5)
    with pytest.raises(InvalidValue, match="the node's own"):
        engine.set_resource("b1", "cpu", 2.0)


def test_without_the_right_on_node_status_it_is_pinned_and_reports_that(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine], caplog: pytest.LogCaptureFixture
) -> None:
    served[0].rights.discard(("patch", "nodes/status"))
    engine = opened(mode="dynamic")
    assert engine.mode == "pinned"
    assert "nodes/status" in engine.mode_reason
    assert "nodes/status" in caplog.text
    assert "the fleet has no boxes yet" not in caplog.text
    served[0].rights.clear()
    with pytest.raises(Unavailable, match="may not create pods"):
        opened()


def test_a_gang_is_gated_until_all_of_it_is_there(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened()
    engine.launch((task("gang", "b1", 0), task("gang", "b2", 1)))
    pods = [path for method, path in stand_in.requests if method in ("POST", "PATCH") and "/pods" in path]
    assert [path.rpartition("/")[2].startswith("gang-") for path in pods] == [False, False, True, True]
    events = until(engine, lambda seen: sum(isinstance(e, port.EngineTaskEnded) for e in seen) == 2)
    assert {e.task.box for e in events if isinstance(e, port.EngineTaskStarted)} == {"b1", "b2"}


def test_a_gang_whose_second_pod_is_refused_leaves_nothing(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened()
    gang = (task("gang", "b1", 0, cpu=4.0), task("gang", "b2", 1, cpu=4.0))
    stand_in.fail_next(0, 403, method="POST")
    with pytest.raises(Unavailable, match="refused"):
        engine.launch(gang)
    assert stand_in.pods == {}
    engine.launch(gang)  # its amounts were given back
    until(engine, lambda seen: sum(isinstance(e, port.EngineTaskEnded) for e in seen) == 2)


def test_a_pod_whose_answer_was_lost_is_not_made_twice(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened()
    stand_in.fail_next(0, done=True, method="POST")  # the engine may just be listing
    engine.launch((task("once"),))
    assert sum(1 for method, path in stand_in.requests if method == "POST" and path.endswith("/pods")) == 2
    events = until(engine, over)
    assert [type(e) for e in events] == [port.EngineTaskStarted, port.EngineTaskEnded]


def test_a_node_that_is_not_ready_is_gone_with_its_tasks_and_comes_back_empty(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened(mode="dynamic")
    engine.set_resource("b1", "teacher:heavy", 1.0)
    engine.launch((task("long", seconds=None, teacher__heavy=1.0),))
    until(engine, started)
    stand_in.set_ready("b1", ready=False)
    events = until(engine, lambda seen: any(isinstance(e, port.EngineBoxGone) for e in seen))
    (failed,) = [e for e in events if isinstance(e, port.EngineTaskFailed)]
    assert failed.lost
    assert [box.name for box in engine.status()] == ["b2"]
    stand_in.set_ready("b1", ready=True)
    events = until(engine, lambda seen: any(isinstance(e, port.EngineBoxJoined) for e in seen))
    assert {box.name: dict(box.total) for box in engine.status()}["b1"] == {"cpu": 4.0, "mem_gb": 16.0}
    stand_in.remove_node("b2")
    until(engine, lambda seen: any(isinstance(e, port.EngineBoxGone) and e.box == "b2" for e in seen))


def test_a_task_that_cannot_begin_reports_why_and_is_lost_after_its_time(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    with stand_in.lock:
        stand_in.nodes["b1"]["spec"]["unschedulable"] = True
    engine = opened(pending_s=1.0)
    engine.launch((task("waits"),))
    while not engine.waiting()[0].why:
        engine.events(0.1)
    (waiting,) = engine.waiting()
    assert "Unschedulable: 0/2 nodes" in waiting.why
    (failed,) = until(engine, over)
    assert isinstance(failed, port.EngineTaskFailed)
    assert failed.lost
    assert "0/2 nodes" in failed.why
    assert stand_in.pods == {}


def test_a_watch_that_is_too_old_is_followed_by_a_list(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened()
    engine.launch((task("long", seconds=None), task("other", "b2", seconds=None)))
    until(engine, lambda seen: sum(isinstance(e, port.EngineTaskStarted) for e in seen) == 2)
    with stand_in.lock:  # gone while the engine did not look
        name = next(n for n in stand_in.pods if n.startswith("long"))
        stand_in.kill(name)
        del stand_in.pods[name]
        stand_in.expire()
    (failed,) = until(engine, over)
    assert isinstance(failed, port.EngineTaskFailed)
    assert failed.lost
    assert failed.task.job == "long"
    assert sum(1 for method, path in stand_in.requests if (method, path) == ("GET", "/api/v1/nodes")) >= 3


def test_a_drained_box_is_asked_politely(served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]) -> None:
    stand_in, _ = served
    engine = opened()
    long = task("long", seconds=None)
    engine.launch((long,))
    until(engine, started)
    stand_in.budget = set(stand_in.pods)
    assert engine.drain("b1") == (long.at,)
    assert stand_in.nodes["b1"]["spec"]["unschedulable"] is True
    stand_in.budget.clear()
    assert engine.drain("b1") == ()
    (failed,) = until(engine, over)
    assert isinstance(failed, port.EngineTaskFailed)
    assert failed.lost
    assert engine.drain("b1", away=False) == ()
    assert stand_in.nodes["b1"]["spec"]["unschedulable"] is False
    with pytest.raises(NotFound):
        engine.drain("b9")


def test_the_rule_of_a_job_about_boxes_reaches_kubernetes_too(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    rules = {
        "served": SpatialRule(avoid=Avoidance("plates", "site")),
        "beside": SpatialRule(near=("served", "ended"), zone={"site": ("north",), "rack": ("r1",)}),
    }
    engine = opened(rule_of=rules.get)
    engine.launch((task("served", seconds=None),))
    engine.launch((task("beside", seconds=None),))
    affinity = {
        pod["metadata"]["labels"]["magpie.example/job"]: pod["spec"]["affinity"] for pod in stand_in.pods.values()
    }
    (apart,) = affinity["served"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart == {
        "labelSelector": {"matchLabels": {"magpie.example/apart": "plates"}},
        "topologyKey": "magpie.example/site",
    }
    (near,) = affinity["beside"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["labelSelector"] == {"matchLabels": {"magpie.example/job": "served"}}  # the other one does not run
    required = affinity["beside"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchExpressions"] == [  # nodes have no label of racks here
        {"key": "magpie.example/site", "operator": "In", "values": ["north"]}
    ]


@pytest.mark.parametrize("installed", [True, False])
def test_kueue_is_used_where_it_is_installed(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine], installed: bool
) -> None:
    stand_in, _ = served
    stand_in.kueue = installed
    engine = opened(pods=PodSettings("magpie:1", queue="site-a"))
    assert engine.kueue is installed
    engine.launch((task("gang", "b1", 0, seconds=None), task("gang", "b2", 1, seconds=None)))
    labels = [pod["metadata"]["labels"] for pod in stand_in.pods.values()]
    assert len({row.get("kueue.x-k8s.io/pod-group-name") for row in labels}) == 1
    assert [row.get("kueue.x-k8s.io/queue-name") for row in labels] == ["site-a" if installed else None] * 2
    counts = [
        pod["metadata"]["annotations"].get("kueue.x-k8s.io/pod-group-total-count") for pod in stand_in.pods.values()
    ]
    assert counts == ["2" if installed else None] * 2


def test_pods_of_an_earlier_engine_end_and_those_of_others_stay(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    stand_in, _ = served
    engine = opened()
    engine.launch((task("mine", seconds=None),))
    until(engine, started)
    foreign = {"metadata": {"name": "foreign"}, "spec": {"containers": [], "schedulingGates": [{"name": "x"}]}}
    stand_in.answer("POST", "/api/v1/namespaces/magpie/pods", {}, foreign)
    second = opened()
    (failed,) = until(engine, over)
    assert isinstance(failed, port.EngineTaskFailed)
    assert failed.lost
    second.launch((task("mine"),))
    until(second, over)
    assert "foreign" in stand_in.pods


def test_an_api_server_that_is_away_is_unavailable_and_the_token_is_in_no_log(
    served: tuple[StandIn, str],
    opened: Callable[..., KubernetesEngine],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    stand_in, address = served
    engine = opened()
    stand_in.fail_next(503, 429)
    assert len(engine.status()) == 2  # asked again
    stand_in.fail_next(503, 503, 503)
    with pytest.raises(Unavailable, match="503"):
        engine.status()
    stand_in.fail_next(403)
    with pytest.raises(Unavailable, match="right is missing"):
        engine.status()
    for number, wrong in enumerate((address, "http://127.0.0.1:9")):
        folder = tmp_path / str(number)
        folder.mkdir()
        account = ApiAccount(kubeconfig(folder, wrong, "another-token"))
        with pytest.raises(Unavailable) as caught:
            open_kubernetes(KubernetesSettings("yard", PODS, account=account, patience=PATIENT))
        assert "another-token" not in str(caught.value)
    account = ApiAccount(kubeconfig(tmp_path, address))
    open_kubernetes(KubernetesSettings("elsewhere", PODS, account=account)).close()
    assert "no node has the label magpie.example/fleet=elsewhere" in caplog.text
    with pytest.raises(Unavailable, match="no account"):
        open_kubernetes(KubernetesSettings("yard", PODS, account=ApiAccount(tmp_path / "none")))
    assert TOKEN not in caplog.text
    assert "another-token" not in caplog.text


def test_tasks_that_cannot_be_are_refused_before_anything_is_made(
    served: tuple[StandIn, str], opened: Callable[..., KubernetesEngine]
) -> None:
    engine = opened(mode="dynamic")
    with pytest.raises(InvalidValue, match=r"tasks\[0\].at.box"):
        engine.launch((task("a", "Box_1"),))
    with pytest.raises(InvalidValue, match=r"work\.arguments"):
        engine.launch((port.EngineTask(TaskAt("a", 0, "b1", 1), {}, port.EngineWork("wait", {"x": "y" * 200_000})),))
    with pytest.raises(InvalidValue, match=r"demand.gpu.*devices|devices"):
        engine.launch((task("a", gpu=0.5),))
    with pytest.raises(Conflict):
        engine.launch((task("a", teacher__heavy=1.0),))
    assert served[0].pods == {}
