"""The main claim on real pictures, the whole appliance over RTSP: two clips and six days of traffic-camera stills.

`python -m benchmarks.bench_real_clips` needs the developers' shared data (MAGPIE_SHARED, or the folder `../shared`);
it plays them with `magpie demo --videos` and writes benchmarks/results/real_clips.json. Students begin as YOLOX-nano;
the baseline is the same file left as published, in shadow on the same labelled frames, at its best past least score.
`--runs 3` repeats it; `--cameras 4` takes the first four only; results of windows of another length than 240 s are in a
file of their own (real_clips_480s.json).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.bench_demo import main as bench_demo
from benchmarks.shared_data import shared_clips

REPO = Path(__file__).resolve().parent.parent
USUAL_WINDOW_S = 240.0
CLIPS = {"arterial.mp4": "urban_arterial_china.mp4", "campus.avi": "people_vtest_480.avi"}
STILLS = {
    "expressway-1": "8701",
    "expressway-2": "2703",
    "expressway-3": "2708",
    "expressway-4": "8704",
    "expressway-5": "9705",
    "expressway-6": "8706",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--cameras", type=int, default=8)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--window-seconds", type=float, default=USUAL_WINDOW_S)
    args = parser.parse_args()
    sources = [*CLIPS.items(), *STILLS.items()][: args.cameras]
    shared = shared_clips()
    if shared is None:
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for link, source in sources:
            if link in CLIPS:
                (folder / link).symlink_to(shared / "videos" / source)
                continue
            (folder / link).mkdir()
            for picture in sorted((shared / "images" / "lta_cctv_2021" / source).glob("*.jpg")):
                (folder / link / picture.name).symlink_to(picture)
        teacher = REPO / "configs" / "teachers" / "traffic_ensemble.yaml"
        # 24 stills pass in a window, however long it is: about a day in five.
        options = ["--videos", str(folder), "--teacher", str(teacher), "--task", "detection",
                   "--classes", "car,bicycle,person", "--class-map", "car=vehicle,bicycle=two_wheeler",
                   "--cameras", str(len(sources)), "--seconds-per-picture", str(args.window_seconds / 24),
                   "--set", "label_budget=24"]  # fmt: skip
        usual = args.window_seconds == USUAL_WINDOW_S
        name = "real_clips" if usual else f"real_clips_{args.window_seconds:g}s"
        called = "python -m benchmarks.bench_real_clips"
        called += "" if usual else f" --window-seconds {args.window_seconds:g}"
        command = ["--name", name, "--command", called]
        seeds = [str(n + 1) for n in range(args.runs)]
        length = ["--windows", str(args.windows), "--window-seconds", str(args.window_seconds)]
        return bench_demo([*command, "--seeds", *seeds, *length, "--", *options])


if __name__ == "__main__":
    sys.exit(main())
