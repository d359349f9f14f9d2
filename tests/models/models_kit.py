"""Contents, their catalogue entries, small graphs, a disk that is full."""

from __future__ import annotations

import hashlib
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx

from edge.models.catalogue import CatalogueEntry

CONTENT = random.Random(1).randbytes(300_000)


def entry_of(
    content: bytes = CONTENT, *addresses: str, name: str = "net", licence: str = "Apache-2.0"
) -> CatalogueEntry:
    """A catalogue entry of a content."""
    digest = hashlib.sha256(content).hexdigest()
    return CatalogueEntry(
        name, f"{name}.onnx", addresses, digest, "", len(content), True, licence, "Ann Author", "a test's net"
    )


def onnx_file(path: Path, weight: float = 1.0, external: bool = False, numbers: int = 4096) -> Path:
    """A graph that adds a number."""
    tensor = onnx.numpy_helper.from_array(np.full((numbers,), weight, np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [numbers])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [numbers])],
        [tensor],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path, save_as_external_data=external, location=f"{path.name}.data", size_threshold=0)
    return path


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel refuses files that grow beyond `size` bytes, as a full disk does."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
