"""Records real drift as an every-configuration trace, "magpie-trace/2": `python -m benchmarks.record_drift`.

    python -m benchmarks.record_drift --cameras DIR [--pictures N] [--out FILE]

DIR is as `bench_students` takes it: one sub-folder of time-ordered stills per camera (with YOLO `.txt` labels of people
beside them, where there are any), or video files. Each camera's pictures are four windows. On each window the
micro-profiler tries the configurations, then *every* configuration of the product's space is trained in full, with the
product's own code, up to its contest of the new student, the one in force and the download. An outcome is of the
student that comes into force by it: measured on held-out pictures, on the window that it would serve, and on the one
after, against the teacher's labels ("live", F1 at IoU 0.5) and against people's vehicles ("people"). A refused one's
outcome says less than the student in force has on held-out pictures, and nothing of windows that it would have served.
The best one that is not refused is the recorded model of the next window. Costs are CPU seconds of one core. Stills do
not move, so no staleness can be measured: an inference profile is linear (a frame without an answer counts as wrong),
its cost is measured.

The file is written after every camera, and cameras in it are not recorded again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from benchmarks.bench_students import CLASSES, _answers, _pairs, _picture, open_models, teacher_id
from benchmarks.sibling_students import window_data
from benchmarks.student_cameras import PICTURES, WINDOWS, BenchCamera, cameras_in, read_camera
from edge.core.accuracy import Counts, count
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.profiles import InferenceProfile
from edge.core.thresholds import best_score
from edge.core.vision import Detections
from edge.recording.exemplars import ExemplarMemory
from edge.runtime.contest import contest_entries
from edge.settings.retraining import RetrainingSettings
from edge.simulation.record import as_judged
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace, read_trace
from edge.students.published import DOWNLOAD_SCORE, PublishedStudent
from edge.training.kept_download import PARTS
from edge.training.published import PublishedExamples, PublishedRetraining, judged, with_best_score
from edge.training.published_trials import PublishedTrials
from golden.ensemble import Teacher
from microprofiler.history import ProfilerHistory
from microprofiler.profile import ProfilerSettings, WindowSize, micro_profile
from scheduler.contenders import choose

RESULTS = Path(__file__).resolve().parent / "results"
CONFIGS = RetrainingSettings().configs(published=True)
PROFILER = ProfilerSettings(min_frames=12)


@dataclass(frozen=True)
class Trained:
    """What is in force after a configuration's retraining, and whether that is another student than before; held-out
    accuracy, as an outcome has it; CPU seconds."""

    student: PublishedStudent
    promoted: bool
    accuracy: float
    cpu_s: float


class DriftRecorder:
    """Records one camera after the other. `rate`: answers a second that an inference share of 1 factor means."""

    def __init__(self, download: PublishedStudent, scratch: Path, rate: float, exemplars: int, seed: int) -> None:
        self._download, self._scratch = download, scratch
        self._rate, self._exemplars, self._seed = rate, exemplars, seed

    def record(self, camera: BenchCamera, labelling_s: float) -> RecordedCamera:
        """All windows of `camera`; `labelling_s`: CPU seconds of the teacher for a window."""
        began = time.process_time()
        plain = _answers(self._download, camera.frames)
        answer_s = (time.process_time() - began) / len(camera.frames)
        inference = InferenceProfile("linear", round(self._rate * answer_s, 5), name="measured cost")
        frozen, people = self._frozen(camera, plain)
        memory = ExemplarMemory(self._scratch / camera.name, self._exemplars)
        parent, history = self._download, ProfilerHistory()
        windows: dict[int, RecordedWindow] = {}
        kept_out: list[LabelledFrame] = []
        for number in range(2, WINDOWS + 1):
            data = window_data(camera, number - 2, memory.frames(), kept_out)
            windows[number], parent, history = self._window(camera, number, data, parent, history, frozen[number - 1])
            windows[number] = replace(windows[number], labelling_s=round(labelling_s, 2))
            memory.update(data.train, self._download.features([_picture(f) for f in data.train]))
            kept_out += data.held_out
        return RecordedCamera(camera.name, inference, frozen, windows, frozen_people=people)

    def _frozen(self, camera: BenchCamera, plain: Sequence[Detections]) -> tuple[dict[int, float], dict[int, float]]:
        """The download's accuracy by window, with the least score that was best on the windows before."""
        frozen, people = {}, {}
        for number, window in enumerate(camera.windows, start=1):
            past = [i for w in camera.windows[: number - 1] for i in w]
            least = best_score(_pairs([plain[i] for i in past], camera, past), DOWNLOAD_SCORE) if past else None
            least = DOWNLOAD_SCORE if least is None else least
            frozen[number], by_people = scored([plain[i] for i in window], least, camera, window)
            if by_people is not None:
                people[number] = by_people
        return frozen, people

    def _window(
        self,
        camera: BenchCamera,
        number: int,
        data: LabelledWindow,
        parent: PublishedStudent,
        history: ProfilerHistory,
        frozen: float,
    ) -> tuple[RecordedWindow, PublishedStudent, ProfilerHistory]:
        """Retraining in window `number` on `data`; the recorded model after it. `frozen`: the download's accuracy in
        the window before."""
        seed = self._seed * 100 + number
        examples = PublishedExamples(data, parent)
        own, start = with_best_score(parent.copy(), examples)
        # As it served that window, as "live" is of outcomes: not with the least score that was chosen on it afterwards.
        before = camera.windows[number - 2]
        start_live = frozen
        if parent.info.get("steps"):
            seen = _answers(parent, [camera.frames[i] for i in before])
            start_live, _ = scored(seen, parent.score, camera, before)
        size = WindowSize.of(data)
        trials = PublishedTrials(parent, examples, download=self._download)
        profile = micro_profile(size, CONFIGS, trials, PROFILER, history, seed=seed, start_accuracy=start.value)
        outcomes, best, best_accuracy = {}, None, start.value
        for config, made in self._trained(parent, start.value, examples, seed).items():
            live, people, promoted = {}, {}, made.promoted
            # One that was refused serves no window.
            for later in range(number, min(number + 2, WINDOWS + 1)) if promoted else ():
                window = camera.windows[later - 1]
                answers = _answers(made.student, [camera.frames[i] for i in window])
                live[later], by_people = scored(answers, made.student.score, camera, window)
                if by_people is not None:
                    people[later] = by_people
            outcomes[config] = RecordedOutcome(made.accuracy, round(made.cpu_s, 3), live, people, promoted)
            if promoted and (best is None or made.accuracy > best_accuracy):
                best, best_accuracy = made.student, made.accuracy
        if best is None:
            # As in the appliance: one that stays has its least score chosen on all new frames.
            best, _ = with_best_score(own, examples, examples.new_frames)
        top = max(outcomes, key=lambda i: outcomes[i].accuracy)
        history = profile.history.learned(top, outcomes[top].accuracy, outcomes[top].device_seconds)
        window_now = RecordedWindow(
            start.value,
            profile.profiles,
            outcomes,
            profiling_device_s=profile.device_seconds,
            train_frames=size.train_frames,
            held_out_frames=size.held_out_frames,
            start_live=start_live,
        )
        return window_now, best, history

    def _trained(
        self, parent: PublishedStudent, start: float, examples: PublishedExamples, seed: int
    ) -> dict[str, Trained]:
        """Every configuration; those that differ in epochs alone are one run, looked at on the way. `start`: the
        held-out accuracy of `parent`, the student in force, at its best least score."""
        out = {}
        for _, group in itertools.groupby(sorted(CONFIGS, key=lambda c: c.layers), lambda c: c.layers):
            by_epochs = {c.epochs: c for c in group}
            run = PublishedRetraining(
                parent, examples, by_epochs[max(by_epochs)], seed, download=self._download, parts=PARTS,
                held_out_every=0, clock=time.process_time,
            )  # fmt: skip
            watched = 0.0
            for progress in run.steps():
                done = progress.epoch + 1
                if progress.epoch_over and done in by_epochs:
                    cost, began = run.cpu_seconds - watched, time.process_time()
                    out[by_epochs[done].id] = self._in_force(run.result(), parent, start, examples, seed, cost)
                    watched += time.process_time() - began
        return out

    def _in_force(
        self,
        new: PublishedStudent,
        parent: PublishedStudent,
        start: float,
        examples: PublishedExamples,
        seed: int,
        cpu_s: float,
    ) -> Trained:
        """The student that is in force after the appliance's contest."""
        entries = contest_entries(new, parent, self._download, examples)
        winner = choose(entries.contenders, seed).winner
        student, found = with_best_score(
            entries.download if winner == "download" and entries.download else new, examples
        )
        promoted = winner != "in_force"
        accuracy = as_judged(found.value, start, promoted)
        return Trained(student if promoted else entries.in_force, promoted, accuracy, cpu_s)


def scored(
    answers: Sequence[Detections], least: float, camera: BenchCamera, window: Sequence[int]
) -> tuple[float, float | None]:
    """F1 of answers from score `least` on, against the teacher's labels and against people's vehicles (None: these are
    missing)."""
    pairs = _pairs(answers, camera, window)
    teacher = round(judged(pairs, least, len(CLASSES)).value, 5)
    counts = Counts()
    for answer, i in zip(answers, window, strict=True):
        people = camera.people[i]
        if people is None:
            return teacher, None
        counts += count(answer.select((answer.scores >= least - 1e-6) & (answer.classes == 0)), people, 0.5)
    return teacher, round(counts.f1, 5)


def rounded(camera: RecordedCamera) -> RecordedCamera:
    """With numbers of a size that a file of many cameras can hold."""
    text = json.dumps(camera.to_json())
    value = json.loads(text, parse_float=lambda t: round(float(t), 5))
    return Trace.from_json(
        {"format": "magpie-trace/1", "name": "-", "window_s": 1, "num_gpus": 1, "windows": 1, "cameras": [value]}
    ).cameras[0]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of cameras, with commas; empty: all")
    parser.add_argument("--pictures", type=int, default=PICTURES, help="pictures per camera and window")
    parser.add_argument(
        "--exemplars", type=int, default=RetrainingSettings().exemplars, help="pictures of older windows beside"
    )
    parser.add_argument("--rate", type=float, default=5.0, help="answers a second of a camera")
    parser.add_argument("--window-seconds", type=float, default=400.0, help="the trace's window, which sets the pace")
    parser.add_argument("--num-gpus", type=float, default=2.5, help="the trace's devices (cores)")
    parser.add_argument("--teacher", default="traffic_ensemble")
    parser.add_argument("--student", default="yolox_nano")
    parser.add_argument("--bikes", default="3", help="classes of people's labels that are no vehicles")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "magpie-bench-labels")
    parser.add_argument("--out", type=Path, default=RESULTS / "drift_trace.json")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    mapped, label_score, download = open_models(args.teacher, args.student)
    wanted = [n for n in args.only.split(",") if n]
    bikes = [int(n) for n in args.bikes.split(",") if n]
    done = list(read_trace(args.out).cameras) if args.out.is_file() else []
    with tempfile.TemporaryDirectory() as folder:
        recorder = DriftRecorder(download, Path(folder), args.rate, args.exemplars, args.seed)
        for name, path in cameras_in(args.cameras).items():
            if (wanted and name not in wanted) or name in [c.id for c in done]:
                continue
            began = time.process_time()
            labels, most = args.cache / teacher_id(args.teacher), WINDOWS * args.pictures
            camera = read_camera(name, path, mapped, label_score, bikes, Path(folder), labels, most)
            labelling_s = label_seconds(mapped, camera) * args.pictures
            done.append(rounded(recorder.record(camera, labelling_s)))
            about = (
                f"real pictures, at most {args.pictures} a window, {args.student} as student, {args.teacher} as teacher"
            )
            trace = Trace("drift", args.window_seconds, args.num_gpus, tuple(done), WINDOWS, notes=about)
            args.out.write_text(json.dumps(trace.to_json()) + "\n", encoding="utf-8")
            last = done[-1]
            gains = [max(o.accuracy for o in w.outcomes.values()) - w.start_accuracy for w in last.windows.values()]
            print(
                f"{last.id:12} frozen {[round(v, 2) for v in last.frozen.values()]}, best gains on held-out pictures "
                f"{np.round(gains, 2).tolist()}, {time.process_time() - began:.0f} CPU s",
                flush=True,
            )


def label_seconds(teacher: Teacher, camera: BenchCamera) -> float:
    """CPU seconds of the teacher for one of the camera's pictures: the least of three."""
    took = []
    for frame in camera.frames[:3]:
        picture, began = _picture(frame), time.process_time()
        teacher.label(picture)
        took.append(time.process_time() - began)
    return float(min(took))


if __name__ == "__main__":
    main()
