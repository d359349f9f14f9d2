"""TorchScript archives and exported programs (.pt2) from untrusted sources.

TorchScript is read by torch's C++ reader, which executes no Python; but a script may call operators that open files,
and may do so while it is loaded. So an archive is taken only if its code names nothing but arithmetic.

`torch.export.load` unpickles, evaluates expressions and executes guards out of the file: it is never called. The graph
in a .pt2 is data (JSON), and is put together here from operators that are allowed and weights that are raw bytes.
"""

from __future__ import annotations

import io
import json
import math
import operator
import pickletools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import torch
from torch import fx, nn

from edge.core.errors import WeightsError

#: Operator namespaces that compute on tensors and do nothing else. Not among them: image (reads and writes files),
#: c10d, symm_mem and rpc (network, foreign memory), inductor (reinterprets memory), profiler, debugprims.
NAMESPACES = frozenset(
    ("aten", "prims", "quantized", "_quantized", "quantized_decomposed", "torchvision", "sparse", "mkldnn_prepacked")
)
#: Operators of those namespaces that open files, or turn numbers into addresses.
_DENIED = frozenset(("from_file", "save", "load", "_print", "warn", "_make_dep_token", "data_ptr"))
_PRIM = frozenset(
    (
        "NumToTensor", "data", "device", "dtype", "layout", "itemsize", "nbytes", "is_cpu", "is_cuda", "is_quantized",
        "is_sparse", "is_mkldnn", "is_nested", "max", "min", "abs", "type", "name", "index", "rangelist",
        "requires_grad", "tolist", "unchecked_cast", "unchecked_unwrap_optional", "Uninitialized", "RaiseException",
        "VarConcat", "VarStack", "ModuleContainerIndex", "TupleUnpack", "TupleIndex", "EnumName", "EnumValue",
    )
)  # fmt: skip

_RECORDS = re.compile(
    r"data\.pkl|constants\.pkl|traced_inputs\.pkl|(data|constants|traced_inputs)/[\w.\-]+"
    r"|code/[\w./\-]+\.py(\.debug_pkl)?"
    r"|extra/.*|version|byteorder|\.data/[\w]+|\.format_version|\.storage_alignment|(data|constants)/\.[\w]+"
)
_GLOBALS = re.compile(
    r"__torch__[\w.]* \w+|torch \w+|torch\.jit\._pickle \w+|collections OrderedDict"
    r"|torch\._utils _rebuild_(tensor_v2|qtensor|sparse_tensor|parameter)"
)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_ROOT = re.compile(r"(?<![\w.])(torch|ops)\b")
_TORCH_NAME = re.compile(r"torch\s*\.\s*(\w+)")
_OPS_NAME = re.compile(r"ops\s*\.\s*(\w+)\s*\.\s*(\w+)")
_CLASSES = re.compile(r"torch\s*\.\s*classes\s*\.\s*(\w+)")


def refuse(reason: str, hint: str = "") -> NoReturn:
    """Raise WeightsError."""
    raise WeightsError(reason, hint)


# -- archives


class Archive:
    """Records of a file that torch wrote, read by the reader that torch itself uses, so that both see the same."""

    def __init__(self, content: bytes) -> None:
        """Raises WeightsError if it is not such an archive."""
        if content[:2] == b"\x80\x02" or content[:1] == b"\x80":
            refuse("the file is a Python pickle, which may hold any program", _HOW)
        try:
            self._reader = torch._C.PyTorchFileReader(io.BytesIO(content))
            self.names: tuple[str, ...] = tuple(self._reader.get_all_records())
        except (RuntimeError, ValueError, UnicodeDecodeError) as error:
            raise WeightsError(f"the file is damaged or no archive of torch: {first_line(error)}") from error

    def read(self, name: str) -> bytes:
        """A record. Raises WeightsError if it is missing or damaged."""
        try:
            return bytes(self._reader.get_record(name))
        except RuntimeError as error:
            raise WeightsError(f"the file is damaged: {name}: {first_line(error)}") from error

    def json(self, name: str) -> Any:
        """A record of JSON. Raises WeightsError."""
        try:
            return json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            raise WeightsError(f"the file is damaged: {name} is no JSON") from error


_HOW = "save it by torch.export.save or torch.jit.save, or its weights as safetensors"


def first_line(error: BaseException) -> str:
    """An exception's message, in one line of bounded length."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.strip()[:300]


# -- TorchScript


def load_script(content: bytes, device: str) -> nn.Module:
    """A TorchScript module, frozen for inference. Raises WeightsError for a file that is damaged, holds anything but
    TorchScript, or names operators that do more than compute."""
    check_script(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; files of it will be around for long
        try:
            loaded = cast(Callable[..., nn.Module], torch.jit.load)(io.BytesIO(content), map_location=device)
            module = loaded.eval()
        except (RuntimeError, ValueError, TypeError) as error:
            raise WeightsError(f"the TorchScript file cannot be loaded: {first_line(error)}") from error
        try:
            return cast(nn.Module, torch.jit.freeze(module))
        except RuntimeError:
            return module  # frozen when it was saved, or it changes itself


def check_script(content: bytes) -> None:
    """Raises WeightsError unless `content` is a TorchScript archive of harmless code."""
    archive = Archive(content)
    names = set(archive.names)
    if not {"data.pkl", "constants.pkl"} <= names or not any(n.startswith("code/") for n in names):
        what = "pickled Python objects (torch.save)" if "data.pkl" in names else "no TorchScript"
        refuse(f"the file holds {what}", _HOW)
    for name in archive.names:
        if not _RECORDS.fullmatch(name) or ".." in name:
            refuse(f"the file holds {name[:80]!r}, which no TorchScript file has")
        if name.endswith("pkl"):
            _check_pickled(name, archive.read(name))
        elif name.endswith(".py"):
            _check_code(name, archive.read(name))


def _check_pickled(name: str, content: bytes) -> None:
    """Torch's C++ reader builds tensors and TorchScript objects from it, never Python's; errors in the rest are
    reported clearly.
    """
    try:
        for code, argument, _ in pickletools.genops(content):
            if code.name in ("STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEWOBJ_EX"):
                refuse(f"{name} holds Python objects, which may run any program", _HOW)
            if code.name != "GLOBAL":
                continue
            if not _GLOBALS.fullmatch(str(argument)) or not _harmless_class(str(argument).replace(" ", ".")):
                refuse(f"{name} names {str(argument)[:80]!r}, which may run any program", _HOW)
    except WeightsError:
        raise
    except Exception as error:  # pickletools fails in many ways on bytes that are not a pickle
        raise WeightsError(f"the file is damaged: {name}: {first_line(error)}") from error


def _harmless_class(name: str) -> bool:
    """False for classes of C++ other than packed weights."""
    return not name.startswith("__torch__.torch.classes.") or name.startswith("__torch__.torch.classes.quantized.")


def _check_code(name: str, content: bytes) -> None:
    """Every `torch.X` and `ops.NAMESPACE.X` in the text is one that computes; neither root is named in another way.

    The check reads the text more strictly than TorchScript's own parser: it refuses text that it cannot follow.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        refuse(f"{name} is no text")
    if '"""' in text:
        refuse(f"{name} is written in a way that torch.jit.save does not write")
    rest = _STRING.sub("S", text)
    if set("\"'\\") & set(rest):
        refuse(f"{name} is written in a way that torch.jit.save does not write")
    for root in _ROOT.finditer(rest):
        at = root.start()
        if root[1] == "torch":
            named = _TORCH_NAME.match(rest, at)
            space, operation = "aten", named[1] if named else ""
        else:
            named = _OPS_NAME.match(rest, at)
            space, operation = (named[1], named[2]) if named else ("", "")
        if not operation:
            refuse(f"{name} names {root[1]} itself, which torch.jit.save does not write")
        if not _allowed(space, operation):
            refuse(f"{name} calls {space}::{operation}, which does more than compute on tensors")
    for named in _CLASSES.finditer(rest):
        if named[1] != "quantized":
            refuse(f"{name} uses torch.classes.{named[1]}, which does more than compute on tensors")


def _allowed(space: str, operation: str) -> bool:
    if space == "prim":
        return operation in _PRIM
    return space in NAMESPACES and operation not in _DENIED


def fuse(module: nn.Module, small: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> nn.Module:
    """`module` traced and frozen: norms folded into convolutions, no Python between operators (1.1 to 1.5 times as
    fast on small networks). `small` and `other` are inputs of different numbers of rows; where the two do not agree
    on both, or it cannot be traced, `module` itself is returned."""
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trace = cast(Callable[..., nn.Module], torch.jit.trace)
            traced = trace(module, tuple(small), check_trace=False, strict=False)
            fast = cast(nn.Module, torch.jit.freeze(traced.eval()))
            # The second run of a new size is the one that has been specialised.
            agree = all(_agree(module(*x), [fast(*x) for _ in range(2)][-1]) for x in (small, other))
        except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError):
            return module
        return fast if agree else module


def _agree(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        if not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not a.is_floating_point():
            return torch.equal(a, b)
        scale = float(a.abs().max()) if a.numel() else 0.0
        return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * max(scale, 1e-6), equal_nan=True)
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(_agree(a[k], b[k]) for k in a)
    return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(_agree, a, b))


# -- exported programs


_DTYPES: Mapping[int, torch.dtype] = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 10: torch.complex64, 11: torch.complex128, 12: torch.bool, 13: torch.bfloat16,
    28: torch.uint16, 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip
_FORMATS: Mapping[int, torch.memory_format] = {
    1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format,
}  # fmt: skip
_STRIDED = 7
#: Arithmetic on sizes.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{
        f"_operator.{function.__name__}": function
        for function in (
            operator.add,
            operator.sub,
            operator.mul,
            operator.floordiv,
            operator.truediv,
            operator.mod,
            operator.neg,
            operator.pow,
            operator.abs,
            operator.eq,
            operator.ne,
            operator.lt,
            operator.le,
            operator.gt,
            operator.ge,
            operator.and_,
            operator.or_,
            operator.not_,
            operator.getitem,
        )
    },
    "torch.sym_int": torch.sym_int,
    "torch.sym_float": torch.sym_float,
    "torch.sym_max": torch.sym_max,
    "torch.sym_min": torch.sym_min,
    "torch.sym_not": torch.sym_not,
    "torch.sym_ite": torch.sym_ite,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
}
_TARGET = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)")
_MAJOR = 8


class ExportedGraph:
    """A module put together from the JSON of a .pt2 archive.

    Raises WeightsError for what is damaged, pickled, or names an operator that is not allowed.
    """

    def __init__(self, archive: Archive, device: str) -> None:
        self._device = torch.device(device)
        programs = [n for n in archive.names if n.startswith("models/") and n.endswith(".json")]
        if len(programs) != 1:
            known = (
                "one exported program is needed" if programs else "it holds no exported program of torch 2.9 or later"
            )
            refuse(f"the file cannot be served: {known}", "save it by torch.export.save with the torch of today")
        name = programs[0].removeprefix("models/").removesuffix(".json")
        program = archive.json(programs[0])
        try:
            major = program["schema_version"]["major"]
            if major != _MAJOR:
                refuse(f"the file has schema {major}, this torch reads {_MAJOR}", "export the model again")
            self._tensors = {
                **self._read_tensors(archive, f"data/weights/{name}_weights_config.json"),
                **self._read_tensors(archive, f"data/constants/{name}_constants_config.json"),
            }
            self.module = self._build(program["graph_module"])
        except WeightsError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
            raise WeightsError(
                f"the exported program is damaged: {type(error).__name__}: {first_line(error)}"
            ) from error

    def _read_tensors(self, archive: Archive, config: str) -> dict[str, torch.Tensor]:
        if config not in archive.names:
            return {}
        folder = config.rpartition("/")[0]
        found = {}
        for key, entry in archive.json(config)["config"].items():
            if entry["use_pickle"] or entry.get("tensor_meta") is None:
                refuse(f"{key} is pickled, which may run any program", "save the model with plain tensors only")
            meta = entry["tensor_meta"]
            if meta["layout"] != _STRIDED or meta["dtype"] not in _DTYPES:
                refuse(f"{key} is a tensor of a kind that is not served")
            content = bytearray(archive.read(f"{folder}/{entry['path_name']}"))
            sizes = [_size(s) for s in meta["sizes"]]
            if 0 in sizes:
                found[key] = torch.empty(sizes, dtype=_DTYPES[meta["dtype"]], device=self._device)
                continue
            flat = torch.frombuffer(content, dtype=_DTYPES[meta["dtype"]])
            # as_strided refuses what lies outside of the bytes that are there.
            shaped = flat.as_strided(sizes, [_size(s) for s in meta["strides"]], _size(meta["storage_offset"]))
            found[key] = shaped.clone().to(self._device)
        return found

    def _build(self, graph_module: Mapping[str, Any]) -> fx.GraphModule:
        graph, signature = graph_module["graph"], graph_module["signature"]
        made, root = fx.Graph(), nn.Module()
        env: dict[str, fx.Node] = {}
        for n, spec in enumerate(signature["input_specs"]):
            ((kind, value),) = spec.items()
            if kind == "user_input":
                ((what, argument),) = value["arg"].items()
                if what != "as_tensor":
                    refuse("the program takes inputs that are no tensors", "export it with tensors as inputs")
                env[argument["name"]] = made.placeholder(f"input_{n}")
            elif kind in ("parameter", "buffer", "tensor_constant"):
                key = value[f"{kind}_name"]
                if key not in self._tensors:
                    refuse(f"the file has no tensor {key!r}")
                root.register_buffer(f"tensor_{n}", self._tensors[key])
                env[value["arg"]["name"]] = made.get_attr(f"tensor_{n}")
            else:
                refuse(f"the program has an input of kind {kind}, which is not served")
        for node in graph["nodes"]:
            self._add(made, env, node)
        outputs = []
        for spec in signature["output_specs"]:
            ((kind, value),) = spec.items()
            if kind == "user_output":
                outputs.append(self._argument(value["arg"], env))
            elif kind not in ("buffer_mutation", "token"):
                refuse(f"the program has an output of kind {kind}, which is not served")
        made.output(tuple(outputs))
        return fx.GraphModule(root, made)

    def _add(self, made: fx.Graph, env: dict[str, fx.Node], node: Mapping[str, Any]) -> None:
        arguments: list[Any] = []
        named: dict[str, Any] = {}
        for given in node["inputs"]:
            value = self._argument(given["arg"], env)
            if given["kind"] == 2:
                named[str(given["name"])] = value
            else:
                arguments.append(value)
        result = made.call_function(self._function(node["target"]), tuple(arguments), named)
        outputs = node["outputs"]
        if len(outputs) == 1:
            self._bind(made, env, outputs[0], result)
        else:
            for n, output in enumerate(outputs):
                self._bind(made, env, output, made.call_function(operator.getitem, (result, n)))

    def _bind(self, made: fx.Graph, env: dict[str, fx.Node], output: Mapping[str, Any], value: fx.Node) -> None:
        ((kind, given),) = output.items()
        if kind in ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"):
            name = given["name"] if kind == "as_tensor" else given.get("as_name")
            if name:
                env[name] = value
        elif kind in ("as_tensors", "as_optional_tensors"):
            for n, one in enumerate(given):
                one = {"as_tensor": one} if "name" in one else one
                self._bind(made, env, one, made.call_function(operator.getitem, (value, n)))
        elif kind != "as_none":
            refuse(f"the program has a result of kind {kind}, which is not served")

    def _function(self, target: str) -> Callable[..., Any]:
        if target in _FUNCTIONS:
            return _FUNCTIONS[target]
        match = _TARGET.fullmatch(target) if isinstance(target, str) else None
        if match is None or not _allowed(match[1], match[2]) or match[1] == "prim":
            refuse(f"the program calls {str(target)[:100]!r}, which is not served", "only operators on tensors are")
        if match[1] == "torchvision":
            import torchvision  # noqa: F401  registers its operators
        try:
            return cast(Callable[..., Any], getattr(getattr(getattr(torch.ops, match[1]), match[2]), match[3]))
        except AttributeError:
            refuse(f"the program calls {target[:100]!r}, which this torch does not have")

    def _argument(self, argument: Mapping[str, Any], env: Mapping[str, fx.Node]) -> Any:
        """A value of the graph, or a constant."""
        ((kind, given),) = argument.items()
        if kind == "as_tensor":
            return env[given["name"]]
        if kind in (
            "as_tensors",
            "as_sym_ints",
            "as_sym_floats",
            "as_sym_bools",
            "as_optional_tensors",
            "as_nested_tensors",
        ):
            return [self._argument({"as_tensor": g} if "name" in g else g, env) for g in given]
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float", "as_optional_tensor"):
            return self._argument(given, env)
        if kind == "as_name":
            return env[given]
        if kind == "as_none":
            return None
        if kind in ("as_int", "as_bool", "as_string"):
            if not isinstance(given, (int, bool, str)):
                raise TypeError(f"{kind}: {given!r}")
            return given
        if kind == "as_float":
            return float(given)
        if kind in ("as_ints", "as_bools", "as_strings", "as_floats"):
            return [self._argument({kind[:-1]: g}, env) for g in given]
        if kind == "as_int_lists":
            return [self._argument({"as_ints": g}, env) for g in given]
        if kind == "as_scalar_type":
            return _DTYPES[given]
        if kind == "as_memory_format":
            return _FORMATS[given]
        if kind == "as_layout":
            if given != _STRIDED:
                refuse("the program makes tensors of a layout that is not served")
            return torch.strided
        if kind == "as_device":
            return self._device  # of the executor, wherever the program was exported
        return refuse(f"the program has an argument of kind {kind}, which is not served")


def load_exported(content: bytes, device: str) -> nn.Module:
    """The program in a .pt2 file: tensors in, a tuple of tensors out. Raises WeightsError."""
    return ExportedGraph(Archive(content), device).module


def _size(value: Mapping[str, Any]) -> int:
    size = value.get("as_int")
    if type(size) is not int or not 0 <= size < 2**40:
        refuse("the file has a weight of unknown size")
    return size


def tensors_bytes(module: nn.Module) -> int:
    """Bytes of a module's weights."""
    return sum(t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers()))
