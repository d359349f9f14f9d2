"""The network of a drawn student, run by onnxruntime: three times as fast as torch with one picture in one thread.

Each student's weights are put into the graph of its specification. Those of the demo's students are shipped (`GRAPHS`,
written by `python -m edge.demo.student_graphs`); others are exported once in a process, which takes half a second
of CPU time.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import logging
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from edge.core.configs import StudentSpec
from edge.core.errors import WeightsError
from edge.detectors.session import first_line, open_session
from edge.students.network import Activations, StudentNet
from edge.students.published import SAME, distance

log = logging.getLogger(__name__)

#: Graphs without weights, by a digest of their specification.
GRAPHS = Path(__file__).parent / "graphs"

_INPUT, _OUTPUT, _NET = "pictures", "out", "net"


class ExportedNet:
    """Called with pictures (N, 3, h, w), float32, it gives the network's outputs."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, x: Tensor) -> Activations:
        """Raises WeightsError if onnxruntime gives up, as where memory runs out."""
        try:
            found = self._session.run(None, {_INPUT: x.numpy()})
        except Exception as error:  # onnxruntime raises its own classes, one per cause
            raise WeightsError(f"onnxruntime gives no answer ({first_line(error)})") from error
        return tuple(torch.from_numpy(v) for v in found)


def open_exported(
    spec: StudentSpec, module: StudentNet, graphs: ExportedGraphs | None = None, same: float = SAME
) -> ExportedNet | None:
    """`module`, an inference copy on the CPU, with its weights as they are now, in the graph of `graphs` (None: those
    of the process). None, and a line in the log, where it cannot be exported or onnxruntime's outputs differ by more
    than `same`."""
    try:
        content = _with_weights((graphs or _of_process).of(spec, module), module).SerializeToString()
        net = ExportedNet(open_session(content, spec.architecture, torch.get_num_threads(), "cpu"))
        apart = _apart(spec, module, net)
    except Exception as error:  # the exporter and onnxruntime raise classes of their own, one per cause
        log.warning("%s is answered by torch: %s", spec.architecture, error)
        return None
    if not apart <= same:  # not a number is not the same either
        log.warning("%s is answered by torch: onnxruntime differs by %.2g", spec.architecture, apart)
        return None
    return net


class _Outputs(nn.Module):
    """Exporters know tuples only."""

    def __init__(self, net: StudentNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.net(x))


class ExportedGraphs:
    """Graphs without weights, each read from the folder `shipped` or exported once. Any thread may ask."""

    def __init__(self, shipped: Path = GRAPHS) -> None:
        self._shipped = shipped
        self._known: dict[str, onnx.ModelProto] = {}
        self._exporting = threading.Lock()

    def of(self, spec: StudentSpec, module: StudentNet) -> onnx.ModelProto:
        """For any batch and any height and width; weights are initializers by their names in the module."""
        key = graph_key(spec)
        with self._exporting:
            if key not in self._known:
                shipped = self._shipped / f"{key}.onnx"
                self._known[key] = onnx.load(shipped) if shipped.is_file() else exported(spec, copy.deepcopy(module))
            return self._known[key]


_of_process = ExportedGraphs()


def graph_key(spec: StudentSpec) -> str:
    """The name of its file in `GRAPHS`, without the ending."""
    return hashlib.sha256(json.dumps(spec.to_json(), sort_keys=True).encode()).hexdigest()[:16]


def exported(spec: StudentSpec, traced: StudentNet) -> onnx.ModelProto:
    """The graph without its weights. The weights of `traced` are overwritten."""
    file, random = io.BytesIO(), torch.Generator().manual_seed(0)
    # The exporter merges weights that are equal, as biases of 0: none is equal to another here.
    for value in traced.state_dict().values():
        value.normal_(generator=random)
    axes = {_INPUT: {0: "n", 2: "h", 3: "w"}}
    with warnings.catch_warnings(), torch.no_grad():
        # The exporter by tracing is an old one, and needs nothing more than onnx.
        warnings.simplefilter("ignore")
        count = len(traced(_picture(spec)))
        torch.onnx.export(
            _Outputs(traced), (_picture(spec),), file, dynamo=False,  # type: ignore[arg-type]  # files it takes, too
            input_names=[_INPUT],
            output_names=[f"{_OUTPUT}{n}" for n in range(count)], dynamic_axes=axes, do_constant_folding=False,
        )  # fmt: skip
    graph = onnx.load_from_string(file.getvalue())
    for weight in graph.graph.initializer:
        if weight.name.startswith(f"{_NET}."):
            weight.ClearField("raw_data")
    return graph


def _with_weights(graph: onnx.ModelProto, module: StudentNet) -> onnx.ModelProto:
    own = onnx.ModelProto()
    own.CopyFrom(graph)
    state = module.state_dict()
    given = {i.name: i for i in own.graph.initializer}
    lacking = [n for n in state if f"{_NET}.{n}" not in given]
    if lacking:
        raise ValueError(f"its graph lacks {len(lacking)} weights, e.g. {lacking[0]}")
    for name, value in state.items():
        kept = given[f"{_NET}.{name}"]
        kept.CopyFrom(numpy_helper.from_array(value.detach().contiguous().numpy(), kept.name))
    return own


def _apart(spec: StudentSpec, module: StudentNet, net: ExportedNet) -> float:
    """The largest `distance` of their outputs."""
    x = _picture(spec)
    with torch.inference_mode():
        return distance((ours.numpy(), theirs.numpy()) for ours, theirs in zip(module(x), net(x), strict=True))


def _picture(spec: StudentSpec) -> Tensor:
    values = np.random.default_rng(0).normal(size=(1, 3, *spec.input_size)).astype(np.float32)
    return torch.from_numpy(values)
