"""A stand-in for an API server of Kubernetes on loopback: nodes, pods and leases in memory, a scheduler that fits
requests and affinities, and a kubelet that runs each pod's command as a local process.

It knows as much of the documented interface as the engine uses: lists, watches with versions and 410, JSON and merge
patches, graceful deletion, evictions, access reviews. Faults are set by tests: answers to come (`fail_next`), watches
that are too old (`expire`), nodes that are not ready.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from edge.engines.kubernetes_amounts import parse_quantity

NAMESPACE = "magpie"
TOKEN = "TOKEN-of-the-stand-in"
_NODE = re.compile(r"/api/v1/nodes/([^/]+)(/status)?")
_POD = re.compile(rf"/api/v1/namespaces/{NAMESPACE}/pods/([^/]+)(/eviction)?")
_LEASE = re.compile(rf"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/([^/]+)")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Refused(Exception):
    """An answer that is a failure."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


@dataclass
class StandIn:
    """The state behind the API; every change has a version and goes to the watches."""

    rights: set[tuple[str, str]] = field(default_factory=lambda: {("create", "pods"), ("patch", "nodes/status")})
    kueue: bool = False
    budget: set[str] = field(default_factory=set)  # pods that a disruption budget keeps
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[int, bool, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lock = threading.Condition()
        self.version = 10
        self.oldest = 0
        self.changes: list[tuple[int, str, str, dict[str, Any]]] = []
        self.processes: dict[str, tuple[subprocess.Popen[bytes], str]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="kubelet-"))
        self.closed = False
        self._kubelet = threading.Thread(target=self._run_kubelet, daemon=True)

    # Calls of tests

    def add_node(self, name: str, amounts: Mapping[str, str], fleet: str = "yard", **labels: str) -> None:
        """A node joins."""
        known = {f"magpie.example/{key}": value for key, value in labels.items()}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"magpie.example/fleet": fleet, **known}},
            "spec": {},
            "status": {"capacity": {**amounts, "pods": "110"}, "allocatable": {**amounts, "pods": "110"}},
        }
        with self.lock:
            self.nodes[name] = node
            self._ready(node, ready=True)
            self._notify("ADDED", "nodes", node)

    def set_ready(self, name: str, *, ready: bool) -> None:
        """A node's kubelet reports, or does so no longer; with it its pods stop."""
        with self.lock:
            self._ready(self.nodes[name], ready=ready)
            self._notify("MODIFIED", "nodes", self.nodes[name])
            if not ready:
                for pod in [p for p in self.pods.values() if p["spec"].get("nodeName") == name]:
                    self._kill(pod["metadata"]["name"])

    def remove_node(self, name: str) -> None:
        """A node is deleted."""
        with self.lock:
            self._notify("DELETED", "nodes", self.nodes.pop(name))

    def expire(self) -> None:
        """Watches from versions until now are too old; those that run end."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.lock.notify_all()

    def fail_next(self, *codes: int, done: bool = False, method: str = "") -> None:
        """The next requests (watches aside; of this method, empty: of any) are answered so; `done`: after they were
        carried out."""
        with self.lock:
            self.failures += [(code, done, method) for code in codes]

    def kill(self, pod: str) -> None:
        """The pod's process dies."""
        with self.lock:
            self._kill(pod)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self.lock.notify_all()
        self._kubelet.join(5.0)
        for process, _ in self.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Answers of the API

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> tuple[int, dict[str, Any]]:
        """One request that is no watch."""
        with self.lock:
            if method == "GET" and path == "/version/":
                return 200, {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
            if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
                return 201, self._review(body)
            if path.startswith("/apis/kueue.x-k8s.io/v1beta2/") and self.kueue:
                return 200, {"items": []}
            if method == "GET" and path in ("/api/v1/nodes", _PODS):
                return 200, self.listed("nodes" if path == "/api/v1/nodes" else "pods", query)
            if found := _NODE.fullmatch(path):
                return 200, self._node(method, found[1], status=bool(found[2]), change=body)
            if path == _PODS and method == "POST":
                return 201, self._create_pod(body)
            if found := _POD.fullmatch(path):
                return self._pod(method, found[1], eviction=bool(found[2]), query=query, change=body)
            if path == _LEASES or _LEASE.fullmatch(path):
                return self._lease(method, path, body)
            raise Refused(404, "NotFound", "the server could not find the requested resource")

    def listed(self, what: str, query: Mapping[str, str]) -> dict[str, Any]:
        rows = self.nodes if what == "nodes" else self.pods
        items = [copy.deepcopy(row) for row in rows.values() if selects(row, query)]
        return {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}

    def watched(self, what: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Changes from a version on, until the time-out; a version that is too old is an error."""
        after = int(query["resourceVersion"])
        end = time.monotonic() + float(query["timeoutSeconds"])
        while not self.closed and time.monotonic() < end:
            with self.lock:
                if after < self.oldest:
                    yield {"type": "ERROR", "object": {"kind": "Status", "reason": "Expired", "code": 410}}
                    return
                fresh = [(v, k, o) for v, k, w, o in self.changes if v > after and w == what and selects(o, query)]
                if not fresh:
                    self.lock.wait(max(0.0, min(0.5, end - time.monotonic())))
            for version, kind, obj in fresh:
                after = version
                yield {"type": kind, "object": obj}

    def _review(self, body: Any) -> dict[str, Any]:
        asked = body["spec"]["resourceAttributes"]
        what = asked["resource"] + (f"/{asked['subresource']}" if "subresource" in asked else "")
        return {**body, "status": {"allowed": (asked["verb"], what) in self.rights}}

    def _node(self, method: str, name: str, *, status: bool, change: Any) -> dict[str, Any]:
        node = self._found(self.nodes, "nodes", name)
        if method == "PATCH":
            fresh = patched(node, change)
            if status:
                check_counts(fresh["status"])
                fresh["spec"] = node["spec"]
            else:
                fresh["status"] = node["status"]
            self.nodes[name] = node = fresh
            self._notify("MODIFIED", "nodes", node)
            self._schedule()
        return copy.deepcopy(node)

    def _create_pod(self, body: Any) -> dict[str, Any]:
        pod = copy.deepcopy(body)
        name = pod["metadata"]["name"]
        if name in self.pods:
            raise Refused(409, "AlreadyExists", f'pods "{name}" already exists')
        for container in pod["spec"]["containers"]:
            resources = container.get("resources") or {}
            for resource, count in (resources.get("limits") or {}).items():
                if "/" in resource and (resources.get("requests") or {}).get(resource) != count:
                    raise Refused(422, "Invalid", f"{resource}: limits must equal requests")
        pod["metadata"] |= {"namespace": NAMESPACE, "uid": f"uid-{name}-{self.version}"}
        pod["status"] = {"phase": "Pending", "conditions": []}
        self.pods[name] = pod
        self._notify("ADDED", "pods", pod)
        self._schedule()
        return copy.deepcopy(pod)

    def _pod(
        self, method: str, name: str, *, eviction: bool, query: Mapping[str, str], change: Any
    ) -> tuple[int, dict[str, Any]]:
        pod = self._found(self.pods, "pods", name)
        if eviction:
            if name in self.budget:
                raise Refused(
                    429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget."
                )
            self._delete(pod, 5)
            return 201, {"kind": "Status", "status": "Success", "code": 201}
        if method == "DELETE":
            self._delete(pod, int(query.get("gracePeriodSeconds", 5)))
        elif method == "PATCH":
            self.pods[name] = pod = patched(pod, change)
            self._notify("MODIFIED", "pods", pod)
            self._schedule()
        return 200, copy.deepcopy(pod)

    def _lease(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.leases:
                raise Refused(409, "AlreadyExists", f'leases "{name}" already exists')
        else:
            name = path.rpartition("/")[2]
            known = self._found(self.leases, "leases", name)
            if method == "GET":
                return 200, copy.deepcopy(known)
            if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
                raise Refused(409, "Conflict", "the object has been modified")
        self.leases[name] = copy.deepcopy(body)
        self._notify("MODIFIED", "leases", self.leases[name])
        return 201 if method == "POST" else 200, copy.deepcopy(self.leases[name])

    def _found(self, rows: dict[str, dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
        if name not in rows:
            raise Refused(404, "NotFound", f'{kind} "{name}" not found')
        return rows[name]

    def _delete(self, pod: dict[str, Any], grace_s: int) -> None:
        """At once where no kubelet has it; else its kubelet stops it first."""
        name = pod["metadata"]["name"]
        running = name in self.processes
        if running and grace_s > 0:
            pod["metadata"]["deletionTimestamp"] = datetime.now(UTC).isoformat()
            self._notify("MODIFIED", "pods", pod)
            self.processes[name][0].send_signal(signal.SIGTERM)
            return
        if running:
            self._kill(name)
        self._notify("DELETED", "pods", self.pods.pop(name))
        self._schedule()

    def _kill(self, name: str) -> None:
        if name in self.processes:
            with contextlib.suppress(OSError):
                os.killpg(self.processes[name][0].pid, signal.SIGKILL)

    def _ready(self, node: dict[str, Any], *, ready: bool) -> None:
        node["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "Unknown"}]

    def _notify(self, kind: str, what: str, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append((self.version, kind, what, copy.deepcopy(obj)))
        self.lock.notify_all()

    # The scheduler and the kubelet

    def _schedule(self) -> None:
        for pod in self.pods.values():
            if pod["status"]["phase"] == "Pending" and "nodeName" not in pod["spec"]:
                reason = "SchedulingGated" if pod["spec"].get("schedulingGates") else "Unschedulable"
                fits = [] if reason == "SchedulingGated" else [n for n in self.nodes.values() if self._fits(pod, n)]
                before = copy.deepcopy(pod)
                if fits:
                    pod["spec"]["nodeName"] = fits[0]["metadata"]["name"]
                    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
                else:
                    why = f"0/{len(self.nodes)} nodes are available"
                    waits = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why}
                    pod["status"]["conditions"] = [waits]
                if pod != before:
                    self._notify("MODIFIED", "pods", pod)

    def _fits(self, pod: dict[str, Any], node: dict[str, Any]) -> bool:
        if node["spec"].get("unschedulable") or node["status"]["conditions"][0]["status"] != "True":
            return False
        return matches_node(pod, node) and all(
            self._taken(node["metadata"]["name"], resource) + amount
            <= parse_quantity(node["status"]["allocatable"].get(resource, "0"))
            for resource, amount in asked_by(pod).items()
        )

    def _taken(self, node: str, resource: str) -> Decimal:
        live = (p for p in self.pods.values() if p["spec"].get("nodeName") == node)
        return sum(
            (asked_by(p).get(resource, Decimal(0)) for p in live if p["status"]["phase"] in ("Pending", "Running")),
            Decimal(0),
        )

    def start(self) -> None:
        self._kubelet.start()

    def _run_kubelet(self) -> None:
        while not self.closed:
            with self.lock:
                for name, pod in list(self.pods.items()):
                    if name not in self.processes and "nodeName" in pod["spec"] and pod["status"]["phase"] == "Pending":
                        self._start(name, pod)
                for name, (process, node) in list(self.processes.items()):
                    if process.poll() is not None:
                        self._ended(name, node, process.returncode)
                self.lock.wait(0.02)

    def _start(self, name: str, pod: dict[str, Any]) -> None:
        container = pod["spec"]["containers"][0]
        given = {row["name"]: row["value"] for row in container.get("env", ())}
        message = self.folder / name
        command = [sys.executable, *container["command"][1:]]
        environment = os.environ | given | {"MAGPIE_MESSAGE": str(message)}
        process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
        self.processes[name] = process, pod["spec"]["nodeName"]
        state = {"running": {"startedAt": now_text()}}
        pod["status"] |= {"phase": "Running", "containerStatuses": [{"name": "work", "state": state}]}
        self._notify("MODIFIED", "pods", pod)

    def _ended(self, name: str, node: str, code: int) -> None:
        del self.processes[name]
        pod = self.pods.get(name)
        if pod is None or self.nodes.get(node, {}).get("status", {}).get("conditions", [{}])[0].get("status") != "True":
            return  # a kubelet that is cut off reports nothing
        message = self.folder / name
        ended = {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Completed" if code == 0 else "Error",
            "message": message.read_text() if message.exists() else "",
            "startedAt": now_text(),
            "finishedAt": now_text(),
        }
        pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
        pod["status"]["containerStatuses"] = [{"name": "work", "state": {"terminated": ended}}]
        self._notify("MODIFIED", "pods", pod)
        if pod["metadata"].get("deletionTimestamp"):
            self._notify("DELETED", "pods", self.pods.pop(name))
        self._schedule()


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def selects(obj: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    """Label and field selectors, as far as the engine uses them."""
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = term.partition("=")
        if labels.get(key) != value:
            return False
    fields = filter(None, query.get("fieldSelector", "").split(","))
    return all((obj["status"]["phase"] != term.partition("!=")[2]) for term in fields)


def matches_node(pod: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Required node affinity."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    if terms is None:
        return True
    labels = node["metadata"]["labels"]
    return any(
        all(node["metadata"]["name"] in row["values"] for row in term.get("matchFields", ()))
        and all(labels.get(row["key"]) in row["values"] for row in term.get("matchExpressions", ()))
        for term in terms
    )


def asked_by(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """A pod's requests."""
    rows = [c.get("resources", {}).get("requests", {}) for c in pod["spec"]["containers"]]
    return {name: sum((parse_quantity(r.get(name, "0")) for r in rows), Decimal(0)) for row in rows for name in row}


def check_counts(status: Mapping[str, Any]) -> None:
    """Extended resources are whole numbers."""
    for part in ("capacity", "allocatable"):
        for resource, count in status[part].items():
            if "/" in resource and not str(count).isdecimal():
                raise Refused(422, "Invalid", f'status.{part}.{resource}: Invalid value: "{count}": must be an integer')


def patched(obj: Mapping[str, Any], change: Any) -> dict[str, Any]:
    """A JSON patch (a list) or a merge; nothing of it counts where one operation fails."""
    fresh = copy.deepcopy(dict(obj))
    if isinstance(change, dict):
        _merge(fresh, change)
        return fresh
    for operation in change:
        *parents, last = (p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:])
        target: Any = fresh
        for parent in parents:
            if parent not in target:
                raise Refused(422, "Invalid", "the server rejected our request due to an error in our request")
            target = target[parent]
        kind, missing = operation["op"], last not in target
        if (missing and kind != "add") or (kind == "test" and target[last] != operation["value"]):
            raise Refused(422, "Invalid", "the server rejected our request due to an error in our request")
        if kind == "remove":
            del target[last]
        elif kind != "test":
            target[last] = operation["value"]
    return fresh


def _merge(target: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ApiServer

    def _serve(self) -> None:
        stand_in = self.server.stand_in
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        stand_in.requests.append((self.command, parts.path))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized", "code": 401})
        if query.get("watch") == "true":
            return self._stream("nodes" if parts.path == "/api/v1/nodes" else "pods", query)
        with stand_in.lock:
            failure = next((f for f in stand_in.failures if f[2] in ("", self.command)), None)
            if failure is not None:
                stand_in.failures.remove(failure)
        status, answer = 0, {}
        if failure is None or failure[1]:
            try:
                status, answer = stand_in.answer(self.command, parts.path, query, body)
            except Refused as refused:
                status = refused.code
                answer = {"kind": "Status", "message": str(refused), "reason": refused.reason, "code": status}
        if failure is not None and failure[0]:
            status, answer = failure[0], {"kind": "Status", "message": "set by a test", "code": failure[0]}
        elif failure is not None:
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        return self._send(status, answer)

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, what: str, query: Mapping[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            for event in self.server.stand_in.watched(what, query):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        pass


class ApiServer(ThreadingHTTPServer):
    """The stand-in behind HTTP."""

    daemon_threads = True

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stand_in = stand_in

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error here."""


@contextlib.contextmanager
def api_server(stand_in: StandIn | None = None) -> Iterator[tuple[StandIn, str]]:
    """(state, address) of a stand-in that serves and runs pods."""
    stand_in = stand_in or StandIn()
    server = ApiServer(stand_in)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    stand_in.start()
    try:
        yield stand_in, f"http://127.0.0.1:{server.server_port}"
    finally:
        stand_in.close()
        server.shutdown()
        server.server_close()


def client_of(address: str, token: str = TOKEN) -> Any:
    """The official client for a server of tests."""
    from kubernetes import client

    setup = client.Configuration(host=address)
    setup.api_key, setup.api_key_prefix = {"authorization": token}, {"authorization": "Bearer"}
    setup.retries = False
    return client.ApiClient(setup)


def kubeconfig(folder: Path, address: str, token: str = TOKEN) -> Path:
    """A kubeconfig file for a server of tests."""
    path = folder / "kubeconfig.json"
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": {"server": address}}],
        "users": [{"name": "tests", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
    }
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
