"""Scrooge as the Harpagon paper compares with it: split by throughput, batches collected at the rate of one
configuration, two configurations (Hu et al.)."""

from __future__ import annotations

from scheduler.pipelines.harpagon import HarpagonOptions, HarpagonPolicy


class ScroogePolicy(HarpagonPolicy):
    """Scrooge."""

    def __init__(self) -> None:
        options = HarpagonOptions(
            "DT", 2, dummies=False, reassign=0, by_throughput=True, merge=False, direct=False
        )  # fmt: skip
        super().__init__("scrooge", options)
