"""The newest log records in memory: bounded, filtered, followed, and without secrets."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.logs import LEVELS, LogRing, entry_fields

LOGGER = logging.Logger("magpie.ring", "DEBUG")


def put(ring: LogRing, message: str, level: int = logging.INFO, **extra: Any) -> None:
    ring.handle(LOGGER.makeRecord("magpie.ring", level, "f", 1, message, (), None, None, extra))


def messages(records: list[dict[str, Any]]) -> list[str]:
    return [r["message"] for r in records]


def test_the_newest_stay_and_what_gave_way_is_counted() -> None:
    ring = LogRing(capacity=3)
    for n in range(5):
        put(ring, f"m{n}")
    assert messages(ring.records(10)) == ["m4", "m3", "m2"]
    assert ring.forgotten == 2
    assert [r["id"] for r in ring.records(10)] == [5, 4, 3]


def test_following_and_paging() -> None:
    ring = LogRing()
    for n in range(6):
        put(ring, f"m{n}")
    assert messages(ring.records(10, after=4)) == ["m5", "m4"]
    assert messages(ring.records(2, before=4)) == ["m2", "m1"]
    assert ring.records(10, after=6) == []


def test_records_have_camera_window_and_cause() -> None:
    ring = LogRing()
    put(ring, "camera.stalled", logging.WARNING, **entry_fields("camera.stalled", "north", 3, {"reason": "silent"}))
    (found,) = ring.records(1)
    assert (found["camera"], found["window"], found["cause"], found["level"]) == ("north", 3, "silent", "WARNING")


def test_an_error_comes_with_its_traceback_and_a_damaged_record_harms_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ring = LogRing()
    try:
        raise ValueError("out of range")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
        ring.handle(LOGGER.makeRecord("magpie.ring", logging.ERROR, "f", 1, "failed", (), info))
    assert "ValueError: out of range" in ring.records(1)[0]["error"]
    ring.handle(LOGGER.makeRecord("magpie.ring", logging.ERROR, "f", 1, "%d", ("no number",), None))
    assert len(ring.records(10)) == 1
    assert "Logging error" in capsys.readouterr().err  # the logging library says so on stderr


@pytest.mark.parametrize(
    "text",
    ["rtsp://viewer:HIDDEN@192.0.2.1/a", "open http://box/#/setup?token=HIDDEN now", "http://box/#/login?link=HIDDEN",
     '{"password": "HIDDEN"}', "Authorization: Bearer HIDDEN", "api_key='HIDDEN'"],
)  # fmt: skip
def test_secrets_are_masked_wherever_they_stand(text: str) -> None:
    ring = LogRing()
    put(ring, text, **entry_fields("x", None, None, {"reason": text}))
    (found,) = ring.records(1)
    assert "HIDDEN" not in str(found)
    assert "***" in found["message"]
    assert "***" in found["cause"]


def test_words_about_secrets_stay() -> None:
    ring = LogRing()
    put(ring, "password_from: secret:junction is not there; the token is unknown")
    assert messages(ring.records(1)) == ["password_from: secret:junction is not there; the token is unknown"]


def test_a_giant_record_is_cut() -> None:
    ring = LogRing(most_characters=100)
    put(ring, "x" * 5000)
    assert len(ring.records(1)[0]["message"]) < 140


def test_it_listens_while_it_is_open_only() -> None:
    with LogRing() as ring:
        logging.getLogger("magpie.open").warning("heard")
    logging.getLogger("magpie.open").warning("not heard")
    assert messages(ring.records(10)) == ["heard"]


@given(
    given_records=st.lists(st.tuples(st.sampled_from(LEVELS), st.sampled_from(["Stall", "plan", "gate"])), max_size=30),
    level=st.sampled_from(LEVELS),
    text=st.sampled_from(["", "STALL", "plan", "nowhere"]),
    limit=st.integers(1, 12),
    capacity=st.integers(1, 20),
)
def test_filters_agree_with_a_list(
    given_records: list[tuple[str, str]], level: str, text: str, limit: int, capacity: int
) -> None:
    ring = LogRing(capacity=capacity)
    for name, message in given_records:
        put(ring, message, getattr(logging, name))
    kept = list(enumerate(given_records, 1))[-capacity:]
    wanted = [n for n, (name, m) in kept if LEVELS.index(name) >= LEVELS.index(level) and text.lower() in m.lower()]
    assert [r["id"] for r in ring.records(limit, level, text=text)] == wanted[::-1][:limit]
