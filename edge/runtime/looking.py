"""The profiling worker's part in looks: the download's features and answers on a few pictures of a camera."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edge.core.camera_look import CameraLook, camera_look
from edge.detectors.pictures import read_picture
from edge.runtime import messages as m
from edge.runtime.device import WorkerShare
from edge.runtime.process import Channel
from edge.students import load_student
from edge.students.published import DOWNLOAD_SCORE, PublishedStudent

#: Pictures that a look is made of at a window's end; spread evenly over the window.
PICTURES = 8


def look(job: m.Look, share: WorkerShare, channel: Channel) -> m.Looked:
    """A new camera's look, before it has labels."""
    paths = [f.path for f in job.data.frames]
    return m.Looked(job.data.camera, job.data.window, look_at(job.download, paths, share, channel))


def look_at(download: m.StudentFile, paths: Sequence[Path], share: WorkerShare, channel: Channel) -> CameraLook | None:
    """The look of at most PICTURES of the pictures, picture by picture under the worker's share; None without one that
    can be read, or where the student did not begin as a published detector."""
    student = load_student(download.path, share.device)
    if not isinstance(student, PublishedStudent) or not paths:
        return None
    chosen = [paths[int(i)] for i in np.unique(np.linspace(0, len(paths) - 1, PICTURES).round())]
    pictures, features, answers = [], [], []
    for path in chosen:
        channel.beat()
        with share.batch(stop=channel.beating):
            picture = read_picture(path)
            if picture is None:
                continue
            pictures.append(picture)
            features.append(student.features([picture]))
            answers += student.detect([picture], score=DOWNLOAD_SCORE)
    if not pictures:
        return None
    return camera_look(student.detector.name, np.concatenate(features), answers, pictures)
