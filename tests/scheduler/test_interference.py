"""The interference model: prediction as the verdict has it, and the fit of its coefficients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, Gpulet, ModelBatch, Utilisation
from scheduler.gpulets.interference import InterferencePair, fit, predict
from scheduler.gpulets.verdict import times

TRUE = (0.113, 0.716, 0.355, 0.088, 0.895)
USES = {"a": (0.1, 0.2), "b": (0.25, 0.55), "c": (0.3, 0.9), "d": (0.05, 0.7), "e": (0.6, 0.3), "f": (0.9, 0.95)}


def pairs(noise: float = 0.0, seed: int = 1) -> list[InterferencePair]:
    """Every ordered pair of six models at four splits, with multiplicative noise."""
    random = np.random.default_rng(seed)
    made = []
    for (n, (l2, dram)), (m, (l2n, dramn)) in itertools.product(USES.items(), USES.items()):
        for share in (0.2, 0.4, 0.6, 0.8):
            pair = InterferencePair(share, Utilisation(l2, dram), 1 - share, Utilisation(l2n, dramn), 1.0, n, m)
            factor = predict(TRUE, pair) * float(np.exp(random.normal(0, noise)))
            made.append(InterferencePair(pair.share, pair.own, pair.neighbour_share, pair.neighbour, factor, n, m))
    return made


@given(
    l2=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    dram=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    share=st.sampled_from((0.2, 0.5, 0.7)),
)
def test_predicts_what_the_verdict_reckons_with(
    l2: tuple[float, float], dram: tuple[float, float], share: float
) -> None:
    own, other = Utilisation(l2[0], dram[0]), Utilisation(l2[1], dram[1])
    rows = dict.fromkeys((20, 30, 50, 70, 80), (4.0,))
    table = DeviceTable("d", {"a": rows, "b": rows}, {"a": {1: own}, "b": {1: other}}, TRUE)
    gpulets = [
        Gpulet(0, share, 50.0, (ModelBatch("a", 1),)),
        Gpulet(0, round(1 - share, 2), 50.0, (ModelBatch("b", 1),)),
    ]
    pair = InterferencePair(share, own, round(1 - share, 2), other, 1.0)
    assert predict(TRUE, pair) == pytest.approx(times(table, gpulets)[0].factors[0])


def test_recovers_the_coefficients_without_noise() -> None:
    found = fit(pairs())
    assert found.coefficients == pytest.approx(TRUE, abs=0.02)
    assert found.held_out.largest < 0.01
    assert found.unmodelled.largest > 0.1


def test_held_out_errors_are_those_of_the_noise() -> None:
    found = fit(pairs(noise=0.04))
    assert found.held_out.count == 144
    assert found.held_out.within_10_percent > 0.9
    assert 0.01 < found.held_out.median < 0.06
    assert found.held_out.median <= found.held_out.p90 <= found.held_out.p95 <= found.held_out.largest
    assert fit(pairs(noise=0.04)) == found


def test_errors_are_held_out_by_pair_of_models() -> None:
    """A pair that behaves like no other is not predicted well when it is held out, however often it was measured."""
    odd = [InterferencePair(0.5, Utilisation(0.3, 0.3), 0.5, Utilisation(0.3, 0.3), 3.0, "x", "y") for _ in range(20)]
    found = fit([*pairs(), *odd])
    assert found.held_out.p90 > 0.4


def test_no_coefficient_is_negative_and_few_pairs_are_refused() -> None:
    random = np.random.default_rng(3)
    noise = [
        InterferencePair(0.5, Utilisation(*random.random(2)), 0.5, Utilisation(*random.random(2)), 1 + random.random())
        for _ in range(12)
    ]
    assert min(fit(noise).coefficients) >= 0
    with pytest.raises(InvalidValue, match="pairs: got 9, allowed: at least 10"):
        fit(noise[:9])
    with pytest.raises(InvalidValue, match=r"pair\.factor: got 0"):
        InterferencePair(0.5, Utilisation(0, 0), 0.5, Utilisation(0, 0), 0.0)
