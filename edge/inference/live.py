"""The student in force on one camera: answers frames, stands in with its last answer, is swapped without a gap."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from edge.core import checks
from edge.core.configs import WHOLE, InputShape, Region
from edge.core.errors import InvalidValue, WeightsError
from edge.core.vision import Detections, Frame, Observation, ResolutionProbe
from edge.core.ways import MovingAnswer, Ways, gone_on
from edge.inference.agreement import agreement
from edge.inference.proposals import ProposalFinder
from edge.students import Student, load_student, refill
from edge.students.weights import AnyStudent

WARM_UP_ANSWERS = 2
PAUSE_S = 0.002
# Two proposals of which one lies in the other by more than this show the same object.
SAME_OBJECT_PART = 0.7


def prepare(
    path: Path,
    device: str = "cpu",
    resolutions: Sequence[float] = (1.0,),
    picture: tuple[int, int] | None = None,
    region: Region = WHOLE,
    shape: InputShape = "camera",
) -> AnyStudent:
    """Load a student and warm it up, ready to be put in force; `picture` (height, width) is what it will see.

    Building a network holds up other threads of the process for some 100 ms of CPU time (one of our own architectures
    whose graph is not shipped: for half a second); while one of them answers frames, use `LiveStudent.prepare`. Raises
    WeightsError if the file is missing, damaged or does not fit.
    """
    student = load_student(path, device).for_inference()
    seen = np.full((*(picture or student.spec.input_size), 3), 127, np.uint8)
    boxes = np.array([[0.2, 0.2, 0.6, 0.6]], np.float32)
    for resolution in resolutions:
        for _ in range(WARM_UP_ANSWERS):
            if student.spec.task == "detection":
                student.detect([seen], resolution, None, region, shape)
            else:
                student.name(seen, boxes, resolution)
    return student


class LiveStudent:
    """Answers the frames of one camera. All calls come from one thread; `swap` takes effect with the next answer.

    `score` is the least score of an answered object (None: the student's own). A classification student names what
    moves (ProposalFinder);
    a proposal with a score below it still counts, as it has no better name. With `probe_resolutions` every
    `probe_every`-th answer is also given at one of them, and their agreement reported as its `probe`:
    ProfileMeter learns resolution factors from it, without labels. `follow` gets each detection answer and its
    picture's time, and returns how its objects go on (None: they stay): so they stand in for later frames.
    """

    def __init__(
        self,
        student: AnyStudent,
        version: str,
        camera: str,
        score: float | None = None,
        probe_resolutions: Sequence[float] = (),
        probe_every: int = 40,
        cpu_clock: Callable[[], float] = time.thread_time,
        follow: Callable[[Detections, float], Ways | None] | None = None,
    ) -> None:
        checks.in_range("inference.score_threshold", 0.5 if score is None else score, 0.0, 1.0)
        self.camera = camera
        self.task = student.spec.task
        self._force = (student, version)
        # The next student is written into the spare, and the one that it replaces becomes the spare.
        self._spare: Student | None = student.copy() if isinstance(student, Student) and student.folds else None
        self._seen: tuple[int, int] | None = None
        self._region: Region = WHOLE
        self._shape: InputShape = "camera"
        self._score = self._asked = score
        self._clock = cpu_clock
        self._follow = follow
        self._finder = ProposalFinder()
        self._probes = tuple(r for r in probe_resolutions if r < 1.0)
        self._probe_every = probe_every
        self._answers = 0
        self._last: Observation | None = None
        self._recorded = Detections.empty()

    @property
    def version(self) -> str:
        """The version in force."""
        return self._force[1]

    @property
    def last(self) -> Observation | None:
        """The last fresh answer."""
        return self._last

    def prepare(self, path: Path, breathe: Callable[[], None] | None = None) -> AnyStudent:
        """Load the next student beside the one in force, in another thread, without holding up its answers: it is
        written into the student that was in force before (a double buffer), a few tensors at a time, with `breathe()`
        in between (a pause of 2 ms by default). One call at a time; `swap` the result in, or drop it.

        Raises WeightsError if the file is missing, damaged or does not fit.
        """
        pause = breathe or (lambda: time.sleep(PAUSE_S))
        spare, self._spare = self._spare, None
        if spare is not None:
            try:
                if refill(spare, path, pause):
                    return spare
            except WeightsError:
                self._spare = spare
                raise
        return prepare(path, self._force[0].device, (1.0,), self._seen, self._region, self._shape)

    def choose_score(self, version: str, score: float) -> None:
        """The least score of an answered object from now on, as long as `version` is in force and no setting asks for
        another."""
        checks.in_range("inference.score_threshold", score, 0.0, 1.0)
        if self._asked is None and version == self.version:
            self._score = score

    def swap(self, student: AnyStudent, version: str) -> None:
        """Put another student in force, between two frames. It must be warm (`prepare`) and of the same task and
        classes; otherwise InvalidValue, and the present one stays."""
        own = self._force[0].spec
        if student.spec.task != own.task:
            raise InvalidValue("student.task", student.spec.task, own.task)
        if student.spec.classes != own.classes:
            raise InvalidValue("student.classes", student.spec.classes, str(own.classes))
        retired, self._force = self._force[0], (student, version)
        self._score = self._asked
        if isinstance(retired, Student) and retired.folds and retired is not student:
            self._spare = retired

    def answer(
        self, frame: Frame, resolution: float = 1.0, region: Region = WHOLE, shape: InputShape = "camera"
    ) -> Observation:
        """The student's answer to a frame at (a part of) lambda. `inference_s` is CPU time of this thread."""
        student, version = self._force
        self._seen = (frame.picture.shape[0], frame.picture.shape[1])
        self._region, self._shape = region, shape
        began = self._clock()
        if self.task == "detection":
            found = student.detect([frame.picture], resolution, self._score, region, shape)[0]
            recorded = found
        else:
            found, recorded = self._name(student, frame, resolution)
        cost = self._clock() - began
        self._answers += 1
        due = self._probes and self._answers % self._probe_every == 0
        probe = self._probe(student, frame, resolution, recorded) if due else None
        self._recorded = recorded
        follow = self._follow if self.task == "detection" else None
        self._last = Observation(
            self.camera, frame.number, frame.monotonic_s, frame.utc_s, version, found, False, cost,
            frame.monotonic_s, self.task, resolution, probe,
            None if follow is None else follow(found, frame.monotonic_s),
        )  # fmt: skip
        return self._last

    def skip(self, frame: Frame) -> Observation:
        """A frame that is not looked at: the last answer stands in for it, its objects moved on where that is known."""
        return self.skip_time(frame.number, frame.monotonic_s, frame.utc_s)

    def skip_time(self, number: int, monotonic_s: float, utc_s: float) -> Observation:
        """The same for a frame that was not even converted."""
        last = self._last
        if last is None:
            empty = Detections.empty()
            return Observation(self.camera, number, monotonic_s, utc_s, self.version, empty, True, task=self.task)
        answer = gone_on(last.detections, last.ways, monotonic_s - last.monotonic_s)
        return Observation(
            self.camera, number, monotonic_s, utc_s, last.model_version, answer, True, 0.0,
            last.monotonic_s, self.task, last.resolution,
        )  # fmt: skip

    def recorded_answer(self, observation: Observation) -> tuple[Detections, MovingAnswer | None]:
        """The answer to the latest frame as it is kept beside its sample, and what it was made of where its objects
        were moved on. For classification with the proposals that were named background (class one past the last), which
        are what a retraining learns backgrounds from."""
        if self.task != "detection":
            return self._recorded, None
        last = self._last
        if not observation.stale or last is None or last.ways is None:
            return observation.detections, None
        return observation.detections, MovingAnswer(last.detections, last.ways)

    def _name(self, student: AnyStudent, frame: Frame, resolution: float) -> tuple[Detections, Detections]:
        boxes = self._finder.find(frame.picture, frame.monotonic_s)
        classes, scores = student.name(frame.picture, boxes, resolution)
        are_objects = classes != student.background
        self._finder.confirm(boxes, are_objects, frame.monotonic_s)
        named = Detections(boxes, scores, classes)
        return _one_per_object(named.select(are_objects)), named

    def _probe(self, student: AnyStudent, frame: Frame, resolution: float, recorded: Detections) -> ResolutionProbe:
        """Answer the frame at another resolution too, and compare with the answer at full resolution."""
        other = self._probes[(self._answers // self._probe_every) % len(self._probes)]

        def at(scale: float) -> tuple[Detections, float]:
            began = self._clock()
            if self.task == "detection":
                found = student.detect([frame.picture], scale, self._score, self._region, self._shape)[0]
            else:
                classes, scores = student.name(frame.picture, recorded.boxes, scale)
                found = Detections(recorded.boxes, scores, classes)
            return found, self._clock() - began

        full = recorded if resolution == 1.0 else at(1.0)[0]
        reduced, cost = at(other)
        return ResolutionProbe(other, agreement(self.task, reduced, full), cost)


def _one_per_object(named: Detections) -> Detections:
    """Proposals overlap (parts, whole, group); of those that show the same object the surest name is answered."""
    kept: list[int] = []
    areas = np.prod(named.boxes[:, 2:] - named.boxes[:, :2], axis=1)
    for n in np.argsort(-named.scores, kind="stable"):
        low = np.maximum(named.boxes[n, :2], named.boxes[kept, :2])
        high = np.minimum(named.boxes[n, 2:], named.boxes[kept, 2:])
        both = np.prod(np.clip(high - low, 0.0, None), axis=1)
        part = both / np.maximum(np.minimum(areas[n], areas[kept]), 1e-9)
        same = named.classes[kept] == named.classes[n]
        if not ((part > SAME_OBJECT_PART) & (same | (both / np.maximum(areas[n], areas[kept]) > 0.5))).any():
            kept.append(int(n))
    return named.select(np.array(sorted(kept), np.int64))
