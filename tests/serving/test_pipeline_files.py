"""Descriptions of applications: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge.core.errors import InvalidValue, MagpieError, NotFound
from edge.serving.pipeline_files import parse_application, read_application

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "applications"

SUM = {"platform": "pipeline", "slo_ms": 100, "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"slo_ms": 0}, "slo_ms: got 0"),
        ({"slo": 5}, "slo: got 5"),
        ({"platform": "onnx"}, "platform"),
        ({"stages": []}, "stages"),
        ({"outputs": []}, "outputs"),
        ({"inputs": [{"name": "x.y", "datatype": "FP32", "shape": [-1]}]}, "inputs.0.name"),
        ({"inputs": [{"name": "x", "datatype": "FP31", "shape": [-1]}]}, "FP31"),
        ({"outputs": [{"name": "y", "datatype": "FP32", "shape": [-1], "from": "b.y"}]}, r"outputs\[y\]\.from: got 'b"),
        ({"outputs": [{"name": "y", "datatype": "FP32", "shape": [-1], "from": "a.count"}]}, "where boxes are cut"),
        ({"stages": [{"name": "a", "model": "app", "inputs": {"i": "x"}}]}, "another model than the application"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": "z"}}]}, r"stages\[a\]\.inputs: got 'z'"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {}}]}, r"stages\.0\.inputs"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": "x"}}] * 2}, "each item once"),
        ({"stages": [{"name": "a", "model": "../m", "inputs": {"i": "x"}}]}, r"stages\.0\.model"),
        ({"stages": [{"name": f"s{n}", "model": "m", "inputs": {"i": "x"}} for n in range(65)]}, "at most 64"),
        ({"rate": 1e6, "stages": [{"name": "a", "model": "m", "per_request": 2000, "inputs": {"i": "x"}}]},
         r"stages\[a\]\.per_request: got 2000.*at which no model is asked more than 1e\+09 a second"),
        ({"stages": [{"name": "a", "model": "m", "per_request": 0, "inputs": {"i": "x"}}]}, "per_request"),
        ({"stages": [{"name": "a", "model": "m", "accuracy": 0, "inputs": {"i": "x"}}]}, r"stages\.0\.accuracy"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": "x"},
                      "alternatives": [{"model": "n", "accuracy": 0.5}]}]}, r"stages\[a\]\.accuracy"),
        ({"stages": [{"name": "a", "model": "m", "accuracy": 0.9, "inputs": {"i": "x"},
                      "alternatives": [{"model": "m", "accuracy": 0.5}]}]}, r"stages\[a\]\.alternatives"),
        ({"stages": [{"name": "a", "model": "m", "accuracy": 0.9, "inputs": {"i": "x"},
                      "alternatives": [{"model": "app", "accuracy": 0.5}]}]}, "another model than the application"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": "b.y"}},
                     {"name": "b", "model": "m", "inputs": {"i": "a.y"}}]}, "in a circle"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": ["gray"]}}}]}, "do.0"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": [{}]}}}]}, "exactly one of"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": [{"resize": [0, 1]}]}}}]}, "size"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": [{"crop": [0.5, 0, 0.2, 1]}]}}}]},
         r"crop\.right"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": [
            {"normalise": {"mean": [0, 0, 0], "std": [1]}}]}}}]}, "as many numbers"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": [
            {"crop_boxes": {"boxes": "q.boxes", "size": [4, 4]}}]}}}]}, r"q\.boxes"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": [
            {"crop_boxes": {"boxes": "x", "size": [4, 4], "classes": [1]}}]}}}]}, "labels"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"j": "x", "i": {"from": "x", "do": [
            {"crop_boxes": {"boxes": "x", "size": [4, 4]}}]}}}]}, "one input"),
        ({"stages": [{"name": "a", "model": "m", "inputs": {"i": {"from": "x", "do": [
            {"crop_boxes": {"boxes": "x", "size": [4, 4], "most": 2}}]}}}]}, r"\(-1, 2, \.\.\.\)"),
    ],
)  # fmt: skip
def test_bad_descriptions_are_refused_in_words(change: dict[str, Any], says: str) -> None:
    good = {
        **SUM,
        "stages": [{"name": "a", "model": "m", "inputs": {"i": "x"}}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1], "from": "a.y"}],
    }
    assert parse_application("app", good).models == ("m",)
    with pytest.raises(MagpieError, match=says):
        parse_application("app", {**good, **change})


@pytest.mark.parametrize("text", ["- 1", "a: [", "5", "!!python/object:os.system {}"])
def test_files_that_are_no_description_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "app").mkdir()
    file = tmp_path / "app" / "model.yaml"
    file.write_text(text)
    with pytest.raises(InvalidValue):
        read_application(file)
    with pytest.raises(NotFound):
        read_application(tmp_path / "none.yaml")
    file.write_text((CONFIGS / "game.yaml").read_text())
    assert read_application(file).name == "app"
