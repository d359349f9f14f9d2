"""Nexus as the Harpagon paper compares with it: budgets in steps, two times the duration, two configurations, one kind
of hardware (Shen et al., section 6)."""

from __future__ import annotations

from scheduler.pipelines.harpagon import Hardware, HarpagonOptions, HarpagonPolicy

#: Budgets are multiples of this (seconds).
STEP_S = 0.01


class NexusPolicy(HarpagonPolicy):
    """Nexus on the dearest hardware, or under the name `nexus-cheapest` on the cheapest."""

    def __init__(self, hardware: Hardware = "dearest") -> None:
        options = HarpagonOptions("RR", 2, hardware=hardware, dummies=False, reassign=0, step_s=STEP_S)
        super().__init__("nexus" if hardware == "dearest" else f"nexus-{hardware}", options)
