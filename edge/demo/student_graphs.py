"""Writes the graphs of the demo's students for onnxruntime into the package: `python -m edge.demo.student_graphs`.

To be run where an architecture, or the specification of a shipped student, changed.
"""

from __future__ import annotations

from pathlib import Path

from edge.demo.site import first_weights
from edge.students import load_drawn
from edge.students.exported import GRAPHS, exported, graph_key

TASKS = ("detection", "classification")


def write_graphs(folder: Path) -> list[Path]:
    """A file for each task, without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for task in TASKS:
        student = load_drawn(first_weights(task)[0]).for_inference(0)
        path = folder / f"{graph_key(student.spec)}.onnx"
        path.write_bytes(exported(student.spec, student.module).SerializeToString(deterministic=True))
        written.append(path)
    return written


if __name__ == "__main__":
    write_graphs(GRAPHS)
