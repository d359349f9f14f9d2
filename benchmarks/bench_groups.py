"""Cameras that are retrained as one group, against one retraining each.

    python -m benchmarks.bench_groups --cameras DIR [--only NAMES] [--seeds N]

DIR is as `bench_students` takes it. After window 1, groups are formed by look alone. Each camera of a group is
retrained on its own window 1 (160 picture visits), and the group on the pictures of all (160 visits, and a fifth more
per further camera), both from the download. T is F1 at IoU 0.5 against the teacher's labels, in points, over
windows 2-4; gains are over the download with the least score that was best on window 1. "kept" is what a group keeps of
its cameras' own gains, "per device second" by how much more a second of the group's retraining gains. "then own" goes
on with window 2 alone from either start (80 visits), scored on windows 3 and 4. Ends with 1 if a group gains less per
device second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bench_siblings import later_look, t_of
from benchmarks.bench_students import VISITS, _answers, _pairs, open_models, write_results
from benchmarks.sibling_students import retrained, window_data
from benchmarks.student_cameras import BenchCamera, camera_names, read_camera
from edge.core.thresholds import best_score
from edge.students.published import DOWNLOAD_SCORE, PublishedStudent
from scheduler.groups import group_work, groups_of
from scheduler.siblings import KnownCamera

#: Picture visits of the retraining that makes a member special again.
SPECIAL_VISITS = 80


@dataclass(frozen=True)
class Row:
    """T of one camera in a group: over windows 2-4, and after its own retraining on window 2 over windows 3 and 4."""

    camera: str
    seed: int
    group: tuple[str, ...]
    download: float
    own: float
    together: float
    own_then_own: float
    together_then_own: float
    own_s: float
    group_s: float


def measure(group: Sequence[BenchCamera], download: PublishedStudent, seed: int) -> list[Row]:
    """A row for each camera of a group."""
    first = [window_data(c, 0) for c in group]
    alone = [retrained(download, [d], download, VISITS, seed) for d in first]
    together, group_s = retrained(download, first, download, VISITS * group_work(len(group) - 1), seed)
    rows = []
    for n, camera in enumerate(group):
        window = camera.windows[0]
        pairs = _pairs(_answers(download, [camera.frames[i] for i in window]), camera, window)
        least = best_score(pairs, DOWNLOAD_SCORE)
        second = window_data(camera, 1, first[n].train, first[n].held_out)
        ends = []
        for start in (alone[n][0][0], together[n]):
            (after,), _ = retrained(start, [second], download, SPECIAL_VISITS, seed)
            ends.append(t_of(after, camera, after.score, (2, 3)))
        own = alone[n][0][0]
        rows.append(
            Row(
                camera.name,
                seed,
                tuple(c.name for c in group),
                t_of(download, camera, least),
                t_of(own, camera, own.score),
                t_of(together[n], camera, together[n].score),
                ends[0],
                ends[1],
                alone[n][1],
                group_s / len(group),
            )
        )
        r = rows[-1]
        numbers = (r.download, r.own, r.together, r.own_then_own, r.together_then_own, r.own_s, r.group_s)
        print(f"{r.camera:<12}{seed:>5}  {'+'.join(r.group):<26}" + "".join(f"{v:>10.1f}" for v in numbers), flush=True)
    return rows


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Means over cameras and seeds; gains in points, costs in CPU seconds per camera."""
    own = float(np.mean([r.own - r.download for r in rows]))
    together = float(np.mean([r.together - r.download for r in rows]))
    own_s, group_s = float(np.mean([r.own_s for r in rows])), float(np.mean([r.group_s for r in rows]))
    return {
        "own_gain": own,
        "group_gain": together,
        "kept": together / own if own > 0 else float("nan"),
        "own_s": own_s,
        "group_s": group_s,
        "per_device_second": (together / group_s) / (own / own_s) if own > 0 else float("nan"),
        "then_own": float(np.mean([r.together_then_own - r.own_then_own for r in rows])),
        "least": min(r.together - r.download for r in rows),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of cameras, with commas; empty: all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--teacher", default="traffic_ensemble")
    parser.add_argument("--student", default="yolox_nano")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "magpie-bench-labels")
    parser.add_argument("--out", type=Path, default=None, help="where the results are written (JSON)")
    args = parser.parse_args(argv)
    mapped, label_score, download = open_models(args.teacher, args.student)
    wanted = [n for n in args.only.split(",") if n]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [p for p in camera_names(args.cameras) if not wanted or p.stem in wanted]
        cameras = {p.stem: read_camera(p, mapped, label_score, (), Path(folder), args.cache) for p in paths}
        looks = [KnownCamera(name, "", later_look(download, camera, 1)) for name, camera in cameras.items()]
        sets = groups_of(looks)
        print("groups: " + ("; ".join(" + ".join(s) for s in sets) or "none: no cameras are alike"), flush=True)
        if not sets:
            return 1
        head = ("download", "own", "group", "own, own", "grp, own", "own s", "group s")
        print(f"{'camera':<12}{'seed':>5}  {'group':<26}" + "".join(f"{h:>10}" for h in head), flush=True)
        for seed in range(args.seeds):
            for names in sets:
                rows += measure([cameras[n] for n in names], download, seed)
    return _report(args, rows)


def _report(args: argparse.Namespace, rows: Sequence[Row]) -> int:
    found = summary(rows)
    print(
        f"gain in the mean: own {found['own_gain']:+.1f} for {found['own_s']:.1f} s a camera, group "
        f"{found['group_gain']:+.1f} for {found['group_s']:.1f} s ({found['kept']:.0%} kept); then own "
        f"{found['then_own']:+.1f} over own after own; least {found['least']:+.1f}"
    )
    reached = found["per_device_second"] > 1.0
    word = "reached" if reached else "MISSED "
    print(
        f"{word} a device second of a group gains {found['per_device_second']:.2f} times one of single retrainings (1)"
    )
    write_results(
        args,
        {
            "seeds": args.seeds,
            "summary": {k: round(v, 4) for k, v in found.items()},
            "rows": [r.__dict__ | {"group": list(r.group)} for r in rows],
        },
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
