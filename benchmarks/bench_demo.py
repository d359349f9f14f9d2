"""The main claim: realised accuracy of the demo against the frozen students, with its spread over seeds.

`python -m benchmarks.bench_demo` runs `magpie demo --windows 6 --report ...` once per seed (about 10 minutes each)
and writes benchmarks/results/demo.json. With `--videos DIR --teacher FILE.yaml` it runs on real clips.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.trained_once import against, trained_once

RESULTS = Path(__file__).parent / "results"


def run_demo(arguments: list[str], windows: int) -> dict[str, Any]:
    """One run of the demo command in a process of its own; its report, and its gain over training once."""
    with tempfile.TemporaryDirectory() as folder:
        report, data = Path(folder) / "report.json", Path(folder) / "data"
        command = [sys.executable, "-m", "edge.cli", "demo", "--plain", "--no-browser", "--port", "0"]
        subprocess.run([*command, "--report", str(report), "--data", str(data), *arguments], check=True)
        done = dict(json.loads(report.read_text(encoding="utf-8")))
        return done | {"against_trained_once": against(done, trained_once(data, windows))}


def brief(report: dict[str, Any]) -> dict[str, Any]:
    """The kept figures of a report: per window and camera the two accuracies, and the totals."""
    windows = [
        {
            "window": w["window"],
            "cameras": {
                c: {
                    "realised": r["realised_accuracy"],
                    "frozen": r["frozen_accuracy"],
                    "download": r["download_accuracy"],
                    "download_whole": r["download_whole_accuracy"],
                    "frames": r["frames_labelled"],
                }
                for c, r in w["cameras"].items()
            },
            "promoted": sum(j["promoted"] for j in w["jobs"]),
            "retrainings": len(w["jobs"]),
        }
        for w in report["windows"]
    ]
    gaps = [g for values in report["swap_gaps_s"].values() for g in values]
    return {
        "seed": report["seed"],
        "summary": report["summary"],
        "against_trained_once": report["against_trained_once"],
        "windows": windows,
        "swaps": len(gaps),
        "frames_lost_in_swaps": sum(report["frames_lost_in_swaps"].values()),
        "wall_s": report["wall_s"],
        "share_kind": report["shares"]["kind"],
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--window-seconds", type=float, default=90.0)
    parser.add_argument("--name", default="demo")
    parser.add_argument("--command", help="how to make it again, where another benchmark calls this one")
    parser.add_argument("rest", nargs="*", help="more options of `magpie demo`, after --")
    given = parser.parse_args(arguments)
    runs = []
    for seed in given.seeds:
        options = ["--windows", str(given.windows), "--window-seconds", str(given.window_seconds), "--seed", str(seed)]
        report = run_demo([*options, *given.rest], given.windows)
        runs.append(brief(report))
        s = report["summary"]
        print(
            f"seed {seed}: realised {s['realised']:.3f}, frozen {s['frozen']:.3f}, gain {s['gain_points']:+.1f} points"
        )
        for camera, row in s["cameras"].items():
            print(f"  {camera:28} {row['frozen']:.3f} -> {row['realised']:.3f}  {row['gain_points']:+.1f} points")
        kinds = {"download": "looking and going on as the student", "download_whole": "left alone"}
        for kind, how in kinds.items():
            over = s[f"over_{kind}"]
            if over is not None:
                by_camera = ", ".join(f"{c} {row['gain_points']:+.1f}" for c, row in over["cameras"].items())
                print(f"  over the download, {how}: {over['gain_points']:+.1f} points ({by_camera})")
        once = report["against_trained_once"]
        if once["gain_points"] is not None:
            print(
                f"  against students that were retrained once, in the windows after: {once['gain_points']:+.1f} points"
            )
    gains = [r["summary"]["gain_points"] for r in runs]
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": platform.processor() or platform.machine(),
        "command": given.command or "python -m benchmarks.bench_demo " + " ".join(sys.argv[1:]),
        "gain_points": {"median": statistics.median(gains), "min": min(gains), "max": max(gains)},
        "worst_camera_points": min(r["summary"]["worst_camera_points"] for r in runs),
        "over_download": [r["summary"]["over_download"] for r in runs],
        "over_download_whole": [r["summary"]["over_download_whole"] for r in runs],
        "runs": runs,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{given.name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    spread = " / ".join(f"{g:+.1f}" for g in (min(gains), statistics.median(gains), max(gains)))
    print(f"gain over windows 2 to {given.windows}: {spread} points (least / median / most)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
