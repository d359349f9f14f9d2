"""How often the interval of truth holds the truth, and how wide it is: `python -m benchmarks.bench_truth`.

Stills of 18 traffic cameras of the developers' shared folder with vehicles marked by people, each camera cut into 4
windows in time order; teacher: configs/teachers/traffic_ensemble.yaml, student: yolox_nano.yaml, both at their label
score. People's labels are taken as the truth, although they leave many far vehicles out. Per window 30 answers are
simulated from them through scheduler.truth's own choice of questions, window after window, predictions learned from the
windows before. Truth is the F1 of edge.core.accuracy over the window's pictures.

Beside it, from the same number of answers alone (no predictions): `questions`: uniformly chosen of the same questions,
a ratio estimate with its delta-method t interval and finite-population correction; `pictures`: uniformly chosen
pictures, each answered completely (every box and all missed objects), the ratio of whole pictures.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import truth_world as world
from benchmarks.shared_data import ABSENT
from edge.core.accuracy import Counts, count, match
from edge.core.truth import Agreed, AskableFrame, FrameKey, Question, candidates_of, fitting
from scheduler.truth.choice import Population, next_questions, population
from scheduler.truth.estimate import CONFIDENCE, true_accuracy
from scheduler.truth.predictions import Predictor, learned
from scheduler.truth.students_t import quantile

#: Constants of scheduler.truth were chosen on these cameras; the others were held out.
CHOSEN_ON = ("1001", "1002", "1004", "1005", "1502", "2701", "2703", "2704", "2708")
#: The page rounds to whole per cent; so much is no miss (a box pair that is about two objects counts as one).
ROUNDING = 0.005
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Window:
    """A window with what a perfect person answers to each of its questions, and its true F1."""

    frames: tuple[AskableFrame, ...]
    answers: Mapping[Question, Agreed]
    student: float
    teacher: float


def window_of(number: int, stills: Sequence[world.Still]) -> Window:
    """Questions of a window of stills, answered from people's boxes as edge.core.accuracy matches them."""
    frames: list[AskableFrame] = []
    answers: dict[Question, Agreed] = {}
    student, teacher = Counts(), Counts()
    for n, still in enumerate(stills):
        key = FrameKey(number, n)
        frame = candidates_of(key, still.student, still.teacher, still.ambiguous)
        frames.append(frame)
        right: list[dict[Any, int]] = []
        for found in (still.student, still.teacher):
            owner = match(found, still.truth, 0.5)
            right.append({tuple(float(v) for v in found.boxes[i]): int(o) for i, o in enumerate(owner)})
        seen: set[int] = set()
        for c in frame.candidates:
            mine, theirs = right[0].get(c.student, -1), right[1].get(c.teacher, -1)
            seen |= {o for o in (mine, theirs) if o >= 0}
            verdict = fitting(c.group, mine >= 0, theirs >= 0)
            answers[Question(key, "box", c.index)] = Agreed(verdict, None, 1, False)
        answers[Question(key, "missed")] = Agreed("counted", len(still.truth) - len(seen), 1, False)
        student += count(still.student, still.truth, 0.5)
        teacher += count(still.teacher, still.truth, 0.5)
    return Window(tuple(frames), answers, student.f1, teacher.f1)


def powered(window: Window, predictor: Predictor, seed: int, budget: int) -> tuple[Any, dict[Question, Agreed]]:
    """The appliance's estimate after `budget` of its own questions, and the answers that were spent."""
    asked = population(window.frames, predictor, seed)
    chosen = next_questions(asked, seed, (), (), budget)
    said = {n.question: window.answers[n.question] for n in chosen}
    return true_accuracy(asked, len(window.frames), said), said


def rows_of(asked: Population, window: Window) -> tuple[Floats, Floats]:
    """Of each question (Q, 2 for student and teacher): its part of 2 TP, and of 2 TP + FP + FN."""
    top, bottom = np.zeros((len(asked), 2)), np.zeros((len(asked), 2))
    for n, question in enumerate(asked.questions):
        said, stratum = window.answers[question], asked.strata[n]
        if said.missed is not None:
            bottom[n] = said.missed
            continue
        found = said.verdict != "no"
        for k, own in enumerate(("student", "teacher")):
            has = stratum in ("both", own)
            top[n, k] = 2.0 * (has and said.verdict in ("yes", own))
            bottom[n, k] = float(has) + float(found)
    return top, bottom


def ratio(top: Floats, bottom: Floats, of: int) -> tuple[float, float, float]:
    """Ratio of sums over n units drawn uniformly of `of`: (estimate, low, high), nothing known where nothing was
    seen."""
    n = len(top)
    if n < 2 or bottom.sum() <= 0:
        return (0.5, 0.0, 1.0) if n < of else (1.0, 1.0, 1.0)
    value = float(top.sum() / bottom.sum())
    residual = top - value * bottom
    variance = (1 - n / of) * float(residual @ residual) / (n - 1) * n / float(bottom.sum()) ** 2
    half = quantile(CONFIDENCE, n - 1) * math.sqrt(variance)
    return value, max(0.0, value - half), min(1.0, value + half)


def alone(window: Window, asked: Population, seed: int, budget: int) -> dict[str, list[tuple[float, float, float]]]:
    """Student's and teacher's interval from answers alone, in the two ways."""
    rng = np.random.default_rng([seed, 1])
    top, bottom = rows_of(asked, window)
    some = rng.permutation(len(asked))[:budget]
    questions = [ratio(top[some, k], bottom[some, k], len(asked)) for k in (0, 1)]
    of_frame: dict[FrameKey, list[int]] = {}
    for n, question in enumerate(asked.questions):
        of_frame.setdefault(question.key, []).append(n)
    keys, sums, spent = list(of_frame), [], 0
    for n in rng.permutation(len(keys)):
        mine = of_frame[keys[n]]
        if spent + len(mine) > budget and len(sums) >= 2:
            break
        spent += len(mine)
        sums.append((top[mine].sum(0), bottom[mine].sum(0)))
    tops, bottoms = np.array([s[0] for s in sums]), np.array([s[1] for s in sums])
    pictures = [ratio(tops[:, k], bottoms[:, k], len(keys)) for k in (0, 1)]
    return {"questions": questions, "pictures": pictures}


def measure(camera: str, cache: Path, seeds: int, budget: int) -> list[dict[str, Any]]:
    """One row for each window, seed, and student or teacher."""
    seen = [window_of(n, part) for n, part in enumerate(world.windows(world.stills(camera, cache)))]
    rows = []
    for seed in range(seeds):
        before: dict[Question, Agreed] = {}
        frames: list[AskableFrame] = []
        for number, window in enumerate(seen):
            predictor = learned(frames, before) if before else Predictor.prior()
            draw = int(camera) * 100_000 + number * 10_000 + seed
            estimate, said = powered(window, predictor, draw, budget)
            other = alone(window, population(window.frames, predictor, draw), draw, budget)
            before |= said
            frames += window.frames
            for k, (who, truth) in enumerate((("student", window.student), ("teacher", window.teacher))):
                found = getattr(estimate, who)
                row = {"camera": camera, "window": number, "seed": seed, "who": who, "truth": truth}
                row |= {"census": estimate.questions <= budget, "value": found.value}
                row["powered"] = (found.low, found.high)
                row |= {name: values[k][1:] for name, values in other.items()}
                row["more_to_halve"] = found.more_to_halve
                rows.append(row)
    return rows


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Coverage and width of the three intervals, over windows with more questions than answers."""
    open_ = [r for r in rows if not r["census"]]
    out: dict[str, Any] = {
        "windows": len({(r["camera"], r["window"]) for r in open_}),
        "windows_answered_completely": len({(r["camera"], r["window"]) for r in rows if r["census"]}),
        "bias": float(np.mean([r["value"] - r["truth"] for r in open_])),
    }
    for kind in ("powered", "questions", "pictures"):
        inside = [r[kind][0] - ROUNDING <= r["truth"] <= r[kind][1] + ROUNDING for r in open_]
        exact = [r[kind][0] <= r["truth"] <= r[kind][1] for r in open_]
        width = [r[kind][1] - r[kind][0] for r in open_]
        out[kind] = {"covers": float(np.mean(inside)), "covers_exactly": float(np.mean(exact)),
                     "width": float(np.mean(width)), "median_width": float(np.median(width))}  # fmt: skip
    everywhere = [r["powered"][0] - ROUNDING <= r["truth"] <= r["powered"][1] + ROUNDING for r in rows]
    out["covers_with_complete_windows"] = float(np.mean(everywhere))
    for kind in ("questions", "pictures"):
        out[f"ratio_to_{kind}"] = out["powered"]["width"] / out[kind]["width"]
    return out


def tables(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summaries over all cameras, those that constants were chosen on, and those held out; student and teacher."""
    out: dict[str, Any] = {}
    groups = {"all": rows, "chosen on": [r for r in rows if r["camera"] in CHOSEN_ON],
              "held out": [r for r in rows if r["camera"] not in CHOSEN_ON]}  # fmt: skip
    for name, some in groups.items():
        for who in ("both", "student", "teacher"):
            mine = [r for r in some if who in ("both", r["who"])]
            if any(not r["census"] for r in mine):
                out[f"{name}, {who}"] = summary(mine)
    cells: dict[tuple[str, int, str], list[bool]] = {}
    for r in rows:
        if not r["census"]:
            inside = r["powered"][0] - ROUNDING <= r["truth"] <= r["powered"][1] + ROUNDING
            cells.setdefault((r["camera"], r["window"], r["who"]), []).append(inside)
    part = np.array([np.mean(v) for v in cells.values()])
    worst = sorted(cells.items(), key=lambda cell: np.mean(cell[1]))[:8]
    out["coverage by camera, window and model"] = {
        "at least 0.85": float((part >= 0.85).mean()),
        "0.85 to 0.95": float(((part >= 0.85) & (part <= 0.95)).mean()),
        "lowest": float(part.min()),
        "worst": {"/".join(map(str, k)): float(np.mean(v)) for k, v in worst},
    }
    return out


def main() -> None:
    """Prints the tables and writes benchmarks/results/truth.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--answers", type=int, default=30, help="per camera and window")
    parser.add_argument("--cameras", nargs="*", help="default: all")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "magpie_bench_truth",
                        help="folder for the detectors' answers, made once")  # fmt: skip
    parser.add_argument("--out", type=Path, default=world.REPO / "benchmarks" / "results" / "truth.json")
    args = parser.parse_args()
    if not world.STILLS.is_dir():
        raise SystemExit(ABSENT)
    rows: list[dict[str, Any]] = []
    for camera in args.cameras or world.cameras():
        rows += measure(camera, args.cache, args.seeds, args.answers)
    result = tables(rows)
    for name, found in result.items():
        if "powered" not in found:
            print(name, json.dumps(found, indent=1))
            continue
        print(
            f"{name:20} windows {found['windows']:3} (+{found['windows_answered_completely']} complete)"
            f" covers {found['powered']['covers']:.3f} (exactly {found['powered']['covers_exactly']:.3f})"
            f" width {found['powered']['width']:.3f}, bias {found['bias']:+.4f} |"
            f" questions alone: covers {found['questions']['covers']:.3f} width {found['questions']['width']:.3f}"
            f" ratio {found['ratio_to_questions']:.2f} |"
            f" pictures alone: covers {found['pictures']['covers']:.3f} width {found['pictures']['width']:.3f}"
            f" ratio {found['ratio_to_pictures']:.2f}"
        )
    about = {"date": datetime.date.today().isoformat(), "machine": platform.machine(), "cores": os.cpu_count(),
             "seeds": args.seeds, "answers": args.answers, "chosen_on": list(CHOSEN_ON)}  # fmt: skip
    args.out.write_text(json.dumps(about | {"results": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
