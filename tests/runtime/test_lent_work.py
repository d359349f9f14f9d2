"""A retraining packed for another box, done there by the real worker, and its candidate judged here by a real one."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lent_kit import SPACE, done_of, profile_of
from runtime_kit import until
from test_worker_mains import Make, job_of, of, one_thread, student, window

from edge.core.errors import InvalidValue
from edge.core.labels import LabelledWindow
from edge.core.lending import LentProfiles, LentState, LentWork
from edge.core.workers import LENT
from edge.runtime import messages as m
from edge.runtime.lending_folder import LendingFolder, WorkFolders, WorkInput
from edge.runtime.lent_profiler_worker import lent_profiler_worker
from edge.runtime.lent_profiles import packed_profiles, packed_profiling, unpacked_profiles, unpacked_profiling
from edge.runtime.lent_work import bytes_of, digest_of, packed, unpacked
from edge.runtime.process import Ready
from edge.runtime.profiler_worker import profiler_worker
from edge.runtime.training_worker import training_worker

__all__ = ["one_thread", "student", "window"]


def carried(job: m.RetrainingJob, folder: Path) -> tuple[LentWork, WorkFolders]:
    """The work with all its files on the lender, as its agent leaves them."""
    work, given = packed(job, "idle", 0.5)
    return work, placed(work, given, folder)


def placed(work: LentWork, given: WorkInput, folder: Path) -> WorkFolders:
    """The folders of a lender with all files of the work."""
    folders = LendingFolder(folder).lent
    folders.begin(work, WorkInput("crowded", {}))
    for digest, path in given.paths.items():
        target = folders.blob(work.id, digest)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)
    return folders


async def test_a_lender_trains_and_the_borrower_judges_itself(
    bench: Make, window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    job = job_of(window, student, tmp_path / "jobs")
    work, folders = carried(job, tmp_path / "lender")
    there = unpacked(work, work.id, folders, 2.0)
    assert {f.frame.path.parent for f in there.data.train} == {folders.path / work.id / "blobs"}
    b = bench()
    b.supervisor.start(
        LENT, 0.5, training_worker, there, b.said.append, on_given_up=b.given_up.append, killable=True, finishes=True
    )
    await until(lambda: of(b, m.TrainingDone))
    (trained,) = of(b, m.TrainingDone)
    assert trained.path == folders.candidate(work.id)
    b.start("profiler-0", profiler_worker, 2.0)
    await until(lambda: of(b, Ready))
    ask = m.JudgeCandidate(job.data, job, trained.path, "idle", 3.0, 1.0, trained.train_frames)
    assert b.supervisor.send("profiler-0", ask)
    await until(lambda: len(of(b, m.TrainingDone)) == 2, "judged")
    done = of(b, m.TrainingDone)[1]
    assert (done.job, done.path, done.trained_on, done.device_seconds) == (job.job, job.output, "idle", 3.0)
    assert done.candidate.value == pytest.approx(trained.candidate.value), "as the lender measured it"
    assert done.parent.value == pytest.approx(trained.parent.value)
    assert done.path.is_file()
    lie = tmp_path / "lie.safetensors"
    lie.write_bytes(b"no student")
    assert b.supervisor.send("profiler-0", replace(ask, candidate=lie))
    await until(lambda: of(b, m.JobFailed), "what is no student is refused")


async def test_a_lender_tries_configurations_as_the_borrower_would(
    bench: Make, window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    job = replace(profile_of(window, student), cores=2.0)
    work, given = packed_profiling("profiles-1-a", job, LentProfiles("a", "idle", 1.0, 9.0), 0, None)
    there = unpacked_profiling(work, work.id, placed(work, given, tmp_path / "lender"), 1.0)
    assert (there.profile.space, there.hand_in_s) == (SPACE, None)
    b = bench()
    b.supervisor.start(
        LENT, 1.0, lent_profiler_worker, there, b.said.append, on_given_up=b.given_up.append, killable=True,
        finishes=True,
    )  # fmt: skip
    b.start("profiler-0", profiler_worker, 2.0, share=1.0)
    await until(lambda: of(b, Ready))
    assert b.supervisor.send("profiler-0", job)
    await until(lambda: of(b, m.LentProfileDone) and of(b, m.ProfileDone), "both are done")
    (lent,), (own,) = of(b, m.LentProfileDone), of(b, m.ProfileDone)
    back = unpacked_profiles(packed_profiles(lent.done), job, "idle")
    assert (back.box, back.trials, back.start_accuracy) == ("idle", own.trials, own.start_accuracy)
    assert [(p.config, p.end_accuracy, p.throughput) for p in back.profiles] == [
        (p.config, p.end_accuracy, p.throughput) for p in own.profiles
    ], "the same trials of the same pictures"
    assert b.given_up == []


async def test_trials_that_are_wanted_at_once_are_handed_in(
    bench: Make, window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    """The share is so small that the trials would take minutes: no caller could wait for them."""
    job = profile_of(window, student)
    work, given = packed_profiling("profiles-1-a", job, LentProfiles("a", "idle", 0.01, 9.0), 0, 5.0)
    there = unpacked_profiling(work, work.id, placed(work, given, tmp_path / "lender"), 60.0)
    assert there.hand_in_s == 0.0
    b = bench()
    b.supervisor.start(
        LENT, 0.01, lent_profiler_worker, there, b.said.append, on_given_up=b.given_up.append, killable=True,
        finishes=True,
    )  # fmt: skip
    await until(lambda: of(b, m.LentProfileDone))
    assert of(b, m.LentProfileDone)[0].done.handed_in


def test_profiles_of_other_configurations_or_none_are_refused(window: LabelledWindow, student: m.StudentFile) -> None:
    job = profile_of(window, student)
    content = packed_profiles(done_of(job, 2.0))
    assert unpacked_profiles(content, job, "idle").trials == 1
    for bad in (b"", b"[]", b"{}", content.replace(b'"history"', b'"story"')):
        with pytest.raises(InvalidValue):
            unpacked_profiles(bad, job, "idle")
    with pytest.raises(InvalidValue, match="config"):
        unpacked_profiles(content, replace(job, space=SPACE[:1]), "idle")
    with pytest.raises(InvalidValue):
        unpacked_profiles(
            content.replace(b'"start_accuracy": 0.4, "device', b'"start_accuracy": 7, "device'), job, "idle"
        )


def test_what_is_packed_comes_out_as_it_was(window: LabelledWindow, student: m.StudentFile, tmp_path: Path) -> None:
    job = job_of(window, student, tmp_path)
    work, folders = carried(job, tmp_path / "lender")
    there = unpacked(work, work.id, folders, 4.0)
    assert (there.config, there.spec, there.seed, there.region, there.cores) == (
        job.config, job.spec, job.seed, job.region, 4.0,
    )  # fmt: skip
    assert [len(f.labels) for f in there.data.train] == [len(f.labels) for f in job.data.train]
    assert digest_of(there.parent.path)[0] == hashlib.sha256(student.path.read_bytes()).hexdigest()
    assert sum(work.blobs.values()) <= bytes_of(window) + student.path.stat().st_size


def test_pictures_that_are_gone_are_left_out(window: LabelledWindow, student: m.StudentFile, tmp_path: Path) -> None:
    first = window.train[0]
    gone = replace(first, frame=replace(first.frame, path=tmp_path / "gone.jpg"))
    work, _ = packed(job_of(replace(window, train=(gone, *window.train[1:])), student, tmp_path), "idle", 0.5)
    assert len(work.data["train"]) == len(window.train) - 1


def changed(work: LentWork, **data: Any) -> LentWork:
    return replace(work, data=dict(work.data) | data)


def test_work_that_names_other_files_or_is_none_is_refused(
    window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    work, folders = carried(job_of(window, student, tmp_path), tmp_path / "lender")
    frame = work.data["train"][0]
    outside = frame | {"frame": frame["frame"] | {"path": "/etc/passwd"}}
    with pytest.raises(InvalidValue, match="pictures that are in blobs"):
        unpacked(changed(work, train=[outside]), work.id, folders, 2.0)
    for bad in (changed(work, train=[{}]), replace(work, config={"epochs": "many"}), replace(work, spec={})):
        with pytest.raises(InvalidValue):
            unpacked(bad, work.id, folders, 2.0)
    with pytest.raises(InvalidValue):
        replace(work, id="../outside")
    with pytest.raises(InvalidValue):
        replace(work, blobs={"0" * 64: 1 << 40, work.parent: 1})


def test_a_folder_counts_while_it_is_whole(tmp_path: Path) -> None:
    folders = LendingFolder(tmp_path).asked
    digest = "a" * 64
    work = LentWork("w2-a-p1", "a", 0.5, {}, digest, "", {}, {}, (0.0, 0.0, 1.0, 1.0), 1, {digest: 3})
    folders.begin(work, WorkInput("idle", {digest: "/x"}))
    assert (folders.ids(), folders.work(work.id)) == (["w2-a-p1"], work)
    assert folders.state(work.id) is None
    folders.write_state(work.id, LentState("running", fraction=0.5))
    assert folders.state(work.id) == LentState("running", fraction=0.5)
    folders.mark(work.id, "cancel")
    assert folders.marked(work.id, "cancel")
    folders.remove(work.id)
    folders.write_state(work.id, LentState("done"))
    folders.mark(work.id, "ready")
    assert folders.ids() == []
    assert not list(folders.path.iterdir()), "what was removed stays removed"
