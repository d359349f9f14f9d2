"""Answers of students on the demo's drawn streets with the truth beside them, and a tracker's objects from them."""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.demo_windows import first_student
from edge.core.configs import RetrainingConfig
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.tracks import Seen
from edge.core.vision import Detections
from edge.demo.scene import CHARACTERS, CLASSES, Scene, SceneObject, SceneSpec
from edge.inference.looks import looks
from edge.students import Student
from edge.tracking import TrackerState, live, step
from edge.training.retraining import Retraining
from golden.demo_teacher import DemoTeacher

TEACHER = Path(__file__).resolve().parent.parent / "edge" / "demo" / "weights" / "demo_teacher.safetensors"
FPS = 5.0
#: As `magpie demo`: windows of 75 s, 24 of them a day, the clear morning at first; labelled frames per window.
WINDOW_S, DAY_WINDOWS, START_PHASE, LABELS = 75.0, 24, 0.14, 48
#: The student is retrained in so many windows before its answers are taken, as the demo's space of configurations has.
WINDOWS, CONFIG = 2, RetrainingConfig(20, layers="all")
#: An object counts if it was answered so often at this rate, over so many seconds; it was visible if for so many.
LEAST_ANSWERS, LEAST_S, VISIBLE_S = 3, 0.7, 2.0


@dataclass(frozen=True)
class TrueObject:
    """A true object on one picture."""

    number: int
    box: tuple[float, ...]
    class_name: str


@dataclass
class Picture:
    """One picture's objects and answers; `source` of each answered box is the true object's number or
    None; `looks` as edge.tracking.looks says, where it was asked."""

    at_s: float
    truth: list[TrueObject]
    boxes: list[tuple[float, ...]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    source: list[int | None] = field(default_factory=list)
    looks: list[list[float]] = field(default_factory=list)

    def seen(self, sure: float, unsure: float, with_looks: bool) -> tuple[Seen, list[int | None]]:
        """The tracker's input if answers with a score from `unsure` on are sent, and the source of each."""
        kept = [n for n, score in enumerate(self.scores) if score >= unsure]
        shown = np.array([self.looks[n] for n in kept], np.float32) if with_looks and self.looks else None
        boxes = np.array([self.boxes[n] for n in kept], np.float32).reshape(-1, 4)
        scores, names = np.array([self.scores[n] for n in kept], np.float32), tuple(self.names[n] for n in kept)
        if shown is not None and not len(kept):
            shown = None
        return Seen(self.at_s, self.at_s, boxes, scores, names, sure, shown), [self.source[n] for n in kept]


def true_objects(objects: Iterable[SceneObject]) -> list[TrueObject]:
    """The scene's truth."""
    return [TrueObject(o.track_id, tuple(float(v) for v in o.box), o.class_name) for o in objects]


def overlap(a: Sequence[float], b: Any) -> float:
    """Intersection over union."""
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    return float(w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h))


def answered(picture: Picture, found: Detections, rgb: np.ndarray | None = None) -> Picture:
    """A student's answer; each box is of the true object that it overlaps most (at least 0.4)."""
    made = Picture(picture.at_s, picture.truth)
    for box, score, label in zip(found.boxes, found.scores, found.classes, strict=True):
        best = max(picture.truth, key=lambda t: overlap(t.box, box), default=None)
        made.boxes.append(tuple(float(v) for v in box))
        made.scores.append(float(score))
        made.names.append(CLASSES[int(label)])
        made.source.append(best.number if best is not None and overlap(best.box, box) >= 0.4 else None)
    if rgb is not None:
        made.looks = [[round(float(v), 4) for v in row] for row in looks(rgb, found.boxes)]
    return made


def street(first_seed: int, character: int) -> Scene:
    """The drawn street as the demo would show it."""
    day_s = DAY_WINDOWS * WINDOW_S
    return Scene(SceneSpec(first_seed + character, character, fps=FPS, day_s=day_s, start_phase=START_PHASE))


def retrained(scene: Scene, seed: int) -> Student:
    """The demo's first student after WINDOWS retraining windows of this street, labelled by the demo's teacher."""
    return next(itertools.islice(retrained_each_window(scene, seed), WINDOWS - 1, None))


def retrained_each_window(scene: Scene, seed: int) -> Generator[Student, None, None]:
    """The demo's first student after each retraining window of this street, labelled by the demo's teacher."""
    teacher, student = DemoTeacher(TEACHER), first_student("detection")
    exemplars: tuple[LabelledFrame, ...] = ()
    with tempfile.TemporaryDirectory() as folder:
        for window in itertools.count():
            rng = np.random.default_rng(seed + 1000 * window)
            made = []
            for n in range(LABELS):
                t_s = WINDOW_S * window + (n + rng.random()) * WINDOW_S / LABELS
                path = Path(folder) / f"{window}-{n}.jpg"
                cv2.imwrite(str(path), scene.render(t_s)[0][..., ::-1], (cv2.IMWRITE_JPEG_QUALITY, 85))
                picture = np.ascontiguousarray(np.asarray(cv2.imread(str(path)))[..., ::-1], np.uint8)
                frame = SampledFrame("street", window + 1, n, t_s, path, Detections.empty(), "none")
                made.append(LabelledFrame(frame, teacher.label(picture), "demo"))
            train, held_out = tuple(made[:33]), tuple(made[33:])
            data = LabelledWindow("street", window + 1, "detection", CLASSES, train, held_out, exemplars)
            student = Retraining(student, data, CONFIG, 0, held_out_every=0).run()
            exemplars = train[::3]
            yield student


def retrained_answers(first_seed: int, seconds: float, keep: Path | None) -> dict[str, list[Picture]]:
    """Per street, the answers of its retrained student in the window after (scores from 0.1 on). With `keep` they are
    kept in a file there and read from it the next time: a changed tracker needs no new students."""
    file = None if keep is None else keep / f"retrained-{first_seed}.json"
    if file is not None and file.is_file():
        read = json.loads(file.read_text(encoding="utf-8"))
        return {name: [_from_json(p) for p in pictures if p["at_s"] < seconds] for name, pictures in read.items()}
    out: dict[str, list[Picture]] = {}
    for character, name in enumerate(CHARACTERS):
        scene = street(first_seed, character)
        student = retrained(scene, first_seed + character).for_inference()
        out[name] = []
        for n in range(int(seconds * FPS)):
            rgb, objects = scene.render(WINDOWS * WINDOW_S + n / FPS)
            found = student.detect([rgb], 1.0, 0.1)[0]
            out[name].append(answered(Picture(n / FPS, true_objects(objects)), found, rgb))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        plain = {name: [p.__dict__ | {"truth": [t.__dict__ for t in p.truth]} for p in ps] for name, ps in out.items()}
        file.write_text(json.dumps(plain), encoding="utf-8")
    return out


def _from_json(value: dict[str, Any]) -> Picture:
    truth = [TrueObject(t["number"], tuple(t["box"]), t["class_name"]) for t in value["truth"]]
    return Picture(**(value | {"truth": truth, "boxes": [tuple(b) for b in value["boxes"]]}))


def measure(
    pictures: Iterable[Picture], sure: float = 0.0, unsure: float = 0.0, with_looks: bool = False,
    step: Callable[..., Any] = step,
) -> dict[str, float]:  # fmt: skip
    """Run the tracker over answers in order.

    `found_part`, `objects_per_true_object`: of the true objects that were answered often enough, those that an object
    was reported for, and the different objects reported on its boxes. `told_per_true_object`: each reported object
    belongs to the true one that it showed most; so many belong to a true one that has any. `swallowed_or_never_part`:
    true ones that none belongs to, of those answered often enough; `untold_of_visible_part`: of those in view for
    VISIBLE_S.
    """
    state, number = TrackerState("bench"), 1
    given: dict[int, list[int | None]] = defaultdict(list)
    times: dict[int, list[float]] = defaultdict(list)
    shown: dict[int, dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
    in_view: dict[int, list[float]] = defaultdict(list)
    costs, boxes = [], 0
    for p in pictures:
        seen, sources = p.seen(sure, unsure, with_looks)
        boxes += len(sources)
        for t in p.truth:
            in_view[t.number].append(p.at_s)
        began = time.thread_time()
        done = step(state, seen, next_id=number)
        costs.append(1000 * (time.thread_time() - began))
        state, number = done.state, done.next_id
        now = [t for t in live(state) if t.seen_utc_s == p.at_s]
        for box, source, score in zip(seen.boxes.tolist(), sources, seen.scores, strict=True):
            mine = next((t.id for t in now if max(abs(a - b) for a, b in zip(t.box, box, strict=True)) < 1e-5), None)
            if source is not None:
                given[source].append(mine)
                if score >= sure:
                    times[source].append(p.at_s)
            if mine is not None:
                shown[mine][source] += 1
    counted = [w for w, t in times.items() if len(t) >= LEAST_ANSWERS and t[-1] - t[0] >= LEAST_S]
    found = {w: [m for m in given[w] if m is not None] for w in counted if any(m is not None for m in given[w])}
    belongs = [_belongs(of) for of in shown.values()]
    own = {w: belongs.count(w) for w in set(belongs) if w is not None}
    visible = [w for w, t in in_view.items() if t[-1] - t[0] >= VISIBLE_S]
    switches = sum(a != b for mine in found.values() for a, b in itertools.pairwise(mine))
    several = sum(sum(n >= 2 for w, n in of.items() if w is not None) > 1 for of in shown.values())
    with_own = [w for w in counted if w in own]
    return {
        "true_objects": len(counted),
        "found_part": len(found) / max(1, len(counted)),
        "objects_per_true_object": sum(len(set(mine)) for mine in found.values()) / max(1, len(found)),
        "told_per_true_object": sum(own[w] for w in with_own) / max(1, len(with_own)),
        "swallowed_or_never_part": 1 - len(with_own) / max(1, len(counted)),
        "untold_of_visible_part": sum(w not in own for w in visible) / max(1, len(visible)),
        "mixed_part": several / max(1, len(shown)),
        "false_objects_part": belongs.count(None) / max(1, len(shown)),
        "switches_per_1000_answers": 1000 * switches / max(1, sum(map(len, found.values()))),
        "boxes_per_answer": boxes / max(1, len(costs)),
        "step_ms_median": statistics.median(costs),
        "step_ms_p95": sorted(costs)[int(0.95 * len(costs))],
    }


def _belongs(of: dict[int | None, int]) -> int | None:
    """The true object that a reported one showed most; None where at most half of its boxes show any."""
    real = {w: n for w, n in of.items() if w is not None}
    if 2 * sum(real.values()) <= sum(of.values()):
        return None
    return max(real, key=lambda w: real[w])
