"""Cameras as clients of applications: each answer that a camera's worker hands over asks those that it feeds.

The requests go through the applications' ordinary path, with its queues, deadlines and counts. The attributes that an
application gives the camera's objects are handed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.application_sources import (
    SOURCE_INPUTS,
    ApplicationSource,
    AttributeOutput,
    AttributeValue,
    DescribedObject,
    ObjectsDescribed,
)
from edge.core.applications import Application
from edge.core.errors import MagpieError
from edge.core.oip import Tensor
from edge.serving.applications import ApplicationService, Description
from edge.serving.camera_link import CameraLink
from edge.serving.link_messages import OfferedAnswer

log = logging.getLogger(__name__)


class CameraFeeds:
    """Asks `service` for the answers of cameras; `described` gets what was found. Used from the front's event loop."""

    def __init__(self, service: ApplicationService, described: Callable[[ObjectsDescribed], None]) -> None:
        self._service, self._described = service, described
        self._asking: set[asyncio.Task[None]] = set()

    def answered(self, link: CameraLink, answer: OfferedAnswer) -> None:
        """Ask each application that the camera feeds, and free the answer's slot when all of them are done with it.

        Raises InvalidValue for tensors that are none of a camera's."""
        tensors = link.tensors(answer)
        fed = [self._service.fed_by(link.camera, name) for name in answer.applications]
        task = asyncio.get_running_loop().create_task(
            self._ask(link, answer, tensors, [a for a in fed if a is not None])
        )
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        """End what is asked."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def _ask(
        self, link: CameraLink, answer: OfferedAnswer, tensors: dict[str, NDArray[Any]], fed: Sequence[Application]
    ) -> None:
        try:
            await asyncio.gather(*(self._describe(link, answer.frame, tensors, a) for a in fed))
        finally:
            del tensors
            link.free(answer.slot)

    async def _describe(
        self, link: CameraLink, frame: int, tensors: Mapping[str, NDArray[Any]], application: Application
    ) -> None:
        assert application.source is not None
        taken = taken_objects(application.source, link.classes, tensors["scores"][0], tensors["labels"][0])
        given = {"picture": tensors["picture"]} | {n: tensors[n][:, taken] for n in ("boxes", "scores", "labels")}
        inputs = tuple(
            Tensor(spec.name, spec.datatype, np.ascontiguousarray(given[spec.name])) for spec in SOURCE_INPUTS
        )
        try:
            found = await self._service.describe(application, inputs)
            objects = described_objects(application, given["boxes"][0], found)
        except MagpieError as error:
            log.debug("%s: an answer of %s is lost: %s", application.name, link.camera, error)
            return  # counted in the application's statistics
        except Exception:  # one bad answer must not end the feed
            log.exception("%s: an answer of %s", application.name, link.camera)
            return
        if objects:
            self._described(ObjectsDescribed(application.name, link.camera, frame, objects))


def taken_objects(
    source: ApplicationSource, classes: Sequence[str], scores: NDArray[Any], labels: NDArray[Any]
) -> NDArray[np.int64]:
    """The places of the objects that `source` takes, the likeliest first. `labels` are places in `classes`; one that is
    none is left out."""
    known = (labels >= 0) & (labels < len(classes))
    wanted = [n for n, name in enumerate(classes) if not source.classes or name in source.classes]
    which = np.flatnonzero(known & np.isin(labels, wanted) & (scores >= source.min_score))
    return which[np.argsort(-scores[which], kind="stable")][: source.most].astype(np.int64)


def described_objects(application: Application, boxes: NDArray[Any], found: Description) -> tuple[DescribedObject, ...]:
    """The objects (`boxes` (N, 4)) of which an output says something, in their order."""
    said: dict[int, dict[str, AttributeValue]] = {}
    for output in application.outputs:
        if output.attribute is None:
            continue
        assert output.source.stage is not None  # Application checks it
        values = found.outputs[output.spec.name][0]
        for place, box in enumerate(found.boxes[output.source.stage][0]):
            value = attribute_value(output.attribute, np.asarray(values[place])) if box >= 0 else None
            if value is not None:
                said.setdefault(int(box), {})[output.spec.name] = value
    corners = {n: [float(v) for v in boxes[n]] for n in said}
    return tuple(DescribedObject((c[0], c[1], c[2], c[3]), said[n]) for n, c in sorted(corners.items()))


def attribute_value(attribute: AttributeOutput, given: NDArray[Any]) -> AttributeValue | None:
    """The value that an output says for one object; None: none of its labels is meant or likely enough, or it is no
    number."""
    if not attribute.labels:
        number = float(given.reshape(-1)[0])
        return AttributeValue(number) if np.isfinite(number) else None
    if given.ndim == 0:
        place = int(given)
        return AttributeValue(attribute.labels[place], 1.0) if 0 <= place < len(attribute.labels) else None
    scores = given.astype(np.float64)
    if attribute.softmax:
        scores = np.exp(scores - scores.max())
        scores /= scores.sum()
    best = int(scores.argmax())
    score = float(scores[best])
    if not np.isfinite(score) or score < attribute.min_score:
        return None
    return AttributeValue(attribute.labels[best], min(1.0, max(0.0, score)))
