"""The demand on a served model that an application asks too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from serving_parts import chained

import configs
from edge.core.front_messages import ServedVersion
from edge.core.oip import TensorSpec
from edge.core.serving_reasons import ServingReason
from edge.runtime.serving_demand import Offer, demands, fitting
from edge.serving.pipeline_files import parse_application, read_application
from edge.settings import ModelDemand

GAME = Path(configs.__file__).parent / "applications" / "game.yaml"


def version(model: str) -> ServedVersion:
    tensor = TensorSpec("x", "FP32", (-1, 3))
    return ServedVersion(model, "1", f"models/{model}/1", "torchvision", (tensor,), (tensor,), 1000.0, rate=1.0)


def test_an_application_adds_its_rate_its_objective_and_that_it_asks_for_several_at_once() -> None:
    game = read_application(GAME, "game")
    offers = [Offer(m, version=version(m)) for m in game.models] + [Offer("game", application=game)]
    found, applications = demands(offers, {"game": ModelDemand(rate=5.0, slo_ms=200.0)})
    by_model = {d.version.model: d for d in found}
    assert [a.name for a in applications] == ["game"]
    lenet = next(d for name, d in by_model.items() if "lenet" in name)
    other = next(d for name, d in by_model.items() if "lenet" not in name)
    assert (lenet.group, other.group) == (6, 1)
    assert lenet.rate > 5 * 6
    assert lenet.served.slo_ms <= 200.0
    assert lenet.planned(lenet.rate).slo_ms < lenet.served.slo_ms


def test_applications_and_settings_that_are_legal_alone_have_a_demand_together() -> None:
    """What is too much for one model is planned as the most that is possible, and taking models in goes on."""
    applications = [replace(chained("m", "m"), name=name, rate=4e8) for name in ("one", "two")]
    offers = [Offer("m", version=version("m")), *(Offer(a.name, application=a) for a in applications)]
    (found,), _ = demands(offers, {"m": ModelDemand(rate=1e6)})
    assert found.rate == 1e9
    stages = tuple(replace(s, per_request=1e6) for s in applications[0].stages)
    _, (many,) = demands([Offer("one", application=replace(applications[0], rate=1.0, stages=stages))],
                         {"one": ModelDemand(rate=1e6)})  # fmt: skip
    assert many.rate == 500.0, "older settings ask for more than its two stages may ask the model"


def test_a_model_alone_is_asked_for_one_at_a_time() -> None:
    (only,), applications = demands([Offer("a", version=version("a"))], {"a": ModelDemand(rate=7.0)})
    assert (only.rate, only.group, applications) == (7.0, 1, ())


def test_alternatives_with_other_tensors_are_left_out_and_named() -> None:
    tensor = {"datatype": "FP32", "shape": [-1, 3]}
    described = {
        "platform": "pipeline",
        "slo_ms": 100,
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "y", "from": "read.x", **tensor}],
        "stages": [
            {
                "name": "read",
                "model": "large",
                "accuracy": 0.9,
                "inputs": {"x": "x"},
                "alternatives": [{"model": m, "accuracy": 0.8} for m in ("small", "other", "absent")],
            }
        ],
    }
    application = parse_application("reader", described)
    other = replace(version("other"), outputs=(TensorSpec("y", "FP32", (-1, 3)),))
    offers = [Offer(m, version=version(m)) for m in ("large", "small")]
    offers += [Offer("other", version=other), Offer("reader", application=application)]
    _, (found,) = demands(offers, {})
    assert [o.model for o in found.stages[0].options] == ["large", "absent", "small"]
    versions = {o.name: o.version for o in offers if o.version is not None}
    assert fitting(application, versions)[1] == (ServingReason("unlike", "large", "reader", "read", "other"),)
