"""The part of the download that a retrained student keeps.

Weights between those of a pretrained model and of its fine-tuned copy do better where the data drift (Wortsman et al.
2022, Robust fine-tuning of zero-shot models, section 3). The best part differs between cameras: a dense street that
stays as it is wants none of the download. So a few parts are tried on kept-out pictures. They are of the same hours as
the pictures trained on, where a small part looks better than it is an hour later, and they are few: another part than
the usual one is taken only if it is nearly sure to be better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edge.core.accuracy import Counts
from edge.core.resampling import resampled_f1, resamples

#: The usual part: with many labelled objects to learn from, and with none.
KEPT_OF_DOWNLOAD, KEPT_WITHOUT_OBJECTS = 0.5, 0.85
MANY_OBJECTS = 200
#: Parts that are tried beside the usual one, and in what part of the resamples one of them must be better.
PARTS, SURE = (0.0, 0.25, 0.5, 0.75), 0.95
#: With fewer kept-out pictures, or objects on them, the usual part is kept.
FEWEST_PICTURES, FEWEST_OBJECTS = 5, 10


def usual_part(objects: int) -> float:
    """The part where none was tried: the fewer labelled objects were trained on, the more."""
    short = max(0.0, 1.0 - objects / MANY_OBJECTS)
    return KEPT_OF_DOWNLOAD + (KEPT_WITHOUT_OBJECTS - KEPT_OF_DOWNLOAD) * short


def best_part(found: Mapping[float, Sequence[Counts]], usual: float) -> float:
    """The part to keep, by the right answers on each kept-out picture of a student with each part; `usual` is one of
    them."""
    own = found[usual]
    if len(own) < FEWEST_PICTURES or sum(c.right + c.missed for c in own) < FEWEST_OBJECTS:
        return usual
    drawn = resamples(len(own), 0)
    f1 = {part: resampled_f1(frames, drawn) for part, frames in found.items()}
    better = [part for part in found if float((f1[part] > f1[usual]).mean()) >= SURE]
    # Of equal ones the nearest to the usual part.
    return max(better, key=lambda p: (sum(found[p], Counts()).f1, -abs(p - usual))) if better else usual
