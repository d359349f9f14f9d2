"""The description of an application that a camera feeds, for tests."""

from __future__ import annotations

from typing import Any

STAGE = {
    "name": "look",
    "model": "colours",
    "inputs": {
        "pictures": {
            "from": "picture",
            "do": [{"crop_boxes": {"boxes": "boxes", "scores": "scores", "most": 2, "size": [4, 4]}}],
        }
    },
}
COLOUR = {
    "name": "colour", "datatype": "FP32", "shape": [-1, 2, 3], "from": "look.scores",
    "attribute": {"labels": ["red", "green", "blue"]},
}  # fmt: skip


def described(**change: Any) -> dict[str, Any]:
    """The content of its model.yaml: a colour for the two likeliest objects of the camera `gate`."""
    good = {
        "platform": "pipeline", "slo_ms": 200, "source": {"camera": "gate"}, "stages": [STAGE], "outputs": [COLOUR],
    }  # fmt: skip
    return {k: v for k, v in (good | change).items() if v is not None}
