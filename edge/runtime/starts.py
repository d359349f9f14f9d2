"""Which student a retraining begins with: the one in force, the download, or a sibling camera's, whichever is best on
kept-out pictures. A sibling's student has learned of scenes that this camera may only just be coming to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge.core.accuracy import Pair, count
from edge.core.configs import Region
from edge.core.errors import WeightsError
from edge.core.labels import LabelledWindow
from edge.core.thresholds import LOWEST, best_score
from edge.core.vision import Detections
from edge.runtime import messages as m
from edge.students import load_student
from edge.students.published import Picture, PublishedStudent
from edge.students.weights import AnyStudent
from edge.training.pictures import read_frame
from scheduler.siblings import Start, choose_start

#: Kept-out pictures that starts are judged on at most, those of the latest window first: each is answered once by each
#: student, which costs as much as a few picture visits of the retraining.
PICTURES = 24


def best_start(
    job: m.RetrainingJob,
    parent: AnyStudent,
    download: AnyStudent | None,
    breathe: Callable[[], object] = lambda: None,
) -> tuple[str, AnyStudent]:
    """The version and the student to begin with. A sibling of another specification, or whose file cannot be read, is
    passed over: it is an offer, and the retraining goes on without it. A group's retraining may begin with any member's
    student, and the kept-out pictures of all decide. `breathe` is called between students."""
    offered = [*job.siblings, *(one.parent for one in job.members)]
    if not offered or not isinstance(parent, PublishedStudent):
        return job.parent.version, parent
    known: dict[str, PublishedStudent] = {}
    contents = {parent.content}
    if job.download is not None and isinstance(download, PublishedStudent) and download.content != parent.content:
        known[job.download.version] = download
        contents.add(download.content)
    for sibling in offered:
        try:
            student = load_student(sibling.path, parent.device)
        except WeightsError:
            continue
        if isinstance(student, PublishedStudent) and student.spec == parent.spec and student.content not in contents:
            known[sibling.version] = student
            contents.add(student.content)
    most = PICTURES // (1 + len(job.members))
    pictures = _pictures(job.data, job.region, most)
    for one in job.members:
        pictures += _pictures(one.data, one.region, most)
    starts = []
    for version, student in ((job.parent.version, parent), *known.items()):
        breathe()
        starts.append(_start(version, student, pictures))
    chosen = choose_start(starts[0], starts[1:], job.seed).version
    return chosen, known.get(chosen, parent)


def _pictures(data: LabelledWindow, region: Region, most: int) -> list[tuple[Picture, Detections, Region]]:
    frames = [*data.held_out, *reversed(data.kept_out)][:most]
    seen = [(read_frame(f), f.labels) for f in frames]
    return [(picture, labels, region) for picture, labels in seen if picture is not None]


def _start(version: str, student: PublishedStudent, pictures: Sequence[tuple[Picture, Detections, Region]]) -> Start:
    """Judged at its own best least score on these pictures, as the gate judges."""
    pairs: list[Pair] = [
        (student.detect([p], score=LOWEST, region=region)[0], labels) for p, labels, region in pictures
    ]
    least = best_score(pairs, student.score)
    return Start(version, tuple(count(answer, labels, 0.5, least - 1e-6) for answer, labels in pairs))
