"""The link between front and executor: real sockets, real shared memory, hostile frames."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge.core.errors import InvalidValue, Overloaded, Unavailable
from edge.core.oip import Tensor
from edge.serving.arena import ArenaFull
from edge.serving.executor_link import ExecutorLink
from edge.serving.front_link import MAX_OUTSTANDING, BatchDone, BatchInput, FrontLink
from edge.serving.front_server import FrontServer
from edge.serving.link_messages import (
    Done,
    Failed,
    LinkLost,
    Loaded,
    Refused,
    Times,
    Welcome,
    decode,
    encode,
)


class Front:
    """A server and all messages that it got."""

    def __init__(self, path: Path) -> None:
        self.links: list[FrontLink] = []
        self.done: list[tuple[BatchDone, list[Any]]] = []
        self.failed: list[Failed] = []
        self.changed: list[frozenset[str]] = []
        self.lost: list[tuple[tuple[int, ...], str]] = []
        self.server = FrontServer(path, self._came, arena_bytes=1 << 16)

    def _came(self, link: FrontLink) -> None:
        link.handler = self
        self.links.append(link)

    def batch_done(self, link: FrontLink, done: BatchDone) -> None:
        self.done.append((done, [t.array.tolist() for t in done.outputs]))
        link.release(done.number)

    def batch_failed(self, link: FrontLink, failed: Failed) -> None:
        self.failed.append(failed)

    def models_changed(self, link: FrontLink) -> None:
        self.changed.append(link.models)

    def link_lost(self, link: FrontLink, outstanding: tuple[int, ...], reason: str) -> None:
        self.lost.append((outstanding, reason))


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    made = Front(tmp_path / "front.sock")
    await made.server.start()
    yield made
    await made.server.stop()


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def connect(front: Front, executor: str = "e1", token: str = "secret") -> ExecutorLink:
    front.server.expect("e1", "secret")
    return await asyncio.to_thread(ExecutorLink.connect, front.server.path, executor, token, ["m/1"], 5.0)


def parts(*arrays: list[Any]) -> list[np.ndarray]:
    return [np.array(a, dtype=np.float32) for a in arrays]


async def test_a_batch_goes_there_and_back(front: Front) -> None:
    executor = await connect(front)
    await until(lambda: front.links)
    link = front.links[0]
    assert link.models == {"m/1"}
    assert link.pid == os.getpid()
    words = np.array([b"a", b""], dtype=object)
    number = link.send(
        "m", "1", [BatchInput("x", "FP32", parts([[1, 2]], [[3, 4]])), BatchInput("w", "BYTES", [words])], 256
    )
    batch = await asyncio.to_thread(executor.receive, 5.0)
    assert batch is not None
    assert (batch.number, batch.key, batch.rows, batch.output_bytes) == (number, "m/1", 2, 256)
    given = executor.inputs(batch)
    assert given["x"].tolist() == [[1, 2], [3, 4]]
    assert given["w"].tolist() == [b"a", b""]
    outputs = [Tensor("y", "FP32", given["x"] * 2), Tensor("v", "BYTES", np.array([b"xy", b"z"], dtype=object))]
    times = Times(0.1, 0.2, 0.3, 0.4)
    executor.send(Done(batch.number, executor.place(batch, outputs), times))
    await until(lambda: front.done)
    done, arrays = front.done[0]
    assert arrays == [[[2, 4], [6, 8]], [b"xy", b"z"]]
    assert done.times == times
    assert done.times.busy_s == pytest.approx(0.9)
    assert (link.outstanding, link.arena.blocks) == (0, 0)
    executor.close()
    await until(lambda: front.lost)
    assert front.lost == [((), "the executor ended its connection")]
    assert not link.connected
    with pytest.raises(LinkLost):
        link.send("m", "1", [BatchInput("x", "FP32", parts([[1]]))], 0)


@pytest.mark.parametrize(
    ("closed", "fault", "reason"),
    [
        (None, ConnectionResetError("reset"), "the connection broke: reset"),
        ("too slow", None, "too slow"),
        ("too slow", ConnectionResetError("reset"), "too slow"),
    ],
)
async def test_the_first_reason_for_an_end_is_reported(
    front: Front, closed: str | None, fault: Exception | None, reason: str
) -> None:
    executor = await connect(front)
    await until(lambda: front.links)
    if closed is not None:
        front.links[0].close(closed)
    front.links[0].connection_lost(fault)
    assert front.lost == [((), reason)]
    executor.close()


async def test_one_batch_fails_and_the_next_is_computed(front: Front) -> None:
    executor = await connect(front)
    await until(lambda: front.links)
    link = front.links[0]
    for _ in range(2):
        link.send("m", "1", [BatchInput("x", "FP32", parts([[1]]))], 64)
    first = await asyncio.to_thread(executor.receive, 5.0)
    assert first is not None
    with pytest.raises(ArenaFull, match="room for 64"):
        executor.place(first, [Tensor("y", "FP64", np.zeros((1, 9)))])
    executor.send(Failed(first.number, "output_too_large", "why", 128))
    second = await asyncio.to_thread(executor.receive, 5.0)
    assert second is not None
    executor.send(Done(second.number, executor.place(second, [Tensor("y", "FP32", np.ones((1, 1), np.float32))])))
    executor.send(Loaded(("m/1", "m/2")))
    await until(lambda: front.done and front.changed)
    assert [(f.number, f.code, f.needed_bytes) for f in front.failed] == [(first.number, "output_too_large", 128)]
    assert front.changed == [{"m/1", "m/2"}]
    assert link.arena.blocks == 0
    executor.close()


async def test_what_is_outstanding_is_named_when_an_executor_is_lost(front: Front) -> None:
    executor = await connect(front)
    await until(lambda: front.links)
    numbers = [front.links[0].send("m", "1", [BatchInput("x", "FP32", parts([[1]]))], 64) for _ in range(3)]
    executor.close()
    await until(lambda: front.lost)
    assert front.lost[0][0] == tuple(numbers)
    again = await connect(front)  # the name is free again
    await until(lambda: len(front.links) == 2)
    assert front.links[1].connected
    again.close()


async def test_limits_are_errors_of_the_caller(front: Front) -> None:
    executor = await connect(front)
    await until(lambda: front.links)
    link = front.links[0]
    with pytest.raises(ArenaFull):
        link.send("m", "1", [BatchInput("x", "FP32", parts([[1]]))], 1 << 17)
    for bad in (
        [BatchInput("x", "FP32", [np.zeros((1, 2))])],
        [BatchInput("x", "FP32", parts([[1]], [[1, 2]]))],
        [BatchInput("x", "FP32", [])],
        [BatchInput("x", "FP32", parts([[1]])), BatchInput("z", "FP32", parts([[1], [2]]))],
    ):
        with pytest.raises(InvalidValue):
            link.send("m", "1", bad, 0)
    assert link.arena.blocks == 0
    for _ in range(MAX_OUTSTANDING):
        link.send("m", "1", [BatchInput("x", "FP32", parts([[1]]))], 0)
    with pytest.raises(Overloaded, match="outstanding"):
        link.send("m", "1", [BatchInput("x", "FP32", parts([[1]]))], 0)
    executor.close()


async def test_only_who_knows_the_token_gets_in_and_only_once(front: Front) -> None:
    assert stat.S_IMODE(front.server.path.stat().st_mode) == 0o600
    for executor, token in (("e1", "wrong"), ("e2", "secret"), ("e1", ""), ("e1", "\ud800")):
        with pytest.raises(Unavailable, match="unknown executor or wrong token"):
            await connect(front, executor, token)
    first = await connect(front)
    await until(lambda: front.links)
    with pytest.raises(Unavailable, match="connected already"):
        await connect(front)
    assert front.server.refused == 5
    front.server.forget("e1")
    assert front.links[0].connected
    first.close()
    with pytest.raises(Unavailable, match="no serving front"):
        ExecutorLink.connect(front.server.path.with_name("nobody"), "e1", "secret", [], 1.0)


async def test_a_silent_stranger_is_sent_away(front: Front, tmp_path: Path) -> None:
    server = FrontServer(tmp_path / "short.sock", front._came, hello_s=0.05)
    await server.start()
    reader, writer = await asyncio.open_unix_connection(server.path)
    answer = await reader.read()
    assert isinstance(decode(answer[4:]), Refused)
    writer.close()
    assert server.refused == 1
    await server.stop()
    assert not server.path.exists()


async def test_a_path_longer_than_a_socket_name(front: Front, tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    long = Front(folder / "front.sock")
    await long.server.start()
    executor = await connect(long)
    await until(lambda: long.links)
    executor.close()
    await long.server.stop()


def frame(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return struct.pack("<I", len(body)) + body


HOSTILE = {
    "outside its room": frame({"is": "done", "number": 1, "outputs": [["y", "FP32", [1], 0, 4]], "times": [0] * 4}),
    "beyond the arena": frame(
        {"is": "done", "number": 1, "outputs": [["y", "FP32", [1], 1 << 40, 4]], "times": [0] * 4}
    ),
    "other rows": frame({"is": "done", "number": 1, "outputs": [["y", "FP32", [2], 64, 8]], "times": [0] * 4}),
    "size and shape differ": frame(
        {"is": "done", "number": 1, "outputs": [["y", "FP32", [1, 9], 64, 4]], "times": [0] * 4}
    ),
    "elements without end": frame(
        {"is": "done", "number": 1, "outputs": [["y", "BYTES", [1, 2**30], 64, 64]], "times": [0] * 4}
    ),
    "a number that was not sent": frame({"is": "failed", "number": 9, "code": "x", "reason": "", "needed_bytes": 0,
                                         "times": [0] * 4}),
    "a message for executors": frame({"is": "welcome", "arena_bytes": 1}),
    "no JSON": struct.pack("<I", 3) + b"\x80\x04.",
    "deep": struct.pack("<I", 200_000) + b"[" * 200_000,
    "too long": struct.pack("<I", 2**31),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_hostile_executor_loses_its_own_link_and_no_more(front: Front, what: str) -> None:
    front.server.expect("e2", "other")
    good = await asyncio.to_thread(ExecutorLink.connect, front.server.path, "e2", "other", ["m/1"], 5.0)
    bad = await connect(front)
    await until(lambda: len(front.links) == 2)
    by_name = {link.executor: link for link in front.links}
    number = by_name["e1"].send("m", "1", [BatchInput("x", "FP32", parts([[1]]))], 64)
    bad._socket.sendall(HOSTILE[what])
    await until(lambda: front.lost)
    assert front.lost[0][0] == (number,)
    assert "broke the protocol" in front.lost[0][1]
    assert not front.done
    sent = by_name["e2"].send("m", "1", [BatchInput("x", "FP32", parts([[5]]))], 64)
    batch = await asyncio.to_thread(good.receive, 5.0)
    assert batch is not None
    good.send(Done(sent, good.place(batch, [Tensor("y", "FP32", good.inputs(batch)["x"])])))
    await until(lambda: front.done)
    assert front.done[0][1] == [[[5.0]]]
    good.close()
    bad.close()


async def test_a_front_that_ends_is_noticed_by_the_executor(front: Front) -> None:
    executor = await connect(front)
    await until(lambda: front.links)
    assert executor.receive(0.0) is None
    front.links[0].close("enough")
    with pytest.raises(LinkLost):
        await asyncio.to_thread(executor.receive, 5.0)
    await until(lambda: front.lost)
    assert front.lost == [((), "enough")]
    executor.close()


async def test_a_front_that_sends_nonsense_is_left(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(1)

    def answer() -> None:
        connection, _ = listener.accept()
        connection.recv(4096)
        connection.sendall(encode(replace(Welcome(4096))))  # no descriptor
        connection.close()

    task = asyncio.create_task(asyncio.to_thread(answer))
    with pytest.raises(Unavailable, match="arena"):
        await asyncio.to_thread(ExecutorLink.connect, tmp_path / "s", "e", "t", [], 5.0)
    await task
    listener.close()
