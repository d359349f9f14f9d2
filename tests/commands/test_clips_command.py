"""`magpie clips`: what it asks of an appliance that answers by REST, and the file that it writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_kit import QuietHandler, answering

from edge.cli import main
from web.examples.clips import CLIP

VIDEO = b"an mp4 of sixteen seconds" * 1000
SHA256 = hashlib.sha256(VIDEO).hexdigest()


class _Appliance(QuietHandler):
    asked: list[tuple[str, str, Any]] = []  # noqa: RUF012
    looks = 0  # at a clip that is being made, until it is kept
    fails = False
    sent = VIDEO

    def do_GET(self) -> None:
        path = self.path.removeprefix("/api/v1")
        _Appliance.asked.append(("GET", path, None))
        if path.endswith("/download"):
            self._say(self.sent)
        elif path.startswith("/clips?"):
            self._say(json.dumps([_clip("kept"), _clip("failed")]).encode())
        else:
            _Appliance.looks -= 1
            state = "making" if self.looks > 0 else "failed" if self.fails else "kept"
            self._say(json.dumps(_clip(state)).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _Appliance.asked.append(("POST", self.path.removeprefix("/api/v1"), body))
        self._say(json.dumps(_clip("making")).encode())

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)


def _clip(state: str) -> dict[str, Any]:
    video = CLIP["video"] | {"sha256": SHA256, "missing_before_s": 1.5} if state == "kept" else None
    return CLIP | {"state": state, "video": video, "failure": {"fault": "no_video"} if state == "failed" else None}


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("COLUMNS", "200")
    _Appliance.asked, _Appliance.looks, _Appliance.fails, _Appliance.sent = [], 0, False, VIDEO
    with answering(_Appliance) as address:
        yield address


def test_clips_are_listed_with_their_state(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clips", "--url", url, "list", "--camera", "junction-north", "--limit", "5"]) == 0
    assert _Appliance.asked == [("GET", "/clips?limit=5&camera=junction-north", None)]
    said = capsys.readouterr().out
    for words in ("junction-north", "kept", "16.1", "h264", "3.9", "17", "failed: no_video"):
        assert words in said


def test_a_clip_is_waited_for_and_written(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _Appliance.looks = 2
    out = tmp_path / "gate.mp4"
    made = ["make", "--camera", "junction-north", "--before", "5", "--output", str(out)]
    assert main(["clips", "--url", url, *made]) == 0
    assert _Appliance.asked[0] == ("POST", "/clips", {"camera": "junction-north", "before_s": 5.0})
    assert [path for _, path, _ in _Appliance.asked[1:]] == ["/clips/7"] * 3 + ["/clips/7/download"]
    assert out.read_bytes() == VIDEO
    said = " ".join(capsys.readouterr().out.split())
    assert "clip 7: 16.1 s, h264" in said
    assert "it begins 1.5 s late (whole)" in said
    assert SHA256 in said


def test_a_clip_that_could_not_be_made_is_an_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    _Appliance.fails = True
    assert main(["clips", "--url", url, "make", "--camera", "junction-north"]) != 0
    assert "clip 7 could not be made: no_video" in capsys.readouterr().err
    assert main(["clips", "--url", url, "get", "7"]) != 0
    assert "clip 7 has no video: it is failed" in capsys.readouterr().err


def test_a_damaged_download_leaves_no_file(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _Appliance.sent = VIDEO[:-1]
    out = tmp_path / "gate.mp4"
    assert main(["clips", "--url", url, "get", "7", "--output", str(out)]) != 0
    assert "clip 7 is damaged" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
