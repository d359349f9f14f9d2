"""Pipeline problems for tests: the worked examples of the Harpagon paper, small graphs, and hypothesis strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from edge.core.pipelines import PipelineModule, PipelineProblem, ProfileRow

Rows = Sequence[tuple[int, float]]

#: Table I of the paper: (batch, duration in seconds), one kind of hardware at price 1.
M1: Rows = ((2, 0.16), (4, 0.2), (8, 0.32))
M2: Rows = ((2, 0.125), (4, 0.16), (8, 0.25))
M3: Rows = ((2, 0.1), (8, 0.25), (32, 0.8))
#: Section III-B and figure 4.
M4: Rows = ((6, 2.0), (2, 1.0))


def module(name: str, rate: float, rows: Rows) -> PipelineModule:
    """A module whose rows all run on hardware "gpu" at price 1."""
    return PipelineModule(name, rate, tuple(ProfileRow(b, d, "gpu", 1.0) for b, d in rows))


def single(rate: float, slo_s: float, rows: Rows) -> PipelineProblem:
    """A pipeline of one module, "m"."""
    return PipelineProblem("single", slo_s, (module("m", rate, rows),))


def grown(fixed_s: float, each_s: float, price: float, hardware: str, batches: Sequence[int]) -> tuple[ProfileRow, ...]:
    """Rows whose duration grows linearly with the batch."""
    return tuple(ProfileRow(b, fixed_s + each_s * b, hardware, price) for b in batches)


def profile(fixed_s: float, each_s: float, speed: float = 1.7, price: float = 1.7) -> tuple[ProfileRow, ...]:
    """Batches 1 to 16 on a slow and a fast kind of hardware."""
    batches = (1, 2, 4, 8, 16)
    slow = grown(fixed_s, each_s, 1.0, "slow", batches)
    return slow + grown(fixed_s / speed, each_s / speed, price, "fast", batches)


GRAPHS: Mapping[str, tuple[tuple[str, ...], tuple[tuple[str, str], ...]]] = {
    "one": (("a",), ()),
    "chain": (("a", "b", "c"), (("a", "b"), ("b", "c"))),
    "fork": (("a", "b", "c"), (("a", "b"), ("a", "c"))),
    "side by side": (("a", "b"), ()),
    "diamond": (("a", "b", "c", "d", "e"), (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e"))),
    "no series and parallel": (("a", "b", "c", "d"), (("a", "c"), ("a", "d"), ("b", "d"))),
}


@st.composite
def pipelines(draw: st.DrawFn, most_rate: float = 800.0) -> PipelineProblem:
    """A pipeline of up to five modules, mostly with an objective that can be kept. The policy `whole` searches a rate
    of hundreds to its limits, which is worth a second."""
    names, edges = GRAPHS[draw(st.sampled_from(sorted(GRAPHS)))]
    modules = []
    for name in names:
        rows = profile(
            draw(st.floats(0.002, 0.03)),
            draw(st.floats(0.0005, 0.01)),
            draw(st.floats(1.0, 3.0)),
            draw(st.floats(1.0, 3.0)),
        )
        modules.append(PipelineModule(name, round(draw(st.floats(1.0, most_rate)), 2), rows))
    return PipelineProblem("drawn", round(draw(st.floats(0.02, 1.0)), 4), tuple(modules), edges)
