"""A golden model's content: the same wherever its files lie, another one as soon as it may label otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edge.core.errors import WeightsError
from golden.content import teacher_content
from golden.spec import DemoSpec, EnsembleSpec, Member, TorchvisionSpec


def demo(folder: Path, weights: bytes = b"weights", sidecar: str = "{}") -> DemoSpec:
    folder.mkdir(exist_ok=True)
    (folder / "demo.safetensors").write_bytes(weights)
    (folder / "demo.json").write_text(sidecar)
    return DemoSpec("demo", folder / "demo.safetensors")


def test_a_place_and_a_name_do_not_count(tmp_path: Path) -> None:
    here, there = demo(tmp_path / "here"), replace(demo(tmp_path / "there"), name="teacher")
    assert teacher_content(here) == teacher_content(there)
    both = EnsembleSpec("e", (Member(here), Member(there, 2.0)), {"car": ("van", "car")})
    moved = EnsembleSpec("e", (Member(there), Member(here, 2.0)), {"car": ("van", "car")})
    assert teacher_content(both) == teacher_content(moved)


def test_all_that_labels_go_by_counts(tmp_path: Path) -> None:
    spec = demo(tmp_path / "a")
    contents = {
        teacher_content(spec),
        teacher_content(demo(tmp_path / "b", weights=b"other weights")),
        teacher_content(demo(tmp_path / "c", sidecar='{"spec": {}}')),
        teacher_content(replace(spec, label_score=0.3)),
        teacher_content(EnsembleSpec("e", (Member(spec), Member(spec)))),
        teacher_content(EnsembleSpec("e", (Member(spec), Member(spec, 2.0)))),
        teacher_content(TorchvisionSpec("t", "fcos_resnet50_fpn", tmp_path / "a" / "demo.safetensors")),
    }
    assert len(contents) == 7


def test_a_file_that_is_gone_has_no_content(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="gone"):
        teacher_content(DemoSpec("demo", tmp_path / "gone.safetensors"))
