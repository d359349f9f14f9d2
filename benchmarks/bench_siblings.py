"""A new camera that begins with a sibling's student, against the download and against a window's retraining of its own.

    python -m benchmarks.bench_siblings --cameras DIR --cache FOLDER [--only NAMES]

DIR is as `bench_students` takes it. Each camera's student is trained on its first windows (`--windows`, 3); trained
students and the accuracy of each on each camera are kept in FOLDER. Every camera in turn is the new one: its sibling is
chosen among the others by look alone, from its first four pictures, and answers windows 2-4 as it is, with the least
score that was best on its own camera. Siblings that look alike were retrained as one on their first window, unless
`--alone`. T is F1 at IoU 0.5 against the teacher's labels, in points. Gains are over the download
with the least score that was best on window 1, which a camera without labels does not know: the stricter of two
baselines. "own" is trained on window 1 of the camera itself. Ends with 1 if siblings bring less than half of what that
brings.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_students import Score, _answers, _pairs, _picture, _score, open_models, teacher_id, write_results
from benchmarks.sibling_students import group_students, students_of
from benchmarks.student_cameras import BenchCamera, cameras_in, read_camera
from edge.core.camera_look import CameraLook, camera_look
from edge.core.thresholds import best_score
from edge.runtime.siblings import FIRST_PICTURES
from edge.students.published import DOWNLOAD_SCORE, PublishedStudent
from scheduler.groups import groups_of
from scheduler.siblings import NOT_ALIKE, KnownCamera, choose_sibling, distance

#: Pictures of a look at a window's end, as in the appliance.
LOOKED_AT = 8
#: Cameras that look alike and were retrained as one, at most.
MOST_ALIKE = 4
#: The part of a window's own gain that a sibling must bring.
LEAST_PART = 0.5


class MeasuredCache:
    """Values by name in a JSON file, so that another run need not work them out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """The value of `name`, made now if it is not known."""
        if name not in self._values:
            self._values[name] = make()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._values))
        return self._values[name]


@dataclass(frozen=True)
class Row:
    """T of one camera as the new one; `chosen` is the sibling ("": no camera is alike, the download stays)."""

    camera: str
    usual: float
    download: float
    own: float
    siblings: dict[str, float]
    distances: dict[str, float]
    chosen: str

    @property
    def sibling(self) -> float:
        """T of what the camera begins with."""
        return self.siblings[self.chosen] if self.chosen else self.usual

    @property
    def own_gain(self) -> float:
        """The gain of a window's retraining of its own."""
        return self.own - self.download

    @property
    def gain(self) -> float:
        """The sibling's gain; nothing, where no camera is alike and the download stays."""
        return self.sibling - self.download if self.chosen else 0.0


def look_of(download: PublishedStudent, camera: BenchCamera, indices: Sequence[int], most: int) -> CameraLook:
    """The look of at most `most` of a camera's pictures."""
    chosen = [indices[int(i)] for i in np.unique(np.linspace(0, len(indices) - 1, most).round())]
    pictures = [_picture(camera.frames[i]) for i in chosen]
    answers = download.detect(pictures, score=DOWNLOAD_SCORE)
    return camera_look(download.detector.name, download.features(pictures), answers, pictures)


def first_look(download: PublishedStudent, camera: BenchCamera) -> CameraLook:
    """Of a new camera: its first few pictures."""
    return look_of(download, camera, camera.windows[0][:FIRST_PICTURES], FIRST_PICTURES)


def later_look(download: PublishedStudent, camera: BenchCamera, windows: int) -> CameraLook:
    """Of a camera whose student was trained: renewed at each window's end."""
    looks = [look_of(download, camera, w, LOOKED_AT) for w in camera.windows[:windows]]
    known = looks[0]
    for look in looks[1:]:
        known = known.after(look)
    return known


def t_of(student: PublishedStudent, camera: BenchCamera, least: float, windows: Sequence[int] = (1, 2, 3)) -> float:
    """Mean T over windows (numbers from 0)."""
    return scored(student, camera, least, windows).t


def scored(student: PublishedStudent, camera: BenchCamera, least: float, windows: Sequence[int] = (1, 2, 3)) -> Score:
    """Mean T and P (None: no labels of people) over windows (numbers from 0)."""
    found = []
    for window in (camera.windows[number] for number in windows):
        answers = _answers(student, [camera.frames[i] for i in window])
        found.append(_score(answers, least, camera, window))
    people = [s.p for s in found if s.p is not None]
    return Score(float(np.mean([s.t for s in found])), float(np.mean(people)) if people else None)


def measure(
    cameras: Sequence[BenchCamera],
    students: dict[str, list[PublishedStudent]],
    download: PublishedStudent,
    windows: int,
    kept: MeasuredCache,
    together: Callable[[Sequence[BenchCamera]], dict[str, PublishedStudent]] | None,
) -> list[Row]:
    """One row per camera, each in turn the new one. `together` retrains cameras as one group; None: each alone."""

    def t(student: PublishedStudent, camera: BenchCamera, least: float) -> float:
        name = f"t {camera.name} {hashlib.sha256(student.content).hexdigest()[:12]} {least:.2f}"
        return float(kept.get(name, lambda: t_of(student, camera, least)))

    first = {
        c.name: CameraLook.from_json(kept.get(f"first {c.name}", lambda c=c: first_look(download, c).to_json()))
        for c in cameras
    }
    later = {
        c.name: CameraLook.from_json(
            kept.get(f"later {windows} {c.name}", lambda c=c: later_look(download, c, windows).to_json())
        )
        for c in cameras
    }
    rows = []
    for camera in cameras:
        window = camera.windows[0]
        least = float(
            kept.get(
                f"least {camera.name}",
                lambda c=camera, w=window: best_score(
                    _pairs(_answers(download, [c.frames[i] for i in w]), c, w), DOWNLOAD_SCORE
                ),
            )
        )
        others = [o for o in cameras if o.name != camera.name]
        found = choose_sibling(first[camera.name], [KnownCamera(o.name, "", later[o.name]) for o in others])
        last = {o.name: students[o.name][-1] for o in others}
        if together is not None:
            for names in groups_of({o.name: later[o.name] for o in others}, NOT_ALIKE, MOST_ALIKE):
                last |= together([o for o in others if o.name in names])
        own = students[camera.name][0]
        rows.append(
            Row(
                camera.name,
                t(download, camera, DOWNLOAD_SCORE),
                t(download, camera, least),
                t(own, camera, own.score),
                {name: t(s, camera, s.score) for name, s in last.items()},
                {o.name: distance(first[camera.name], later[o.name]) for o in others},
                "" if found is None else found.camera,
            )
        )
        print(line(rows[-1]), flush=True)
    return rows


def line(row: Row) -> str:
    """One camera for people."""
    best = max(row.siblings.values())
    mean = float(np.mean(list(row.siblings.values())))
    row_words = f"{row.chosen or 'none':<8}{row.distances.get(row.chosen, float('nan')):>9.2f}"
    numbers = (row.usual, row.download, row.sibling, best, mean, row.own, row.gain, row.own_gain)
    return f"{row.camera:<12}{row_words}" + "".join(f"{v:>10.1f}" for v in numbers)


HEAD = f"{'camera':<12}{'sibling':<8}{'distance':>9}" + "".join(
    f"{v:>10}" for v in ("at 0.25", "download", "sibling", "best", "random", "own", "gain", "own gain")
)


def part(rows: Sequence[Row]) -> float:
    """The siblings' gain as a part of the gain of windows of the cameras' own; means over cameras."""
    own = float(np.mean([r.own_gain for r in rows]))
    return float(np.mean([r.gain for r in rows])) / own if own > 0 else float("nan")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of cameras, with commas; empty: all")
    parser.add_argument("--windows", type=int, default=3, help="that a sibling's student was trained on (1-4)")
    parser.add_argument("--alone", action="store_true", help="siblings were retrained each by itself")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--teacher", default="traffic_ensemble")
    parser.add_argument("--student", default="yolox_nano")
    parser.add_argument("--cache", type=Path, required=True, help="where students and their accuracies are kept")
    parser.add_argument("--cache-labels", type=Path, default=Path(tempfile.gettempdir()) / "magpie-bench-labels")
    parser.add_argument("--out", type=Path, default=None, help="where the results are written (JSON)")
    args = parser.parse_args(argv)
    mapped, label_score, download = open_models(args.teacher, args.student)
    wanted = [n for n in args.only.split(",") if n]
    cameras, students = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, path in cameras_in(args.cameras).items():
            if wanted and name not in wanted:
                continue
            labels = args.cache_labels / teacher_id(args.teacher)
            camera = read_camera(name, path, mapped, label_score, (), Path(folder), labels)
            students[camera.name] = students_of(camera, download, args.windows, args.seed, Path(folder), args.cache)
            cameras.append(camera)
        if len(cameras) < 2:
            raise SystemExit("siblings need at least two cameras")
        print(HEAD, flush=True)
        kept = MeasuredCache(args.cache / f"measured-seed{args.seed}.json")
        together = None if args.alone else partial(group_students, download=download, seed=args.seed, cache=args.cache)
        rows = measure(cameras, students, download, args.windows, kept, together)
    return _report(args, rows)


def _report(args: argparse.Namespace, rows: Sequence[Row]) -> int:
    reached = part(rows)
    best = float(np.mean([max(r.siblings.values()) - r.download for r in rows]))
    anyone = float(np.mean([np.mean(list(r.siblings.values())) - r.download for r in rows]))
    gain, own = float(np.mean([r.gain for r in rows])), float(np.mean([r.own_gain for r in rows]))
    print(f"gain in the mean: sibling {gain:+.1f}, best {best:+.1f}, random {anyone:+.1f}, own window {own:+.1f}")
    word = "reached" if reached >= LEAST_PART else "MISSED "
    print(f"{word} a sibling brings at least {LEAST_PART:.0%} of a window's own retraining: {reached:.0%}")
    write_results(
        args,
        {
            "seed": args.seed,
            "windows_of_siblings": args.windows,
            "alone": args.alone,
            "gain": {"sibling": gain, "best": best, "random": anyone, "own": own},
            "part_of_own": reached,
            "cameras": [_json(r) for r in rows],
        },
    )
    return 0 if reached >= LEAST_PART else 1


def _json(row: Row) -> dict[str, Any]:
    return {
        "camera": row.camera,
        "sibling": row.chosen,
        "t": {k: round(float(v), 2) for k, v in (("at_0.25", row.usual), ("download", row.download), ("own", row.own))},
        "siblings": {k: round(v, 2) for k, v in row.siblings.items()},
        "distances": {k: round(v, 3) for k, v in row.distances.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
