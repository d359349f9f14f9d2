"""Each recorded step of the Kubernetes contract: the product's code sends exactly the recorded requests, and
understands the recorded answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed (magpie-edge[kubernetes])")

from kubernetes_kit import client_of

from edge.core.errors import NotFound
from edge.engines.kubernetes_api import LIVE_PODS, ApiRefusal, KubernetesApi
from edge.engines.kubernetes_drain import drain_node
from edge.engines.kubernetes_engine import KubernetesSettings
from edge.engines.kubernetes_lease import LeaseRules, lease_body, lease_seen
from edge.engines.kubernetes_names import GANG_GATE, resource_of
from edge.engines.kubernetes_nodes import NodeResources, changes_for
from edge.engines.kubernetes_objects import node_boxes, node_seen, pod_seen
from edge.engines.kubernetes_patches import change_capacity, create, merge_capacity, ungate
from edge.engines.kubernetes_pods import KueuePlace, PodAffinity, PodSettings, WorkPod, pod_body, resources_for

ZONE = resource_of("zone:gate-north")
MOMENT = datetime(2026, 11, 22, tzinfo=UTC)


@dataclass
class Replay:
    """Plays recorded answers in order, and keeps the requests."""

    exchanges: list[dict[str, Any]]
    requests: list[dict[str, Any]] = field(default_factory=list)

    def take(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        answer = self.exchanges[len(self.requests) - 1]["response"]
        assert isinstance(answer, dict)
        return answer

    def check(self) -> None:
        """Every recorded request was sent, and nothing else."""
        assert len(self.requests) == len(self.exchanges)
        for sent, exchange in zip(self.requests, self.exchanges, strict=True):
            wanted = exchange["request"]
            assert {k: sent[k] for k in ("method", "path", "query", "body")} == {
                k: wanted[k] for k in ("method", "path", "query", "body")
            }
            assert {k: sent["headers"].get(k) for k in wanted["headers"]} == wanted["headers"]
            assert sent["headers"].get("content-type") == wanted["headers"].get("content-type")


@contextmanager
def replayed(folder: Path, step: str) -> Iterator[KubernetesApi]:
    """An API server that plays a step."""
    played = Replay(json.loads((folder / f"{step}.json").read_text(encoding="utf-8"))["exchanges"])

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            answer = played.take(
                {
                    "method": self.command,
                    "path": parts.path,
                    "query": dict(parse_qsl(parts.query)),
                    "headers": {k.lower(): v for k, v in self.headers.items()},
                    "body": json.loads(raw) if raw else None,
                }
            )
            rows = answer.get("events") or [answer.get("body")]
            data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
            self.send_response(answer["status"])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield KubernetesApi(
            client_of(f"http://127.0.0.1:{server.server_port}", "TOKEN"), "magpie", sleep=lambda s: None
        )
    finally:
        server.shutdown()
        server.server_close()
    played.check()


@pytest.fixture
def contract(shared_dir: Path) -> Path:
    folder = shared_dir / "data" / "kubernetes-contract"
    if not folder.is_dir():
        pytest.skip("the recorded Kubernetes contract is absent")
    return folder


def refused(call: Callable[[], object]) -> int:
    """The status with which a request is refused."""
    with pytest.raises(ApiRefusal) as caught:
        call()
    return caught.value.status


def pod(name: str, demand: Mapping[str, float], **more: Any) -> dict[str, Any]:
    """A pod as the engine makes it, with nothing that the step does not have."""
    requests, limits = resources_for(demand, "dynamic", limited=False)
    return pod_body(WorkPod(name, name, "magpie:1", requests, limits, **more))


def resources_of(api: KubernetesApi, node: str, counts: dict[str, str]) -> NodeResources:
    """A node's resources, as they were known before this step."""
    resources = NodeResources(api)
    resources.learn(node, counts)
    return resources


def step_01_version(api: KubernetesApi) -> None:
    assert api.version() == "v1.34.0"


def step_02_may_i(api: KubernetesApi) -> None:
    assert api.may("patch", "nodes", "status", namespaced=False)
    assert api.may("create", "pods")


def step_10_list_nodes(api: KubernetesApi) -> None:
    found = api.list_nodes(KubernetesSettings("yard", PodSettings("magpie:1")).selector)
    boxes = node_boxes([node_seen(o) for o in found["items"]], [])
    assert [(box.name, box.total["cpu"], round(box.free["mem_gb"], 2)) for box in boxes] == [
        ("box-1", 4.0, 17.18),
        ("box-2", 4.0, 17.18),
    ]


def step_11_list_pods(api: KubernetesApi) -> None:
    assert api.list_pods(LIVE_PODS)["items"] == []


def step_20_set_resource(api: KubernetesApi) -> None:
    NodeResources(api).put("box-1", {"zone:gate-north": 1.0})


def step_21_set_resource_resize(api: KubernetesApi) -> None:
    resources_of(api, "box-1", {ZONE: "1000"}).put("box-1", {"zone:gate-north": 2.0})


def step_22_set_resource_lost_race(api: KubernetesApi) -> None:
    changes = changes_for({ZONE: "7"}, {ZONE: 5})
    assert refused(lambda: api.patch_node_status("box-1", change_capacity(changes))) == 422


def step_23_set_resource_delete(api: KubernetesApi) -> None:
    resources_of(api, "box-1", {ZONE: "2000"}).put("box-1", {"zone:gate-north": 0.0})


def step_24_set_resource_fraction(api: KubernetesApi) -> None:
    half = create(resource_of("teacher:heavy"), "0.5")
    assert refused(lambda: api.patch_node_status("box-1", half)) == 422


def step_25_set_resource_no_node(api: KubernetesApi) -> None:
    with pytest.raises(NotFound, match="box-9"):
        NodeResources(api).put("box-9", {"teacher:heavy": 1.0})


def step_26_set_resource_merge(api: KubernetesApi) -> None:
    camera = resource_of("camera:17")
    node = node_seen(api.patch_node_status("box-1", merge_capacity({camera: "1000"})))
    assert node.counts() == {camera: "1000"}
    resources_of(api, "box-1", {camera: "1000"}).clear("box-1")


def step_27_set_many(api: KubernetesApi) -> None:
    amounts = {"model:plates.3": 0.001, "teacher:heavy": 1.0, "gang:4f2a": 0.004}
    NodeResources(api).put("box-2", amounts)


def step_30_pod_near(api: KubernetesApi) -> None:
    seen = pod_seen(api.create_pod(pod("retrain-17", {"cpu": 1.0, "camera:17": 0.001})))
    assert seen.waits.startswith("Unschedulable: 0/2 nodes are available")


def step_31_pod_apart(api: KubernetesApi) -> None:
    apart = (PodAffinity({"magpie.example/model": "plates"}),)
    api.create_pod(pod("plates-a", {"cpu": 1.0, "apart:plates": 0.001}, apart=apart))


def step_32_pod_gated(api: KubernetesApi) -> None:
    body = pod("ddp-0", {"cpu": 1.0, "gang:4f2a": 0.001}, gates=(GANG_GATE,))
    assert pod_seen(api.create_pod(body)).waits.startswith("SchedulingGated")


def step_33_pod_ungate(api: KubernetesApi) -> None:
    assert "schedulingGates" not in api.patch_pod("ddp-0", ungate())["spec"]


def step_34_pod_pinned(api: KubernetesApi) -> None:
    requests, limits = resources_for({"cpu": 1.0, "zone:gate-north": 1.0}, "pinned", limited=False)
    api.create_pod(pod_body(WorkPod("label-3", "label-3", "magpie:1", requests, limits, node="box-1", tolerates=True)))


def step_35_pod_twice(api: KubernetesApi) -> None:
    assert refused(lambda: api.create_pod(pod("label-3", {"cpu": 1.0}))) == 409


def step_40_watch_pods(api: KubernetesApi) -> None:
    seen: list[tuple[str, str]] = []

    def watch() -> None:
        seen.extend((e["type"], e["object"]["metadata"].get("name", "")) for e in api.watch_pods("12", 2))

    assert refused(watch) == 410
    names = ["retrain-17", "plates-a", "ddp-0", "label-3"]
    assert seen == [*(("ADDED", name) for name in names), ("MODIFIED", "retrain-17"), ("BOOKMARK", "")]


def step_50_relax(api: KubernetesApi) -> None:
    assert api.delete_pod("retrain-17", 0)
    api.create_pod(pod("retrain-17", {"cpu": 1.0}))


def step_51_drain(api: KubernetesApi) -> None:
    assert drain_node(api, "box-2", ("plates-a",)) == ()


def step_52_gone(api: KubernetesApi) -> None:
    assert not api.delete_pod("nobody")


def step_60_lease(api: KubernetesApi) -> None:
    rules = LeaseRules("head-a")
    assert lease_seen(api.create_lease(lease_body(rules, "magpie", MOMENT))).version == "36"
    again = api.replace_lease(rules.name, lease_body(rules, "magpie", MOMENT, "37"))
    assert lease_seen(again).holder == "head-a"


def step_61_lease_lost(api: KubernetesApi) -> None:
    rules = LeaseRules("head-b")
    assert refused(lambda: api.replace_lease(rules.name, lease_body(rules, "magpie", MOMENT, "1"))) == 409


def step_70_kueue_gang(api: KubernetesApi) -> None:
    place = KueuePlace("site-a", "ddp-7", 2)
    for name in ("ddp-7-0", "ddp-7-1"):
        api.create_pod(pod(name, {"cpu": 1.0}, kueue=place))


def step_71_kueue_admitted(api: KubernetesApi) -> None:
    found = api.workloads("v1beta2")
    assert found is not None
    assert [row["spec"]["queueName"] for row in found["items"]] == ["site-a"]


def step_72_no_kueue(api: KubernetesApi) -> None:
    assert api.workloads("v9") is None


STEPS = {
    name.removeprefix("step_").replace("_", "-"): step for name, step in globals().items() if name.startswith("step_")
}


@pytest.mark.parametrize("step", STEPS)
def test_the_recorded_requests_are_sent_and_the_answers_understood(contract: Path, step: str) -> None:
    with replayed(contract, step) as api:
        STEPS[step](api)


def test_no_recorded_step_is_missing(contract: Path) -> None:
    index = json.loads((contract / "index.json").read_text(encoding="utf-8"))
    assert set(STEPS) == {row["name"] for row in index["steps"]}
