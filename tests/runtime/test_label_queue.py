"""The label queue: order, a worker that dies, poison, time's end, labels that are on disk already."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections
from edge.runtime.labelling import LabelQueue, label_path
from edge.runtime.messages import Label, Labelled


class Golden:
    """Stands where the golden worker's pipe is."""

    def __init__(self) -> None:
        self.there = True
        self.inbox: list[Label] = []

    def send(self, label: Label) -> bool:
        if self.there:
            self.inbox.append(label)
        return self.there

    def ids(self) -> list[str]:
        return [f.id for label in self.inbox for f in label.frames]


def frame(root: Path, number: int, camera: str = "a", window: int = 1) -> SampledFrame:
    return SampledFrame(
        camera, window, number, float(number), root / f"{camera}-{window}-{number}.jpg", Detections.empty(), "v0"
    )


def labelled(f: SampledFrame) -> LabelledFrame:
    return LabelledFrame(f, Detections.build([[0.1, 0.1, 0.5, 0.5]], [0.9], [0]), "teacher")


def answer(f: SampledFrame) -> Labelled:
    return Labelled(f.camera, f.id, labelled(f), 0.5)


@pytest.fixture
def golden() -> Golden:
    return Golden()


@pytest.fixture
def queue(golden: Golden) -> LabelQueue:
    made = LabelQueue(golden.send)
    made.set_classes("a", ("car",), {"car": ("car", "van")})
    made.set_classes("b", ("person",), {})
    return made


async def test_frames_go_to_the_worker_in_order_and_few_ahead(
    queue: LabelQueue, golden: Golden, tmp_path: Path
) -> None:
    frames = [frame(tmp_path, n) for n in range(5)]
    for f in frames:
        queue.add(f)
    assert golden.ids() == [f.id for f in frames[:2]], "the rest is safe here if the worker dies"
    assert golden.inbox[0].class_map == {"car": ("car", "van")}
    for n, f in enumerate(frames):
        assert queue.waiting() == 5 - n
        queue.received(answer(f))
    assert golden.ids() == [f.id for f in frames]
    done = await queue.complete("a", 1, 5.0)
    assert [d.frame.number for d in done] == [0, 1, 2, 3, 4]
    assert queue.counters.labelled == 5
    assert queue.counters.seconds == pytest.approx(2.5)


async def test_a_frame_announced_twice_is_labelled_once(queue: LabelQueue, golden: Golden, tmp_path: Path) -> None:
    f = frame(tmp_path, 1)
    queue.add(f)
    queue.add(f)
    queue.received(answer(f))
    queue.received(answer(f))
    assert golden.ids() == [f.id]
    assert len(await queue.complete("a", 1, 1.0)) == 1
    assert queue.counters.labelled == 1


async def test_frames_of_a_worker_that_died_are_labelled_by_the_next_first(
    queue: LabelQueue, golden: Golden, tmp_path: Path
) -> None:
    frames = [frame(tmp_path, n) for n in range(4)]
    for f in frames:
        queue.add(f)
    golden.there = False
    queue.worker_lost()
    assert queue.waiting() == 4
    golden.inbox.clear()
    golden.there = True
    queue.worker_ready()
    assert golden.ids() == [frames[0].id, frames[1].id], "oldest first"
    for f in frames:
        queue.received(answer(f))
    assert len(await queue.complete("a", 1, 1.0)) == 4
    assert queue.counters.given_up == 0


async def test_a_frame_that_kills_the_worker_twice_is_given_up(
    queue: LabelQueue, golden: Golden, tmp_path: Path
) -> None:
    poison, other = frame(tmp_path, 0), frame(tmp_path, 1)
    queue.add(poison)
    queue.worker_lost()
    queue.worker_ready()
    queue.worker_lost()
    queue.add(other)
    assert golden.ids() == [poison.id, poison.id, other.id]
    queue.received(answer(other))
    assert [d.frame.number for d in await queue.complete("a", 1, 1.0)] == [1]
    assert (queue.counters.given_up, queue.counters.missed) == (1, 0)


async def test_what_is_not_labelled_in_time_is_missed_and_counted(
    queue: LabelQueue, golden: Golden, tmp_path: Path
) -> None:
    frames = [frame(tmp_path, n) for n in range(5)]
    for f in frames:
        queue.add(f)
    queue.received(answer(frames[0]))
    done = await queue.complete("a", 1, 0.05)
    assert [d.frame.number for d in done] == [0]
    assert queue.counters.missed == 4
    now = frame(tmp_path, 9, window=2)
    queue.add(now)
    queue.received(answer(frames[1]))  # too late for its window
    assert golden.ids()[-1] == now.id, "what a window waits for goes before what was missed"
    queue.received(answer(frames[2]))
    assert golden.ids()[-1] == frames[3].id, "what was missed is labelled when there is nothing else to do"
    queue.received(answer(now))
    queue.received(answer(frames[3]))
    queue.received(answer(frames[4]))
    assert [f.frame.number for f in queue.take_late("a")] == [1, 2, 3, 4]
    assert (queue.counters.missed, queue.counters.late) == (4, 4)
    assert queue.take_late("a") == (), "each is handed out once"
    assert [f.frame.number for f in await queue.complete("a", 2, 0.05)] == [9]


async def test_only_so_many_late_frames_wait(queue: LabelQueue, golden: Golden, tmp_path: Path) -> None:
    golden.there = False
    for n in range(205):
        queue.add(frame(tmp_path, n))
    await queue.complete("a", 1, 0.01)
    assert queue.counters.missed == 205
    assert queue.counters.late_dropped == 5
    queue.forget_camera("a")
    golden.there = True
    queue.worker_ready()
    assert golden.ids() == [], "nothing is labelled for a camera that is gone"


async def test_complete_waits_for_the_last_label(queue: LabelQueue, golden: Golden, tmp_path: Path) -> None:
    frames = [frame(tmp_path, n) for n in range(2)]
    for f in frames:
        queue.add(f)
    waiting = asyncio.create_task(queue.complete("a", 1, 30.0))
    for f in frames:
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.received(answer(f))
    assert len(await waiting) == 2


async def test_after_a_restart_labels_on_disk_count(queue: LabelQueue, golden: Golden, tmp_path: Path) -> None:
    known, damaged = frame(tmp_path, 0), frame(tmp_path, 1)
    label_path(known.path).write_text(json.dumps(labelled(known).to_json()))
    label_path(damaged.path).write_text('{"frame": ')
    queue.add(known)
    queue.add(damaged)
    assert golden.ids() == [damaged.id]
    queue.received(Labelled("a", damaged.id, None, 0.1))
    (done,) = await queue.complete("a", 1, 1.0)
    assert done.frame.id == known.id
    assert done.labels.classes.tolist() == [0]
    assert queue.counters.unreadable == 1


async def test_a_camera_that_leaves_keeps_no_caller_waiting(queue: LabelQueue, golden: Golden, tmp_path: Path) -> None:
    for n in range(4):
        queue.add(frame(tmp_path, n))
    queue.add(frame(tmp_path, 0, "b"))
    queue.forget_camera("a")
    queue.received(answer(frame(tmp_path, 0)))
    queue.received(answer(frame(tmp_path, 1)))
    assert golden.ids()[-1] == "b/1/0"
    assert await queue.complete("a", 1, 30.0) == ()


class Timed:
    """A queue under a share and a clock of the test's."""

    def __init__(self, root: Path) -> None:
        self.golden, self.share, self.time, self.next = Golden(), 0.2, 100.0, 0
        self.root = root
        self.queue = LabelQueue(self.golden.send, lambda: self.share, lambda: self.time)
        self.queue.set_classes("a", ("car",), {})

    def add(self, count: int) -> None:
        for _ in range(count):
            self.queue.add(frame(self.root, self.next))
            self.next += 1

    def answered(self, after_s: float) -> float | None:
        self.time += after_s
        self.queue.received(answer(frame(self.root, self.queue.counters.labelled)))
        return self.queue.last_cost


def test_a_label_costs_the_wall_time_from_answer_to_answer_times_the_share(tmp_path: Path) -> None:
    t = Timed(tmp_path)
    t.add(4)
    assert t.answered(9.0) is None, "loading the model is no label's cost"
    assert t.answered(1.0) == pytest.approx(0.2)
    assert t.queue.seconds_per_frame == pytest.approx(1.0)


def test_a_share_that_changed_between_two_answers_tells_no_cost(tmp_path: Path) -> None:
    t = Timed(tmp_path)
    t.add(5)
    t.answered(9.0)
    t.answered(1.0)
    t.share = 0.5
    assert t.answered(0.7) is None
    assert t.queue.seconds_per_frame == pytest.approx(0.4), "the same cost under a larger share"
    assert t.answered(0.4) == pytest.approx(0.2)


def test_time_without_anything_to_label_is_no_cost(tmp_path: Path) -> None:
    t = Timed(tmp_path)
    t.add(1)
    t.answered(1.0)
    t.time += 60.0
    t.add(2)
    assert t.answered(1.0) is None
    assert t.answered(1.0) == pytest.approx(0.2)
    t.add(2)
    t.queue.worker_lost()
    assert t.answered(30.0) is None, "nor is the time of a worker that died"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["add", "answer", "unreadable", "lost", "away"]), max_size=60))
def test_no_frame_is_lost_or_counted_twice(tmp_path: Path, steps: list[str]) -> None:
    golden = Golden()
    queue = LabelQueue(golden.send)
    queue.set_classes("a", ("car",), {})
    frames: list[SampledFrame] = []
    taken = 0
    for step in steps:
        if step == "add":
            frames.append(frame(tmp_path, len(frames)))
            queue.add(frames[-1])
        elif step == "lost":
            queue.worker_lost()
            taken = len(golden.inbox)
            golden.there = True
            queue.worker_ready()
        elif step == "away":
            golden.there = False
        elif taken < len(golden.inbox):
            f = golden.inbox[taken].frames[0]
            taken += 1
            queue.received(answer(f) if step == "answer" else Labelled("a", f.id, None, 0.1))
        c = queue.counters
        assert c.labelled + c.unreadable + c.given_up + queue.waiting() == len(frames)
        assert len(queue._with_worker) <= 2


class TestLent:
    """Frames that another box labels."""

    async def test_its_labels_count_like_those_made_here(
        self, queue: LabelQueue, golden: Golden, tmp_path: Path
    ) -> None:
        frames = [frame(tmp_path, n) for n in range(5)]
        for f in frames:
            queue.add(f)
        assert queue.unsent() == (tuple(frames[2:]), ())
        out = queue.lend({frames[0].id, frames[3].id, frames[4].id})
        assert out == (frames[3], frames[4]), "the worker has the first"
        assert queue.waiting() == 3
        queue.lent_labelled(labelled(frames[3]))
        for f in frames[:3]:
            queue.received(answer(f))
        assert frames[4].id not in golden.ids()
        done = await queue.complete("a", 1, 0.02)
        assert [d.frame.number for d in done] == [0, 1, 2, 3]
        assert (queue.counters.labelled, queue.counters.missed, queue.counters.seconds) == (4, 1, 1.5)
        queue.lent_labelled(labelled(frames[4]))
        assert [d.frame.number for d in queue.take_late("a")] == [4], "its window no longer waited for it"

    async def test_what_comes_back_without_a_label_is_next_here(
        self, queue: LabelQueue, golden: Golden, tmp_path: Path
    ) -> None:
        frames = [frame(tmp_path, n) for n in range(6)]
        for f in frames:
            queue.add(f)
        out = queue.lend({frames[4].id, frames[5].id})
        queue.take_back(out)
        queue.take_back(out)
        queue.received(answer(frames[0]))
        assert golden.ids() == [frames[n].id for n in (0, 1, 4)]
        out = queue.lend({frames[2].id})
        await queue.complete("a", 1, 0.02)
        queue.take_back(out)
        assert queue.unsent()[1][-1] == frames[2], "it teaches in the next window"

    async def test_frames_of_a_camera_that_left_do_not_come_back(
        self, queue: LabelQueue, golden: Golden, tmp_path: Path
    ) -> None:
        frames = [frame(tmp_path, n) for n in range(4)]
        for f in frames:
            queue.add(f)
        out = queue.lend({frames[3].id})
        queue.forget_camera("a")
        assert not queue.lent(frames[3])
        queue.take_back(out)
        assert queue.unsent() == ((), ())
