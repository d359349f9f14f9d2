"""The Helm chart: rendered by Helm's own engine where its binding is installed, each object held against the strict
schemas of Kubernetes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge.engines.kubernetes_lease import LeaseRules
from edge.engines.kubernetes_names import DOMAIN, FLEET_LABEL
from edge.fleet.cluster_place import _VARIABLES
from edge.settings import SiteSettings, parse

REPO = Path(__file__).resolve().parents[2]
CHART = REPO / "configs" / "helm" / "magpie"
#: The oldest that the chart names, and the one of the recorded contract.
VERSIONS = ("1.30", "1.34")
EVERYTHING = {
    "dynamicResources": True,
    "drain": True,
    "agentPort": 8470,
    "agent": ["fleet", "start", "/etc/magpie/site.yaml"],
    "networkPolicy": {"enabled": True, "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
}
NO_HELM = "Helm's engine is not installed (pip install 'magpie-edge[chart]')"


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    helm = pytest.importorskip("helm_python", reason=NO_HELM)
    with helm.Chart.load(str(CHART)) as chart:
        texts = chart.render(values, name="yard", namespace="cameras")
    return [obj for text in texts.values() for obj in yaml.safe_load_all(text) if obj]


def rights(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """(verb, resource) that the chart's account has."""
    roles = [o for o in objects if o["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"]]
    return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_each_object_of_the_chart_is_valid(values: dict[str, Any]) -> None:
    validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed (pip install 'magpie-edge[chart]')"
    )
    objects = rendered(values)
    for obj in objects:
        for version in VERSIONS:
            validate.validate(obj, version, strict=True)
    names = [(o["kind"], o["metadata"]["name"]) for o in objects]
    assert len(names) == len(set(names))
    roles = {(o["kind"], o["metadata"]["name"]) for o in objects}
    for binding in (o for o in objects if o["kind"].endswith("RoleBinding")):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "yard", "namespace": "cameras"}]


def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    helm = pytest.importorskip("helm_python", reason=NO_HELM)
    found = helm.lint(str(CHART), strict=True)
    assert found["errors"] == []
    assert [row["error"] for row in found["messages"]] == ["icon is recommended"]


def test_values_are_checked() -> None:
    helm = pytest.importorskip("helm_python", reason=NO_HELM)
    for wrong in (
        {"dynamic": True},
        {"fleet": "no spaces"},
        {"image": {"name": "m", "tag": "latest", "pullPolicy": "Never"}},
    ):
        with helm.Chart.load(str(CHART)) as chart, pytest.raises(helm.HelmError):
            chart.render(wrong, name="yard", namespace="cameras")


def test_strong_rights_are_off_by_default_and_limited_when_on() -> None:
    usual = rights(rendered({}))
    assert {verb for verb, resource in usual if resource == "nodes"} == {"get", "list", "watch"}
    assert not {r for _, r in usual} & {"nodes/status", "pods/eviction"}
    objects = rendered(EVERYTHING)
    assert rights(objects) - usual == {("patch", "nodes/status"), ("create", "pods/eviction"), ("patch", "nodes")}
    (policy,) = [o for o in objects if o["kind"] == "ValidatingAdmissionPolicy"]
    assert policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == ["nodes/status"]
    assert "system:serviceaccount:cameras:yard" in policy["spec"]["matchConditions"][0]["expression"]
    limits = [row["expression"] for row in policy["spec"]["validations"]]
    assert [f'"{DOMAIN}/"' in text for text in limits] == [True, True, False]
    (binding,) = [o for o in objects if o["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_the_chart_and_the_engine_use_the_same_names() -> None:
    objects = rendered({})
    (boxes,) = [o for o in objects if o["kind"] == "DaemonSet"]
    spec = boxes["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {FLEET_LABEL: "yard"}
    assert spec["tolerations"] == [{"key": FLEET_LABEL, "operator": "Exists"}]
    (role,) = [o for o in objects if o["kind"] == "Role"]
    assert [LeaseRules("me").name] in [rule.get("resourceNames") for rule in role["rules"]]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        environment = {row["name"]: row.get("value", "") for row in container["env"]}
        assert {"MAGPIE_POD_NAME", "MAGPIE_POD_UID", *(name for name, _ in _VARIABLES.values())} <= environment.keys()
        assert (environment["MAGPIE_FLEET"], environment["MAGPIE_IMAGE"]) == ("yard", container["image"])
    (site,) = [o for o in objects if o["kind"] == "ConfigMap"]
    assert yaml.safe_load(site["data"]["site.yaml"].replace("@NODE@", "b1"))["site"] == "b1"


def test_agents_are_reached_at_their_nodes_where_a_port_is_set() -> None:
    def found(values: dict[str, Any]) -> tuple[list[int], list[Any]]:
        objects = rendered(values)
        (boxes,) = [o for o in objects if o["kind"] == "DaemonSet"]
        (policy,) = [o for o in objects if o["kind"] == "NetworkPolicy" and o["metadata"]["name"] == "yard"]
        ports = boxes["spec"]["template"]["spec"]["containers"][0]["ports"]
        return [row["hostPort"] for row in ports if "hostPort" in row], policy["spec"]["ingress"][1:]

    assert found({}) == ([], [])
    assert found({"agentPort": 8470}) == ([8470], [{"ports": [{"port": "agent"}]}])


def test_a_node_makes_the_box_of_its_site_file() -> None:
    """The command of the init container, run by a real shell on the example of values.yaml."""
    (boxes,) = [o for o in rendered({}) if o["kind"] == "DaemonSet"]
    shell, option, command = boxes["spec"]["template"]["spec"]["initContainers"][0]["command"]
    for path, stream in (("/etc/magpie-site/site.yaml", "/dev/stdin"), ("/etc/magpie/site.yaml", "/dev/stdout")):
        command = command.replace(path, stream)
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    example = "".join(line[3:] for line in text.splitlines(keepends=True) if line.startswith("#  "))
    environment = {
        "MAGPIE_NODE_NAME": "n1.yard.example",
        "MAGPIE_NODE_ADDRESS": "192.0.2.7",
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [shell, option, command], input=example, env=environment, text=True, capture_output=True, check=True, timeout=30
    )
    site = parse(SiteSettings, yaml.safe_load(done.stdout))
    assert site.fleet is not None
    assert (site.fleet.name, site.fleet.address) == ("n1-yard-example", "https://192.0.2.7:8470")
    assert site.fleet.engine.kind == "kubernetes"


def test_the_image_is_that_of_the_compose_file() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    image = f"{values['image']['name']}:{values['image']['tag']}"
    assert f"image: {image}\n" in (REPO / "docker-compose.yml").read_text(encoding="utf-8")
