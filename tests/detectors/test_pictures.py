"""Pictures are written as JPEG and read back whole, or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edge.detectors.pictures import jpeg_bytes, read_picture


def test_a_picture_comes_back_in_its_colours(tmp_path: Path) -> None:
    picture = np.full((32, 48, 3), (200, 40, 90), np.uint8)
    file = tmp_path / "p.jpg"
    data = jpeg_bytes(picture)
    assert data is not None
    file.write_bytes(data)
    found = read_picture(file)
    assert found is not None
    assert found.shape == picture.shape
    assert np.abs(found.astype(int) - picture).max() <= 4
    rough = jpeg_bytes(np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8), 20)
    fine = jpeg_bytes(np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8), 90)
    assert rough is not None
    assert fine is not None
    assert len(rough) < len(fine)


@pytest.mark.parametrize("cut", [slice(0, -40), slice(2, None), slice(0, 0)])
def test_what_is_cut_off_or_no_jpeg_is_not_read(tmp_path: Path, cut: slice) -> None:
    data = jpeg_bytes(np.zeros((64, 64, 3), np.uint8))
    assert data is not None
    file = tmp_path / "p.jpg"
    file.write_bytes(data[cut])
    assert read_picture(file) is None
    assert read_picture(tmp_path / "gone.jpg") is None


def test_what_is_no_picture_cannot_be_written() -> None:
    assert jpeg_bytes(np.zeros((0, 4, 3), np.uint8)) is None


def test_a_picture_that_claims_too_many_pixels_is_not_decoded(tmp_path: Path) -> None:
    """In a process of its own: OpenCV takes its limit when it is loaded, here perhaps before ours was set."""
    data = jpeg_bytes(np.zeros((64, 64, 3), np.uint8))
    assert data is not None
    jpeg = bytearray(data)
    size = jpeg.index(b"\xff\xc0") + 5
    jpeg[size : size + 4] = (16_000).to_bytes(2, "big") * 2
    (tmp_path / "bomb.jpg").write_bytes(jpeg)
    code = "import sys; from pathlib import Path; from edge.detectors.pictures import read_picture as read; "
    code += "sys.exit(0 if read(Path(sys.argv[1])) is None else 'decoded')"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "bomb.jpg")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
