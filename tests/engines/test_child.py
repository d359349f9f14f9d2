"""Light child processes of an engine: their messages, and what becomes of them."""

from __future__ import annotations

import os
import queue
import signal
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from edge.core.errors import Unavailable
from edge.engines import ray_messages as msg
from edge.engines.child import Child, decode, encode, kinds_of
from edge.engines.ray_engine import RayEngine, RaySettings, new_token
from edge.engines.ray_settings import RayCertificates, RaySecurity

KINDS = kinds_of(msg)
NO_MESSAGES = ["", "[]", "{}", '{"is": "Nobody"}', '{"is": "RayStop", "more": 1}', '{"is": "RayCheckpoint"}']


@dataclass(frozen=True)
class Strange:
    """A message that no child knows."""


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_message_comes_over_as_it_was(kind: type) -> None:
    values: dict[str, Any] = {"int": 3, "str": "b1", "float": 0.5, "bool": True, "Any": [None, {"a": 1.5}]}
    given = kind(**{f.name: values.get(str(f.type), {"cpu": 1.0}) for f in fields(kind)})
    assert decode(encode(given), KINDS) == given


@pytest.mark.parametrize("line", NO_MESSAGES)
def test_other_lines_are_no_messages(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line, KINDS)


def child(log: Path) -> tuple[Child, queue.SimpleQueue[Any]]:
    """The link of Ray, which waits for its first message."""
    received: queue.SimpleQueue[Any] = queue.SimpleQueue()
    return Child("edge.engines.ray_link", {}, log, KINDS, received.put, lambda code: received.put(code)), received


def test_the_end_of_a_child_is_reported_once_and_nothing_can_be_sent_to_it(tmp_path: Path) -> None:
    found, received = child(tmp_path / "link.log")
    os.kill(found.pid, signal.SIGKILL)
    assert received.get(timeout=30.0) == -signal.SIGKILL
    assert found.join(30.0)
    assert not found.send(msg.RayStop())
    found.kill()
    assert received.empty()


def test_a_child_that_reads_nothing_keeps_nobody_from_sending(tmp_path: Path) -> None:
    found, received = child(tmp_path / "link.log")
    os.kill(found.pid, signal.SIGSTOP)
    for number in range(100):
        assert found.send(msg.RayKnow({f"b{number}": {"x" * 10_000: 1.0}})), "more than any pipe holds"
    found.kill()
    assert received.get(timeout=30.0) == -signal.SIGKILL
    assert found.join(30.0)


def test_a_child_that_is_sent_no_message_ends_and_its_log_is_for_its_owner_only(tmp_path: Path) -> None:
    found, received = child(tmp_path / "logs" / "link.log")
    found.send(Strange())
    assert received.get(timeout=30.0) == 0
    assert (tmp_path / "logs" / "link.log").stat().st_mode & 0o077 == 0


def test_an_engine_without_a_cluster_does_not_open_and_reports_why(tmp_path: Path) -> None:
    for name in ("box.pem", "box.key", "ca.pem"):
        (tmp_path / name).touch()
    files = RayCertificates(tmp_path / "box.pem", tmp_path / "box.key", tmp_path / "ca.pem")
    settings = RaySettings(
        "127.0.0.1:9", RaySecurity(new_token(), files), {"b0": {}}, tmp_path, "127.0.0.1", open_s=2.0
    )
    why = r"Ray is not installed|127\.0\.0\.1:9 cannot be joined|ended at once|does not answer"
    with pytest.raises(Unavailable, match=why):
        RayEngine(settings, lambda: 0.0)
