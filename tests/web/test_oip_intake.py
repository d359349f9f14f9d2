"""Bounds on the bytes of gRPC calls: whole messages, partial ones, and open streams."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterator

import grpc
import pytest
import tritonclient.grpc as triton
from oip_kit import Running, running
from raw_http2 import RawCall
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from edge.core.errors import InvalidValue, NotLoggedIn, Overloaded
from web.oip.intake import Held, Intake, IntakePatience

MIB = 2**20
#: HTTP/2's first window: what comes of a message before it is awaited.
WINDOW = 65_535
INFER = "/inference.GRPCInferenceService/ModelInfer"
PATIENT = IntakePatience(3600.0, 3600.0, 3600.0)


class Sender:
    """A message that comes when it is let come."""

    def __init__(self, data: object = b"x") -> None:
        self.comes, self.data = asyncio.Event(), data

    async def read(self) -> object:
        await self.comes.wait()
        return self.data


async def rounds() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_message_counts_as_the_largest_until_it_is_whole() -> None:
    intake, sender = Intake(100, 60, PATIENT), Sender(b"12345")
    call = asyncio.create_task(intake.one(sender.read))
    await rounds()
    assert intake.held == 60
    sender.comes.set()
    with await call as message:
        assert (message.data, intake.held) == (b"12345", 5)
    assert intake.held == 0


async def test_calls_wait_for_their_place_in_order() -> None:
    intake = Intake(100, 50, PATIENT)
    senders = [Sender() for _ in range(4)]
    calls = [asyncio.create_task(intake.one(s.read)) for s in senders]
    await rounds()
    assert intake.held == 100
    senders[1].comes.set()
    senders[2].comes.set()
    (await calls[1]).release()
    await rounds()
    assert [c.done() for c in calls] == [False, True, True, False], "the third has the place of the second"
    for sender in senders:
        sender.comes.set()
    for call in calls:
        (await call).release()
    assert (intake.held, intake.turned_away) == (0, 0)


async def test_one_that_comes_slowly_ends_when_another_needs_its_place() -> None:
    intake = Intake(50, 50, IntakePatience(0.0, 3600.0, 3600.0))
    slow, good = Sender(), Sender(b"good")
    good.comes.set()
    first = asyncio.create_task(intake.one(slow.read))
    await rounds()
    assert not first.done(), "as slow as it likes while no other waits"
    (await intake.one(good.read)).release()
    with pytest.raises(Overloaded, match="too slowly while others waited"):
        await first
    assert (intake.held, intake.turned_away) == (0, 1)


async def test_a_message_and_a_wait_have_their_limits() -> None:
    late = Intake(50, 50, IntakePatience(3600.0, 0.0, 3600.0))
    with pytest.raises(Overloaded, match="did not come whole within 0 s"):
        await late.one(Sender().read)
    full = Intake(50, 50, IntakePatience(3600.0, 3600.0, 0.0))
    holds = asyncio.create_task(full.one(Sender().read))
    await rounds()
    with pytest.raises(Overloaded, match="messages of 50 bytes are being held already"):
        await full.one(Sender().read)
    holds.cancel()
    await asyncio.gather(holds, return_exceptions=True)
    assert (late.held, late.turned_away, full.held, full.turned_away) == (0, 1, 0, 1)


async def test_each_message_has_its_whole_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    intake = Intake(150, 50, IntakePatience(3600.0, 10.0, 3600.0))
    first, second, third = Sender(), Sender(), Sender()
    calls = [asyncio.create_task(intake.one(first.read))]
    await rounds()
    for sender in (second, third):
        now_s += 4.0
        calls.append(asyncio.create_task(intake.one(sender.read)))
        await rounds()
    first.comes.set()
    (await calls[0]).release()
    for now_s, done in ((1010.5, False), (1013.5, False), (1014.5, True)):  # noqa: B007 - the clock reads it
        await rounds()
        assert (calls[1].done(), calls[2].done()) == (done, False)
    now_s = 1018.5
    await rounds()
    for call in calls[1:]:
        with pytest.raises(Overloaded, match="did not come whole within 10 s"):
            await call
    assert (intake.held, intake.turned_away) == (0, 2)


async def test_a_reading_that_ends_although_it_is_cut_off_leaves_no_cancellation_behind() -> None:
    intake = Intake(50, 50, IntakePatience(3600.0, 0.0, 3600.0))

    async def read() -> bytes:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return b"whole"

    with await intake.one(read) as message:
        assert message.data == b"whole"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_no_message_is_an_error() -> None:
    intake, sender = Intake(50, 50, PATIENT), Sender(None)
    sender.comes.set()
    with pytest.raises(InvalidValue, match="one message"):
        await intake.one(sender.read)
    assert intake.held == 0


async def test_streams_have_places_of_their_own() -> None:
    intake = Intake(100, 50, PATIENT)
    with intake.stream(), intake.stream():
        with pytest.raises(Overloaded, match="2 streams are open"), intake.stream():
            pass
        message = await intake.of_stream(bytes(30))
        assert (intake.held, len(message.data)) == (30, 30)
        message.release()
    with intake.stream():
        assert (intake.streams, intake.held, intake.turned_away) == (1, 0, 1)


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_happens_the_bound_holds_and_all_is_given_back(seed: int) -> None:
    rng = random.Random(seed)
    limit, largest = rng.randint(10, 300), rng.randint(10, 100)
    intake = Intake(limit, largest, IntakePatience(rng.choice((0.0, 3600.0)), 3600.0, 3600.0))
    calls: list[tuple[Sender, asyncio.Task[Held]]] = []
    for _ in range(200):
        what = rng.random()
        if what < 0.4:
            sender = Sender(bytes(rng.randint(1, largest)))
            calls.append((sender, asyncio.create_task(intake.one(sender.read))))
        elif calls:
            sender, call = rng.choice(calls)
            if call.done():
                if not call.cancelled() and call.exception() is None:
                    call.result().release()
                calls.remove((sender, call))
            elif what < 0.8:
                sender.comes.set()
            else:
                call.cancel()
        for _ in range(rng.randint(0, 3)):
            await asyncio.sleep(0)
        assert 0 <= intake.held <= max(limit, largest)
    for sender, call in calls:
        sender.comes.set()
        with contextlib.suppress(asyncio.CancelledError, Overloaded):
            (await call).release()
    assert intake.held == 0


# -- on real sockets


@pytest.fixture
def small(request: pytest.FixtureRequest) -> Iterator[Running]:
    """Its patience is a test's parameter."""
    patience = getattr(request, "param", None)
    with running(patience=patience, max_body_bytes=MIB, max_held_bytes=4 * MIB) as server:
        yield server


@contextlib.contextmanager
def partial_messages(server: Running, count: int, path: str = INFER) -> Iterator[list[RawCall]]:
    with contextlib.ExitStack() as calls:
        yield [calls.enter_context(RawCall(server.grpc, path, MIB)) for _ in range(count)]


def poll(condition: str, holds: Callable[[], bool]) -> None:
    """Until the server's state is so, 30 s at most."""
    ends = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < ends, condition
        time.sleep(0.01)


def test_partial_messages_of_many_connections_are_bounded(small: Running) -> None:
    with partial_messages(small, 24) as calls:
        poll("four come in", lambda: small.intake.held == 4 * MIB)
        sent = [call.send_most() for call in calls]
        assert sum(sent) <= 4 * MIB + 24 * WINDOW, "of 24 MiB"
        assert sum(n > MIB // 2 for n in sent) == 4, "four have the place of a whole message"
    with triton.InferenceServerClient(small.grpc) as client:
        assert client.is_server_live()
    poll("all given back", lambda: small.intake.held == 0)


@pytest.mark.parametrize("small", [IntakePatience(0.0, 3600.0, 3600.0)], indirect=True)
def test_slow_senders_make_room_for_others(small: Running) -> None:
    with partial_messages(small, 4) as calls:
        poll("four come in", lambda: small.intake.held == 4 * MIB)
        for call in calls:
            call.send_most()
        with triton.InferenceServerClient(small.grpc) as client:
            assert client.is_server_live()
        calls[0].wait_end()
        assert not calls[-1].ended
    assert small.intake.turned_away >= 1


def test_a_stream_too_many_is_refused_in_words(small: Running) -> None:
    with grpc.insecure_channel(small.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        open_streams = [stub.ModelStreamInfer(_endless()) for _ in range(4)]
        poll("four are open", lambda: small.intake.streams == 4)
        with pytest.raises(grpc.RpcError) as refused:
            next(stub.ModelStreamInfer(_endless()))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "serving.max_held_mb" in refused.value.details()
        assert stub.ServerLive(pb.ServerLiveRequest()).live, "streams do not take the places of calls"
        for stream in open_streams:
            stream.cancel()
        poll("none is open", lambda: small.intake.streams == 0)


def _endless() -> Iterator[pb.ModelInferRequest]:
    while True:
        time.sleep(3600.0)
        yield pb.ModelInferRequest()


def test_who_may_not_ask_has_nothing_taken_but_the_first_window() -> None:
    def gate(token: str | None, role: str) -> str:
        raise NotLoggedIn("no")

    with running(gate=gate, max_body_bytes=MIB, max_held_bytes=4 * MIB) as server:
        with RawCall(server.grpc, INFER, MIB) as call:
            assert call.send_most() <= WINDOW
            call.wait_end()
        assert server.intake.held == 0
