"""torchvision, imported without torch's compiler.

torchvision 0.29 imports one function of `torch._dynamo`, to call it only where RoIAlign must be deterministic. This
takes as long as all of torch (two CPU seconds, 140 MB), and no worker of ours compiles anything. So a stand-in takes
the module's place while torchvision is imported; its functions import the real module when they are called.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch  # noqa: F401  before the stand-in: what torch itself imports is the real one

_COMPILER = "torch._dynamo.utils"


class _Later(ModuleType):
    """Has every public name of a module: a function that imports the module and calls its own of that name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def later(*args: Any, **named: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **named)

        return later


def _import_torchvision() -> None:
    if _COMPILER in sys.modules or "torchvision" in sys.modules:
        return
    sys.modules[_COMPILER] = stand_in = _Later(_COMPILER)
    try:
        importlib.import_module("torchvision.models.detection")
    finally:
        if sys.modules.get(_COMPILER) is stand_in:
            del sys.modules[_COMPILER]


_import_torchvision()
