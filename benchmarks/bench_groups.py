"""Cameras that are retrained as one group, against one retraining each.

    python -m benchmarks.bench_groups --cameras DIR [--only NAMES] [--pictures N] [--alike] [--seeds N]

DIR is as `bench_students` takes it. All cameras are one group (of at most 12), as in the appliance; with `--alike` only
those that look alike are, at most 4. Each camera is retrained on its own window 1 (160 picture visits), and the group
on the pictures of all (0.6 times as many more per further camera), both from the download. T is F1 at IoU 0.5 against
the teacher's labels, P against people's vehicles, in points, over windows 2-4; gains are over the download with the
least score that was best on window 1. "kept" is what a group keeps of its cameras' own gains, "per device second" by
how much more a second of the group's retraining gains. "then own" goes on with window 2 alone from either start (80
visits), scored on windows 3 and 4; it is left out with `--no-then`. Ends with 1 if a group gains less per device
second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bench_siblings import MOST_ALIKE, later_look, scored, t_of
from benchmarks.bench_students import _answers, _pairs, open_models, teacher_id, write_results
from benchmarks.sibling_students import retrained, window_data
from benchmarks.student_cameras import PICTURES, WINDOWS, BenchCamera, cameras_in, read_camera
from edge.core.thresholds import best_score
from edge.students.published import DOWNLOAD_SCORE, PublishedStudent
from scheduler.groups import group_work, groups_of
from scheduler.siblings import NOT_ALIKE

#: Picture visits of a camera's own retraining, and of the one that makes a member special again.
VISITS, SPECIAL_VISITS = 160, 80


@dataclass(frozen=True)
class Row:
    """T and P (None: no labels of people) of one camera in a group over windows 2-4: of the download, after its own
    retraining, and with the group; and T after its own retraining on window 2 over windows 3 and 4 (None: left out).
    """

    camera: str
    seed: int
    group: tuple[str, ...]
    download: float
    own: float
    together: float
    download_p: float | None
    own_p: float | None
    together_p: float | None
    own_s: float
    group_s: float
    own_then_own: float | None = None
    together_then_own: float | None = None


def measure(group: Sequence[BenchCamera], download: PublishedStudent, seed: int, then: bool) -> list[Row]:
    """A row for each camera of a group."""
    first = [window_data(c, 0) for c in group]
    alone = [retrained(download, [d], download, VISITS, seed) for d in first]
    together, group_s = retrained(download, first, download, VISITS * group_work(len(group) - 1), seed)
    rows = []
    for n, camera in enumerate(group):
        window = camera.windows[0]
        pairs = _pairs(_answers(download, [camera.frames[i] for i in window]), camera, window)
        least = best_score(pairs, DOWNLOAD_SCORE)
        own, own_s = alone[n][0][0], alone[n][1]
        d, o, g = (
            scored(s, camera, score)
            for s, score in ((download, least), (own, own.score), (together[n], together[n].score))
        )
        ends: list[float | None] = [None, None]
        if then:
            second = window_data(camera, 1, first[n].train, first[n].held_out)
            for k, start in enumerate((own, together[n])):
                (after,), _ = retrained(start, [second], download, SPECIAL_VISITS, seed)
                ends[k] = t_of(after, camera, after.score, (2, 3))
        names = tuple(c.name for c in group)
        rows.append(Row(camera.name, seed, names, d.t, o.t, g.t, d.p, o.p, g.p, own_s, group_s / len(group), *ends))
        r = rows[-1]
        numbers = (d.t, o.t, g.t, d.p, o.p, g.p, r.own_s, r.group_s, *ends)
        print(f"{r.camera:<12}{seed:>5}" + "".join(f"{np.nan if v is None else v:>11.1f}" for v in numbers), flush=True)
    return rows


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Means over cameras and seeds; gains in points, costs in CPU seconds per camera."""

    def mean(values: Sequence[tuple[float | None, float | None]]) -> float:
        known = [a - b for a, b in values if a is not None and b is not None]
        return float(np.mean(known)) if known else float("nan")

    own, together = mean([(r.own, r.download) for r in rows]), mean([(r.together, r.download) for r in rows])
    own_s, group_s = float(np.mean([r.own_s for r in rows])), float(np.mean([r.group_s for r in rows]))
    return {
        "own_gain": own,
        "group_gain": together,
        "own_gain_people": mean([(r.own_p, r.download_p) for r in rows]),
        "group_gain_people": mean([(r.together_p, r.download_p) for r in rows]),
        "kept": together / own if own > 0 else float("nan"),
        "own_s": own_s,
        "group_s": group_s,
        "per_device_second": (together / group_s) / (own / own_s) if own > 0 else float("nan"),
        "then_own": mean([(r.together_then_own, r.own_then_own) for r in rows]),
        "least": min(r.together - r.download for r in rows),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of cameras, with commas; empty: all")
    parser.add_argument("--pictures", type=int, default=PICTURES + 1, help="pictures per camera and window at most")
    parser.add_argument("--alike", action="store_true", help="only cameras that look alike are in a group")
    parser.add_argument("--no-then", action="store_true", help="no retraining of a member's own afterwards")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--bikes", default="3", help="classes of people's labels that are no vehicles")
    parser.add_argument("--teacher", default="traffic_ensemble")
    parser.add_argument("--student", default="yolox_nano")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "magpie-bench-labels")
    parser.add_argument("--out", type=Path, default=None, help="where the results are written (JSON)")
    args = parser.parse_args(argv)
    mapped, label_score, download = open_models(args.teacher, args.student)
    wanted = [n for n in args.only.split(",") if n]
    bikes = [int(n) for n in args.bikes.split(",") if n]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: path for name, path in cameras_in(args.cameras).items() if not wanted or name in wanted}
        most, labels = WINDOWS * args.pictures, args.cache / teacher_id(args.teacher)
        cameras = {
            name: read_camera(name, path, mapped, label_score, bikes, Path(folder), labels, most)
            for name, path in paths.items()
        }
        looks = {name: later_look(download, camera, 1) for name, camera in cameras.items()}
        sets = groups_of(looks, NOT_ALIKE, MOST_ALIKE) if args.alike else groups_of(looks)
        print("groups: " + ("; ".join(" + ".join(s) for s in sets) or "none"), flush=True)
        if not sets:
            return 1
        heads = ("T download", "own", "group", "P download", "own", "group", "own s", "group s", "own, own", "grp, own")
        print(f"{'camera':<12}{'seed':>5}" + "".join(f"{h:>11}" for h in heads), flush=True)
        for seed in range(args.seeds):
            for names in sets:
                rows += measure([cameras[n] for n in names], download, seed, not args.no_then)
    return _report(args, rows)


def _report(args: argparse.Namespace, rows: Sequence[Row]) -> int:
    found = summary(rows)
    print(
        f"gain in the mean, T / P: own {found['own_gain']:+.1f} / {found['own_gain_people']:+.1f} for "
        f"{found['own_s']:.1f} s a camera, group {found['group_gain']:+.1f} / {found['group_gain_people']:+.1f} for "
        f"{found['group_s']:.1f} s ({found['kept']:.0%} kept); then own {found['then_own']:+.1f} over own after own; "
        f"least {found['least']:+.1f}"
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
            "pictures": args.pictures,
            "summary": {k: None if np.isnan(v) else round(v, 4) for k, v in found.items()},
            "rows": [r.__dict__ | {"group": list(r.group)} for r in rows],
        },
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
