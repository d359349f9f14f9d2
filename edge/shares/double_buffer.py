"""Changing a share by a new process without losing a frame: a pure state machine, events in, instructions out.

    steady --ResizeWanted--> starting --TwinReady--> draining --Drained--> steady   (a twin fits beside the old worker)
    steady --ResizeWanted--> emptying --(nothing in flight)--> starting in place     (it does not fit)

Every frame that arrives is answered exactly once, fresh or stale, and answers come in the order of the frames: when a
newer frame is answered, older ones still open are answered by the last answer (that is what a skipped frame gets
anyway). Frames of a worker that died go to the next one; a frame that was there when two workers died is given up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from edge.core import checks
from edge.core.errors import InvalidValue

Phase = Literal["starting", "steady", "warming", "draining", "emptying"]


@dataclass(frozen=True)
class HandoverSettings:
    """Times in seconds. `queue_limit` frames wait at most; beyond it the oldest is answered stale."""

    warm_timeout_s: float = 60.0
    drain_timeout_s: float = 1.0  # better max(1, 5 x p99 of a batch)
    answer_timeout_s: float = 10.0
    in_flight_limit: int = 2
    queue_limit: int = 8
    attempts_limit: int = 2

    def __post_init__(self) -> None:
        checks.positive("double_buffer.warm_timeout_s", self.warm_timeout_s)
        checks.positive("double_buffer.drain_timeout_s", self.drain_timeout_s)
        checks.positive("double_buffer.answer_timeout_s", self.answer_timeout_s)
        checks.in_range("double_buffer.in_flight_limit", self.in_flight_limit, 1, 1000)
        checks.in_range("double_buffer.queue_limit", self.queue_limit, 1, 10_000)
        checks.in_range("double_buffer.attempts_limit", self.attempts_limit, 1, 100)


# -- events


@dataclass(frozen=True)
class FrameArrived:
    """A frame to answer; ids grow from frame to frame."""

    at_s: float
    frame: int


@dataclass(frozen=True)
class WorkerAnswered:
    """Worker `generation` answered `frame`."""

    at_s: float
    generation: int
    frame: int


@dataclass(frozen=True)
class ResizeWanted:
    """Another share is wanted. `twin_fits`: device memory allows a second copy beside the first."""

    at_s: float
    share: float
    twin_fits: bool = True


@dataclass(frozen=True)
class TwinReady:
    """Worker `generation` is connected, loaded and warm for every batch size."""

    at_s: float
    generation: int


@dataclass(frozen=True)
class WorkerDied:
    """Worker `generation` is gone, for any reason (also after RetireWorker or Kill)."""

    at_s: float
    generation: int
    reason: str = ""


@dataclass(frozen=True)
class Tick:
    """Time passes."""

    at_s: float


HandoverEvent = FrameArrived | WorkerAnswered | ResizeWanted | TwinReady | WorkerDied | Tick


# -- instructions


@dataclass(frozen=True)
class StartWorker:
    """Start worker `generation` under `share`, warm it, report TwinReady or WorkerDied."""

    generation: int
    share: float


@dataclass(frozen=True)
class Dispatch:
    """Give `frame` to worker `generation`."""

    generation: int
    frame: int


@dataclass(frozen=True)
class Emit:
    """The answer to `frame` goes out: that of `generation`, or the last answer again when it is None (stale)."""

    frame: int
    generation: int | None


@dataclass(frozen=True)
class RetireWorker:
    """Ask worker `generation` to finish, synchronise, free and end."""

    generation: int


@dataclass(frozen=True)
class Kill:
    """End worker `generation` by force (CUDA MPS: drop the client first)."""

    generation: int


@dataclass(frozen=True)
class Commit:
    """`share` is in force in worker `generation`: write it down."""

    generation: int
    share: float


@dataclass(frozen=True)
class Abandon:
    """The resize to `share` failed; the old worker goes on."""

    share: float
    reason: str


Instruction = StartWorker | Dispatch | Emit | RetireWorker | Kill | Commit | Abandon


@dataclass(frozen=True)
class Open:
    """A frame not yet answered. `holder` is the worker that has it, None while it waits."""

    frame: int
    holder: int | None = None
    since_s: float = 0.0
    attempts: int = 0


@dataclass(frozen=True)
class Handover:
    """State. `active` answers frames; `twin` is warming up; `old` is being drained. All are generations."""

    settings: HandoverSettings
    share: float
    phase: Phase
    active: int | None = None
    twin: int | None = None
    twin_share: float = 0.0
    twin_deadline_s: float = 0.0
    old: int | None = None
    old_deadline_s: float = 0.0
    dying: frozenset[int] = frozenset()
    last_generation: int = 0
    frames: tuple[Open, ...] = ()
    newest: int = -1
    wanted: ResizeWanted | None = None
    fresh: int = 0
    stale: int = 0

    @property
    def open_frames(self) -> tuple[int, ...]:
        """Frames that arrived and are not yet answered."""
        return tuple(f.frame for f in self.frames)


def begin(
    share: float, settings: HandoverSettings | None = None, at_s: float = 0.0
) -> tuple[Handover, tuple[Instruction, ...]]:
    """The first worker is asked for; frames wait for it."""
    settings = settings or HandoverSettings()
    state = Handover(settings, share, "starting")
    out: list[Instruction] = []
    state = _start(state, share, at_s, out, "starting")
    return state, tuple(out)


def handle(state: Handover, event: HandoverEvent) -> tuple[Handover, tuple[Instruction, ...]]:
    """One step. Events of generations that are gone are ignored. Raises InvalidValue if a frame id comes twice."""
    out: list[Instruction] = []
    if isinstance(event, FrameArrived):
        state = _frame(state, event, out)
    elif isinstance(event, WorkerAnswered):
        state = _answered(state, event, out)
    elif isinstance(event, ResizeWanted):
        state = _resize(state, event, out)
    elif isinstance(event, TwinReady):
        state = _ready(state, event, out)
    elif isinstance(event, WorkerDied):
        state = _died(state, event, out)
    state = _time(state, event.at_s, out)
    state = _dispatch(state, event.at_s, out)
    return state, tuple(out)


# -- steps


def _start(state: Handover, share: float, at_s: float, out: list[Instruction], phase: Phase) -> Handover:
    generation = state.last_generation + 1
    out.append(StartWorker(generation, share))
    return replace(
        state,
        phase=phase,
        twin=generation,
        twin_share=share,
        twin_deadline_s=at_s + state.settings.warm_timeout_s,
        last_generation=generation,
    )


def _frame(state: Handover, event: FrameArrived, out: list[Instruction]) -> Handover:
    if event.frame <= state.newest:
        raise InvalidValue("frame", event.frame, f"an id above {state.newest}")
    return replace(state, newest=event.frame, frames=(*state.frames, Open(event.frame)))


def _stale(state: Handover, frames: tuple[Open, ...], out: list[Instruction]) -> Handover:
    """Answer `frames` (a prefix of the open ones, so that order is kept) by the last answer."""
    out += [Emit(f.frame, None) for f in frames]
    return replace(state, frames=state.frames[len(frames) :], stale=state.stale + len(frames))


def _answered(state: Handover, event: WorkerAnswered, out: list[Instruction]) -> Handover:
    place = next((n for n, f in enumerate(state.frames) if f.frame == event.frame), None)
    if place is None or event.generation > state.last_generation:
        return state  # answered before, by a worker that was believed dead
    state = _stale(state, state.frames[:place], out)
    out.append(Emit(event.frame, event.generation))
    return replace(state, frames=state.frames[1:], fresh=state.fresh + 1)


def _resize(state: Handover, event: ResizeWanted, out: list[Instruction]) -> Handover:
    if state.phase != "steady":
        return replace(state, wanted=event)  # the newest wish counts, once the present change is through
    if event.share == state.share:
        return state
    if event.twin_fits:
        return _start(state, event.share, event.at_s, out, "warming")
    return replace(state, phase="emptying", twin_share=event.share)


def _ready(state: Handover, event: TwinReady, out: list[Instruction]) -> Handover:
    if event.generation != state.twin:
        return state
    share, previous = state.twin_share, state.active
    state = replace(state, active=event.generation, twin=None, share=share)
    if previous is None:
        out.append(Commit(event.generation, share))
        return _settled(replace(state, phase="steady"), event.at_s, out)
    return replace(state, phase="draining", old=previous, old_deadline_s=event.at_s + state.settings.drain_timeout_s)


def _died(state: Handover, event: WorkerDied, out: list[Instruction]) -> Handover:
    generation = event.generation
    state = replace(state, dying=state.dying - {generation})
    state = _give_back(state, generation, out)
    if generation == state.twin:
        state = replace(state, twin=None)
        if state.active is not None:
            out.append(Abandon(state.twin_share, event.reason or "the new worker died"))
            return _settled(replace(state, phase="steady"), event.at_s, out)
        return _start(state, _next_share(state), event.at_s, out, "starting")
    if generation == state.old and state.phase == "emptying":
        return _start(replace(state, old=None), state.twin_share, event.at_s, out, "starting")
    if generation == state.old:
        out.append(Commit(state.active or 0, state.share))
        return _settled(replace(state, old=None, phase="steady"), event.at_s, out)
    if generation == state.active:
        state = replace(state, active=None)
        if state.old is not None:
            # The new worker died while the old one drains: the old one takes over again, if it was not yet ordered to
            # end.
            if state.old in state.dying:
                out.append(Kill(state.old))  # it is waited for no more, and it may hang
                return _start(replace(state, old=None), state.share, event.at_s, out, "starting")
            out.append(Abandon(state.share, event.reason or "the new worker died"))
            return _settled(replace(state, active=state.old, old=None, phase="steady"), event.at_s, out)
        if state.twin is not None:
            return replace(state, phase="starting")  # the twin is on its way; it takes over when it is ready
        share = state.twin_share if state.phase == "emptying" else _next_share(state)
        return _start(state, share, event.at_s, out, "starting")
    return state


def _next_share(state: Handover) -> float:
    return state.wanted.share if state.wanted is not None else state.share


def _give_back(state: Handover, generation: int, out: list[Instruction]) -> Handover:
    """Frames of a worker that is gone wait again; those that were in too many such workers are answered stale."""
    frames = tuple(replace(f, holder=None) if f.holder == generation else f for f in state.frames)
    state = replace(state, frames=frames)
    poisoned = [n for n, f in enumerate(frames) if f.holder is None and f.attempts >= state.settings.attempts_limit]
    return _stale(state, frames[: poisoned[-1] + 1], out) if poisoned else state


def _settled(state: Handover, at_s: float, out: list[Instruction]) -> Handover:
    """Back to steady: take up the wish that came meanwhile."""
    wanted = state.wanted
    if wanted is None:
        return state
    return _resize(replace(state, wanted=None), replace(wanted, at_s=at_s), out)


def _kill(state: Handover, generation: int, out: list[Instruction]) -> Handover:
    if generation not in state.dying:
        out.append(Kill(generation))
    return replace(state, dying=state.dying | {generation})


def _time(state: Handover, at_s: float, out: list[Instruction]) -> Handover:
    settings = state.settings
    if state.twin is not None and at_s > state.twin_deadline_s:
        twin = state.twin
        state = replace(_kill(state, twin, out), twin=None)
        if state.active is not None:
            out.append(Abandon(state.twin_share, f"the new worker was not ready in {settings.warm_timeout_s:g} s"))
            state = _settled(replace(state, phase="steady"), at_s, out)
        else:
            state = _start(state, _next_share(state), at_s, out, "starting")
    old = state.old
    if old is not None:
        holds = any(f.holder == old for f in state.frames)
        late = at_s > state.old_deadline_s
        if state.phase == "emptying":
            if late:  # its memory is needed: the next one starts only when it is gone
                out.append(Kill(old))
                state = replace(state, old_deadline_s=at_s + settings.drain_timeout_s)
        elif late:
            out.append(Kill(old))
            state = _give_back(replace(state, old=None, dying=state.dying | {old}), old, out)
            out.append(Commit(state.active or 0, state.share))
            state = _settled(replace(state, phase="steady"), at_s, out)
        elif not holds and old not in state.dying:
            out.append(RetireWorker(old))
            state = replace(state, dying=state.dying | {old})
    if state.active is not None:
        hung = any(f.holder == state.active and at_s - f.since_s > settings.answer_timeout_s for f in state.frames)
        if hung:
            active = state.active
            state = _kill(state, active, out)
            state = _died(state, WorkerDied(at_s, active, "no answer in time"), out)
            state = replace(state, dying=state.dying | {active})
    if state.phase == "emptying" and state.active is not None and not any(f.holder is not None for f in state.frames):
        active = state.active
        out.append(RetireWorker(active))
        state = replace(
            state,
            active=None,
            old=active,
            old_deadline_s=at_s + settings.drain_timeout_s,
            dying=state.dying | {active},
        )
    return state


def _dispatch(state: Handover, at_s: float, out: list[Instruction]) -> Handover:
    waiting = [f for f in state.frames if f.holder is None]
    if state.active is not None and state.phase != "emptying":
        room = state.settings.in_flight_limit - sum(f.holder == state.active for f in state.frames)
        given = {f.frame for f in waiting[: max(0, room)]}
        out += [Dispatch(state.active, frame) for frame in sorted(given)]
        state = replace(
            state,
            frames=tuple(
                replace(f, holder=state.active, since_s=at_s, attempts=f.attempts + 1) if f.frame in given else f
                for f in state.frames
            ),
        )
    waiting = [f for f in state.frames if f.holder is None]
    excess = len(waiting) - state.settings.queue_limit
    if excess > 0:
        last = waiting[excess - 1].frame
        place = next(n for n, f in enumerate(state.frames) if f.frame == last)
        state = _stale(state, state.frames[: place + 1], out)
    return state
