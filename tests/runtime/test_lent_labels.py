"""Pictures packed for another box, labelled there by the real worker, and their labels read here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import until
from test_lent_work import placed
from test_worker_mains import TEACHER, Make, of, one_thread, window

from edge.core.errors import InvalidValue
from edge.core.labels import LabelledWindow
from edge.core.lending import LentLabels, LentWork
from edge.core.workers import LENT
from edge.demo.scene import CLASSES
from edge.detectors.classes import ClassMap
from edge.runtime import messages as m
from edge.runtime.golden_worker import GoldenWorkerSpec
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_labeller_worker import lent_labeller
from edge.runtime.lent_labels import packed_labelling, packed_labels, read_labels, unpacked_labelling
from golden.labelling import Labeller
from golden.spec import read_teacher
from golden.teacher import open_teacher

__all__ = ["one_thread", "window"]
HERE = GoldenWorkerSpec(TEACHER, "demo", content="c" * 64)
CHOICE = LentLabels("a", "idle", 0.5, (), 9.0)
PICTURE = "d" * 64


def work_of(window: LabelledWindow) -> tuple[LentWork, Any, dict[str, str]]:
    frames = [f.frame for f in window.train[:3]]
    return packed_labelling("labels-1-a", frames, CHOICE, (CLASSES, {}), HERE.content, 60.0, 4.0, 1)


async def test_a_lender_labels_as_the_borrower_would(bench: Make, window: LabelledWindow, tmp_path: Path) -> None:
    work, given, digests = work_of(window)
    assert (work.kind, work.place, given.box, set(work.blobs)) == ("labels", 1, "idle", set(digests.values()))
    assert work.data == {}, "what the student answered stays here"
    folders = placed(work, given, tmp_path / "lender")
    there = unpacked_labelling(work, work.id, folders, 5.0, HERE)
    assert there.hand_in_s == 55.0
    lost = "e" * 64
    there = replace(there, pictures={**there.pictures, lost: tmp_path / "gone.jpg"})
    b = bench()
    b.supervisor.start(
        LENT, 1.0, lent_labeller, there, b.said.append, on_given_up=b.given_up.append, killable=True, finishes=True
    )
    await until(lambda: of(b, m.LentLabelDone))
    (done,) = of(b, m.LentLabelDone)
    assert 0.0 < done.open_s < done.cpu_s
    file = folders.candidate(work.id)
    file.write_bytes(packed_labels(done))
    labels, open_s = read_labels(file, frozenset(digests.values()), len(CLASSES))
    assert open_s == done.open_s
    spec = read_teacher(TEACHER)
    teacher = open_teacher(spec)
    own = Labeller(teacher, ClassMap.build(CLASSES, teacher.classes, {}, "class_map"), spec.label_score)
    for frame in window.train[:3]:
        mine = own.label(frame.frame)
        assert mine is not None
        assert labels[digests[frame.frame.id]].of(frame.frame, "demo").to_json() == mine.to_json()


async def test_labels_that_are_wanted_at_once_are_handed_in(
    bench: Make, window: LabelledWindow, tmp_path: Path
) -> None:
    work, given, _ = work_of(window)
    there = unpacked_labelling(work, work.id, placed(work, given, tmp_path / "lender"), 100.0, HERE)
    b = bench()
    b.supervisor.start(
        LENT, 1.0, lent_labeller, there, b.said.append, on_given_up=b.given_up.append, killable=True, finishes=True
    )
    await until(lambda: of(b, m.LentLabelDone))
    assert of(b, m.LentLabelDone)[0].labels == {}


def test_work_for_another_golden_model_or_other_files_is_refused(window: LabelledWindow, tmp_path: Path) -> None:
    work, _, _ = work_of(window)
    folders = LendingFolder(tmp_path).lent
    with pytest.raises(InvalidValue, match="teacher"):
        unpacked_labelling(work, work.id, folders, 0.0, replace(HERE, content="f" * 64))
    with pytest.raises(InvalidValue, match="labelling"):
        unpacked_labelling(replace(work, labelling=None, parent=next(iter(work.blobs))), work.id, folders, 0.0, HERE)
    with pytest.raises(InvalidValue, match="pictures"):
        replace(work, blobs={})
    with pytest.raises(InvalidValue, match="pictures"):
        replace(work.labelling, pictures=())  # type: ignore[type-var]


def test_pictures_that_are_gone_are_left_out(window: LabelledWindow, tmp_path: Path) -> None:
    first, second = (f.frame for f in window.train[:2])
    gone = replace(first, path=tmp_path / "gone.jpg")
    _, _, digests = packed_labelling("labels-1-a", [gone, second], CHOICE, (CLASSES, {}), HERE.content, 9.0, 0.0, 0)
    assert list(digests) == [second.id]
    with pytest.raises(InvalidValue, match="pictures"):
        packed_labelling("labels-1-a", [gone], CHOICE, (CLASSES, {}), HERE.content, 9.0, 0.0, 0)


def objects(**changed: Any) -> dict[str, Any]:
    return {"boxes": [[0.1, 0.1, 0.5, 0.5]], "scores": [0.9], "classes": [1]} | changed


def answer(labels: Any, unsure: Any = None, agreement: Any = None, picture: str = PICTURE) -> str:
    none: dict[str, list[Any]] = {"boxes": [], "scores": [], "classes": []}
    one = {"labels": labels, "unsure": unsure or none, "agreement": agreement}
    return json.dumps({"labels": {picture: one}, "open_s": 1.0})


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (answer(objects(), picture="e" * 64), "labels"),
        (answer(objects(boxes=[[0.1, 0.1, 1.5, 0.5]])), "boxes"),
        (answer(objects(boxes=[[0.6, 0.1, 0.5, 0.5]])), "boxes"),
        (answer(objects(boxes=[[float("nan")] * 4])), "boxes"),
        (answer(objects(boxes=[])), "scores"),
        (answer(objects(scores=[float("nan")])), "scores"),
        (answer(objects(scores=[-0.1])), "scores"),
        (answer(objects(classes=[2])), "classes"),
        (answer(objects(classes=[0.5])), "classes"),
        (answer(objects(), unsure=objects(classes=[-1])), "classes"),
        (answer(objects(), agreement=float("inf")), "agreement"),
        (answer(objects(boxes="none")), "labels"),
        (answer({}), "labels"),
        (answer([]), "labels"),
        ("[" * 100_000, "labels"),
        ("{}", "labels"),
        ("", "labels"),
        (answer(objects()).replace('"open_s": 1.0', '"open_s": -1'), "open_s"),
    ],
)
def test_what_is_no_answer_is_refused(tmp_path: Path, content: str, field: str) -> None:
    file = tmp_path / "labels"
    file.write_text(content)
    with pytest.raises(InvalidValue) as refused:
        read_labels(file, {PICTURE}, 2)
    assert refused.value.path == field


def test_an_answer_comes_out_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "labels"
    file.write_text(answer(objects(), objects(scores=[0.2]), 0.75))
    (one,) = read_labels(file, {PICTURE, "e" * 64}, 2)[0].values()
    assert (one.labels.classes.tolist(), one.unsure.scores.tolist(), one.agreement) == ([1], [pytest.approx(0.2)], 0.75)
