"""Random serving problems and device tables, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from edge.core.serving import DeviceTable, ServedModel, ServingProblem, Utilisation

NAMES = ("a", "b", "c", "d")


@st.composite
def tables(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> DeviceTable:
    """A device on which larger shares and smaller batches are faster, with or without interference."""
    shares = draw(st.sampled_from(((25, 50, 75, 100), (20, 40, 60, 80, 100), (10, 30, 50, 70, 90), (100,))))
    latency, used = {}, {}
    for name in names:
        start, work = draw(st.floats(0.2, 5.0)), draw(st.floats(0.05, 3.0))
        most = draw(st.integers(1, 12))
        latency[name] = {p: tuple(round(start + work * b * 100 / p, 4) for b in range(1, most + 1)) for p in shares}
        l2, dram = draw(st.floats(0, 0.5)), draw(st.floats(0, 0.9))
        used[name] = {1: Utilisation(l2 / 2, dram / 2), most + 1: Utilisation(l2, dram)}
    c = draw(st.sampled_from(((0.0, 0.0, 0.0, 0.0, 1.0), (0.11, 0.72, 0.35, 0.09, 0.9), (0.5, 1.5, 0.5, 1.0, 1.0))))
    memory = {name: draw(st.sampled_from((0.0, 100.0, 400.0))) for name in names}
    return DeviceTable("random", latency, used, c, memory, draw(st.sampled_from((None, 600.0))))


@st.composite
def problems(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> ServingProblem:
    """Up to four models on up to three devices."""
    chosen = draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    models = tuple(
        ServedModel(n, draw(st.sampled_from((0.0, 0.5, 7.0, 40.0, 150.0, 600.0))), draw(st.floats(3.0, 200.0)))
        for n in chosen
    )
    capacity = draw(st.sampled_from((1.0, 0.9, 0.55, 0.3)))
    return ServingProblem(models, draw(st.integers(1, 3)), capacity, draw(st.sampled_from((None, 1, 2, 4))))
