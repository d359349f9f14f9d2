"""The API server of Kubernetes through the official client: requests, repeats, and its refusals in our words.

Every request here may be repeated: patches set absolute values, pods have names, leases have versions. So a request
that got no answer, or one of 429 and 5xx, is sent again after a pause that grows and differs each time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge.core import checks
from edge.core.errors import MagpieError, NotFound, Unavailable
from edge.core.retry_pace import RetryPace
from edge.engines.kubernetes_patches import Operation, eviction

log = logging.getLogger(__name__)

LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
KUEUE: Final = "kueue.x-k8s.io"
#: Kueue's API, newest first (v1beta1 before 0.14).
KUEUE_VERSIONS: Final = ("v1beta2", "v1beta1")
_REPEATED: Final = frozenset({429, 500, 502, 503, 504})
_HINTS: Final[Mapping[int, str]] = {
    401: "the API server does not know this account: see its token",
    403: "a right is missing: see the chart's roles (docs/fleet.md)",
}


class ApiRefusal(MagpieError):
    """The API server refused a request: `status` of HTTP, `reason` of Kubernetes; it may be asked again after
    `retry_after_s`, where it named one."""

    code = "refused"

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}")
        self.status, self.reason, self.retry_after_s = status, reason, retry_after_s

    def __reduce__(self) -> tuple[type[ApiRefusal], tuple[int, str, str, float | None]]:
        return type(self), (self.status, self.reason, self.message, self.retry_after_s)


def of_box(refusal: ApiRefusal, box: str, asked: str) -> MagpieError:
    """A refusal of a request about a box in the engine's words; `asked` names the request."""
    if refusal.status == 404:
        return NotFound(f"the engine has no box {box}")
    return Unavailable(f"the API server refused {asked}: {refusal}")


@dataclass(frozen=True)
class ApiPatience:
    """Up to `tries` of a request; the pause before the next one grows from `first_s` to at most `most_s`. `timeout_s`:
    one request's."""

    tries: int = 4
    first_s: float = 0.2
    most_s: float = 2.0
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        checks.in_range("tries", self.tries, 1, 20)
        checks.in_range("first_s", self.first_s, 0.0, 60.0)
        checks.in_range("most_s", self.most_s, self.first_s, 60.0)
        checks.in_range("timeout_s", self.timeout_s, 0.1, 60.0)


@dataclass(frozen=True)
class ApiAccount:
    """Where the API server is and who asks: a kubeconfig file, or (None) the account of the pod that runs this."""

    kubeconfig: Path | None = None
    context: str | None = None


def pause_s(patience: ApiPatience, tried: int, chance: float, retry_after_s: float | None = None) -> float:
    """The pause after the `tried`-th try (from 1): `chance` (0 to 1) shortens it by up to a half, and the server's own
    wish counts up to the longest."""
    pace = RetryPace(patience.first_s, patience.most_s, spread=0.5)
    return max(pace.pause_s(tried, chance), min(retry_after_s or 0.0, patience.most_s))


def client_for(account: ApiAccount) -> Any:
    """The official client, set up for an account. Raises Unavailable: it is not installed, or there is no account."""
    try:
        from kubernetes import client, config
    except ImportError as error:
        hint = "pip install 'magpie-edge[kubernetes]'"
        raise Unavailable("the engine kubernetes needs the Kubernetes client", hint) from error
    setup = client.Configuration()
    try:
        if account.kubeconfig is None:
            config.load_incluster_config(client_configuration=setup)
        else:
            config.load_kube_config(str(account.kubeconfig), context=account.context, client_configuration=setup)
    except (config.ConfigException, OSError) as error:
        raise Unavailable(f"no account for the API server of Kubernetes: {error}") from None
    setup.retries = False  # repeats are ours: they have pauses and an end
    setup.debug = False  # else headers are printed, the token among them
    return client.ApiClient(setup)


class ApiWatch:
    """Changes as they come, each an object with `type` and `object`. Raises ApiRefusal 410 where the version that it
    began from is too old, Unavailable where it breaks off."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            for line in _lines(self._response):
                event = json.loads(line)
                if event.get("type") == "ERROR":
                    why = event.get("object") or {}
                    raise ApiRefusal(int(why.get("code") or 500), why.get("reason") or "", why.get("message") or "")
                yield event
        except ValueError as error:
            raise Unavailable(f"the API server sent a watch that is no JSON: {error}") from None
        except _transport_errors() as error:
            raise Unavailable(f"a watch of the API server broke off: {type(error).__name__}") from None
        finally:
            self._response.close()

    def stop(self) -> None:
        """End it from another thread; may be called twice."""
        with contextlib.suppress(*_transport_errors(), ValueError, RuntimeError):
            self._response.shutdown()


class KubernetesApi:
    """The requests that the engine, the head's lease and a drain make, in one namespace. Each may be called from any
    thread. All raise ApiRefusal, or Unavailable where the API server does not answer or does not let us."""

    def __init__(
        self,
        api_client: Any,
        namespace: str,
        patience: ApiPatience | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        from kubernetes import client

        self.namespace = namespace
        self._patience = patience or ApiPatience()
        self._sleep, self._chance = sleep, chance
        self._core = client.CoreV1Api(api_client)
        self._version = client.VersionApi(api_client)
        self._rights = client.AuthorizationV1Api(api_client)
        self._leases = client.CoordinationV1Api(api_client)
        self._others = client.CustomObjectsApi(api_client)

    def version(self) -> str:
        """The API server's version, such as `v1.34.0`."""
        return str(self._ask(self._version.get_code).get("gitVersion", ""))

    def may(self, verb: str, resource: str, subresource: str | None = None, *, namespaced: bool = True) -> bool:
        """Whether this account has a right."""
        attributes = {"resource": resource, "verb": verb}
        attributes |= {"subresource": subresource} if subresource else {}
        attributes |= {"namespace": self.namespace} if namespaced else {}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._ask(self._rights.create_self_subject_access_review, review)
        return bool((answer.get("status") or {}).get("allowed"))

    def list_nodes(self, selector: str) -> dict[str, Any]:
        """Nodes with these labels."""
        return self._ask(self._core.list_node, label_selector=selector)

    def read_node(self, name: str) -> dict[str, Any]:
        """One node."""
        return self._ask(self._core.read_node, name)

    def list_pods(self, fields: str | None = LIVE_PODS) -> dict[str, Any]:
        """Pods of the namespace; those that ended are left out by `fields`."""
        more: dict[str, Any] = {} if fields is None else {"field_selector": fields}
        return self._ask(self._core.list_namespaced_pod, self.namespace, **more)

    def patch_node_status(self, node: str, change: list[Operation] | dict[str, Any]) -> dict[str, Any]:
        """Change a node's status."""
        return self._ask(self._core.patch_node_status, node, change)

    def patch_node(self, node: str, change: dict[str, Any]) -> dict[str, Any]:
        """Change a node."""
        return self._ask(self._core.patch_node, node, change)

    def create_pod(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a pod."""
        return self._ask(self._core.create_namespaced_pod, self.namespace, body)

    def read_pod(self, name: str) -> dict[str, Any]:
        """One pod."""
        return self._ask(self._core.read_namespaced_pod, name, self.namespace)

    def patch_pod(self, name: str, change: list[Operation]) -> dict[str, Any]:
        """Change a pod."""
        return self._ask(self._core.patch_namespaced_pod, name, self.namespace, change)

    def delete_pod(self, name: str, grace_s: int | None = None) -> bool:
        """Delete a pod; False where it is gone already. `grace_s` 0 is for pods of which nothing runs: the object goes
        at once, whatever its kubelet does."""
        more: dict[str, Any] = {} if grace_s is None else {"grace_period_seconds": grace_s}
        try:
            self._ask(self._core.delete_namespaced_pod, name, self.namespace, **more)
        except ApiRefusal as refusal:
            if refusal.status == 404:
                return False
            raise
        return True

    def evict_pod(self, name: str) -> bool:
        """Ask a pod to leave; False where a disruption budget does not allow it now. A pod that is gone has left."""
        body = eviction(self.namespace, name)
        try:
            self._ask(self._core.create_namespaced_pod_eviction, name, self.namespace, body, again=_REPEATED - {429})
        except ApiRefusal as refusal:
            if refusal.status not in (404, 429):
                raise
            return refusal.status == 404
        return True

    def read_lease(self, name: str) -> dict[str, Any]:
        """One lease."""
        return self._ask(self._leases.read_namespaced_lease, name, self.namespace)

    def create_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a lease."""
        return self._ask(self._leases.create_namespaced_lease, self.namespace, body)

    def replace_lease(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Write a lease over its own version."""
        return self._ask(self._leases.replace_namespaced_lease, name, self.namespace, body)

    def workloads(self, version: str) -> dict[str, Any] | None:
        """Kueue's workloads; None where Kueue is not installed, or not in this version."""
        try:
            found = self._others.list_namespaced_custom_object
            return self._ask(found, KUEUE, version, self.namespace, "workloads")
        except ApiRefusal as refusal:
            if refusal.status == 404:
                return None
            raise

    def watch_nodes(self, selector: str, version: str, timeout_s: int) -> ApiWatch:
        """Changes of nodes, see `watch_pods`."""
        return self._watch(self._core.list_node, version, timeout_s, label_selector=selector)

    def watch_pods(self, version: str, timeout_s: int) -> ApiWatch:
        """Changes of pods from a version on, until the server ends the watch (at `timeout_s` at the latest)."""
        return self._watch(self._core.list_namespaced_pod, version, timeout_s, self.namespace)

    def _watch(self, method: Any, version: str, timeout_s: int, *args: Any, **more: Any) -> ApiWatch:
        return ApiWatch(
            self._once(
                method,
                *args,
                watch=True,
                allow_watch_bookmarks=True,
                resource_version=version,
                timeout_seconds=timeout_s,
                timeout=(self._patience.timeout_s, timeout_s + self._patience.timeout_s),
                **more,
            )
        )

    def _ask(self, method: Any, *args: Any, again: frozenset[int] = _REPEATED, **more: Any) -> dict[str, Any]:
        """One request, repeated where that may help."""
        tried = 0
        while True:
            tried += 1
            retry_after_s = None
            try:
                answer = json.loads(self._once(method, *args, **more).data)
                return answer if isinstance(answer, dict) else {}
            except ApiRefusal as refusal:
                if refusal.status not in again or tried >= self._patience.tries:
                    raise _for_caller(refusal, tried) from None
                retry_after_s = refusal.retry_after_s
                log.debug("the API server answered %d; tried %d times", refusal.status, tried)
            except Unavailable:
                if tried >= self._patience.tries:
                    raise
            except ValueError:
                raise Unavailable("the API server answered with something that is no JSON") from None
            self._sleep(pause_s(self._patience, tried, self._chance(), retry_after_s))

    def _once(self, method: Any, *args: Any, timeout: Any = None, **more: Any) -> Any:
        """One request. Raises ApiRefusal, Unavailable."""
        from kubernetes.client.exceptions import ApiException

        wait = timeout or (self._patience.timeout_s, self._patience.timeout_s)
        try:
            response = method(*args, _preload_content=False, _request_timeout=wait, **more)
            if not more.get("watch"):
                response.read(cache_content=True)
            return response
        except ApiException as error:
            if not error.status:
                raise Unavailable(f"the API server cannot be reached: {error.reason}") from None
            raise _refusal(error) from None
        except _transport_errors() as error:
            raise Unavailable(f"the API server does not answer: {type(error).__name__}") from None


def _lines(response: Any) -> Iterator[bytes]:
    """Lines of an answer that goes on."""
    rest = b""
    for piece in response.stream(amt=None, decode_content=True):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line for line in lines if line.strip())
    if rest.strip():
        yield rest


def _refusal(error: Any) -> ApiRefusal:
    """The client's exception in our words: those of the answer's Status object, never of its headers."""
    try:
        status = json.loads(error.body or "{}")
    except ValueError:
        status = {}
    status = status if isinstance(status, dict) else {}
    wish = (error.headers or {}).get("Retry-After", "")
    return ApiRefusal(
        error.status,
        status.get("reason") or error.reason or "",
        status.get("message") or "",
        float(wish) if wish.isdecimal() else None,
    )


def _for_caller(refusal: ApiRefusal, tried: int) -> MagpieError:
    """A refusal for the caller: its own answer (404, 409, 410, 422) as it is, the rest as Unavailable."""
    if refusal.status in _HINTS:
        return Unavailable(f"the API server refused: {refusal.message}", _HINTS[refusal.status])
    if refusal.status >= 500:
        return Unavailable(f"the API server answered {refusal.status} {tried} times: {refusal.message}")
    if refusal.status == 429 and tried > 1:
        return Unavailable(f"the API server is too busy, {tried} times: {refusal.message}")
    return refusal


def _transport_errors() -> tuple[type[BaseException], ...]:
    from urllib3.exceptions import HTTPError

    return (HTTPError, OSError)
