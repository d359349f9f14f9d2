"""Causes of plans are values; their sentences are those that store and journal have always had."""

from __future__ import annotations

from typing import get_args

import pytest

from edge.core.plan_causes import PlanCause, PlanCauseCode

SAID = {
    PlanCause("prepared"): "labels and profiles are in",
    PlanCause("first_window"): "first window: nothing to retrain on yet",
    PlanCause("restarted"): "restarted inside a window: planned again with what is left",
    PlanCause("restarted_without_plan"): "restarted inside a window without a plan",
    PlanCause("capacity_changed"): "another part of the device is left for cameras",
    PlanCause("lenders_offered"): "another box lends a share of its device",
    PlanCause("lender_failed", "gate"): "gate: its retraining did not come back from another box",
    PlanCause("camera_joined", "gate"): "gate: the camera joined",
    PlanCause("camera_left", "gate"): "gate: the camera left",
    PlanCause("camera_measured", "gate"): "gate: its inference was measured",
    PlanCause("camera_pinned", "gate"): "gate: its model was pinned",
    PlanCause("camera_unpinned", "gate"): "gate: its model was unpinned",
    PlanCause("camera_rolled_back", "gate"): "gate: an earlier model is in force again",
    PlanCause("camera_from_sibling", "gate"): "gate: another camera's student is in force",
    PlanCause("camera_settings", "gate"): "gate: its settings of retraining changed",
    PlanCause("profiles_late", "gate"): "gate: its profiles came late",
    PlanCause("work_corrected", "gate", 39.6): "gate: the retraining costs 40 device seconds",
    PlanCause("progress_unexpected", "gate", 1.26, 4.0): "gate: 1.3 device seconds done where 4.0 were expected",
    PlanCause("retraining_late", "gate"): "gate: the retraining is later than planned",
    PlanCause("retraining_completed", "gate", promoted=True): "gate: retraining completed, promoted",
    PlanCause("retraining_completed", "gate"): "gate: retraining completed, not promoted",
    PlanCause("retraining_failed", "gate"): "gate: retraining failed",
    PlanCause("group_over", "gate"): "gate: the group's retraining is over",
    PlanCause("recorded", sentence="boundary"): "boundary",
}


def test_every_cause_is_put_into_words() -> None:
    assert {cause.code for cause in SAID} == {code for part in get_args(PlanCauseCode) for code in get_args(part)}


@pytest.mark.parametrize(("cause", "words"), SAID.items(), ids=lambda x: getattr(x, "code", ""))
def test_a_cause_is_shown_in_these_words(cause: PlanCause, words: str) -> None:
    assert cause.words == words


def test_without_its_camera_a_cause_is_stored() -> None:
    for cause, words in SAID.items():
        assert words == (cause.what if cause.camera is None else f"{cause.camera}: {cause.what}")


def test_of_a_recorded_cause_the_sentence_is_kept() -> None:
    assert PlanCause.recorded("capacity changed") == PlanCause("recorded", sentence="capacity changed")
