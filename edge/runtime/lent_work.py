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


def packed(job: m.RetrainingJob, box: str, share: float) -> tuple[LentWork, WorkInput]:
    """A retraining for another box. Pictures that are gone are left out. Blocks. Raises InvalidValue where it is too
    large, OSError where a student cannot be read."""
    paths: dict[str, str] = {}
    sizes: dict[str, int] = {}

    def named(path: Path) -> str:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        paths[digest], sizes[digest] = str(path.absolute()), len(content)
        if sum(sizes.values()) > LARGEST_WORK:
            raise InvalidValue("blobs", sum(sizes.values()), f"at most {LARGEST_WORK} bytes of pictures and students")
        return digest

    def moved(frames: tuple[LabelledFrame, ...]) -> tuple[LabelledFrame, ...]:
        out = []
        for frame in frames:
            try:
                out.append(replace(frame, frame=replace(frame.frame, path=Path(named(frame.frame.path)))))
            except OSError:
                continue
        return tuple(out)

    data = job.data
    data = replace(
        data, train=moved(data.train), held_out=moved(data.held_out), exemplars=moved(data.exemplars), kept_out=()
    )
    work = LentWork(
        job.job, job.camera, share, data.to_json(), named(job.parent.path),
        "" if job.download is None else named(job.download.path), job.config.to_json(), job.spec.to_json(),
        job.region, job.seed, sizes,
    )  # fmt: skip
    return work, WorkInput(box, paths)


def unpacked(work: LentWork, name: str, folders: WorkFolders, cores: float) -> m.RetrainingJob:
    """The retraining on the lender, whose files are all in the folder `name`. Raises InvalidValue for what is none."""

    def placed(frames: tuple[LabelledFrame, ...]) -> tuple[LabelledFrame, ...]:
        out = []
        for frame in frames:
            digest = str(frame.frame.path)
            if digest not in work.blobs:
                raise InvalidValue("data", digest, "pictures that are in blobs")
            out.append(replace(frame, frame=replace(frame.frame, path=folders.blob(name, digest))))
        return tuple(out)

    def student(digest: str) -> m.StudentFile:
        check_digest("student", digest)
        return m.StudentFile(digest, folders.blob(name, digest))

    try:
        data = LabelledWindow.from_json(dict(work.data))
        config, spec = RetrainingConfig.from_json(dict(work.config)), StudentSpec.from_json(dict(work.spec))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue(
            "work", type(error).__name__, f"a labelled window, a configuration, a student: {error}"
        ) from None
    data = replace(data, train=placed(data.train), held_out=placed(data.held_out), exemplars=placed(data.exemplars))
    folder = folders.candidate(name).parent
    return m.RetrainingJob(
        job=name, camera=work.camera, data=data, parent=student(work.parent), config=config, spec=spec,
        seed=work.seed, checkpoint=folder / "checkpoint", output=folders.candidate(name), cores=cores,
        download=student(work.download) if work.download else None, region=check_region("region", work.region),
    )  # fmt: skip


def digest_of(path: Path) -> tuple[str, int]:
    """A file's SHA-256 and its bytes. Blocks."""
    content: Any = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), len(content)


def _frames(data: LabelledWindow) -> Iterable[LabelledFrame]:
    return (*data.train, *data.held_out, *data.exemplars)
