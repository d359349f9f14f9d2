"""Commands from a broker: which are carried out, which are ignored, and how often that is noted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge.core.clock import ManualClock
from edge.core.errors import Unavailable
from edge.outputs.link import Received
from edge.outputs.retained import RetainedTopics
from edge.outputs.switches import Switches

BIRTH = ("ha/status", b"online")


class Box:
    """Switches over retained topics of one camera; the last command ends the test's run."""

    def __init__(self) -> None:
        self.clock, self.wake = ManualClock(), asyncio.Event()
        self.commands: list[tuple[str, bool]] = []
        self.notes: list[dict[str, Any]] = []
        self._ended = asyncio.Event()
        self.retained = RetainedTopics(self.wake, self._remember)
        self.switches = Switches(
            self.retained, self._command, BIRTH, self.clock, lambda kind, data: self.notes.append({"kind": kind} | data)
        )

    async def _remember(self, topics: Any) -> None:
        raise AssertionError("nothing is published here")

    async def _command(self, topic: str, on: bool) -> str:
        if topic == "end":
            self._ended.set()
            return ""
        self.commands.append((topic, on))
        if topic == "away/set":
            raise Unavailable("it is away")
        return "" if topic == "m/north/retraining/set" else "no such camera"

    async def send(self, *received: Received) -> None:
        """Have commands carried out, to the last one."""
        self._ended.clear()
        for one in (*received, Received("end", b"ON", False)):
            self.switches.receive(one)
        running = asyncio.create_task(self.switches.run())
        await self._ended.wait()
        running.cancel()
        await asyncio.wait({running})


async def test_only_on_and_off_that_are_sent_now_are_carried_out() -> None:
    box = Box()
    topic = "m/north/retraining/set"
    await box.send(
        Received(topic, b"ON", False), Received(topic, b"OFF", True), Received(topic, b"on", False),
        Received(topic, b"OFF", False),
    )  # fmt: skip
    assert box.commands == [(topic, True), (topic, False)]


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        (Received("m/north/retraining/set", b"OFF", True), "it was retained: an old command is not carried out"),
        (Received("m/north/retraining/set", b"off", False), "not ON or OFF"),
        (Received("m/nobody/retraining/set", b"ON", False), "no such camera"),
        (Received("away/set", b"ON", False), "it is away"),
    ],
)
async def test_the_reason_of_an_ignored_command_is_noted(received: Received, reason: str) -> None:
    box = Box()
    await box.send(received)
    (note,) = box.notes
    assert (note["kind"], note["reason"], note["messages"]) == ("output.command_ignored", reason, 1)
    assert (note["topic"], note["payload"]) == (received.topic, ascii(received.payload.decode()))


async def test_many_ignored_commands_are_one_note_in_ten_seconds() -> None:
    box = Box()
    bad = Received("m/north/retraining/set", b"?", False)
    await box.send(*[bad] * 20)
    box.clock.advance(9.0)
    await box.send(bad)
    assert [note["messages"] for note in box.notes] == [1]
    box.clock.advance(1.0)
    await box.send(bad)
    assert [note["messages"] for note in box.notes] == [1, 21]


async def test_the_sender_of_a_command_sees_what_is_in_force() -> None:
    box = Box()
    box.retained.replace({"m/north/retraining": "ON"})
    box.wake.clear()
    await box.send(Received("m/nobody/retraining/set", b"ON", False))
    assert not box.wake.is_set()
    await box.send(Received("m/north/retraining/set", b"?", False))
    assert box.wake.is_set()


async def test_everything_is_sent_again_at_a_birth_message() -> None:
    box = Box()
    box.retained.replace({"m/north/retraining": "ON"})
    box.wake.clear()
    await box.send(Received("ha/status", b"offline", False), Received("ha/status", b"online", True))
    assert not box.wake.is_set()
    await box.send(Received("ha/status", b"online", False))
    assert box.wake.is_set()
    assert box.commands == box.notes == []
