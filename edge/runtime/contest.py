"""A new student beside the one in force and the download, on a camera's kept-out pictures."""

from __future__ import annotations

from dataclasses import dataclass

from edge.core.labels import Accuracy
from edge.students.published import PublishedStudent
from edge.students.weights import AnyStudent
from edge.training.published import PublishedExamples, frame_counts, with_best_score
from scheduler.contenders import Contender


@dataclass(frozen=True)
class ContestEntries:
    """`contenders` for `scheduler.contenders.choose`. `in_force` and `download` have their own best least score (None:
    there is no download, or it is in force); with it the one in force has the accuracy `before` on the window's
    held-out pictures."""

    contenders: tuple[Contender, ...]
    in_force: PublishedStudent
    before: Accuracy
    download: PublishedStudent | None


def contest_entries(
    new: PublishedStudent, in_force: PublishedStudent, download: AnyStudent | None, examples: PublishedExamples
) -> ContestEntries:
    """`new` is judged at the least score that it has; the others are copied and not touched."""
    own, before = with_best_score(in_force.copy(), examples)
    latest = len(examples.held_out_frames)
    contenders = [
        Contender("new", frame_counts(new, examples), latest),
        Contender("in_force", frame_counts(own, examples), latest),
    ]
    best = None
    if isinstance(download, PublishedStudent) and download.content != in_force.content:
        best, _ = with_best_score(download.copy(), examples)
        contenders.append(Contender("download", frame_counts(best, examples), latest))
    return ContestEntries(tuple(contenders), own, before, best)
