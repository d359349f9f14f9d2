"""The verdict on a finished retraining: the student that comes into force, with reasons for the lineage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edge.core.models import ModelVersion
from edge.runtime import messages as m
from scheduler.contenders import FEWEST_OBJECTS, Contest, choose
from scheduler.promotion import gate

Outcome = Literal["new", "in_force", "download"]


@dataclass(frozen=True)
class Promotion:
    """`outcome` is in force from now on; `scores` are held-out accuracies by name, `reason` says why."""

    outcome: Outcome
    reason: str
    scores: dict[str, float]


def decide(done: m.TrainingDone, in_force: ModelVersion, tolerance: float, seed: int) -> Promotion:
    """By the gate, or where the download is a contender by what each gets right on kept-out pictures."""
    scores = {
        "held_out": done.candidate.value,
        "parent_held_out": done.parent.value,
        "frames": float(done.candidate.frames),
    }
    if in_force.pinned:
        return Promotion("in_force", f"{in_force.id} is pinned", scores)
    if not done.contenders:
        decision = gate(done.candidate.value, done.parent.value, done.candidate.frames, tolerance)
        reason = decision.reason + _elsewhere(done)
        return Promotion("new" if decision.yes else "in_force", reason, scores)
    verdict = choose(done.contenders, seed, done.group)
    scores |= {f"kept_out_{who}": value for who, value in verdict.f1.items()}
    outcome: Outcome = verdict.winner
    if outcome == "download" and done.download_path is None:
        outcome = "in_force"
    # Not which: a user of this camera may not see the others. The journal has them as fields.
    several = "1 other camera" if len(done.taught_with) == 1 else f"{len(done.taught_with)} other cameras"
    taught = f"; retrained as one with {several}" if done.taught_with else ""
    if done.boxes:
        taught += f"; trained with cameras of the box{'es' if len(done.boxes) > 1 else ''} {', '.join(done.boxes)}"
    begun = "; it began with another version than its parent, the best on kept-out pictures" if done.start else ""
    return Promotion(outcome, in_words(verdict) + taught + begun + _elsewhere(done), scores)


def _elsewhere(done: m.TrainingDone) -> str:
    return f"; it was trained on the box {done.trained_on}" if done.trained_on else ""


def discard(done: m.TrainingDone) -> None:
    """Files of a result that is waited for no more: of its camera and, of a group's, of every member and guest."""
    for one in (done, *(theirs for _, theirs in done.members)):
        unlink(one.path, one.download_path, one.for_guests)


def unlink(*files: Path | None) -> None:
    """Candidates' files that were recorded, or never will be."""
    for file in files:
        if file is not None:
            file.unlink(missing_ok=True)


def in_words(verdict: Contest) -> str:
    """The verdict for people."""
    names = {"new": "the new student", "in_force": "the one in force", "download": "the download"}
    scores = ", ".join(f"{names[who]} {100 * value:.1f} %" for who, value in verdict.f1.items())
    if verdict.objects < FEWEST_OBJECTS:
        return f"{verdict.objects} objects on kept-out pictures are too few to judge by (at least {FEWEST_OBJECTS})"
    if verdict.by_group:
        few = "of the camera's own too few objects to judge by"
        scores = f"{few}, so by all cameras that were retrained with it: {scores}"
    if verdict.winner == "new":
        return f"{scores} on {verdict.frames} kept-out pictures: no other is better beyond the noise"
    ahead = verdict.ahead or verdict.winner
    sure = verdict.beats_new.get(ahead, 0.0)
    return (
        f"{scores} on {verdict.frames} kept-out pictures: {names[ahead]} is better in {100 * sure:.0f} % of "
        f"resamples (at least {100 * verdict.sure:g} % are asked for)"
    )
