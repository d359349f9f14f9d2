"""Schemas of file formats as parts of other schemas: what the types write, they accept."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from edge.core.configs import InferenceConfig
from edge.core.file_schemas import FILE_FORMATS, basis_schema, embedded_schema, file_schema
from edge.core.learning import Correction, Promise
from edge.core.plan_basis import PlanBasis
from edge.core.plan_faults import PlanFault
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import InferencePoint, InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import RetrainingOption, Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem

POINT = InferencePoint(InferenceConfig(5.0, 0.5, (0.0, 0.2, 1.0, 1.0), "model"), 0.1, 0.9)
PROFILE = InferenceProfile("subsampling", 0.3, (1.0, 4.0), (1.0, 0.5), "measured", (POINT,))
OPTION = RetrainingOption("head", 0.7, 10.0, ((0.0, 0.5), (10.0, 0.7)), ((1.0, 1.0),), 0.6, 0.5, 2, {"epochs": 5})
STREAM = StreamProblem("north", 0.5, PROFILE, (OPTION,), "v1", "head", 2.0, Promise(0.6, Correction(usual=0.5)))
PROBLEM = WindowProblem("w", 0.9, 100.0, (STREAM,), 0.1, 0.4, 5.0, 7, 0.01, 20.0)
_PAID = {"points": 16.0, "device_s": 10.0, "place": 1.0, "places": 1.0}
PLAN = WindowPlan(
    "relay", "w", 0.6, (Segment(5.0, {"north": StreamAllocation(0.2, 0.5, "head")}),), 0.01,
    {"north": (PlanReason("retrain", "north", "head", _PAID),), "": (PlanReason.recorded("so", None),)},
    (PlanFault.under("north", 0.4, 0.3), PlanFault.recorded("a sentence")),
)  # fmt: skip


def written(value: dict[str, Any]) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize(("name", "value"), [("window-problem", PROBLEM.to_json()), ("window-plan", PLAN.to_json())])
def test_what_a_type_writes_is_accepted(name: str, value: dict[str, Any]) -> None:
    for schema in (file_schema(name), embedded_schema(name)):
        jsonschema.validate(written(value), schema)
        with pytest.raises(jsonschema.ValidationError, match="another"):
            jsonschema.validate(written(value | {"another": 1}), schema)
        with pytest.raises(jsonschema.ValidationError, match="'format' is a required property"):
            jsonschema.validate({k: v for k, v in written(value).items() if k != "format"}, schema)


@pytest.mark.parametrize("current", [PLAN, None])
@pytest.mark.parametrize("asked", [PROBLEM, None])
def test_a_basis_is_accepted(current: WindowPlan | None, asked: WindowProblem | None) -> None:
    basis = PlanBasis("relay", ideal_caps(0.01), current, 3.0, asked).to_json()
    jsonschema.validate(written(basis), basis_schema())


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_what_is_embedded_refers_to_nothing(name: str) -> None:
    assert '"$ref"' not in json.dumps(embedded_schema(name))
    assert '"$ref"' not in json.dumps(basis_schema())
