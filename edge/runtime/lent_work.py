"""A retraining as another box gets it, and back: pictures and students by their content, labels as JSON.

The lender gets no kept-out pictures of earlier windows: they are for the gate, which is the borrower's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.core.configs import RetrainingConfig, StudentSpec, check_region
from edge.core.errors import InvalidValue
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.lending import LARGEST_WORK, LentWork, check_digest
from edge.runtime import messages as m
from edge.runtime.lending_folder import WorkFolders, WorkInput

#: Bytes that a student is taken to have until its file was looked at.
STUDENT_BYTES = 5_000_000


def bytes_of(data: LabelledWindow) -> int:
    """The bytes of a window's pictures, with a student's. Blocks."""
    total = STUDENT_BYTES
    for frame in _frames(data):
        try:
            total += frame.frame.path.stat().st_size
        except OSError:
            continue
    return total


class WorkPacking:
    """The files of a work, by their SHA-256: `paths` here and `sizes` in bytes. Blocks."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def named(self, path: Path) -> str:
        """The SHA-256 of a file that goes with the work. Raises OSError, and InvalidValue where all are too large."""
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        self.paths[digest], self.sizes[digest] = str(path.absolute()), len(content)
        if sum(self.sizes.values()) > LARGEST_WORK:
            raise InvalidValue(
                "blobs", sum(self.sizes.values()), f"at most {LARGEST_WORK} bytes of pictures and students"
            )
        return digest

    def window(self, data: LabelledWindow) -> dict[str, Any]:
        """A labelled window as JSON without pictures that are gone, and without those kept out."""
        data = replace(
            data,
            train=self._moved(data.train),
            held_out=self._moved(data.held_out),
            exemplars=self._moved(data.exemplars),
            kept_out=(),
        )
        return data.to_json()

    def _moved(self, frames: tuple[LabelledFrame, ...]) -> tuple[LabelledFrame, ...]:
        out = []
        for frame in frames:
            try:
                out.append(replace(frame, frame=replace(frame.frame, path=Path(self.named(frame.frame.path)))))
            except OSError:
                continue
        return tuple(out)


def packed(
    job: m.RetrainingJob, box: str, share: float, work_s: float = 0.0, place: int = 0
) -> tuple[LentWork, WorkInput]:
    """A retraining of about `work_s` device seconds for another box. Pictures that are gone are left out. Blocks.
    Raises InvalidValue where it is too large, OSError where a student cannot be read."""
    packing = WorkPacking()
    data = packing.window(job.data)
    work = LentWork(
        job.job, job.camera, share, data, packing.named(job.parent.path),
        "" if job.download is None else packing.named(job.download.path), job.config.to_json(), job.spec.to_json(),
        job.region, job.seed, packing.sizes, cpu_s=work_s * job.cores, place=place,
    )  # fmt: skip
    return work, WorkInput(box, packing.paths)


def placed_window(work: LentWork, name: str, folders: WorkFolders) -> LabelledWindow:
    """The labelled window of a work whose files are all in the folder `name`. Raises InvalidValue for what is none."""

    def placed(frames: tuple[LabelledFrame, ...]) -> tuple[LabelledFrame, ...]:
        out = []
        for frame in frames:
            digest = str(frame.frame.path)
            if digest not in work.blobs:
                raise InvalidValue("data", digest, "pictures that are in blobs")
            out.append(replace(frame, frame=replace(frame.frame, path=folders.blob(name, digest))))
        return tuple(out)

    try:
        data = LabelledWindow.from_json(dict(work.data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue("data", type(error).__name__, f"a labelled window: {error}") from None
    return replace(data, train=placed(data.train), held_out=placed(data.held_out), exemplars=placed(data.exemplars))


def placed_student(digest: str, name: str, folders: WorkFolders) -> m.StudentFile:
    """A student of a work whose files are in the folder `name`. Raises InvalidValue for what is no SHA-256."""
    check_digest("student", digest)
    return m.StudentFile(digest, folders.blob(name, digest))


def unpacked(work: LentWork, name: str, folders: WorkFolders, cores: float) -> m.RetrainingJob:
    """The retraining on the lender, whose files are all in the folder `name`. Raises InvalidValue for what is none."""
    data = placed_window(work, name, folders)
    try:
        config, spec = RetrainingConfig.from_json(dict(work.config)), StudentSpec.from_json(dict(work.spec))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue("work", type(error).__name__, f"a configuration, a student: {error}") from None
    folder = folders.candidate(name).parent
    return m.RetrainingJob(
        job=name, camera=work.camera, data=data, parent=placed_student(work.parent, name, folders), config=config,
        spec=spec, seed=work.seed, checkpoint=folder / "checkpoint", output=folders.candidate(name), cores=cores,
        download=placed_student(work.download, name, folders) if work.download else None,
        region=check_region("region", work.region),
    )  # fmt: skip


def digest_of(path: Path) -> tuple[str, int]:
    """A file's SHA-256 and its bytes. Blocks."""
    content: Any = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), len(content)


def _frames(data: LabelledWindow) -> Iterable[LabelledFrame]:
    return (*data.train, *data.held_out, *data.exemplars)
