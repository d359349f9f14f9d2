"""The demo's students have their graphs in the package: no camera's start waits for an export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

from edge.demo.site import first_weights
from edge.demo.student_graphs import TASKS, write_graphs
from edge.students import load_student
from edge.students.exported import GRAPHS, ExportedGraphs, graph_key, open_exported


def shape(path: Path) -> list[Any]:
    graph = onnx.load(path).graph
    nodes = [(n.op_type, list(n.input), list(n.output)) for n in graph.node]
    return [nodes, [(i.name, list(i.dims), i.data_type) for i in graph.initializer]]


def test_shipped_graphs_are_those_that_would_be_exported_now(tmp_path: Path) -> None:
    written = write_graphs(tmp_path)
    assert sorted(p.name for p in written) == sorted(p.name for p in GRAPHS.iterdir())
    assert all(shape(p) == shape(GRAPHS / p.name) for p in written)
    assert all(p.stat().st_size < 200_000 for p in GRAPHS.iterdir()), "they have no weights"


@pytest.mark.parametrize("task", TASKS)
def test_a_first_student_opens_without_an_export(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    def asked(*_: Any, **__: Any) -> None:
        pytest.fail("it is exported anew")

    monkeypatch.setattr(torch.onnx, "export", asked)
    student: Any = load_student(first_weights(task)[0]).for_inference(0)
    assert (GRAPHS / f"{graph_key(student.spec)}.onnx").is_file()
    assert open_exported(student.spec, student.module, ExportedGraphs()) is not None
