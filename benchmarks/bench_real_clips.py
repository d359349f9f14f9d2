"""The main claim on real pictures: two clips and two days of traffic-camera stills, labelled by a real teacher.

`python -m benchmarks.bench_real_clips` needs the developers' shared data (MAGPIE_SHARED, or the folder `../shared`);
it plays them over RTSP with `magpie demo --videos` and writes benchmarks/results/real_clips.json. The students start
from the demo's weights, which have only ever seen drawn streets; the frozen ones stay with them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.bench_demo import main as bench_demo

REPO = Path(__file__).resolve().parent.parent
CLIPS = {"arterial.mp4": "urban_arterial_china.mp4", "campus.avi": "people_vtest_480.avi"}
STILLS = {"expressway-1": "8701", "expressway-2": "2703"}


def main() -> int:
    shared = Path(os.environ.get("MAGPIE_SHARED", REPO.parent / "shared")) / "data"
    if not (shared / "videos").is_dir():
        print("the developers' shared data folder is absent (set MAGPIE_SHARED)")
        return 0
    os.environ.setdefault("MAGPIE_MODELS", str(shared / "models"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for link, clip in CLIPS.items():
            (folder / link).symlink_to(shared / "videos" / clip)
        for link, camera in STILLS.items():
            (folder / link).mkdir()
            for picture in sorted((shared / "images" / "lta_cctv_2021" / camera).glob("*.jpg")):
                (folder / link / picture.name).symlink_to(picture)
        teacher = REPO / "configs" / "teachers" / "traffic_ensemble.yaml"
        # About a day of stills passes in the five windows.
        options = ["--videos", str(folder), "--teacher", str(teacher), "--task", "detection",
                   "--classes", "car,bicycle,person", "--class-map", "car=vehicle,bicycle=two_wheeler",
                   "--seconds-per-picture", "5", "--set", "label_budget=24", "--set", "golden_share=0.16"]  # fmt: skip
        command = ["--name", "real_clips", "--command", "python -m benchmarks.bench_real_clips"]
        return bench_demo([*command, "--windows", "5", "--window-seconds", "75", "--", *options])


if __name__ == "__main__":
    sys.exit(main())
