"""How far the labels of a window can be trusted, from the labels alone (without a check by hand)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edge.core.labels import LabelledFrame


def label_quality(frames: Sequence[LabelledFrame]) -> dict[str, float]:
    """Indicators of one window; those that cannot be computed are left out. None of them is a proof.

    - `frames`, `labels`: counts.
    - `confidence`: mean score of the labels, 0 to 1.
    - `ambiguous_share`: objects left out as ambiguous, among labels and ambiguous ones.
    - `agreement`: mean share of a joint teacher's members that saw a label.
    - `flicker`: over each three neighbouring frames, how far a class' count in the middle lies outside the two others,
      relative to the mean number of objects: 0 for steady or growing traffic, larger when objects blink.
    - `empty_share`: frames without a label.
    """
    ordered = sorted(frames, key=lambda f: (f.frame.utc_s, f.frame.number))
    labels = sum(len(f.labels) for f in ordered)
    out: dict[str, float] = {"frames": float(len(ordered)), "labels": float(labels)}
    if not ordered:
        return out
    ambiguous = sum(f.ambiguous for f in ordered)
    out["empty_share"] = sum(len(f.labels) == 0 for f in ordered) / len(ordered)
    if labels:
        out["confidence"] = float(np.concatenate([f.labels.scores for f in ordered]).mean())
    if labels + ambiguous:
        out["ambiguous_share"] = ambiguous / (labels + ambiguous)
    agreed = [(f.agreement, len(f.labels)) for f in ordered if f.agreement is not None]
    if agreed:
        out["agreement"] = sum(a * n for a, n in agreed) / sum(n for _, n in agreed)
    if len(ordered) >= 3 and labels:
        out["flicker"] = _flicker(ordered)
    return out


def _flicker(ordered: Sequence[LabelledFrame]) -> float:
    classes = 1 + max(int(f.labels.classes.max()) for f in ordered if len(f.labels))
    counts = np.array([np.bincount(f.labels.classes, minlength=classes) for f in ordered], np.float64)
    before, middle, after = counts[:-2], counts[1:-1], counts[2:]
    outside = np.maximum(middle - np.maximum(before, after), 0) + np.maximum(np.minimum(before, after) - middle, 0)
    return float(outside.sum(1).mean() / counts.sum(1).mean())
