"""A camera's answers on their way to applications: whose turn it is, and what a change of the feed leaves as it was."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from edge.core.vision import Detections, Frame, Observation
from edge.runtime import application_feed
from edge.runtime import messages as m
from edge.runtime.application_feed import ApplicationFeed

FRONT = Path("/run/front.sock")


class Sender:
    """Takes the place of CameraSender: what it was handed."""

    made: ClassVar[list[Sender]] = []

    def __init__(self, path: Path, camera: str, token: str, classes: tuple[str, ...]) -> None:
        self.token, self.lost, self.closed = token, 0, False
        self.sent: list[tuple[int, list[str]]] = []
        Sender.made.append(self)

    def send(self, frame: int, picture: object, found: object, applications: list[str], now_s: float) -> bool:
        self.sent.append((frame, list(applications)))
        self.lost += 1
        return False

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def senders(monkeypatch: pytest.MonkeyPatch) -> list[Sender]:
    Sender.made = []
    monkeypatch.setattr(application_feed, "CameraSender", Sender)
    return Sender.made


def answer(feed: ApplicationFeed, number: int, at_s: float) -> None:
    picture = np.zeros((4, 4, 3), np.uint8)
    frame = Frame("gate", number, at_s, at_s, picture)
    feed.offer(frame, Observation("gate", number, at_s, at_s, "v1", Detections.empty()))


def test_each_application_gets_answers_at_its_own_rate(senders: list[Sender]) -> None:
    fed = (m.FedApplication("all"), m.FedApplication("some", 2.0))
    feed = ApplicationFeed("gate", ("car",), m.FeedApplications(FRONT, "t", fed))
    for n in range(20):
        answer(feed, n, 100.0 + n / 10)
    (sender,) = senders
    assert [n for n, names in sender.sent if "all" in names] == list(range(20))
    assert [n for n, names in sender.sent if "some" in names] == [0, 4, 9, 14, 19], "one that comes early is taken"
    assert feed.lost == 20, "what the sender could not hand over"


def test_only_another_token_or_front_makes_another_link(senders: list[Sender]) -> None:
    feed = ApplicationFeed("gate", ("car",), None)
    answer(feed, 1, 1.0)
    assert senders == []
    feed.change(m.FeedApplications(FRONT, "t", (m.FedApplication("a"),)))
    answer(feed, 2, 2.0)
    feed.change(m.FeedApplications(FRONT, "t", (m.FedApplication("a"), m.FedApplication("b"))))
    answer(feed, 3, 3.0)
    assert [s.sent for s in senders] == [[(2, ["a"]), (3, ["a", "b"])]]
    feed.change(m.FeedApplications(FRONT, "t"))
    assert senders[0].closed
    answer(feed, 4, 4.0)
    feed.change(m.FeedApplications(FRONT, "u", (m.FedApplication("a"),)))
    answer(feed, 5, 5.0)
    assert [s.token for s in senders] == ["t", "u"]
    assert feed.lost == 3, "losses of earlier links stay counted"
    feed.close()
    feed.close()
    assert feed.lost == 3
