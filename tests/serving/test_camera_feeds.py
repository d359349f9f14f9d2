"""A camera's answers at the front: which objects ask, what comes back, and what a client may not ask."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_kit import described
from test_applications import Clock, Models

from edge.core.application_sources import ApplicationSource, AttributeOutput, AttributeValue, ObjectsDescribed
from edge.core.errors import InvalidValue, Unavailable
from edge.core.oip import InferRequest, Tensor, TensorSpec
from edge.serving.applications import ApplicationService
from edge.serving.camera_feeds import CameraFeeds, attribute_value, taken_objects
from edge.serving.link_messages import OfferedAnswer
from edge.serving.pipeline_files import parse_application


class Link:
    """A camera's link with an answer in it; `freed` are the slots that were given back."""

    camera = "gate"
    classes = ("car", "person")

    def __init__(self, boxes: Any, scores: Any, labels: Any) -> None:
        picture = np.zeros((1, 40, 40, 3), np.uint8)
        picture[0, :, :20, 0] = 255  # red on the left, blue on the right
        picture[0, :, 20:, 2] = 255
        self.arrays = {
            "picture": picture,
            "boxes": np.array(boxes, np.float32).reshape(1, -1, 4),
            "scores": np.array(scores, np.float32).reshape(1, -1),
            "labels": np.array(labels, np.int64).reshape(1, -1),
        }
        self.freed: list[int] = []

    def tensors(self, answer: OfferedAnswer) -> dict[str, Any]:
        return dict(self.arrays)

    def free(self, slot: int) -> None:
        self.freed.append(slot)


LEFT, RIGHT, MIDDLE = (0.1, 0.1, 0.4, 0.9), (0.6, 0.1, 0.9, 0.9), (0.45, 0.45, 0.55, 0.55)


def models() -> Models:
    made = Models(Clock())
    pictures = TensorSpec("pictures", "UINT8", (-1, 4, 4, 3))
    scores = TensorSpec("scores", "FP32", (-1, 3))

    def colours(given: dict[str, Any]) -> dict[str, Any]:
        return {"scores": (given["pictures"].mean((1, 2)) / 255).astype(np.float32)}

    made.add("colours", [pictures], [scores], colours)
    return made


async def fed(link: Link, made: Models, names: tuple[str, ...] = ("app",), **change: Any) -> list[ObjectsDescribed]:
    passed_on: list[ObjectsDescribed] = []
    service = ApplicationService(made, [parse_application("app", described(**change))], made.clock)
    feeds = CameraFeeds(service, passed_on.append)
    feeds.answered(link, OfferedAnswer(3, 17, names, ()))  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        while not link.freed:
            await asyncio.sleep(0)
    await feeds.close()
    assert link.freed == [3]
    return passed_on


async def test_each_object_gets_what_its_cut_out_shows() -> None:
    link = Link([RIGHT, LEFT, MIDDLE], [0.5, 0.9, 0.2], [0, 1, 0])
    (described,) = await fed(link, models())
    assert (described.application, described.camera, described.number) == ("app", "gate", 17)
    assert {tuple(round(v, 2) for v in o.box): o.attributes["colour"].value for o in described.objects} == {
        LEFT: "red",
        RIGHT: "blue",
    }, "the two likeliest, each with its own"
    value = described.objects[0].attributes["colour"]
    assert value.score == pytest.approx(1.0)


async def test_only_the_objects_that_the_source_takes_ask() -> None:
    made = models()
    link = Link([RIGHT, LEFT], [0.5, 0.9], [0, 1])
    (described,) = await fed(link, made, source={"camera": "gate", "classes": ["car"], "min_score": 0.3})
    assert [o.attributes["colour"].value for o in described.objects] == ["blue"]
    assert await fed(Link([LEFT], [0.2], [1]), made, source={"camera": "gate", "min_score": 0.3}) == []
    assert len(made.asked) == 1, "no model is asked where no object is taken"


async def test_other_cameras_applications_are_not_asked() -> None:
    made = models()
    assert await fed(Link([LEFT], [0.9], [0]), made, source={"camera": "yard"}) == []
    assert await fed(Link([LEFT], [0.9], [0]), made, names=("gone",)) == []
    assert made.asked == []


async def test_a_request_that_fails_is_counted_and_its_slot_is_free() -> None:
    made = models()
    made.errors["colours"] = Unavailable("lost")
    service = ApplicationService(made, [parse_application("app", described())], made.clock)
    feeds = CameraFeeds(service, pytest.fail)
    link = Link([LEFT], [0.9], [0])
    for slot in (1, 2):
        feeds.answered(link, OfferedAnswer(slot, slot, (), ()))  # type: ignore[arg-type]
    feeds.answered(link, OfferedAnswer(3, 3, ("app",), ()))  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        while len(link.freed) < 3:
            await asyncio.sleep(0)
    await feeds.close()
    (traffic,) = service.traffic()
    assert (traffic.arrived, traffic.failed, traffic.answered) == (1, 1, 0)


async def test_clients_cannot_ask_it_and_read_why_it_is_not_ready() -> None:
    made = models()
    app = parse_application("app", described())
    service = ApplicationService(made, [app], made.clock)
    with pytest.raises(InvalidValue, match="a camera is the source"):
        await service.infer(InferRequest("app", (Tensor("x", "FP32", np.zeros((1, 1), np.float32)),)))
    assert service.model_ready("app", None)
    service.apply([replace(app, unfed="camera_off")])
    assert not service.model_ready("app", None)
    assert service.ready(), "no client waits for a camera"
    assert service.problems(service.fed_by("gate", "app") or app)[0] == "source: the camera is switched off"


@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.integers(-2, 4)), max_size=12),
    st.floats(0, 1),
    st.integers(1, 6),
    st.sampled_from([(), ("car",), ("car", "person"), ("ghost",)]),
)
def test_taken_are_the_likeliest_known_objects_of_the_classes(
    found: list[tuple[float, int]], least: float, most: int, classes: tuple[str, ...]
) -> None:
    scores = np.array([s for s, _ in found], np.float32)
    labels = np.array([c for _, c in found], np.int64)
    taken = taken_objects(ApplicationSource("gate", classes, least, most), ("car", "person"), scores, labels)
    names = {n: ("car", "person")[c] for n, c in enumerate(labels) if 0 <= c < 2}
    good = [n for n in names if scores[n] >= least and (not classes or names[n] in classes)]
    assert len(taken) == min(most, len(good))
    assert set(taken) <= set(good)
    assert all(scores[a] >= scores[b] for a, b in itertools.pairwise(taken))
    assert all(scores[left] <= min(scores[taken], default=1.0) for left in set(good) - set(taken.tolist()))


def test_scores_logits_places_and_numbers() -> None:
    scored = AttributeOutput(("a", "b"), min_score=0.6)
    assert attribute_value(scored, np.array([0.7, 0.3])) == AttributeValue("a", pytest.approx(0.7))
    assert attribute_value(scored, np.array([0.5, 0.5])) is None, "not likely enough"
    assert attribute_value(scored, np.array([np.nan, 0.5])) is None
    soft = attribute_value(AttributeOutput(("a", "b"), softmax=True), np.array([100.0, 90.0]))
    assert soft is not None
    assert (soft.value, round(soft.score or 0, 3)) == ("a", 1.0)
    placed = AttributeOutput(("a", "b"))
    assert attribute_value(placed, np.array(1)) == AttributeValue("b", 1.0)
    assert attribute_value(placed, np.array(2)) is None
    assert attribute_value(AttributeOutput(), np.array([2.5], np.float32)) == AttributeValue(2.5)
    assert attribute_value(AttributeOutput(), np.array(np.inf)) is None
