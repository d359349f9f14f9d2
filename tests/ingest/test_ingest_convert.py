"""Conversion of decoded pictures to RGB, against FFmpeg's own scaler."""

from __future__ import annotations

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace
from video_clips import scene

from edge.ingest.convert import Converter, block_means


def smooth(width: int = 320, height: int = 180) -> np.ndarray:
    """Colours without sharp edges, so that only the matrix counts, not how chroma is filtered."""
    rows, columns = np.mgrid[0:height, 0:width]
    red, green = columns * 255 / width, rows * 255 / height
    return np.stack([red, green, 255 - (red + green) / 2], 2).astype(np.uint8)


@pytest.mark.parametrize("colorspace", [Colorspace.ITU601, Colorspace.ITU709])
@pytest.mark.parametrize("color_range", [ColorRange.MPEG, ColorRange.JPEG])
@pytest.mark.parametrize("pixels", ["yuv420p", "yuv422p", "yuv444p"])
def test_colours_come_back(colorspace: Colorspace, color_range: ColorRange, pixels: str) -> None:
    original = smooth()
    frame = av.VideoFrame.from_ndarray(original, format="rgb24").reformat(
        format=pixels, dst_colorspace=colorspace, dst_color_range=color_range
    )
    frame.colorspace, frame.color_range = {Colorspace.ITU601: 5, Colorspace.ITU709: 1}[colorspace], color_range
    back = Converter().rgb(frame).astype(int)
    assert back.shape == original.shape
    assert np.abs(back - original).mean() < 2.0


def test_ten_bit_pictures_are_converted_too() -> None:
    frame = av.VideoFrame.from_ndarray(smooth(), format="rgb24").reformat(format="yuv420p10le")
    assert np.abs(Converter().rgb(frame).astype(int) - smooth()).mean() < 3.0
    assert block_means(frame) is None


@pytest.mark.parametrize("size", [(160, 90), (320, 180), (640, 360), (33, 17), (320, 90)])
@pytest.mark.parametrize("own", [(320, 180), (322, 182), (318, 178)])  # not multiples of the padding
def test_sizes(size: tuple[int, int], own: tuple[int, int]) -> None:
    frame = av.VideoFrame.from_ndarray(scene(0.0, *own), format="rgb24").reformat(format="yuv420p")
    rgb = Converter().rgb(frame, *size)
    assert rgb.shape == (size[1], size[0], 3)
    assert rgb.dtype == np.uint8
    assert np.abs(rgb.mean((0, 1)) - scene(0.0, *own).mean((0, 1))).max() < 3.0


def test_a_still_is_resized_and_not_shared() -> None:
    picture = scene(0.0)
    assert Converter().rgb(picture, 64, 36).shape == (36, 64, 3)
    same = Converter().rgb(picture)
    same[:] = 0
    assert picture.max() > 0


def test_block_means_are_means_of_luma() -> None:
    luma = np.repeat(np.repeat(np.arange(0, 240, 2, dtype=np.uint8).reshape(10, 12), 16, 0), 16, 1)
    planar = np.concatenate([luma, np.full((80, 192), 128, np.uint8)])
    frame = av.VideoFrame.from_ndarray(planar, format="yuv420p")
    assert np.array_equal(block_means(frame), luma[::16, ::16])
