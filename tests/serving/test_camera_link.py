"""The link of a camera's worker to the front: real sockets, real shared memory, a worker that never waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge.core.errors import InvalidValue
from edge.core.vision import Detections
from edge.serving.camera_link import MOST_SLOTS, CameraLink, CameraSender
from edge.serving.front_server import FrontServer
from edge.serving.link_messages import Done, OfferedAnswer, Placed, encode

PICTURE = np.arange(48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(48, 64, 3)
FOUND = Detections.build([(0.1, 0.2, 0.3, 0.4)], [0.8], [1])


class Front:
    """A server for one camera, and the answers that came."""

    def __init__(self, path: Path) -> None:
        self.came: list[tuple[CameraLink, OfferedAnswer]] = []
        self.seen: list[dict[str, Any]] = []
        self.server = FrontServer(path, pytest.fail, on_camera=self._answered)
        self.server.expect("gate", "secret", 1 << 20, "camera")

    def _answered(self, link: CameraLink, answer: OfferedAnswer) -> None:
        self.seen.append({name: array.copy() for name, array in link.tensors(answer).items()})
        self.came.append((link, answer))


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    made = Front(tmp_path / "front.sock")
    await made.server.start()
    yield made
    await made.server.stop()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def sender(front: Front, token: str = "secret") -> CameraSender:
    return CameraSender(front.server.path, "gate", token, ("person", "car"))


async def connected(front: Front, made: CameraSender) -> None:
    """Hand answers over until one arrives."""
    now_s = 0.0
    async with asyncio.timeout(20):
        while not made.send(1, PICTURE, FOUND, ["app"], now_s):
            now_s += 0.5
            await asyncio.sleep(0.005)
    await until(lambda: front.came)


async def test_the_front_sees_the_picture_and_the_objects(front: Front) -> None:
    made = sender(front)
    await connected(front, made)
    link, answer = front.came[0]
    assert (link.camera, link.classes, answer.frame, answer.applications) == ("gate", ("person", "car"), 1, ("app",))
    seen = front.seen[0]
    np.testing.assert_array_equal(seen["picture"][0], PICTURE)
    np.testing.assert_array_equal(seen["boxes"][0], FOUND.boxes)
    assert (seen["labels"].tolist(), seen["scores"].shape) == ([[1]], (1, 1))
    made.close()


async def test_what_has_no_room_is_lost_and_counted_until_the_front_is_done(front: Front) -> None:
    made = sender(front)
    await connected(front, made)
    before = made.lost
    sent = [made.send(n, PICTURE, FOUND, ["app"], 0.0) for n in range(2, 40)]
    assert sent.count(True) == MOST_SLOTS - 1, "as many as there are slots, and no wait"
    assert made.lost - before == sent.count(False)
    await until(lambda: len(front.came) == MOST_SLOTS)
    assert len({answer.slot for _, answer in front.came}) == MOST_SLOTS, "each has a place of its own"
    larger = np.zeros((96, 64, 3), np.uint8)
    assert not made.send(50, larger, FOUND, ["app"], 0.0), "slots change their size when none is in use"
    for link, answer in front.came:
        link.free(answer.slot)
    count = len(front.came)
    async with asyncio.timeout(20):
        while not made.send(51, larger, Detections.empty(), ["app"], 0.0):
            await asyncio.sleep(0.005)
    await until(lambda: len(front.came) > count)
    assert front.seen[-1]["picture"].shape == (1, 96, 64, 3)
    assert front.seen[-1]["boxes"].shape == (1, 0, 4), "an answer without objects"
    made.close()


async def test_a_worker_comes_back_to_another_front(front: Front) -> None:
    made = sender(front)
    await connected(front, made)
    await front.server.stop()
    assert not made.send(2, PICTURE, FOUND, ["app"], 5.0)
    front.came.clear()
    await front.server.start()
    await connected(front, made)
    made.close()


async def test_a_wrong_token_is_refused_and_nothing_waits_for_it(front: Front) -> None:
    made = sender(front, "guessed")
    assert not made.send(1, PICTURE, FOUND, ["app"], 0.0)
    await until(lambda: front.server.refused)
    assert not made.send(2, PICTURE, FOUND, ["app"], 0.1)
    assert made.lost == 2
    made.close()


async def test_what_breaks_the_protocol_ends_the_link_only(front: Front) -> None:
    made = sender(front)
    await connected(front, made)
    link, answer = front.came[0]
    outside = tuple(Placed(p.name, p.datatype, p.shape, 1 << 30, p.nbytes) for p in answer.tensors)
    other = tuple(Placed("ghost", p.datatype, p.shape, p.offset, p.nbytes) for p in answer.tensors)
    shapes = tuple(Placed(p.name, p.datatype, (2, *p.shape[1:]), p.offset, 2 * p.nbytes) for p in answer.tensors)
    for tensors in (outside, other, shapes):
        with pytest.raises(InvalidValue):
            link.tensors(OfferedAnswer(0, 1, ("app",), tensors))
    link.data_received(encode(Done(1, ())))
    await until(lambda: not link.connected)
    front.came.clear()
    await connected(front, made)
    made.close()


async def test_the_next_worker_of_a_camera_comes_in_when_the_one_before_is_gone(front: Front) -> None:
    before, after = sender(front), sender(front)
    await connected(front, before)
    assert not after.send(1, PICTURE, FOUND, ["app"], 0.0)
    await until(lambda: front.server.refused)
    before.close()
    front.came.clear()
    await connected(front, after)
    assert front.came[0][0].camera == "gate"
    after.close()
