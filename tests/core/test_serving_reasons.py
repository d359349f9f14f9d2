"""Reasons of serving plans: values, put into words once."""

from __future__ import annotations

from typing import get_args

import pytest

from edge.core.serving_reasons import ServingReason, ServingReasonCode, in_words

NUMBERS = dict.fromkeys(
    (
        "before",
        "now",
        "part",
        "other_part",
        "ratio",
        "factor",
        "share",
        "ms",
        "even_ms",
        "least_ms",
        "accuracy",
        "other_accuracy",
        "holds",
        "steps",
        "most",
        "complete",
    ),
    0.5,
)


@pytest.mark.parametrize("code", get_args(ServingReasonCode))
def test_each_code_has_words_that_name_its_subject(code: ServingReasonCode) -> None:
    bare = ServingReason(code, numbers=NUMBERS).words()
    named = ServingReason(code, "plates", "gate", "read", "large", "executor-1", NUMBERS).words()
    assert bare
    assert not named.endswith(".")
    of_all = (
        "models_changed",
        "measured",
        "settings",
        "capacity",
        "retried",
        "wasted",
        "split",
        "budgets",
        "scarce",
        "search",
    )
    assert (named == bare) == (code in of_all)


def test_those_of_one_code_are_reported_together() -> None:
    more = [ServingReason("more", m, numbers={"before": 1.0, "now": 2.5}) for m in "ab"]
    assert in_words([*more, ServingReason("one_queue", "c")]) == (
        "more requests: a 1 -> 2.5/s, b 1 -> 2.5/s; c has one queue from now on"
    )
    assert in_words([]) == ""


def test_the_journal_keeps_what_a_reason_has() -> None:
    reason = ServingReason("answers", "small", "gate", "read")
    assert reason.to_json() == {"code": "answers", "model": "small", "application": "gate", "stage": "read"}
