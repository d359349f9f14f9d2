"""Reasons of a window plan: the words of each code, and files of this and of earlier versions."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from edge.core.plan_reasons import PlanReason, PlanReasonCode, reasons_from_json, reasons_in_words
from edge.core.window import Segment, StreamAllocation, WindowPlan

RETRAINING = {"points": 16.0, "device_s": 8.0, "place": 2, "places": 3}
WORDS = [
    (
        PlanReason("retrain", "gate", "head-e5", RETRAINING),
        "retrain head-e5: +16.0 points for 8.0 device seconds, number 2 of 3 to start (2.00 points per device second)",
    ),
    (
        PlanReason("go_on", "gate", "head-e5", RETRAINING | {"device_s": 0.0, "place": 1, "places": 1}),
        "go on with head-e5: +16.0 points for 0.0 device seconds, the only one (nothing left to pay)",
    ),
    (
        PlanReason("lent", "gate", "b2", {"points": 7.25, "arrives_s": 41.6}),
        "the box b2 retrains it: +7.2 points from second 42 of the window on, at no share of this box",
    ),
    (PlanReason("not_worth_it", "gate"), "no retraining pays off in what is left of the window"),
    (PlanReason("no_gain", "gate"), "no retraining would gain"),
    (
        PlanReason("inference", "gate", numbers={"share": 0.125, "kept": 0.953}),
        "12.5 % of the device for inference keeps 95.3 % of its accuracy",
    ),
    (
        PlanReason("none_retrained"),
        "nothing is retrained: no retraining would pay off in what is left of the window",
    ),
    (
        PlanReason("side_by_side", numbers={"retrainings": 1}),
        "1 retraining side by side at fixed shares: better here than one after another",
    ),
    (
        PlanReason("one_after_another", numbers={"retrainings": 3, "share": 0.45}),
        "3 retrainings, the most gain per remaining device second first, on 45 % of the device at the start; "
        "inference has the rest, split anew whenever one ends",
    ),
    (
        PlanReason("granted", name="mps", numbers={"step": 0.05, "least": 0.1}),
        "shares as mps grants them (steps of 0.05, at least 0.1)",
    ),
    (PlanReason("least_kept"), "every camera keeps the share that it needs at least"),
    (PlanReason("no_share", "gate", "e5-d1"), "e5-d1 was to be retrained: no share is left for it"),
    (PlanReason.recorded("an older sentence", "gate"), "an older sentence"),
]


@pytest.mark.parametrize(("reason", "words"), WORDS)
def test_a_reason_has_these_words(reason: PlanReason, words: str) -> None:
    assert reason.words() == words


def test_every_code_has_words() -> None:
    assert {reason.code for reason, _ in WORDS} == set(get_args(PlanReasonCode))


def test_reasons_are_written_as_sentences_and_values_and_read_back_the_same() -> None:
    reasons = {"gate": tuple(r for r, _ in WORDS[:6]), "": (WORDS[7][0], WORDS[9][0])}
    plan = WindowPlan("relay", "w", 0.5, (Segment(0.0, {"gate": StreamAllocation(0.5)}),), reasons=reasons)
    written = json.loads(json.dumps(plan.to_json()))
    assert written["reasons"] == reasons_in_words(reasons)
    read = WindowPlan.from_json(written)
    assert read.reasons == reasons
    assert read.to_json() == written


def test_sentences_of_an_earlier_version_are_kept_as_they_are() -> None:
    reasons = reasons_from_json({"reasons": {"gate": "why; and what", "": "the whole"}})
    assert reasons == {
        "gate": (PlanReason.recorded("why; and what", "gate"),),
        "": (PlanReason.recorded("the whole", None),),
    }
    assert reasons_in_words(reasons) == {"gate": "why; and what", "": "the whole"}
    assert reasons_from_json({}) == {}
