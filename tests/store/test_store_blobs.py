"""Model blobs: whole or not there, whatever happens in between."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.core.errors import DiskFull, InvalidValue, NotFound, StoreError
from edge.store.blobs import BlobStore


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "models")


def names(blobs: BlobStore) -> list[str]:
    return sorted(p.name for p in blobs.folder.iterdir())


def test_a_blob_is_kept_under_the_hash_of_its_content(blobs: BlobStore, tmp_path: Path) -> None:
    source = tmp_path / "weights"
    source.write_bytes(b"weights" * 300_000)  # more than one chunk
    digest = blobs.put(source, {"of": "v1", "scores": {"f1": 0.5}})
    assert digest == hashlib.sha256(b"weights" * 300_000).hexdigest()
    assert blobs.path(digest).read_bytes() == source.read_bytes()
    assert blobs.verify(digest) == blobs.path(digest)
    assert blobs.sidecar(digest) == {"of": "v1", "scores": {"f1": 0.5}}
    assert names(blobs) == [f"{digest}.json", f"{digest}.safetensors"]
    assert blobs.total_bytes() == blobs.size(digest) == 2_100_000


def test_the_same_content_is_kept_once_with_its_first_sidecar(blobs: BlobStore) -> None:
    digest = blobs.put(b"x", {"n": 1})
    assert blobs.put(b"x", {"n": 2}) == digest
    assert blobs.sidecar(digest) == {"n": 1}
    assert len(names(blobs)) == 2


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: bytes([b[0] ^ 1]) + b[1:]])
def test_damage_is_found_named_and_mended(blobs: BlobStore, damage: Callable[[bytes], bytes]) -> None:
    digest = blobs.put(b"some weights", {})
    path = blobs.path(digest)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StoreError, match=f"{path}: the model file is damaged"):
        blobs.verify(digest)
    blobs.put(b"some weights", {})
    blobs.verify(digest)


def test_a_damaged_sidecar_is_named_and_a_missing_one_comes_back(blobs: BlobStore) -> None:
    digest = blobs.put(b"x", {"n": 1})
    side = blobs.folder / f"{digest}.json"
    for broken in (b"{", b"[]", b'{"about": 3}'):
        side.write_bytes(broken)
        with pytest.raises(StoreError, match=f"{side}: the sidecar is damaged"):
            blobs.sidecar(digest)
    side.unlink()
    with pytest.raises(NotFound, match="no sidecar"):
        blobs.sidecar(digest)
    blobs.put(b"x", {"n": 2})
    assert blobs.sidecar(digest) == {"n": 2}


def test_what_is_no_hash_or_not_there_is_said_so(blobs: BlobStore, tmp_path: Path) -> None:
    for bad in ("../../etc/passwd", "", "A" * 64, "0" * 63):
        with pytest.raises(InvalidValue, match="blob: got"):
            blobs.path(bad)
    with pytest.raises(NotFound, match="model blob 0000"):
        blobs.path("0" * 64)
    with pytest.raises(NotFound, match="no-such-file does not exist"):
        blobs.put(tmp_path / "no-such-file", {})
    with pytest.raises(InvalidValue, match="sidecar"):
        blobs.put(b"x", {"f1": float("nan")})
    assert names(blobs) == []


def test_sweep_deletes_what_is_not_kept_and_leaves_the_young(blobs: BlobStore) -> None:
    keep, old, young = (blobs.put(text, {}) for text in (b"keep", b"old", b"young"))
    for digest in (keep, old):
        os.utime(blobs.path(digest), (1000, 1000))
        os.utime(blobs.folder / f"{digest}.json", (1000, 1000))
    (blobs.folder / "README").write_text("not ours")
    assert blobs.sweep({keep}, older_than_utc_s=2000) == {old}
    assert blobs.hashes() == {keep, young}
    assert blobs.sweep({keep}) == {young}
    assert names(blobs) == sorted([f"{keep}.json", f"{keep}.safetensors", "README"])


def test_a_put_makes_an_old_blob_young_again(blobs: BlobStore) -> None:
    digest = blobs.put(b"x", {})
    os.utime(blobs.path(digest), (1000, 1000))
    blobs.put(b"x", {})
    assert blobs.sweep(set(), older_than_utc_s=2000) == set()
    assert blobs.has(digest)


def test_half_written_files_are_swept_unless_their_writer_lives(blobs: BlobStore) -> None:
    (blobs.folder / ".123-abc.tmp").write_bytes(b"half")

    class Slow:
        """A source during whose reading the sweep runs."""

        def __init__(self) -> None:
            self.swept = -1

    slow = Slow()
    original = os.fsync

    def sweeping(handle: int) -> None:
        if slow.swept < 0:
            slow.swept = blobs.sweep_temporaries()
        original(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sweeping)
        digest = blobs.put(b"whole", {})
    assert slow.swept == 1  # the dead one, not the two being written
    blobs.verify(digest)
    assert len(names(blobs)) == 2


def test_every_file_is_on_the_disk_before_its_name_is(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def kind(handle: int) -> str:
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name
        return "folder" if name == "models" else "file"

    def recorded_replace(source: Path, target: Path) -> None:
        calls.append(f"rename {target.suffix}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append(f"sync {kind(handle)}"), fsync(handle)))
    monkeypatch.setattr(os, "replace", recorded_replace)
    blobs.put(b"x", {})
    assert calls == [
        "sync file", "rename .json", "sync folder", "sync file", "rename .safetensors", "sync folder",
    ]  # fmt: skip


class Power(BaseException):
    """The power fails: nothing catches it."""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    contents=st.lists(st.binary(max_size=40), min_size=1, max_size=4),
    fails_at=st.integers(0, 30),
    error=st.sampled_from([Power(), OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "bad disk")]),
)
def test_a_failure_at_any_step_leaves_only_whole_blobs(
    contents: list[bytes], fails_at: int, error: BaseException
) -> None:
    """Every system call of `put` is a point to fail at; what has a final name is whole, and a retry succeeds."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        blobs = BlobStore(Path(name))
        steps = 0

        def failing(call: Callable[..., object]) -> Callable[..., object]:
            def run(*args: object, **more: object) -> object:
                nonlocal steps
                steps += 1
                if steps - 1 == fails_at:
                    raise error
                return call(*args, **more)

            return run

        kept: list[str] = []
        patch.setattr(os, "fsync", failing(os.fsync))
        patch.setattr(os, "replace", failing(os.replace))
        failed = False
        for content in contents:
            try:
                kept.append(blobs.put(content, {"n": len(kept)}))
            except (Power, StoreError) as raised:
                failed = True
                if isinstance(error, OSError):
                    assert isinstance(raised, DiskFull) == (error.errno == errno.ENOSPC)  # noqa: PT017
                break
        patch.undo()
        assert failed == (fails_at < steps)
        blobs.sweep_temporaries()
        assert not list(blobs.folder.glob(".*"))
        for digest in blobs.hashes():
            blobs.verify(digest)
            blobs.sidecar(digest)
        assert set(kept) <= blobs.hashes()
        for content in contents:
            blobs.verify(blobs.put(content, {}))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB (needs the right to mount)."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_really_full_disk_is_said_so_and_leaves_nothing_half(small_disk: Path) -> None:
    blobs = BlobStore(small_disk / "models")
    first = blobs.put(b"a" * 100_000, {})
    with pytest.raises(DiskFull, match="no space left on the disk"):
        blobs.put(b"b" * 300_000, {})
    assert blobs.hashes() == {first}
    assert names(blobs) == [f"{first}.json", f"{first}.safetensors"]
    blobs.sweep(set())
    blobs.verify(blobs.put(b"c" * 150_000, {}))


def test_the_sidecar_says_hash_and_size(blobs: BlobStore) -> None:
    digest = blobs.put(b"four", {"k": "v"})
    assert json.loads((blobs.folder / f"{digest}.json").read_text()) == {
        "about": {"k": "v"},
        "bytes": 4,
        "sha256": digest,
    }
