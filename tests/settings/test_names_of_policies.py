"""Names of policies have one list each, their registry: settings, shipped files and the page go by it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from edge.settings import RetrainingSettings, ServingPlanning, SharingSettings
from scheduler.gpulets.policies import DEFAULT_SERVING_POLICY, SERVING_POLICIES
from scheduler.joint.split_policies import DEFAULT_SPLIT_POLICY, SPLIT_POLICIES
from scheduler.policies import DEFAULT_POLICY, WINDOW_POLICIES
from scheduler.tenants.policies import DEFAULT_SHARING_POLICY, FOR_PIPELINES_ONLY, SHARING_POLICIES

REPO = Path(__file__).resolve().parents[2]
FRONTEND = REPO / "web" / "frontend" / "src"


def test_settings_take_every_policy_and_no_other() -> None:
    for settings, field, registry, default in (
        (RetrainingSettings, "policy", WINDOW_POLICIES, DEFAULT_POLICY),
        (ServingPlanning, "policy", SERVING_POLICIES, DEFAULT_SERVING_POLICY),
        (ServingPlanning, "split", SPLIT_POLICIES, DEFAULT_SPLIT_POLICY),
    ):
        assert settings.model_json_schema()["properties"][field]["enum"] == list(registry)
        assert getattr(settings(), field) == default
        assert all(getattr(settings(**{field: name}), field) == name for name in registry)
        with pytest.raises(ValidationError, match=f"'{default}'"):
            settings(**{field: "best"})


def test_a_box_shares_by_policies_that_there_are() -> None:
    """Some policies are for the simulator and benchmarks only."""
    offered = SharingSettings.model_json_schema()["properties"]["policy"]["enum"]
    assert set(offered) <= set(SHARING_POLICIES) - set(FOR_PIPELINES_ONLY)
    assert SharingSettings().policy == DEFAULT_SHARING_POLICY
    assert all(SharingSettings(policy=name).policy == name for name in offered)


def test_the_shipped_configuration_names_the_defaults() -> None:
    site = yaml.safe_load((REPO / "configs" / "site.yaml").read_text())
    assert site["retraining"]["policy"] == DEFAULT_POLICY
    serving = yaml.safe_load((REPO / "configs" / "serving.yaml").read_text())
    assert serving["serving"]["planning"]["policy"] == DEFAULT_SERVING_POLICY


def words(name: str) -> set[str]:
    """The keys of the page's map called `name`, which stands in one file only."""
    declared = re.compile(rf"const {name}: Record<[^=]*, string> = \{{\n(.*?)\n\}};", re.S)
    found = [m for file in FRONTEND.rglob("*.ts*") for m in declared.findall(file.read_text())]
    assert len(found) == 1, f"{name} is declared {len(found)} times"
    return set(re.findall(r'^  "?([a-z-]+)"?:', found[0], re.M))


def test_the_page_has_words_for_policies_that_there_are() -> None:
    assert words("POLICIES") <= set(WINDOW_POLICIES), "words of a policy that is gone"
    assert DEFAULT_POLICY in words("POLICIES")
    assert words("SERVING_POLICIES") <= set(SERVING_POLICIES), "words of a policy that is gone"
    assert DEFAULT_SERVING_POLICY in words("SERVING_POLICIES")
    # The page's form of served models offers these.
    assert words("SPLIT_POLICIES") == set(SPLIT_POLICIES)
