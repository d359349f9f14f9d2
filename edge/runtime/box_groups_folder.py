"""Groups over boxes on disk: how the appliance and the fleet's agent beside it hand them to each other.

    DATA/fleet/groups/shared.json      the cameras whose pictures this box shares, by the appliance
    DATA/fleet/groups/files.json       where the files are that other boxes may have, by the appliance
    DATA/fleet/groups/manifests/SHA    descriptions of this box's labelled pictures, by the appliance
    DATA/fleet/groups/heard.json       what other boxes share, by the agent
    DATA/fleet/groups/wanted.json      the cameras of others whose pictures are to be here, by the appliance
    DATA/fleet/groups/guests/SHA/      their pictures, by the agent: `blobs/SHA`, and at last `manifest.json`
    DATA/fleet/groups/out.json, out/   students for other boxes, by the appliance
    DATA/fleet/groups/in/ID/           students of other boxes' groups for this one: `student.safetensors` and at last
                                       `student.json` by the agent; `over` by the appliance when it was judged

Everything here blocks.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from edge.core.box_groups import (
    GroupStudent,
    GroupStudents,
    HeardBoxes,
    SharedCamera,
    SharedCameras,
    SharedFiles,
    SharedManifest,
    WantedPictures,
)
from edge.core.lending import check_digest, check_work_id
from edge.runtime.value_files import read_fresh, read_value, write_value

#: Cameras that were shared longer ago are of an agent, or an appliance, that does not run.
FRESH_S: Final = 30.0


class BoxGroupsFolder:
    """All files of groups over boxes of one box. `data_dir` is the appliance's data folder. Writing raises StoreError
    or OSError."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "fleet" / "groups"
        self.manifests, self._out, self._in = self.path / "manifests", self.path / "out", self.path / "in"
        self._guests = self.path / "guests"

    # -- what this box shares

    def shared(self) -> SharedCameras:
        """Nothing where the appliance has not said so lately."""
        return read_fresh(self.path / "shared.json", SharedCameras, FRESH_S) or SharedCameras()

    def write_shared(self, shared: SharedCameras, files: SharedFiles) -> None:
        """By the appliance; the files first, so that none that is named is missing."""
        write_value(self.path / "files.json", files)
        write_value(self.path / "shared.json", shared)

    def refresh_shared(self) -> bool:
        """By the appliance: it shares the same as before. False: the files have to be written anew."""
        try:
            os.utime(self.path / "shared.json")
        except FileNotFoundError:
            return False
        return True

    def keep_manifests(self, manifests: Collection[str]) -> None:
        """By the appliance: descriptions of all other pictures are deleted."""
        _keep(self.manifests, manifests)

    def file(self, digest: str) -> Path | None:
        """A file that other boxes may have now. Raises InvalidValue for what is no SHA-256."""
        check_digest("digest", digest)
        files = read_value(self.path / "files.json", SharedFiles) if self.shared().cameras else None
        found = None if files is None else files.paths.get(digest)
        return None if found is None or not Path(found).is_file() else Path(found)

    # -- what others share

    def heard(self) -> HeardBoxes:
        """The boxes that the agent heard; none where it has reported none lately."""
        return read_fresh(self.path / "heard.json", HeardBoxes, FRESH_S) or HeardBoxes()

    def write_heard(self, heard: HeardBoxes) -> None:
        """By the agent."""
        write_value(self.path / "heard.json", heard)

    def wanted(self) -> tuple[SharedCamera, ...]:
        """The cameras of others whose pictures are to be here."""
        found = read_value(self.path / "wanted.json", WantedPictures)
        return () if found is None else found.cameras

    def write_wanted(self, cameras: Iterable[SharedCamera]) -> None:
        """By the appliance."""
        write_value(self.path / "wanted.json", WantedPictures(tuple(cameras)))

    def guest(self, manifest: str) -> Path:
        """The folder of a camera's pictures. Raises InvalidValue for what is no SHA-256."""
        check_digest("manifest", manifest)
        return self._guests / manifest

    def guest_blob(self, manifest: str, digest: str) -> Path:
        """Where a picture is kept. Raises InvalidValue for what is no SHA-256."""
        check_digest("digest", digest)
        return self.guest(manifest) / "blobs" / digest

    def manifest(self, manifest: str) -> SharedManifest | None:
        """The description of pictures that are all here; None: they are not."""
        return read_value(self.guest(manifest) / "manifest.json", SharedManifest)

    def keep_guests(self, manifests: Collection[str]) -> None:
        """Pictures of all others are deleted."""
        _keep(self._guests, manifests)

    # -- students

    def students(self) -> tuple[GroupStudent, ...]:
        """The students that this box has for others."""
        found = read_value(self.path / "out.json", GroupStudents)
        return () if found is None else found.students

    def student(self, digest: str) -> Path:
        """Where a student for other boxes is. Raises InvalidValue for what is no SHA-256."""
        check_digest("digest", digest)
        return self._out / digest

    def write_students(self, students: Iterable[GroupStudent]) -> None:
        """By the appliance; the files of all others are deleted."""
        value = GroupStudents(tuple(students))
        write_value(self.path / "out.json", value)
        _keep(self._out, {s.digest for s in value.students})

    def arrived(self) -> list[GroupStudent]:
        """The students of other boxes that are here and were not judged yet."""
        return [s for s in self.known() if not self.over(s.id)]

    def arrival(self, name: str) -> Path:
        """The file of a student of another box. Raises InvalidValue for a name that is none."""
        check_work_id("id", name)
        return self._in / name / "student.safetensors"

    def write_arrived(self, student: GroupStudent) -> None:
        """By the agent, when its file is here."""
        write_value(self.arrival(student.id).with_name("student.json"), student)

    def known(self) -> list[GroupStudent]:
        """All students that came, judged ones too."""
        found = [read_value(path, GroupStudent) for path in sorted(self._in.glob("*/student.json"))]
        return [s for s in found if s is not None]

    def over(self, name: str) -> bool:
        """Whether it was judged, or will not be."""
        return self.arrival(name).with_name("over").exists()

    def end(self, name: str) -> None:
        """By the appliance: a student was judged, or will not be. That it was here stays known."""
        self.arrival(name).with_name("over").touch()
        self.arrival(name).unlink(missing_ok=True)

    def forget(self, name: str) -> None:
        """By the agent: the other box does not have it any more."""
        shutil.rmtree(self.arrival(name).parent, ignore_errors=True)

    def clear(self) -> None:
        """Nothing of others stays here, and nothing of this box is shared."""
        shutil.rmtree(self.path, ignore_errors=True)


def _keep(folder: Path, names: Collection[str]) -> None:
    for path in folder.glob("*"):
        if path.name in names:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
