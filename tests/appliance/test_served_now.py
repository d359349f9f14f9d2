"""A served model as the overview shows it."""

from __future__ import annotations

import warnings
from dataclasses import replace

from pydantic import TypeAdapter

from edge.appliance.answers.serving import ModelReasonAnswer, RequestTotals, ServedModelAnswer
from edge.appliance.answers.state import ServedModelNow
from edge.appliance.served_models import served_now

MODEL = ServedModelAnswer(
    camera=None, name="lenet", kind="model", state="serving", reason=None, version="1", slo_ms=30.0, priority=0,
    rate=3.0, planned_rate=3.3, held_rate=3.0, served_part=1.0, latency_ms=(1.0, 2.0, 3.0), violations_recent=0.0,
    total=RequestTotals(arrived=0, answered=0, late=0, dropped=0, rejected=0, failed=0, cancelled=0), queued=0,
    running=0,
)  # fmt: skip


def test_the_reason_is_in_words_as_the_answers_type_says() -> None:
    refused = replace(
        MODEL,
        state="refused",
        reason=ModelReasonAnswer(code="no_room", numbers={"part": 0.0}, message="it does not fit"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # pydantic warns of a value of another type
        shown = [served_now(MODEL), served_now(refused)]
        rows = TypeAdapter(list[ServedModelNow]).dump_python(shown, mode="json")
    assert [(t["state"], t["reason"]) for t in rows] == [("serving", ""), ("refused", "it does not fit")]
