"""The place of this box in a Kubernetes cluster, by its site file and by the variables that the Helm chart sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.engines.kubernetes_api import ApiAccount
from edge.engines.kubernetes_names import check_label_value, check_node_name
from edge.settings import KubernetesEngineSettings

_PATH: Final = "fleet.engine.kubernetes"
#: By field: the variable that the chart sets, and the value for people.
_VARIABLES: Final[Mapping[str, tuple[str, str]]] = {
    "fleet": ("MAGPIE_FLEET", "the value of the label magpie.example/fleet of the fleet's nodes"),
    "namespace": ("MAGPIE_NAMESPACE", "the namespace of the jobs' pods"),
    "node": ("MAGPIE_NODE_NAME", "the name of the node that this box is"),
    "image": ("MAGPIE_IMAGE", "the image of the jobs' pods"),
}
#: Kubernetes sets it in every pod.
_IN_A_POD: Final = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True)
class ClusterPlace:
    """The label's value of the fleet's nodes, the namespace and the image of pods, the node that this box is, and the
    account that asks the API server."""

    fleet: str
    namespace: str
    node: str
    image: str
    account: ApiAccount


def cluster_place(settings: KubernetesEngineSettings, environment: Mapping[str, str] = os.environ) -> ClusterPlace:
    """The place of this box. Raises InvalidValue with the field: neither the site file nor the environment names it, or
    Kubernetes would refuse it."""
    found = {name: _needed(settings, name, environment) for name in _VARIABLES}
    check_label_value(f"{_PATH}.fleet", found["fleet"])
    check_label_value(f"{_PATH}.namespace", found["namespace"])
    check_node_name(f"{_PATH}.node", found["node"])
    checks.plain_text(f"{_PATH}.image", found["image"])
    return ClusterPlace(**found, account=_account(settings, environment))


def node_of(settings: KubernetesEngineSettings, environment: Mapping[str, str] = os.environ) -> str:
    """The node that this box is; empty where neither names it."""
    return _setting(settings, "node", environment)


def _setting(settings: KubernetesEngineSettings, name: str, environment: Mapping[str, str]) -> str:
    given: str = getattr(settings, name)
    return given or environment.get(_VARIABLES[name][0], "")


def _needed(settings: KubernetesEngineSettings, name: str, environment: Mapping[str, str]) -> str:
    value = _setting(settings, name, environment)
    if not value:
        variable, words = _VARIABLES[name]
        raise InvalidValue(f"{_PATH}.{name}", "", f"{words}, here or in the environment as {variable}")
    return value


def _account(settings: KubernetesEngineSettings, environment: Mapping[str, str]) -> ApiAccount:
    if not settings.kubeconfig:
        if not environment.get(_IN_A_POD):
            raise InvalidValue(f"{_PATH}.kubeconfig", "", "a file: outside of a pod there is no other account")
        return ApiAccount()
    path = Path(settings.kubeconfig).absolute()
    if not path.is_file():
        raise InvalidValue(f"{_PATH}.kubeconfig", settings.kubeconfig, "a file that is there")
    return ApiAccount(path, settings.context or None)
