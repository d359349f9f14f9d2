"""A GPU's real behaviour, measured in a process of its own: `python -m edge.shares.gpu_probe`.

The control process must never initialise CUDA (its forkserver's children could not use it then). The probe runs
under the environment that workers would get, and prints one JSON object: SMs seen, and whether a kernel on a quarter
of the SMs, by green context, takes longer than on all of them.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any


def _kernel_ms(torch: Any, stream: Any, a: Any, rounds: int = 7) -> float:
    times = []
    with torch.cuda.stream(stream):
        for _ in range(rounds):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            torch.mm(a, a)
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
    return float(statistics.median(times[2:]))


def measure() -> dict[str, Any]:
    """Facts about device 0 of this process. `green` is True only if the quarter really was slower."""
    import torch

    if not torch.cuda.is_available():
        return {"ok": False, "reason": "torch sees no CUDA device"}
    properties = torch.cuda.get_device_properties(0)
    sms = properties.multi_processor_count
    major = properties.major
    found: dict[str, Any] = {
        "ok": True,
        "name": properties.name,
        "sms": sms,
        "granule": 8 if major >= 9 else 2,
        "memory_bytes": properties.total_memory,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "green": False,
        "green_reason": "",
        "disjoint": False,
    }
    try:
        from torch.cuda import green_contexts
    except ImportError:
        found["green_reason"] = "this torch has no torch.cuda.green_contexts"
        return found
    if not hasattr(green_contexts, "SMPartition"):
        found["green_reason"] = f"torch {torch.__version__} has green contexts of an older interface"
        return found
    try:
        a = torch.randn(4096, 4096, device="cuda")
        whole = _kernel_ms(torch, torch.cuda.current_stream(), a)
        quarter = max(found["granule"], sms // 4 // found["granule"] * found["granule"])
        try:
            parts, _ = green_contexts.SMPartition.from_device(0).split(num_sms=(quarter, quarter))
            context = green_contexts.GreenContext(sm_partition=parts[0])
            found["disjoint"] = True
        except RuntimeError:
            context = green_contexts.GreenContext(num_sms=quarter, device_id=0)
        part = _kernel_ms(torch, context.Stream(), a)
        found |= {"whole_ms": whole, "quarter_ms": part, "quarter_sms": context.sm_count}
        found["green"] = part > 1.5 * whole
        found["green_reason"] = f"a matrix product takes {part / whole:.1f} times as long on {context.sm_count} SMs"
    except RuntimeError as error:
        found["green_reason"] = str(error)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure()) + "\n")
