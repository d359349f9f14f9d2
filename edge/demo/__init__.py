"""The demo: a street that is drawn, and small networks trained on it alone."""

from pathlib import Path
from typing import Literal

WeightName = Literal["demo_teacher", "student_detection", "student_classification"]


def weight_file(name: WeightName) -> Path:
    """Where the demo's weights lie (safetensors, a JSON sidecar with origin and scores beside each)."""
    return Path(__file__).parent / "weights" / f"{name}.safetensors"
