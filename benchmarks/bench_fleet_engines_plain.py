"""Round trips of plain Ray tasks, turn by turn, in a driver of its own: part of benchmarks.bench_fleet_engines.

    python -m benchmarks.bench_fleet_engines_plain HOST:PORT ADDRESS

Token and certificates come by the environment. Prints percentiles in ms.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> int:
    """Print the percentiles."""
    import ray

    ray.init(address=sys.argv[1], _node_ip_address=sys.argv[2], log_to_driver=False, configure_logging=False)

    def nothing() -> None:
        """The task."""

    task: Any = ray.remote(num_cpus=0)(nothing).options(label_selector={"magpie-box": "b0"})
    taken = []
    for _ in range(220):
        begin_s = time.monotonic()
        ray.get(task.remote())
        taken.append(1000 * (time.monotonic() - begin_s))
    taken = sorted(taken[20:])
    print(json.dumps({f"p{p}": round(taken[len(taken) * p // 100], 2) for p in (10, 50, 95)}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
