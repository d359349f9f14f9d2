"""True accuracy of a camera's student and teacher: questions from labelled windows on disk, answers into the store, the
estimate out of both.

No part of a request becomes a path: a camera is one that runs, a window and a frame are numbers that stand in a
manifest which the appliance wrote.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.appliance.answered_pictures import AnsweredPictures
from edge.appliance.answers.read import read
from edge.appliance.answers.truth import ImportedLabels, QuestionAnswer, QuestionsAnswer, TruthOfCamera
from edge.appliance.labelled_pictures import jpeg_size
from edge.appliance.people_labels import pictures_of
from edge.appliance.truth_service import LabelFile
from edge.core import checks
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.truth import (
    Agreed,
    Answer,
    AskableFrame,
    Candidate,
    Finding,
    FrameKey,
    Marked,
    NextQuestion,
    Question,
    TrueAccuracy,
    askable,
)
from edge.recording.labelled_windows import described_windows, picture_folder, pictured_windows, read_manifest
from edge.store.answers import AnswerRecord, AnswersPart
from edge.upkeep import label_files as files
from scheduler.truth.choice import Population, next_questions, population
from scheduler.truth.estimate import LEAST_ANSWERS, true_accuracy
from scheduler.truth.people import agreed
from scheduler.truth.predictions import Predictor, learned
from scheduler.truth.windows import ENOUGH, window_to_ask

Json = dict[str, Any]

#: Answers in one request, and windows with answers that a page shows and predictions are learned from.
MAX_ANSWERS, MAX_WINDOWS = 100, 8
FORMATS = ("coco", "yolo")


@dataclass(frozen=True)
class _OpenWindow:
    """A window that is asked about: its frames by key, the possible questions, people's joint answers."""

    window: LabelledWindow
    frames: Mapping[FrameKey, LabelledFrame]
    asked: Mapping[FrameKey, AskableFrame]
    population: Population
    records: tuple[AnswerRecord, ...]

    @property
    def agreed(self) -> Mapping[Question, Agreed]:
        return agreed(r.answer for r in self.records)

    @property
    def known(self) -> frozenset[Question]:
        """Answered by imported labels: not drawn."""
        return frozenset(r.answer.question for r in self.records if r.answer.source == "import")


class Truth:
    """Implements `edge.appliance.truth_service.TruthService`. `check`: raises NotFound for a camera that does not run.
    `report` receives each new finding."""

    def __init__(
        self,
        answers: AnswersPart,
        data: Path,
        clock: Clock,
        check: Callable[[str], object],
        report: Callable[[Finding], None],
    ) -> None:
        self._answers, self._data, self._clock = answers, data, clock
        self._check, self._report = check, report
        self.pictures = AnsweredPictures(data / "answers")
        self._lock = threading.Lock()
        #: (kind, camera) -> the newest window with such a finding that was reported
        self._reported: dict[tuple[str, str], int] = {}
        #: (camera, window) -> (the last answer's id, the estimate from answers up to it)
        self._estimates: dict[tuple[str, int], tuple[int, TrueAccuracy | None]] = {}
        #: camera -> (its last answer's id, the result of `latest` after it): a scrape reads no answers again
        self._latest: dict[str, tuple[int, Json | None]] = {}

    # -- questions

    def questions(self, camera: str, limit: int, by: str, second: bool = False) -> QuestionsAnswer:
        """See `TruthService.questions`."""
        self._check(camera)
        if not self._detects(camera):
            raise _classifies(camera)
        asked = self._to_ask(camera)
        if asked is None:
            return QuestionsAnswer(camera=camera, window=None, classes=(), questions=())
        done = {r.answer.question for r in asked.records}
        if second:
            found = _second_opinions(asked, str(by))
        else:
            seed = _seed(camera, asked.window.window)
            found = next_questions(asked.population, seed, done, asked.known, len(asked.population))
        shown = []
        for one in found:
            size = self._size(asked.frames[one.question.key])
            if size is not None:  # retention deletes pictures while a person answers
                shown.append(read(QuestionAnswer, _question_json(asked, one, size)))
            if len(shown) == limit:
                break
        return QuestionsAnswer(
            camera=camera, window=asked.window.window, classes=tuple(asked.window.classes), questions=tuple(shown)
        )

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        """See `TruthService.picture`."""
        self._check(camera)
        manifest = read_manifest(self._data, camera, window)
        labelled = _frame(manifest, frame)
        if labelled is not None:
            try:
                return self._path(labelled).read_bytes()
            except OSError:
                pass
        kept = self.pictures.read(camera, window, frame)
        if kept is None:
            raise NotFound(f"there is no picture of frame {frame} in window {window} of camera {camera} (any more)")
        return kept

    # -- answers

    def answer(self, camera: str, given: Mapping[str, Any], by: str) -> TruthOfCamera:
        """See `TruthService.answer`."""
        self._check(camera)
        checks.known_keys("", given, ("answers",))
        rows = given.get("answers")
        if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_ANSWERS:
            raise InvalidValue("answers", rows, f"a list of 1 to {MAX_ANSWERS} answers")
        windows: dict[int, LabelledWindow] = {}
        records = [self._record(camera, row, f"answers[{n}]", windows, by) for n, row in enumerate(rows)]
        self._answers.add_answers(records)
        for window, frame in {(r.answer.question.key.window, r.answer.question.key.frame) for r in records}:
            labelled = _frame(windows[window], frame)
            if labelled is not None:
                self.pictures.keep(camera, window, frame, self._path(labelled))
        return self.estimate(camera)

    def _record(self, camera: str, row: Any, path: str, windows: dict[int, LabelledWindow], by: str) -> AnswerRecord:
        if not isinstance(row, Mapping):
            raise InvalidValue(path, row, "an object")
        allowed = ("window", "frame", "kind", "candidate", "verdict", "missed", "marked")
        checks.known_keys(path, row, allowed)
        numbers = {k: row.get(k) for k in ("window", "frame")}
        for name, number in numbers.items():
            if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= 2**53:
                raise InvalidValue(f"{path}.{name}", number, "a whole number")
        window, frame = int(row["window"]), int(row["frame"])
        if window not in windows:
            windows[window] = self._manifest(camera, window)
        labelled = _frame(windows[window], frame)
        if labelled is None:
            raise NotFound(f"{path}: window {window} of camera {camera} has no labelled frame {frame} (any more)")
        classes = windows[window].classes
        try:
            question = Question(FrameKey(window, frame), row.get("kind"), row.get("candidate"))  # type: ignore[arg-type]
            marked = _marked(row.get("marked") or [], classes)
            verdict = row.get("verdict")
            answer = Answer(question, verdict, str(by), self._clock.utc(), row.get("missed"), marked)  # type: ignore[arg-type]
        except InvalidValue as error:
            raise InvalidValue(f"{path}: {error.path}", error.given, error.allowed) from None
        return self._about(camera, answer, labelled, classes, path)

    def _about(
        self, camera: str, answer: Answer, labelled: LabelledFrame, classes: tuple[str, ...], path: str
    ) -> AnswerRecord:
        size = self._size(labelled) or (0, 0)
        index = answer.question.candidate
        if index is None:
            return AnswerRecord(camera, answer, classes, width=size[0], height=size[1])
        candidates = askable(labelled).candidates
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(candidates):
            raise InvalidValue(f"{path}.candidate", index, f"a number below {len(candidates)}, as the question has it")
        about = candidates[index]
        if answer.verdict in ("student", "teacher") and about.group != "both":
            raise InvalidValue(f"{path}.verdict", answer.verdict, "yes, no or unsure where one box is shown")
        name = classes[about.class_index] if 0 <= about.class_index < len(classes) else None
        return AnswerRecord(camera, answer, classes, name, about.student, about.teacher, size[0], size[1])

    # -- what follows

    def estimate(self, camera: str) -> TruthOfCamera:
        """See `TruthService.estimate`."""
        self._check(camera)
        asked = self._to_ask(camera)
        history = self._history(camera)
        newest = next(((w, e) for w, e in history if e is not None), None)
        usable = 0 if asked is None else sum(a.verdict != "unsure" for a in asked.agreed.values())
        findings = [] if newest is None else self._findings(camera, *newest)
        for finding in findings:
            key = (finding.kind, camera)
            with self._lock:
                new = finding.window > self._reported.get(key, -1)
                if new:
                    self._reported[key] = finding.window
            if new:
                self._report(finding)
        answer = {
            "camera": camera,
            "detection": self._detects(camera),
            "window": None if newest is None else newest[0],
            "estimate": None if newest is None else newest[1].to_json(),
            "asking": None if asked is None else asked.window.window,
            "answers": usable,
            "answers_needed": max(0, LEAST_ANSWERS - usable),
            "enough": ENOUGH,
            "findings": [f.to_json() for f in findings],
            "history": [{"window": w, "estimate": e.to_json()} for w, e in history if e is not None],
        }
        return read(TruthOfCamera, answer)

    def latest(self, cameras: Iterable[str]) -> dict[str, Json]:
        """Of each camera the newest estimate there is, with its window; cameras without one are left out."""
        out = {}
        last = self._answers.last_answers()
        for camera in cameras:
            if camera not in last:
                continue
            with self._lock:
                known = self._latest.get(camera)
            if known is None or known[0] != last[camera]:
                newest = next(((w, e) for w, e in self._history(camera) if e is not None), None)
                known = (last[camera], None if newest is None else {"window": newest[0]} | newest[1].to_json())
                with self._lock:
                    self._latest[camera] = known
            if known[1] is not None:
                out[camera] = known[1]
        return out

    def _findings(self, camera: str, window: int, estimate: TrueAccuracy) -> list[Finding]:
        found = []
        if estimate.teacher_worse:
            found.append(Finding("teacher_worse", camera, window, estimate.difference.value))
        if estimate.contradicted:
            found.append(Finding("people_contradict", camera, window, float(estimate.contradicted)))
        return found

    def _history(self, camera: str) -> list[tuple[int, TrueAccuracy | None]]:
        """Estimates of the windows with answers whose manifest is there, newest first."""
        by_window = _by_window(self._answers.all_answers(camera))
        newest = sorted(by_window, reverse=True)[:MAX_WINDOWS]
        with self._lock:
            for gone in [key for key in self._estimates if key[0] == camera and key[1] not in newest]:
                del self._estimates[gone]
        out = []
        for window in newest:
            last = by_window[window][-1].id
            with self._lock:
                known = self._estimates.get((camera, window))
            if known is None or known[0] != last:
                asked = self._asked(camera, window, by_window)
                if asked is None:
                    continue
                known = (last, true_accuracy(asked.population, len(asked.frames), asked.agreed, asked.known))
                with self._lock:
                    self._estimates[camera, window] = known
            out.append((window, known[1]))
        return out

    # -- files

    def export(self, camera: str, format: str) -> LabelFile:
        """See `TruthService.export`."""
        checks.one_of("format", format, FORMATS)
        self._check(camera)
        records = self._answers.all_answers(camera)
        pictures = pictures_of(records, self._candidates_of(camera, records))
        if format == "coco":
            text = json.dumps(files.to_coco(pictures, records, camera), indent=1)
            return LabelFile(f"{camera}-labels.json", "application/json", text.encode())
        classes = dict.fromkeys(r.class_name for r in records if r.class_name is not None)
        return LabelFile(
            f"{camera}-labels.zip", "application/zip", files.zipped(files.to_yolo(pictures, list(classes)))
        )

    def _candidates_of(self, camera: str, records: Iterable[AnswerRecord]) -> dict[FrameKey, int]:
        """How many candidates each frame has, as far as its window's manifest is there."""
        out = {}
        for window in {r.answer.question.key.window for r in records}:
            manifest = read_manifest(self._data, camera, window)
            for frame in manifest.all_sampled if manifest is not None else ():
                found = askable(frame)
                out[found.key] = len(found.candidates)
        return out

    def import_labels(self, camera: str, given: Mapping[str, Any], by: str) -> ImportedLabels:
        """See `TruthService.import_labels`."""
        self._check(camera)
        checks.known_keys("", given, ("format", "document", "files", "complete"))
        checks.one_of("format", given.get("format"), FORMATS)
        body = given.get("document" if given["format"] == "coco" else "files")
        if not isinstance(body, Mapping):
            name = "document" if given["format"] == "coco" else "files"
            raise InvalidValue(name, body, "an object: the COCO file, or texts by file name")
        everything = given.get("complete", False)
        checks.one_of("complete", everything, (True, False))
        kept = files.kept_answers(body, str(by)) if given["format"] == "coco" else []
        report = {"pictures": 0, "answers": 0, "incomplete": 0, "unknown": 0, "there": 0}
        if kept:
            report["pictures"] = len({r.answer.question.key for r in kept})
            checks.one_of("document.magpie.camera", kept[0].camera, (camera,))
            new = self._known_frames(camera, kept, report)
        else:
            labels = files.from_coco(body) if given["format"] == "coco" else files.from_yolo(body)
            report["pictures"] = len(labels)
            new = self._from_labels(camera, labels, bool(everything), str(by), report)
        there = {_identity(r) for r in self._answers.all_answers(camera)}
        fresh = [r for r in new if _identity(r) not in there]
        report["there"] = len(new) - len(fresh)
        report["answers"] = len(fresh)
        if fresh:
            self._answers.add_answers(fresh)
        return ImportedLabels(**report)

    def _known_frames(self, camera: str, kept: Sequence[AnswerRecord], report: Json) -> list[AnswerRecord]:
        frames: dict[int, frozenset[int]] = {}
        out, unknown = [], set()
        for record in kept:
            key = record.answer.question.key
            if key.window not in frames:
                manifest = read_manifest(self._data, camera, key.window)
                frames[key.window] = (
                    frozenset(f.frame.number for f in manifest.all_sampled) if manifest else frozenset()
                )
            if key.frame in frames[key.window]:
                out.append(record)
            else:
                unknown.add(key)
        report["unknown"] = len(unknown)
        return out

    def _from_labels(
        self, camera: str, labels: Sequence[files.PictureLabels], everything: bool, by: str, report: Json
    ) -> list[AnswerRecord]:
        out: list[AnswerRecord] = []
        now = self._clock.utc()
        for picture in labels:
            if not picture.complete and not everything:
                report["incomplete"] += 1
                continue
            manifest = read_manifest(self._data, camera, picture.key.window)
            labelled = _frame(manifest, picture.key.frame)
            if manifest is None or labelled is None:
                report["unknown"] += 1
                continue
            whole = files.PictureLabels(picture.key, picture.objects, True, picture.width, picture.height)
            for question, verdict, missed, marked in files.answers_to(whole, askable(labelled), manifest.classes):
                answer = Answer(question, verdict, by, now, missed, marked, "import")
                out.append(self._about(camera, answer, labelled, manifest.classes, files.picture_name(picture.key)))
            self.pictures.keep(camera, picture.key.window, picture.key.frame, self._path(labelled))
        return out

    # -- windows on disk

    def _to_ask(self, camera: str) -> _OpenWindow | None:
        by_window = _by_window(self._answers.all_answers(camera))
        pictured = pictured_windows(self._data, camera)
        available = [w for w in described_windows(self._data, camera) if w in pictured]
        while available:
            window = window_to_ask(available, {w: len({r.answer.question for r in rs}) for w, rs in by_window.items()})
            if window is None:
                return None
            asked = self._asked(camera, window, by_window)
            if asked is not None:
                return asked
            available.remove(window)  # damaged, or nothing in it
        return None

    def _asked(self, camera: str, window: int, by_window: Mapping[int, tuple[AnswerRecord, ...]]) -> _OpenWindow | None:
        """None if its manifest is not there (any more), or the camera classified then."""
        manifest = read_manifest(self._data, camera, window)
        if manifest is None or not manifest.all_sampled or manifest.task != "detection":
            return None
        frames = {
            FrameKey(window, f.frame.number): f for f in sorted(manifest.all_sampled, key=lambda f: f.frame.number)
        }
        asked = {key: askable(frame) for key, frame in frames.items()}
        records = by_window.get(window, ())
        # Predictions may know only what was answered before the first question of this window was.
        first = min((r.id for r in records if r.answer.source == "page"), default=None)
        predictor = self._predictor(camera, window, first, by_window)
        everything = population(list(asked.values()), predictor, _seed(camera, window))
        return _OpenWindow(manifest, frames, asked, everything, records)

    def _predictor(
        self, camera: str, window: int, before: int | None, by_window: Mapping[int, tuple[AnswerRecord, ...]]
    ) -> Predictor:
        frames: list[AskableFrame] = []
        answers: list[Answer] = []
        for other in sorted((w for w in by_window if w != window), reverse=True)[:MAX_WINDOWS]:
            earlier = [r.answer for r in by_window[other] if before is None or r.id < before]
            manifest = read_manifest(self._data, camera, other) if earlier else None
            if manifest is None or manifest.task != "detection":
                continue
            frames += map(askable, manifest.all_sampled)  # all of them: they describe each other
            answers += earlier
        return learned(frames, agreed(answers)) if answers else Predictor.prior()

    def _manifest(self, camera: str, window: int) -> LabelledWindow:
        found = read_manifest(self._data, camera, window)
        if found is None:
            raise NotFound(f"camera {camera} has no labelled window {window} (any more)")
        if found.task != "detection":
            raise _classifies(camera)
        return found

    def _detects(self, camera: str) -> bool:
        """Whether the newest labelled window is one of detections; so it is taken where there is none."""
        newest = next(iter(described_windows(self._data, camera)), None)
        manifest = None if newest is None else read_manifest(self._data, camera, newest)
        return manifest is None or manifest.task == "detection"

    def _path(self, labelled: LabelledFrame) -> Path:
        """Under the data folder of now, which a restored back-up may have moved."""
        frame = labelled.frame
        return picture_folder(self._data, frame.camera, frame.window) / Path(frame.path).name

    def _size(self, labelled: LabelledFrame) -> tuple[int, int] | None:
        frame = labelled.frame
        return jpeg_size(self._path(labelled)) or self.pictures.size(frame.camera, frame.window, frame.number)


def _classifies(camera: str) -> Conflict:
    return Conflict(f"camera {camera} classifies", "true accuracy is stated for detection cameras")


def _seed(camera: str, window: int) -> int:
    """The same order of questions at every visit and after every restart."""
    return int.from_bytes(hashlib.sha256(f"{camera}/{window}".encode()).digest()[:8], "big")


def _second_opinions(asked: _OpenWindow, by: str) -> list[NextQuestion]:
    """Questions that another person has answered and `by` has not, the oldest answer first."""
    mine = {r.answer.question for r in asked.records if r.answer.by == by}
    strata = dict(zip(asked.population.questions, asked.population.strata, strict=True))
    others = dict.fromkeys(r.answer.question for r in asked.records if r.answer.question not in mine)
    return [NextQuestion(q, strata[q], asked.population.strata.count(strata[q]), 1.0) for q in others if q in strata]


def _frame(window: LabelledWindow | None, number: int) -> LabelledFrame | None:
    return next((f for f in window.all_sampled if f.frame.number == number), None) if window is not None else None


def _by_window(records: Iterable[AnswerRecord]) -> dict[int, tuple[AnswerRecord, ...]]:
    out: dict[int, list[AnswerRecord]] = {}
    for record in records:
        out.setdefault(record.answer.question.key.window, []).append(record)
    return {window: tuple(found) for window, found in out.items()}


def _identity(record: AnswerRecord) -> tuple[object, ...]:
    """Equal for two rows in which one person says the same."""
    a = record.answer
    return (a.question, a.verdict, a.missed, a.by)


def _marked(given: Any, classes: Sequence[str]) -> tuple[Marked, ...]:
    if not isinstance(given, list):
        raise InvalidValue("marked", given, "a list of boxes")
    out = []
    for n, row in enumerate(given):
        path = f"marked[{n}]"
        if not isinstance(row, Mapping):
            raise InvalidValue(path, row, "an object with box and class")
        checks.known_keys(path, row, ("box", "class"))
        checks.one_of(f"{path}.class", row.get("class"), classes)
        box = row.get("box")
        if not isinstance(box, list) or len(box) != 4 or not all(type(v) in (int, float) for v in box):
            raise InvalidValue(f"{path}.box", box, "four numbers: x1, y1, x2, y2 as fractions of the picture")
        out.append(
            Marked((float(box[0]), float(box[1]), float(box[2]), float(box[3])), classes.index(str(row["class"])))
        )
    return tuple(out)


def _question_json(asked: _OpenWindow, one: NextQuestion, size: tuple[int, int]) -> Json:
    question, classes = one.question, asked.window.classes
    candidates = asked.asked[question.key].candidates
    about = None if question.candidate is None else candidates[question.candidate]
    return {
        "window": question.key.window,
        "frame": question.key.frame,
        "utc_s": asked.frames[question.key].frame.utc_s,
        "kind": question.kind,
        "candidate": question.candidate,
        "class": None if about is None else _name(classes, about),
        "student_box": None if about is None or about.student is None else _list(about.student),
        "teacher_box": None if about is None or about.teacher is None else _list(about.teacher),
        "others": _others(candidates, about),
        "width": size[0],
        "height": size[1],
        "probability": round(one.probability, 6),
        "stratum": one.stratum,
    }


def _name(classes: Sequence[str], about: Candidate) -> str:
    return classes[about.class_index] if 0 <= about.class_index < len(classes) else "none of these"


def _others(candidates: Collection[Candidate], about: Candidate | None) -> list[list[float]]:
    boxes = (c.teacher or c.student for c in candidates if c is not about)
    return [_list(box) for box in boxes if box is not None]


def _list(box: Sequence[float]) -> list[float]:
    return [round(float(v), 5) for v in box]
