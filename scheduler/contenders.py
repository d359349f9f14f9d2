"""Which of several students comes into force: the new one, the one in force, or the download left as published.

All are judged on the same kept-out pictures. So few pictures carry some points of noise, and a gate that asks each new
student to win on them loses more than it saves: the new one is preferred unless another is better beyond the noise, by
a paired bootstrap over pictures (Efron and Tibshirani 1993, chapter 13), and better on the pictures of the latest
window too, so a student that was better only on scenes that are gone stays out. Where a camera has too few objects to
judge by, all cameras that were retrained with it are judged together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edge.core import checks
from edge.core.accuracy import Counts
from edge.core.resampling import resampled_f1, resamples

Who = Literal["new", "in_force", "download"]
WHO: tuple[Who, ...] = ("new", "in_force", "download")

#: The new student stays out when another is better in this part of the resamples, and always where there are fewer
#: objects. A smaller part, measured on six cameras, keeps out students that do better in the next window, and the
#: students after them have a window's training less.
SURE, FEWEST_OBJECTS = 0.975, 10
#: With so many objects a camera's own pictures may contradict those of its group, in this part of the resamples.
FEWEST_TO_DOUBT, DOUBTED = 5, 0.9


@dataclass(frozen=True)
class Contender:
    """A student and its correct answers on each kept-out picture, at its own best least score; the first `latest` of
    them are of the latest window."""

    who: Who
    frames: tuple[Counts, ...]
    latest: int = 0

    @property
    def objects(self) -> int:
        """Objects on all pictures."""
        return sum(c.right + c.missed for c in self.frames)

    @property
    def f1(self) -> float:
        """F1 over all pictures."""
        return sum(self.frames, Counts()).f1

    @property
    def latest_f1(self) -> float:
        """F1 over those of the latest window."""
        return sum(self.frames[: self.latest], Counts()).f1


@dataclass(frozen=True)
class Contest:
    """`winner` comes into force. `f1` of each contender, in what part of the resamples each beat the new one (`sure` of
    them keep it out), and how many pictures and objects they were judged on; `by_group`: on those of all cameras that
    were retrained together, of which `ahead` is best (a download that is keeps a camera's own student in force)."""

    winner: Who
    f1: dict[Who, float]
    beats_new: dict[Who, float]
    frames: int
    objects: int = 0
    sure: float = SURE
    by_group: bool = False
    ahead: Who | None = None


def together(cameras: Sequence[Sequence[Contender]]) -> tuple[Contender, ...]:
    """The contenders of several cameras as one contest on the pictures of all. A camera without a download has it in
    force; one without a new student counts for nothing."""
    known = [k for k in ({c.who: c for c in contenders} for contenders in cameras) if {"new", "in_force"} <= k.keys()]
    out = []
    for who in WHO:
        each = [k.get(who, k["in_force"]) for k in known]
        newest = [f for c in each for f in c.frames[: c.latest]]
        earlier = [f for c in each for f in c.frames[c.latest :]]
        out.append(Contender(who, (*newest, *earlier), len(newest)))
    return tuple(out)


def choose(contenders: Sequence[Contender], seed: int = 0, group: Sequence[Contender] = ()) -> Contest:
    """The contender to put in force: the new one unless another is better beyond the noise. With fewer than 10 objects
    to judge by it is the new one where none is on the pictures of its `group` (`together`), nor, with at least 5
    objects, the one in force on the camera's own; else the one in force stays.

    Raises InvalidValue if there is none, one is there twice, or they were judged on different numbers of pictures.
    """
    checks.not_empty("contenders", contenders)
    checks.unique("contenders[].who", [c.who for c in contenders])
    frames = len(contenders[0].frames)
    for c in contenders:
        checks.one_of("contenders[].who", c.who, WHO)
        checks.in_range(f"contenders[{c.who}].frames", len(c.frames), frames, frames)
    f1 = {c.who: c.f1 for c in contenders}
    known = {c.who: c for c in contenders}
    objects = contenders[0].objects
    if objects < FEWEST_OBJECTS and "new" in known and group:
        of_all = choose(group, seed)
        doubted = objects >= FEWEST_TO_DOUBT and _beats_new(known, frames, seed).get("in_force", 0.0) >= DOUBTED
        if of_all.objects >= FEWEST_OBJECTS and not doubted:
            winner: Who = "new" if of_all.winner == "new" or "in_force" not in known else "in_force"
            return replace(of_all, winner=winner, by_group=True, ahead=of_all.winner)
    if objects < FEWEST_OBJECTS or "new" not in known:
        ranked: list[Who] = [w for w in ("in_force", "download", "new") if w in known]
        stays = ranked[0] if objects < FEWEST_OBJECTS else max(ranked, key=lambda w: f1[w])
        return Contest(stays, f1, {}, frames, objects)
    beats = _beats_new(known, frames, seed)
    better = [
        w for w in beats
        if beats[w] >= SURE and (not known[w].latest or known[w].latest_f1 > known["new"].latest_f1)
    ]  # fmt: skip
    # Equal ones in the order of WHO: the answer does not hang on the order in which they were given.
    winner = max(better, key=lambda w: (f1[w], -WHO.index(w))) if better else "new"
    return Contest(winner, f1, beats, frames, objects)


def _beats_new(known: Mapping[Who, Contender], frames: int, seed: int) -> dict[Who, float]:
    """In what part of the resamples of the pictures each contender is better than the new one."""
    drawn = resamples(frames, seed)
    values = {who: resampled_f1(c.frames, drawn) for who, c in known.items()}
    return {who: float((values[who] > values["new"]).mean()) for who in values if who != "new"}
