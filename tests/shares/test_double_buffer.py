"""The hand-over state machine against workers that die, hang and fail to warm up at random."""

from __future__ import annotations

import pytest
from examples_kit import tried
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.shares import double_buffer as db


class SimulatedGenerations:
    """Simulated workers. Each generation answers after a delay, or hangs, or dies, as its fate says."""

    def __init__(self, fates: list[str], limits: db.HandoverSettings) -> None:
        self.fates, self.now = fates, 0.0
        self.alive: dict[int, str] = {}  # generation -> starting | ready | hung
        self.inbox: dict[int, list[tuple[float, int]]] = {}
        self.starts: list[tuple[float, int]] = []
        self.deaths: list[tuple[float, int]] = []
        self.emitted: list[tuple[int, int | None]] = []
        self.commits: list[float] = []
        self.killed: list[int] = []
        self.max_alive = 0
        self.state, out = db.begin(0.5, limits)
        self.obey(out)

    def fate(self, generation: int) -> str:
        return self.fates[(generation - 1) % len(self.fates)] if generation <= len(self.fates) else "good"

    def obey(self, out: tuple[db.Instruction, ...]) -> None:
        for order in out:
            if isinstance(order, db.StartWorker):
                assert order.generation not in self.alive
                self.alive[order.generation] = "starting"
                self.inbox[order.generation] = []
                self.starts.append((self.now + 0.5, order.generation))
            elif isinstance(order, db.Dispatch):
                # Only a worker that has said it is ready is given frames.
                if order.generation in self.alive:
                    assert self.alive[order.generation] in ("ready", "hung")
                    self.inbox[order.generation].append((self.now + 0.1, order.frame))
            elif isinstance(order, db.Emit):
                self.emitted.append((order.frame, order.generation))
            elif isinstance(order, (db.RetireWorker, db.Kill)):
                forced = isinstance(order, db.Kill)
                if forced:
                    self.killed.append(order.generation)
                if order.generation in self.alive and (forced or self.alive[order.generation] != "hung"):
                    self.deaths.append((self.now + 0.05, order.generation))
            elif isinstance(order, db.Commit):
                self.commits.append(order.share)
        self.max_alive = max(self.max_alive, len(self.alive))

    def tell(self, event: db.HandoverEvent) -> None:
        self.state, out = db.handle(self.state, event)
        self.obey(out)

    def die(self, generation: int) -> None:
        if self.alive.pop(generation, None) is not None:
            self.inbox.pop(generation)
            self.tell(db.WorkerDied(self.now, generation, "killed"))

    def step(self, seconds: float = 0.1) -> None:
        self.now += seconds
        for due, generation in [s for s in self.starts if s[0] <= self.now]:
            self.starts.remove((due, generation))
            if generation not in self.alive:
                continue
            fate = self.fate(generation)
            if fate == "dies warming":
                self.die(generation)
            elif fate != "hangs warming":
                self.alive[generation] = "hung" if fate == "hangs" else "ready"
                self.tell(db.TwinReady(self.now, generation))
        for due, generation in [d for d in self.deaths if d[0] <= self.now]:
            self.deaths.remove((due, generation))
            self.die(generation)
        for generation in list(self.inbox):
            for due, frame in [i for i in self.inbox.get(generation, []) if i[0] <= self.now]:
                self.inbox[generation].remove((due, frame))
                fate = self.fate(generation)
                if fate == "hangs":
                    continue
                if fate == "dies" and frame % 3 == 0:
                    self.die(generation)
                    break
                self.tell(db.WorkerAnswered(self.now, generation, frame))
                if fate == "answers twice" and generation in self.alive:
                    self.tell(db.WorkerAnswered(self.now, generation, frame))
        self.tell(db.Tick(self.now))


LIMITS = db.HandoverSettings(warm_timeout_s=2.0, drain_timeout_s=0.5, answer_timeout_s=1.0, queue_limit=4)
FATES = st.sampled_from(["good", "good", "dies", "hangs", "dies warming", "hangs warming", "answers twice"])
ACTIONS = st.one_of(
    st.just(("frame",)),
    st.just(("frame",)),
    st.just(("step",)),
    st.just(("kill",)),
    st.tuples(st.just("resize"), st.sampled_from([0.1, 0.3, 0.5, 0.7]), st.booleans()),
)


@settings(max_examples=tried(60, 150), deadline=None)
@example(["hangs", "dies"], [("frame",)] * 4 + [("resize", 0.1, True)])
@given(st.lists(FATES, max_size=6), st.lists(ACTIONS, max_size=60))
def test_every_frame_is_answered_exactly_once_and_in_order(fates: list[str], actions: list[tuple]) -> None:
    world = SimulatedGenerations(fates, LIMITS)
    sent = 0
    for action in actions:
        if action[0] == "frame":
            world.tell(db.FrameArrived(world.now, sent))
            sent += 1
        elif action[0] == "kill" and world.state.active in world.alive:
            world.die(world.state.active)
        elif action[0] == "resize":
            world.tell(db.ResizeWanted(world.now, action[1], action[2]))
        world.step(0.1)
        held = sum(f.holder is None for f in world.state.frames)
        assert held <= LIMITS.queue_limit
    for _ in range(300):
        world.step(0.1)
    assert [frame for frame, _ in world.emitted] == list(range(sent))
    assert world.state.fresh + world.state.stale == sent
    assert world.state.phase == "steady"
    assert set(world.alive) == {world.state.active}, "a worker was left behind"


def drive(world: SimulatedGenerations, seconds: float, frames: bool = True) -> int:
    """Ten frames per second for a while; returns how many."""
    first = len(world.emitted) + len(world.state.frames)
    count = 0
    for _ in range(round(seconds * 10)):
        if frames:
            world.tell(db.FrameArrived(world.now, first + count))
            count += 1
        world.step(0.1)
    return count


def test_a_resize_between_healthy_workers_answers_every_frame_fresh() -> None:
    world = SimulatedGenerations([], LIMITS)
    drive(world, 1.0, frames=False)
    sent = drive(world, 2.0)
    world.tell(db.ResizeWanted(world.now, 0.7))
    sent += drive(world, 3.0)
    drive(world, 1.0, frames=False)
    assert world.commits == [0.5, 0.7]
    assert world.state.share == 0.7
    assert all(generation is not None for _, generation in world.emitted)
    assert len(world.emitted) == sent
    assert world.max_alive == 2
    assert world.killed == []


def test_without_memory_for_a_twin_the_old_worker_ends_before_the_new_one_gets_frames() -> None:
    world = SimulatedGenerations([], LIMITS)
    drive(world, 1.0)
    world.tell(db.ResizeWanted(world.now, 0.3, twin_fits=False))
    drive(world, 3.0)
    assert world.state.share == 0.3
    assert world.state.phase == "steady"
    assert world.max_alive == 1


def test_a_twin_that_never_warms_up_is_killed_and_the_old_worker_stays() -> None:
    world = SimulatedGenerations(["good", "hangs warming"], LIMITS)
    drive(world, 1.0)
    world.tell(db.ResizeWanted(world.now, 0.9))
    drive(world, 4.0)
    assert world.killed == [2]
    assert world.state.active == 1
    assert world.state.share == 0.5
    assert world.commits == [0.5]


def test_an_old_worker_that_hangs_while_it_drains_is_killed_and_its_frames_are_answered() -> None:
    world = SimulatedGenerations(["good"], LIMITS)
    drive(world, 1.0, frames=False)
    drive(world, 1.0)
    world.tell(db.ResizeWanted(world.now, 0.7))
    for _ in range(4):
        world.step(0.1)
    world.alive[1] = "hung"
    world.inbox[1] = []
    drive(world, 4.0)
    drive(world, 1.0, frames=False)
    assert 1 in world.killed
    assert 1 not in world.alive
    assert world.state.open_frames == ()


def test_a_frame_that_kills_its_workers_is_given_up() -> None:
    state, _ = db.begin(0.5, LIMITS)
    state, _ = db.handle(state, db.TwinReady(0.1, 1))
    state, out = db.handle(state, db.FrameArrived(0.2, 0))
    assert out == (db.Dispatch(1, 0),)
    state, out = db.handle(state, db.WorkerDied(0.3, 1))
    assert out == (db.StartWorker(2, 0.5),)
    state, out = db.handle(state, db.TwinReady(0.4, 2))
    assert db.Dispatch(2, 0) in out
    state, out = db.handle(state, db.WorkerDied(0.5, 2))
    assert db.Emit(0, None) in out
    assert state.open_frames == ()


def test_the_newest_of_several_wishes_counts() -> None:
    world = SimulatedGenerations([], LIMITS)
    drive(world, 1.0)
    for share in (0.6, 0.2, 0.8):
        world.tell(db.ResizeWanted(world.now, share))
    drive(world, 4.0)
    assert world.state.share == 0.8
    assert world.commits[-1] == 0.8
    assert 0.2 not in world.commits


def test_a_frame_id_that_comes_twice_is_refused() -> None:
    state, _ = db.begin(0.5)
    state, _ = db.handle(state, db.FrameArrived(0.0, 7))
    with pytest.raises(InvalidValue, match="frame: got 7"):
        db.handle(state, db.FrameArrived(0.1, 7))


def test_settings_out_of_range_name_the_field() -> None:
    with pytest.raises(InvalidValue, match=r"double_buffer\.queue_limit"):
        db.HandoverSettings(queue_limit=0)
