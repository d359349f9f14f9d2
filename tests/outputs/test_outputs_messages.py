"""Decisions about messages: who gets which, when to try again, what an answer means, what a queue loses."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outputs_kit import alarm, news
from topics_kit import MINUTE

from edge.core.errors import InvalidValue
from edge.outputs.messages import (
    MAX_BYTES,
    QueueLimits,
    Wanted,
    judge,
    message_id,
    retry_after_s,
    size_of,
    surplus,
)

_sizes = st.lists(st.integers(1, 1000), max_size=60)


@given(_sizes, st.integers(1, 80), st.integers(1, 20_000))
def test_a_queue_loses_the_oldest_and_no_more_than_it_must(sizes: list[int], messages: int, most: int) -> None:
    limits = QueueLimits(messages, most, 1.0)
    gone = surplus(sizes, len(sizes), sum(sizes), limits)
    kept = sizes[gone:]
    assert len(kept) <= messages
    assert sum(kept) <= most
    if gone:
        one_more = sizes[gone - 1 :]
        assert len(one_more) > messages or sum(one_more) > most


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "delivered"), (204, "delivered"), (301, "later"), (307, "later"), (400, "refused"), (401, "later"),
        (403, "later"), (404, "later"), (408, "later"), (410, "refused"), (413, "refused"), (418, "refused"),
        (422, "refused"), (429, "away"), (500, "later"), (501, "later"), (502, "away"), (503, "away"), (504, "away"),
        (100, "later"), (600, "later"),
    ],
)  # fmt: skip
def test_what_an_answer_means(status: int, outcome: str) -> None:
    verdict = judge(status, None, 0.0)
    assert verdict.outcome == outcome
    assert str(status) in verdict.reason or outcome == "delivered"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), ("0", 0.0), ("12", 12.0), (" 12 ", 12.0), ("99999999999999999999", 3600.0), ("-3", None),
        ("1.5", None), ("soon", None), ("", None), ("Sun, 20 Sep 2026 14:13:50 GMT", 30.0),
        ("Sun, 20 Sep 2020 14:13:50 GMT", 0.0), ("Sun, 20 Sep 2036 14:13:50 GMT", 3600.0),
    ],
)  # fmt: skip
def test_retry_after_in_seconds_or_as_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, 1789913600.0) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_none_or_within_an_hour(value: str) -> None:
    seconds = retry_after_s(value, 1.79e9)
    assert seconds is None or 0 <= seconds <= 3600


def test_who_gets_what() -> None:
    warning, of_all = alarm(1), alarm(2, camera=None)
    assert Wanted().takes(of_all)
    assert not Wanted(kinds=frozenset({"object"})).takes(warning)
    assert Wanted(cameras=frozenset({"north"})).takes(warning)
    assert not Wanted(cameras=frozenset({"north"})).takes(of_all)
    assert not Wanted(severities=frozenset({"critical"})).takes(warning)
    # An object has no severity: the restriction is not about it.
    assert Wanted(severities=frozenset({"critical"})).takes(news(3, phase="end"))
    assert not Wanted(phases=frozenset({"new"})).takes(news(3, phase="end"))
    # Neither has a minute's count, nor a phase.
    assert Wanted(severities=frozenset({"critical"}), phases=frozenset({"new"})).takes(MINUTE)
    assert not Wanted(kinds=frozenset({"alarm", "object"})).takes(MINUTE)
    assert not Wanted(cameras=frozenset({"south"})).takes(MINUTE)


def test_a_message_has_every_field_of_its_alarm_or_object() -> None:
    assert json.dumps(replace(alarm(1), value=0.123456, details={"class": "car"}).to_json()) == (
        '{"id": 1, "rule": "cars", "rule_name": "Cars", "kind": "object", "severity": "warning", "camera": "north", '
        '"phase": "new", "began_utc_s": 1790000000.0, "ended_utc_s": null, "message": "car number 1", "value": 0.1235, '
        '"object": null, "acknowledged_by": null, "acknowledged_utc_s": null, "picture": false, '
        '"details": {"class": "car"}}'
    )
    assert json.dumps(news(2, "south", "end").to_json()) == (
        '{"id": 2, "camera": "south", "class": "car", "began_utc_s": 1790000000.0, "ended_utc_s": null, '
        '"score": 0.9124, "box": [0.1, 0.2, 0.3, 0.4], "zones": ["gate"], "zone_dwell_s": {"gate": 1.24}, '
        '"dwell_s": 1.24, "attributes": {}, "picture": false, "phase": "end"}'
    )


@pytest.mark.parametrize("body", [{"x": math.nan}, {"x": object()}, {"x": "y" * MAX_BYTES}])
def test_a_message_that_no_receiver_could_take_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match="body"):
        size_of(body)


def test_a_beginning_and_an_end_have_the_same_id_when_they_are_made_again() -> None:
    new, end = news(3, phase="new"), news(3, phase="end")
    later = replace(end, picture=True, object=replace(end.object, ended_utc_s=9e9))
    assert message_id("depot", end) == message_id("depot", later), "it was ended again after a restart"
    first, over = alarm(3, phase="new"), alarm(3, phase="end")
    assert message_id("depot", over) == message_id("depot", replace(over, ended_utc_s=9e9))
    reused = replace(new, object=replace(new.object, began_utc_s=new.object.began_utc_s + 60.0))
    others = [message_id("depot", e) for e in (new, end, first, over, news(4, phase="new"), alarm(4), reused)]
    assert len({*others, message_id("yard", new)}) == len(others) + 1
    assert all(others)
    assert message_id("depot", news(3, phase="update")) is None, "each update is another message"
