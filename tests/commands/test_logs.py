"""Log records: one JSON object or one line each, with camera, window and cause, and never a password."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.logs import JsonFormatter, TextFormatter, entry_fields

TEXTS = st.text(st.characters(codec=None), max_size=60)


def record(message: str, **extra: Any) -> logging.LogRecord:
    logger = logging.Logger("magpie.test")
    return logger.makeRecord("magpie.test", logging.WARNING, "f", 1, message, (), None, None, extra)


def test_json_has_camera_window_and_cause() -> None:
    fields = entry_fields("model.rejected", "north", 3, {"reason": "held-out 0.51 against 0.55", "version": "v"})
    entry = json.loads(JsonFormatter().format(record("model.rejected", **fields)))
    assert entry["event"] == "model.rejected"
    assert entry["camera"] == "north"
    assert entry["window"] == 3
    assert entry["cause"] == "held-out 0.51 against 0.55"
    assert entry["level"] == "WARNING"
    assert entry["time"].endswith("Z")


def test_window_zero_is_reported_and_what_is_unknown_is_left_out() -> None:
    entry = json.loads(JsonFormatter("camera-north").format(record("x", **entry_fields("x", None, 0, {}))))
    assert entry["window"] == 0
    assert entry["worker"] == "camera-north"
    assert "camera" not in entry
    assert "cause" not in entry


@given(TEXTS, TEXTS)
def test_any_text_is_one_line_of_json(message: str, camera: str) -> None:
    line = JsonFormatter().format(
        record("%s", event="x", camera=camera) if not message else record(message, camera=camera)
    )
    assert "\n" not in line
    line.encode("utf-8")
    assert isinstance(json.loads(line)["message"], str)


@given(TEXTS, TEXTS)
def test_any_text_is_one_line_of_text(message: str, cause: str) -> None:
    """A camera's words cannot pretend to be a record of their own."""
    line = TextFormatter().format(record("%s", event="x", cause=cause + "\n2026-01-01T00:00:00Z INFO forged: yes"))
    assert not any((c < " " and c != "\t") or "\x7f" <= c <= "\x9f" for c in line), "no terminal obeys it either"


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_credentials_in_addresses_are_not_written(formatter: logging.Formatter) -> None:
    words = "rtsp://viewer:s3cret@192.0.2.1/x and postgresql://magpie:hush@db/x"
    line = formatter.format(record("cannot open " + words, event="camera.lost", cause=words))
    assert "s3cret" not in line
    assert "hush" not in line
    assert "192.0.2.1" in line


def test_a_traceback_is_one_field() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        found = record("failed")
        found.exc_info = sys.exc_info()
    entry = json.loads(JsonFormatter().format(found))
    assert "ValueError" in entry["error"]
    assert entry["message"] == "failed"


def test_workers_log_as_the_process_that_started_them() -> None:
    """Through the environment, as a worker inherits it."""
    code = (
        "import os, logging; from edge.logs import log_to_stderr, log_in_worker\n"
        "log_to_stderr('INFO', 'json'); log_in_worker('camera-north'); logging.getLogger('a').info('hello')\n"
        "for name in ('httpx', 'httpcore.connection', 'onveef'): logging.getLogger(name).info('one more request')"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    entry = json.loads(out.stderr)
    assert entry["worker"] == "camera-north"
    assert entry["message"] == "hello"


def test_the_command_writes_json_lines(tmp_path: Path) -> None:
    """`magpie run` with a site that cannot start: what it logs before is JSON, what it says to the user is words."""
    site = tmp_path / "site.yaml"
    site.write_text("cameras: []\n", encoding="utf-8")
    code = (
        "import sys, logging; from edge.cli import main; code = main(sys.argv[1:]); "
        "logging.getLogger('edge').warning('after'); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "run", "--check", "--log-format", "json", str(site)]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stderr.splitlines()[-1])["message"] == "after"


def test_stream_handler_and_formatter_fit_together() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter("retrain-north"))
    handler.emit(record("done"))
    assert stream.getvalue().rstrip("\n").endswith("WARNING magpie.test: done worker=retrain-north")
