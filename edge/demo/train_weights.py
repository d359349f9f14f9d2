"""Trains the demo's weights from the procedural scene alone: `python -m edge.demo.train_weights teacher|students`.

The teacher sees every character, light and weather; the students that the demo starts with only know the clear day.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2
import torch

from edge.demo.train_students import train_classifier, train_detector
from edge.demo.train_teacher import train_teacher

WEIGHTS = Path(__file__).parent / "weights"
STEPS = {"teacher": 3000, "detection": 2000, "classification": 320}


def main(arguments: list[str] | None = None) -> int:
    """The command line; `--steps` and `--minutes` hold for each network that is trained."""
    parser = argparse.ArgumentParser(prog="python -m edge.demo.train_weights", description=__doc__)
    parser.add_argument("what", choices=("teacher", "students", "detection", "classification"))
    parser.add_argument("--steps", type=int, default=None, help="training steps of each network")
    parser.add_argument("--minutes", type=float, default=None, help="end each training after this time at the latest")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder of the weight files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=Path, default=None, help="detection: go on from this weight file")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    names = ("detection", "classification") if given.what == "students" else (given.what,)
    for name in names:
        steps = given.steps or STEPS[name]
        if name == "teacher":
            train_teacher(given.out, steps, given.minutes, given.seed)
        elif name == "detection":
            train_detector(given.out, steps, given.minutes, given.seed, given.start)
        else:
            train_classifier(given.out, steps, given.minutes, given.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
