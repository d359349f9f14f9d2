"""Students against the download they began as, on any folder of cameras, with the product's own code.

    python -m benchmarks.bench_students --cameras DIR [--seeds N]

DIR has one sub-folder of time-ordered stills per camera (with YOLO `.txt` labels of people beside them, where there are
any: P counts the pictures that have one, empty or not), or video files.
Each camera's pictures are cut into 4 windows; a window is answered by students and least scores
that come from earlier windows alone, and windows 2-4 are scored: T is F1 at IoU 0.5 against the teacher's labels, P
against people's vehicles. Rows: the download as shipped (its own input, classes merged after suppression), the same
with classes merged before it and an input in the camera's shape, the retrained student without and with the gate, and
the teacher. Ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.student_cameras import BenchCamera, UnusableCamera, cameras_in, read_camera
from edge.core.accuracy import Counts, Pair, count
from edge.core.baseline import RegionRecord
from edge.core.configs import WHOLE, Region, RetrainingConfig
from edge.core.errors import LabelError
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.model_files import models_folder
from edge.core.thresholds import LOWEST, best_score
from edge.core.vision import Detections
from edge.detectors.classes import ClassMap
from edge.detectors.decoding import Rows
from edge.detectors.description import published_spec, read_detector
from edge.detectors.pictures import read_picture
from edge.detectors.session import DetectorSession
from edge.models.descriptions import described
from edge.recording.exemplars import ExemplarMemory
from edge.recording.split import split_interleaved
from edge.runtime.contest import contest_entries
from edge.students.published import DOWNLOAD_SCORE, PublishedStudent
from edge.training.kept_download import PARTS
from edge.training.published import PublishedExamples, PublishedRetraining, with_best_score
from golden.ensemble import Teacher, in_classes
from golden.spec import read_teacher
from golden.teacher import open_teacher
from scheduler.contenders import choose
from scheduler.regions import learned_region, next_region

CLASSES = ("car", "bicycle", "person")
TEACHER_MAP = {"car": ("vehicle",), "bicycle": ("two_wheeler",)}
STUDENT_MAP = {"car": ("car", "truck", "bus", "train"), "bicycle": ("bicycle", "motorcycle")}
#: Picture visits of a retraining, and exemplars of older windows.
VISITS, EXEMPLARS = 300, 48
SHOWN = ("8701", "2703", "2708", "8704", "9705", "8706")
ROWS = ("shipped", "download", "ungated", "gated", "teacher")


@dataclass
class Score:
    """T and P of one window; P is None without people's labels."""

    t: float
    p: float | None


@dataclass
class Run:
    """One camera and seed: scores of windows 2-4 by row, and costs."""

    camera: str
    seed: int
    scores: dict[str, list[Score]] = field(default_factory=dict)
    cpu_s_per_160: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    winners: list[str] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    #: Windows after which nothing could be retrained, as the appliance would leave them.
    left_out: list[int] = field(default_factory=list)
    #: CPU ms per answer: as shipped, of the student, of the teacher.
    answer_ms: dict[str, float] = field(default_factory=dict)

    def mean(self, row: str) -> tuple[float, float | None]:
        """T and P over the scored windows."""
        got = self.scores[row]
        people = [s.p for s in got if s.p is not None]
        return float(np.mean([s.t for s in got])), float(np.mean(people)) if people else None


def _answers(student: PublishedStudent, frames: Sequence[LabelledFrame], region: Region = WHOLE) -> list[Detections]:
    return [student.detect([_picture(f)], score=LOWEST, region=region)[0] for f in frames]


def _picture(frame: LabelledFrame) -> Any:
    picture = read_picture(frame.frame.path)
    assert picture is not None
    return picture


def _shipped(student: PublishedStudent, frames: Sequence[LabelledFrame]) -> list[Detections]:
    """As a user would run the file: its own input, suppression in its own classes, then the camera's names."""
    d = student.detector
    session = DetectorSession(student.content, d.name, d.input, d.output)
    rows, names = Rows.build(range(len(d.offered))), ClassMap(CLASSES, d.offered, d.table)
    return [
        names.apply(session.find(_picture(f), rows, LOWEST, d.nms_iou, d.max_objects)) for f in frames
    ]  # fmt: skip


def _score(answers: Sequence[Detections], least: float, camera: BenchCamera, window: Sequence[int]) -> Score:
    kept = [a.select(a.scores >= least - 1e-6) for a in answers]
    t = sum((count(a, camera.frames[i].labels, 0.5) for a, i in zip(kept, window, strict=True)), Counts())
    known = [(a, camera.people[i]) for a, i in zip(kept, window, strict=True)]
    labelled = [(a, people) for a, people in known if people is not None]
    p = sum((count(a.select(a.classes == 0), people, 0.5) for a, people in labelled), Counts())
    return Score(100 * t.f1, 100 * p.f1 if labelled else None)


def _pairs(answers: Sequence[Detections], camera: BenchCamera, window: Sequence[int]) -> list[Pair]:
    return [(a, camera.frames[i].labels) for a, i in zip(answers, window, strict=True)]


class _Chain:
    """One line of students, window after window."""

    def __init__(self, download: PublishedStudent, gated: bool) -> None:
        self.student, self._download, self._gated = download, download, gated

    def retrain(self, data: LabelledWindow, region: Region, seed: int, run: Run, known: dict[Any, Any]) -> None:
        """The next student; a training that another chain has just done is not done twice."""
        key = (id(self.student), data.window, region)
        if key not in known:
            began = time.process_time()
            examples = PublishedExamples(data, self.student, region)
            epochs = max(1, round(VISITS / len(examples.train_frames)))
            config = RetrainingConfig(epochs, 4, "all", 1.0, 1e-3)
            training = PublishedRetraining(
                self.student, examples, config, seed, download=self._download, parts=PARTS, held_out_every=0
            )  # fmt: skip
            for _ in training.steps():
                pass
            visits = epochs * len(examples.train_frames)
            new = training.result()
            run.cpu_s_per_160.append((time.process_time() - began) * 160 / visits)
            run.kept.append(float(new.info["kept_of_download"]))
            known[key] = (new, examples)
        new, examples = known[key]
        if not self._gated:
            self.student = new
            return
        entries = contest_entries(new, self.student, self._download, examples)
        verdict = choose(entries.contenders, seed)
        run.winners.append(verdict.winner)
        # As in the appliance, where the profile of the student in force chooses its least score on all new frames.
        unseen = examples.new_frames
        stays = entries.download if verdict.winner == "download" else entries.in_force
        self.student = new if stays is None or verdict.winner == "new" else with_best_score(stays, examples, unseen)[0]


def run_camera(camera: BenchCamera, download: PublishedStudent, seed: int, scratch: Path) -> Run:
    """The protocol on one camera."""
    run = Run(camera.name, seed)
    windows = camera.windows
    plain = _answers(download, camera.frames)
    shipped = _shipped(download, camera.frames)
    chains = {"ungated": _Chain(download, False), "gated": _Chain(download, True)}
    memory = ExemplarMemory(scratch / f"{camera.name}-{seed}", EXEMPLARS)
    records, region = {False: RegionRecord(), True: RegionRecord()}, WHOLE
    kept_out: list[LabelledFrame] = []
    for number, window in enumerate(windows):
        past = [i for w in windows[:number] for i in w]
        if past:
            for row, answers in (("shipped", shipped), ("download", plain)):
                least = best_score(_pairs([answers[i] for i in past], camera, past), DOWNLOAD_SCORE)
                run.scores.setdefault(row, []).append(_score([answers[i] for i in window], least, camera, window))
            same = chains["ungated"].student is chains["gated"].student
            for row, chain in chains.items():
                if row == "gated" and same:
                    run.scores.setdefault(row, []).append(run.scores["ungated"][-1])
                    continue
                answers = _answers(chain.student, [camera.frames[i] for i in window], region)
                run.scores.setdefault(row, []).append(_score(answers, chain.student.score, camera, window))
            labels = [camera.frames[i].labels for i in window]
            run.scores.setdefault("teacher", []).append(_score(labels, 0.0, camera, window))
        if number == len(windows) - 1:
            break
        frames = [_in_window(camera.frames[i], number) for i in window]
        region_now = learned_region(np.concatenate([f.labels.boxes for f in (*frames, *memory.frames(), *kept_out)]))
        # As in the appliance: a retrained student's record is its own.
        judge = chains["gated"].student
        retrained = judge.retrained
        whole = _looked_at(judge, camera, window, WHOLE)
        part = None if region_now == WHOLE else _looked_at(judge, camera, window, region_now)
        records[retrained] = records[retrained].after(whole, part, region_now)
        region = next_region(records[retrained], region)
        run.regions.append(region)
        try:
            split = split_interleaved(frames)
            data = LabelledWindow(
                camera.name, number, "detection", CLASSES, split.train, split.held_out, memory.frames(), tuple(kept_out)
            )
            known: dict[Any, Any] = {}
            for chain in chains.values():
                chain.retrain(data, region, seed * 100 + number, run, known)
        except LabelError:  # e.g. no object in the window: the appliance retrains nothing then, either
            run.left_out.append(number)
            continue
        memory.update(split.train, download.features([_picture(f) for f in split.train]))
        kept_out += split.held_out
    return run


def _looked_at(student: PublishedStudent, camera: BenchCamera, window: Sequence[int], region: Region) -> list[Pair]:
    """The student's answers about a part of a window's pictures, from the lowest score on, beside the labels."""
    return _pairs(_answers(student, [camera.frames[i] for i in window], region), camera, window)


def _in_window(frame: LabelledFrame, window: int) -> LabelledFrame:
    return replace(frame, frame=replace(frame.frame, window=window))


def answer_cost(download: PublishedStudent, teacher: Teacher, picture: Any, turns: int = 40) -> dict[str, float]:
    """CPU ms per answer of the download as shipped, and of a student in the camera's shape, in turns, and of the
    teacher: the least."""
    d = download.detector
    session = DetectorSession(download.content, d.name, d.input, d.output)
    rows = Rows.build(range(len(d.offered)))
    took: dict[str, list[float]] = {"shipped": [], "student": []}
    for _ in range(turns):
        began = time.process_time()
        session.find(picture, rows, DOWNLOAD_SCORE, d.nms_iou, d.max_objects)
        middle = time.process_time()
        download.detect([picture])
        took["shipped"].append(middle - began)
        took["student"].append(time.process_time() - middle)
    for _ in range(3):
        began = time.process_time()
        teacher.label(picture)
        took.setdefault("teacher", []).append(time.process_time() - began)
    return {name: 1000 * min(values) for name, values in took.items()}


#: T that clips have to reach, by the beginning of a camera's name; None: not below the download.
CLIPS: dict[str, float | None] = {"arterial": 87.0, "campus": None}


def bars(runs: Sequence[Run], unusable: Sequence[str] = ()) -> list[tuple[str, bool, str]]:
    """(what, reached, figures) of each bar. `unusable`: cameras that could not be read."""
    out: list[tuple[str, bool, str]] = []
    if unusable:
        out.append(("every camera can be read", False, ", ".join(unusable)))
    if not runs:
        return out
    cameras = sorted({r.camera for r in runs})

    def over(row: str, names: Sequence[str], which: int) -> float:
        values = [r.mean(row)[which] for r in runs if r.camera in names]
        good = [v for v in values if v is not None]
        return float(np.mean(good)) if good else float("nan")

    with_people = [c for c in cameras if any(r.mean("gated")[1] is not None for r in runs if r.camera == c)]
    if set(SHOWN) <= set(cameras):
        t, p = over("gated", SHOWN, 0), over("gated", SHOWN, 1)
        out.append(("six shown cameras: T >= 76, P >= 55", t >= 76 and p >= 55, f"{t:.1f} / {p:.1f}"))
    for clip, least in ((c, t) for c in cameras for beginning, t in CLIPS.items() if c.startswith(beginning)):
        t, download = over("gated", [clip], 0), over("download", [clip], 0)
        wanted = download if least is None else least
        words = "the download's" if least is None else f"{least:g}"
        out.append((f"{clip}: T >= {words}", t >= wanted - 1e-6, f"{t:.1f} ({download:.1f} downloaded)"))
    gain = over("gated", cameras, 0) - over("download", cameras, 0)
    out.append(("T: mean gain over the download (merged, camera's shape) >= 4", gain >= 4, f"{gain:+.1f}"))
    if with_people:
        gain = over("gated", with_people, 1) - over("download", with_people, 1)
        out.append(("P: mean gain over the download >= 5", gain >= 5, f"{gain:+.1f}"))
    each = {c: over("gated", [c], 0) - over("download", [c], 0) for c in cameras}
    worst = min(each, key=lambda c: each[c])
    out.append(("no camera below the download by more than 1 T", each[worst] >= -1, f"{worst} {each[worst]:+.1f}"))
    gate = over("gated", cameras, 0) - over("ungated", cameras, 0)
    out.append(("the gate costs nothing: within 0.3 T of no gate", gate >= -0.3, f"{gate:+.1f}"))
    twice = [f"{r.camera} seed {r.seed}" for r in runs if _below_twice(r)]
    out.append(("never two windows in a row below the download", not twice, ", ".join(twice) or "none"))
    dear = max((s for r in runs for s in r.cpu_s_per_160), default=0.0)
    out.append(("160 visits in at most 20 CPU s", dear <= 20, f"at most {dear:.1f} s"))
    ratio, dearest = max((r.answer_ms["student"] / r.answer_ms["shipped"], r.camera) for r in runs)
    out.append(("an answer costs no more than the download's, on any camera", ratio <= 1.0, f"{dearest} {ratio:.2f} x"))
    return out


def _below_twice(run: Run) -> bool:
    below = [g.t < d.t - 1e-9 for g, d in zip(run.scores["gated"], run.scores["download"], strict=True)]
    return any(a and b for a, b in itertools.pairwise(below))


def table(runs: Sequence[Run]) -> str:
    """T / P per camera and row, and CPU ms per answer: of the download as shipped, a student, the teacher."""
    lines = [f"{'camera':<28}" + "".join(f"{row:>16}" for row in ROWS) + f"{'ms per answer':>24}"]

    def cost(mine: Sequence[Run]) -> str:
        values = [float(np.mean([r.answer_ms[row] for r in mine])) for row in ("shipped", "student", "teacher")]
        return f"{values[0]:.1f} / {values[1]:.1f} / {values[2]:.0f}"

    def cell(values: Sequence[tuple[float, float | None]]) -> str:
        people = [p for _, p in values if p is not None]
        detail = f"{np.mean(people):.1f}" if people else "-"
        return f"{np.mean([t for t, _ in values]):.1f} / {detail}"

    for camera in sorted({r.camera for r in runs}):
        mine = [r for r in runs if r.camera == camera]
        cells = "".join(f"{cell([r.mean(row) for r in mine]):>16}" for row in ROWS)
        lines.append(f"{camera:<28}{cells}{cost(mine):>24}")
    cells = "".join(f"{cell([r.mean(row) for r in runs]):>16}" for row in ROWS)
    lines.append(f"{'mean':<28}{cells}{cost(runs):>24}")
    return "\n".join(lines)


def open_models(teacher: str, student: str) -> tuple[Teacher, float, PublishedStudent]:
    """The teacher in the benchmark's classes, its least score of a label, and the download that students begin as."""
    torch.set_num_threads(1)
    shared = Path(__file__).parents[2] / "shared" / "data" / "models"
    if shared.is_dir() and not models_folder(os.environ).is_dir():  # else: brought by `magpie models pull`
        os.environ.setdefault("MAGPIE_MODELS", str(shared))
    spec = read_teacher(described(teacher, "teacher"))
    opened = open_teacher(spec)
    mapped = in_classes(opened, ClassMap.build(CLASSES, opened.classes, TEACHER_MAP))
    detector = read_detector(described(student, "student"))
    download = PublishedStudent(published_spec(detector, CLASSES, STUDENT_MAP), detector.file.read_bytes())
    return mapped, spec.label_score, download


def teacher_id(teacher: str) -> str:
    """Of a teacher's labels: it changes with the description."""
    spec = read_teacher(described(teacher, "teacher"))
    return f"{spec.name}-{hashlib.sha256(repr(spec).encode()).hexdigest()[:12]}"


def write_results(args: argparse.Namespace, found: dict[str, Any]) -> None:
    """Write the results, with date, machine and settings, into `args.out`, if one was asked for."""
    if args.out is None:
        return
    value = {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "student": args.student,
        "teacher": args.teacher,
    }
    args.out.write_text(json.dumps(value | found, indent=1) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of cameras, with commas; empty: all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--teacher", default="traffic_ensemble")
    parser.add_argument("--student", default="yolox_nano")
    parser.add_argument("--bikes", default="3", help="classes of people's labels that are no vehicles")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "magpie-bench-labels")
    parser.add_argument("--out", type=Path, default=None, help="where the results are written (JSON)")
    args = parser.parse_args(argv)
    mapped, label_score, download = open_models(args.teacher, args.student)
    wanted = [n for n in args.only.split(",") if n]
    bikes = [int(n) for n in args.bikes.split(",") if n]
    runs: list[Run] = []
    unusable: list[str] = []
    try:
        cameras = cameras_in(args.cameras)
    except UnusableCamera as error:
        parser.error(str(error))
    if unknown := sorted(set(wanted) - set(cameras)):
        parser.error(f"--only: no camera {', '.join(unknown)}; there are {', '.join(cameras) or 'none'}")
    if not cameras:
        parser.error(f"--cameras: {args.cameras} has neither a sub-folder of pictures nor a video")
    labels = args.cache / teacher_id(args.teacher)
    with tempfile.TemporaryDirectory() as folder:
        for name, path in cameras.items():
            if wanted and name not in wanted:
                continue
            try:
                camera = read_camera(name, path, mapped, label_score, bikes, Path(folder), labels)
            except UnusableCamera as error:
                print(f"{name}: {error}", flush=True)
                unusable.append(name)
                continue
            answer_ms = answer_cost(download, mapped, _picture(camera.frames[0]))
            for seed in range(args.seeds):
                runs.append(replace(run_camera(camera, download, seed, Path(folder)), answer_ms=answer_ms))
                print(table(runs[-1:]).splitlines()[1], runs[-1].winners, flush=True)
                if runs[-1].left_out:
                    print(f"{name}: nothing to retrain on in windows {[n + 1 for n in runs[-1].left_out]}", flush=True)
    if runs:
        print(table(runs))
    outcomes = bars(runs, unusable)
    for what, reached, figures in outcomes:
        print(f"{'reached' if reached else 'MISSED ':<8} {what}: {figures}")
    write_results(
        args,
        {
            "seeds": args.seeds,
            "runs": [_json(r) for r in runs],
            "bars": [{"what": w, "reached": r, "figures": f} for w, r, f in outcomes],
        },
    )
    return 0 if all(reached for _, reached, _ in outcomes) else 1


def _json(run: Run) -> dict[str, Any]:
    return {
        "camera": run.camera,
        "seed": run.seed,
        "t": {row: [round(s.t, 2) for s in got] for row, got in run.scores.items()},
        "p": {row: [None if s.p is None else round(s.p, 2) for s in got] for row, got in run.scores.items()},
        "cpu_s_per_160": [round(v, 2) for v in run.cpu_s_per_160],
        "winners": run.winners,
        "windows_left_out": run.left_out,
        "answer_ms": {row: round(ms, 2) for row, ms in run.answer_ms.items()},
        "kept_of_download": [round(v, 3) for v in run.kept],
        "regions": [list(r) for r in run.regions],
    }


if __name__ == "__main__":
    sys.exit(main())
