"""Quantiles of Student's t distribution, in the standard library's mathematics (scheduler knows no scipy)."""

from __future__ import annotations

from statistics import NormalDist


def quantile(confidence: float, freedom: float) -> float:
    """The t with |T| <= t in `confidence` of cases, `freedom` degrees of freedom (1 or more, fractions allowed).

    Hill's expansion (Algorithm 396, CACM 13, 1970), right to 4 digits from 3 degrees on; exact for 1 and 2.
    """
    tail = 1.0 - confidence
    if freedom <= 1.0:
        from math import cos, pi, sin

        return cos(tail * pi / 2) / sin(tail * pi / 2)
    if freedom <= 2.0:
        return float((2.0 / (tail * (2.0 - tail)) - 2.0) ** 0.5)
    z = NormalDist().inv_cdf(1.0 - tail / 2)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / freedom + g2 / freedom**2 + g3 / freedom**3 + g4 / freedom**4
