"""Reasons of admission: values, put into words once."""

from __future__ import annotations

from typing import get_args

import pytest

from edge.core.admission_reasons import AcceptedCode, AdmissionReason, AdmissionReasonCode, RefusedCode
from edge.core.plan_faults import PlanFault
from edge.core.serving_reasons import Refusal, ServingReason

REFUSAL = Refusal("not_measured", "plates")
FAULT = PlanFault.under("gate", 0.5, 0.4)
WORSE = ServingReason(
    "less_accurate", "plates", "door", "read", "large", numbers={"accuracy": 0.8, "other_accuracy": 0.9, "holds": 0.0}
)
SHORT = ServingReason("unreachable", application="plates", numbers={"ms": 20.0, "least_ms": 31.0})
#: Made of what the planners said; the others have numbers.
ABOUT = {"refused": REFUSAL, "fault": FAULT, "less_accurate": WORSE, "unreachable": SHORT}
NUMBERS = dict.fromkeys(
    (
        "part", "allowed", "floors", "priority", "lowest", "floor", "need", "left", "rate", "share", "most",
        "entitlement", "loses", "held", "models", "models_before", "capacity", "cameras", "mean",
    ),
    0.25,
)  # fmt: skip


@pytest.mark.parametrize("code", [*get_args(RefusedCode), *get_args(AcceptedCode)])
def test_each_code_has_words_that_name_its_subject(code: AdmissionReasonCode) -> None:
    named = AdmissionReason(code, "plates", "gate", "stats", NUMBERS, ABOUT.get(code))
    message = named.words()
    assert not message.endswith(".")
    of_all = code in ("floors", "max_share")
    assert any(name in message for name in ("plates", "gate", "stats")) != of_all
    assert named.to_json() | {"numbers": {}} == {
        "code": code, "model": "plates", "camera": "gate", "tenant": "stats", "numbers": {}, "message": message,
    }  # fmt: skip


def test_what_the_planners_said_is_said_as_they_do() -> None:
    assert AdmissionReason.refused(REFUSAL).words() == REFUSAL.words()
    fault = AdmissionReason.fault(FAULT)
    assert (fault.code, fault.camera, fault.words()) == ("fault", "gate", FAULT.words)
    assert AdmissionReason.less_accurate(WORSE).words() == WORSE.words()


def test_a_model_that_would_get_nothing_is_not_served_at_a_part() -> None:
    numbers = {"priority": 1.0, "part": 0.0}
    assert AdmissionReason("yields", "plates", numbers=numbers).words() == (
        "plates (priority 1) would not be served any more"
    )
    assert "would be served at 40 %" in AdmissionReason("yields", "plates", numbers=numbers | {"part": 0.4}).words()
