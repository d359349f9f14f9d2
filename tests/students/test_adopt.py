"""A student for other classes keeps what it knows by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from edge.core.configs import StudentSpec
from edge.students import Student
from edge.students.adopt import adopt

SPECS = {
    "detection": StudentSpec("detection", "ssdlite_mobilenet_v3", ("car", "bus", "person"), (96, 128), 0.35),
    "classification": StudentSpec("classification", "shufflenet_v2", ("car", "bus", "person"), (64, 64), 0.5),
}


@pytest.mark.parametrize("task", SPECS)
def test_known_classes_score_as_before_and_new_ones_start_afresh(task: str) -> None:
    torch.manual_seed(1)
    source = Student(SPECS[task])
    student = Student(replace(SPECS[task], classes=("person", "tram", "car")))
    assert adopt(student, source) == ("person", "car")
    height, width = source.spec.input_size
    picture = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        before, after = source.module(picture)[0], student.module(picture)[0]
    for name in ("person", "car"):
        theirs, ours = source.spec.classes.index(name), student.spec.classes.index(name)
        np.testing.assert_allclose(after[..., ours], before[..., theirs], atol=1e-5)
    np.testing.assert_allclose(after[..., -1], before[..., -1], atol=1e-5)


@pytest.mark.parametrize("task", SPECS)
def test_the_same_classes_give_the_same_student(task: str) -> None:
    source, student = Student(SPECS[task]), Student(SPECS[task])
    adopt(student, source)
    for name, value in source.module.state_dict().items():
        assert torch.equal(student.module.state_dict()[name], value), name
