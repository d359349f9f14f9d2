"""Answers of a camera on their way to the applications that it feeds, in the camera's worker."""

from __future__ import annotations

from collections.abc import Sequence

from edge.core.vision import Frame, Observation
from edge.inference import Pacer
from edge.runtime import messages as m
from edge.serving.camera_link import CameraSender


class ApplicationFeed:
    """Hands each answer to the serving front, for the applications whose turn it is. It waits for nothing."""

    def __init__(self, camera: str, classes: Sequence[str], feed: m.FeedApplications | None) -> None:
        self._camera, self._classes = camera, tuple(classes)
        self._feed: m.FeedApplications | None = None
        self._sender: CameraSender | None = None
        self._pacers: dict[str, Pacer | None] = {}
        self._lost = 0
        self.change(feed)

    @property
    def lost(self) -> int:
        """Answers that could not be handed over."""
        return self._lost + (0 if self._sender is None else self._sender.lost)

    def change(self, feed: m.FeedApplications | None) -> None:
        """Feed these applications from now on."""
        if feed == self._feed:
            return
        before, self._feed = self._feed, feed
        known = self._pacers if before is not None and feed is not None else {}
        limits = {} if before is None else {a.name: a.max_rate for a in before.applications}
        self._pacers = {
            a.name: known[a.name]
            if a.name in known and limits.get(a.name) == a.max_rate
            else (None if a.max_rate is None else Pacer(a.max_rate))
            for a in (() if feed is None else feed.applications)
        }
        same = before is not None and feed is not None and (before.front, before.token) == (feed.front, feed.token)
        if same and self._pacers and self._sender is not None:
            return
        self.close()
        if feed is not None and feed.applications:
            self._sender = CameraSender(feed.front, self._camera, feed.token, self._classes)

    def offer(self, frame: Frame, observation: Observation) -> None:
        """The answer to `frame`: handed over, left out where it is no application's turn, or lost and counted."""
        if self._sender is None:
            return
        now_s = frame.monotonic_s
        due = [name for name, pacer in self._pacers.items() if pacer is None or pacer.due(now_s)]
        if due:
            self._sender.send(frame.number, frame.picture, observation.detections, due, now_s)

    def close(self) -> None:
        """End the link to the front."""
        if self._sender is not None:
            self._lost += self._sender.lost
            self._sender.close()
            self._sender = None
