"""`magpie capacity`: asks an appliance and waits, or replays a data folder."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import pytest
from http_kit import QuietHandler, answering

from edge.commands import capacity
from edge.core.errors import InvalidValue, MagpieError
from web.examples.capacity import CAPACITY, FORECAST

ASKED: list[object] = []


class _Appliance(QuietHandler):
    """Answers the second time that it is looked at after a question; fails for a second box."""

    def do_GET(self) -> None:
        ASKED.append("GET")
        question = next((a for a in ASKED if isinstance(a, dict)), None)
        over = question is not None and ASKED[-1] == ASKED[-2] == "GET"
        made = [FORECAST | {"id": 8, "outcome": None}] if over and question["kind"] != "box" else []
        failed = {"change": FORECAST["change"], "message": "no memory is left"} if over and not made else None
        waiting = None if over or question is None else CAPACITY["working"]
        self._answer(200, CAPACITY | {"working": waiting, "failed": failed, "forecasts": [*made, FORECAST]})

    def do_POST(self) -> None:
        ASKED.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self._answer(202, CAPACITY)

    def _answer(self, status: int, value: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())


@pytest.fixture
def url() -> Iterator[str]:
    ASKED.clear()
    with answering(_Appliance) as address:
        yield address


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    capacity.add_arguments(parser)
    return capacity.run(parser.parse_args([*words]), look_s=0.0)


def test_a_forecast_is_asked_for_and_waited_for(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("device", "--factor", "0.5", "--url", url) == 0
    assert ASKED[1] == {"kind": "device", "factor": 0.5, "windows": 48}
    out = capsys.readouterr().out
    assert "half the device, from 48 windows" in out
    assert "camera junction-north: accuracy 71.2 % -> 66.4 % (63.1 to 69.0)" in out
    assert "model plates: latency 21.0 ms -> 24.5 ms (8.2 to 55.0)" in out
    assert "note: More or less" in out
    ASKED.clear()
    assert run("camera", "--camera", "gate", "--url", url, "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == 8


def test_a_forecast_that_fails_says_why(url: str) -> None:
    with pytest.raises(MagpieError, match="no memory is left"):
        run("box", "--url", url)


def test_earlier_forecasts_are_reported_with_what_came(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--url", url) == 0
    assert "camera junction-north: 66.4 % forecast, 65.2 % came" in capsys.readouterr().out
    for words in (("--factor", "2"), ("window", "--factor", "0.3")):
        with pytest.raises(InvalidValue):
            run(*words, "--url", url)
