"""The place of a box in a cluster: the site file first, then what the chart sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge.core.errors import InvalidValue, Unavailable
from edge.engines.kubernetes_api import ApiAccount
from edge.fleet import engine_check
from edge.fleet.cluster_place import ClusterPlace, cluster_place, node_of
from edge.settings import EngineSettings, KubernetesEngineSettings, parse

CHART = {
    "MAGPIE_FLEET": "yard", "MAGPIE_NAMESPACE": "cameras", "MAGPIE_NODE_NAME": "n1.yard", "MAGPIE_IMAGE": "magpie:1",
    "KUBERNETES_SERVICE_HOST": "192.0.2.1",
}  # fmt: skip


def settings(**more: Any) -> KubernetesEngineSettings:
    return parse(KubernetesEngineSettings, more)


def test_the_site_file_counts_before_the_environment(tmp_path: Path) -> None:
    assert cluster_place(settings(), CHART) == ClusterPlace("yard", "cameras", "n1.yard", "magpie:1", ApiAccount())
    account = tmp_path / "config"
    account.write_text("{}")
    given = settings(fleet="f", namespace="n", node="b1", image="i:2", kubeconfig=str(account), context="c")
    assert cluster_place(given, CHART) == ClusterPlace("f", "n", "b1", "i:2", ApiAccount(account, "c"))
    assert (node_of(settings(), CHART), node_of(given, CHART), node_of(settings(), {})) == ("n1.yard", "b1", "")


@pytest.mark.parametrize(
    ("given", "without", "field", "words"),
    [
        ({}, "MAGPIE_FLEET", "fleet", "in the environment as MAGPIE_FLEET"),
        ({}, "MAGPIE_NODE_NAME", "node", "the node that this box is"),
        ({}, "MAGPIE_IMAGE", "image", "MAGPIE_IMAGE"),
        ({}, "KUBERNETES_SERVICE_HOST", "kubeconfig", "outside of a pod"),
        ({"node": "N 1"}, "", "node", "the name of a node"),
        ({"namespace": "-"}, "", "namespace", "letters, digits"),
        ({"kubeconfig": "/none"}, "", "kubeconfig", "a file that is there"),
    ],
)
def test_a_place_without_a_name_is_refused_by_its_field(
    given: dict[str, Any], without: str, field: str, words: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        cluster_place(settings(**given), {k: v for k, v in CHART.items() if k != without})
    assert caught.value.path == f"fleet.engine.kubernetes.{field}"
    assert words in caught.value.allowed


def test_a_box_without_the_client_names_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = parse(EngineSettings, {"kind": "kubernetes", "kubernetes": {}})
    monkeypatch.setattr(engine_check, "find_spec", lambda name: None)
    with pytest.raises(Unavailable) as caught:
        engine_check.check_engine(engine)
    assert caught.value.hint == "pip install 'magpie-edge[kubernetes]'"
    monkeypatch.setattr(engine_check, "find_spec", lambda name: object())
    for name in CHART:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidValue, match="MAGPIE_FLEET"):
        engine_check.check_engine(engine)
    for name, value in CHART.items():
        monkeypatch.setenv(name, value)
    engine_check.check_engine(engine)
