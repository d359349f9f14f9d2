"""Copies of students: checked, and kept without holding up the agent's loop."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from edge.core.fleet_links import AgreementVersion, CameraEpoch, FleetAgreement, FleetCamera, FleetMember
from edge.fleet.copies import StudentCopies
from edge.fleet.folder import FleetFolder
from edge.fleet.links import Links

STUDENT = b"weights" * 1000
DIGEST = hashlib.sha256(STUDENT).hexdigest()
AGREED = FleetAgreement(
    AgreementVersion(1, 1),
    tuple(FleetMember(b, f"https://{b}:8470", n, b) for n, b in enumerate(("b1", "b2"))),
    (FleetCamera("gate", "b1", CameraEpoch(1, 1), None, True, student=DIGEST),),
)


class NotedFolder(FleetFolder):
    """Notes the threads that write."""

    threads: list[threading.Thread]

    def write_bytes(self, name: str, content: bytes, mode: int = 0o640, sync: bool = True) -> None:
        self.threads.append(threading.current_thread())
        super().write_bytes(name, content, mode, sync)


class OneStudent(Links):
    """The other box sends this."""

    content = STUDENT

    async def fetch(self, box: FleetMember, path: str, timeout_s: float = 60.0) -> bytes:
        assert (box.name, path) == ("b1", f"/students/{DIGEST}")
        return self.content


async def test_a_copy_is_hashed_and_written_in_another_thread_and_a_damaged_one_is_not_kept(tmp_path: Path) -> None:
    folder, links = NotedFolder(tmp_path), OneStudent(tmp_path)
    folder.threads = []
    copies = StudentCopies("b2", folder, tmp_path / "models", links, lambda: AGREED)
    links.content = STUDENT[1:]
    await copies.follow()
    assert copies.file(DIGEST) is None
    assert folder.threads == []
    links.content = STUDENT
    await copies.follow()
    found = copies.file(DIGEST)
    assert found is not None
    assert found.read_bytes() == STUDENT
    assert folder.threads != []
    assert threading.main_thread() not in folder.threads
