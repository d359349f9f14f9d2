"""InferLine as the Harpagon paper compares with it: split by throughput, two times the duration, one configuration
(Crankshaw et al., 2020)."""

from __future__ import annotations

from scheduler.pipelines.harpagon import HarpagonOptions, HarpagonPolicy


class InferLinePolicy(HarpagonPolicy):
    """InferLine."""

    def __init__(self) -> None:
        options = HarpagonOptions(
            "RR", 1, dummies=False, reassign=0, by_throughput=True, merge=False, direct=False
        )  # fmt: skip
        super().__init__("inferline", options)
