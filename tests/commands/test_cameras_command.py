"""`magpie cameras discover`: what it shows, and that it does not show more."""

from __future__ import annotations

import json

import pytest
from discovery_kit import Device, Stream, served

from edge import cli


def test_the_streams_of_a_camera_as_a_table_and_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    monkeypatch.setenv("YARD", "s3cret-pa55")
    device = Device(username="viewer", password="s3cret-pa55")
    with served(device):
        asked = ["cameras", "discover", "--address", device.address, "--user", "viewer", "--password-from", "env:YARD"]
        assert cli.main(asked) == 0
        shown = capsys.readouterr().out
        assert cli.main([*asked, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
    assert "* proposed" in shown
    assert "rtsp://127.0.0.1:554/sub?a=1&b=2" in shown
    assert "wanted: a picture that fills 320 x 192, 5 times a second" in shown
    (camera,) = printed["cameras"]
    assert [s["verdict"] for s in camera["streams"]] == ["dearer", "proposed", "too_small"]
    assert "s3cret-pa55" not in shown + json.dumps(printed)


def test_words_of_a_camera_are_not_taken_for_orders(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    hostile = Device((Stream("[bold]x[/bold]"), Stream("y", codec="H264[blink]")))
    with served(hostile):
        assert cli.main(["cameras", "discover", "--address", hostile.address]) == 0
    shown = capsys.readouterr().out
    assert "[bold]x[/bold]" in shown
    assert "h264[blink]" in shown


def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    device = Device(username="viewer", password="x")
    with served(device):
        assert cli.main(["cameras", "discover", "--address", device.address]) == 0
    assert "wants another user name or password" in capsys.readouterr().out
    assert cli.main(["cameras", "discover", "--address", "ftp://camera"]) == 1
    assert "addresses: got 'ftp://camera'" in capsys.readouterr().err
    assert cli.main(["cameras", "discover", "--address", "cam", "--password-from", "env:YARD"]) == 1
    assert "--password-from: got '(not shown)', allowed: only with --user" in capsys.readouterr().err
