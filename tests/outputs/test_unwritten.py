"""Messages in memory: in order, and within bounds of number and bytes."""

from __future__ import annotations

from edge.outputs.messages import NewMessage
from edge.outputs.unwritten import Unwritten


def _message(number: int, size: int = 10, destination: str = "d") -> NewMessage:
    return NewMessage(destination, "", "alarm", str(number), 0.0, {}, size)


def _numbers(messages: list[NewMessage]) -> list[str]:
    return [m.message for m in messages]


def test_the_oldest_give_way_to_the_newest() -> None:
    unwritten = Unwritten(3, 1000)
    gone = [_numbers(unwritten.put(_message(n))) for n in range(5)]
    assert gone == [[], [], [], ["0"], ["1"]]
    assert _numbers(unwritten.take(10)) == ["2", "3", "4"]
    assert (len(unwritten), unwritten.bytes) == (0, 0)


def test_one_large_message_takes_the_place_of_several() -> None:
    unwritten = Unwritten(100, 50)
    for n in range(5):
        assert unwritten.put(_message(n)) == []
    assert _numbers(unwritten.put(_message(5, 25))) == ["0", "1", "2"]
    assert unwritten.bytes == 45


def test_what_is_put_back_comes_first_again_and_gives_way_first() -> None:
    unwritten = Unwritten(4, 1000)
    for n in range(4):
        unwritten.put(_message(n))
    batch = unwritten.take(2)
    assert _numbers(batch) == ["0", "1"]
    unwritten.put(_message(4))
    assert _numbers(unwritten.put_back(batch)) == ["0"]
    assert _numbers(unwritten.take(10)) == ["1", "2", "3", "4"]


def test_the_messages_of_one_destination_are_forgotten() -> None:
    unwritten = Unwritten(10, 1000)
    for n in range(4):
        unwritten.put(_message(n, 10 + n, "de"[n % 2]))
    assert unwritten.sizes("e") == [11, 13]
    assert unwritten.forget("e") == 2
    assert unwritten.forget("e") == 0
    assert (len(unwritten), unwritten.bytes) == (2, 22)
    assert _numbers(unwritten.take(10)) == ["0", "2"]
