"""`magpie objects`: what it asks of an appliance, page after page, and a camera's day."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import pytest
from http_kit import QuietHandler, answering

from edge.commands import objects
from edge.core.errors import InvalidValue
from web.examples.finding import FOUND, TIMELINE

ASKED: list[str] = []


class _Appliance(QuietHandler):
    def do_GET(self) -> None:
        ASKED.append(self.path)
        last = FOUND | {"next": None} if "after=" in self.path else FOUND
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(TIMELINE if "timeline" in self.path else last).encode())


@pytest.fixture
def url() -> Iterator[str]:
    ASKED.clear()
    with answering(_Appliance) as address:
        yield address


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    objects.add_arguments(parser)
    return objects.run(parser.parse_args(words))


def test_objects_are_asked_for_page_after_page(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    where = ("--camera", "north", "--camera", "south", "--line", "gate", "--way", "forward")
    assert run("--url", url, "find", *where, "--from", "2026-11-26T00:00+00:00", "--least", "5") == 0
    first, second = ASKED
    assert "cameras=north&cameras=south&line=gate&way=forward&from=1795651200.0&least_s=5.0&limit=50" in first
    assert second.endswith("limit=49&after=1790000000.0-17")
    assert capsys.readouterr().out.count("gate:forward") == 2
    with pytest.raises(InvalidValue, match="--limit"):
        run("--url", url, "find", "--limit", "0")
    with pytest.raises(InvalidValue, match="--to"):
        run("--url", url, "find", "--to", "noon")


def test_a_day_is_reported(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run("--url", url, "day", "--camera", "north", "--day", "2026-09-21") == 0
    assert ASKED == ["/api/v1/cameras/north/timeline?bucket_s=3600&day=2026-09-21"]
    said = capsys.readouterr().out
    for words in ("12 car, 3 person", "window 3: promoted", "stalled silent", "7: kept"):
        assert words in said
    with pytest.raises(InvalidValue, match="--day"):
        run("--url", url, "day", "--camera", "north", "--day", "yesterday")


def test_what_was_left_out_is_said_and_times_are_those_of_the_box(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    hours = [{**TIMELINE["hours"][0], "ahead_s": 19_800}]
    known = TIMELINE["from_utc_s"] + 3600.0
    other = {"hours": hours, "cut": ["clips"], "known_from_utc_s": known}
    monkeypatch.setattr(__name__ + ".TIMELINE", TIMELINE | other)
    assert run("--url", url, "day", "--camera", "north") == 0
    said = capsys.readouterr().out
    assert said.count("+05:30") >= 4
    assert "before 2026-09-21T06:30:00+05:30 is not known" in said
    assert "too many: clips" in said
    assert run("--url", url, "find", "--limit", "1") == 0
    assert "there may be older ones" in capsys.readouterr().out
