"""Which retraining and which trials of a crowded box are done by which other box, and how much a box may lend without
losing by it.

Both ask the box's own planner: `worth` is what a plan is worth (mean accuracy, 0-1). A lender lends no share that its
own plan would be worse without; a borrower lends out a retraining only where its plan is worth more with it, the time
of the transfer and of the gate counted. Trials are lent where their profiles are there sooner. Pure; the same answer
for the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from edge.core.lending import Borrower, LendingOffer, LentProfiles, LentRetraining
from edge.core.window import Arrival, RetrainingOption, StreamProblem, WindowPlan, WindowProblem

#: A plan that is worth so much less is as good: a tenth of a point.
AS_GOOD: Final = 0.001
#: A plan with a lent retraining has to be worth so much more: pictures leave the box, and it may fail.
LEAST_GAIN: Final = 0.003
#: Shares that a lender tries, as parts of the most that it may lend, the largest first.
PARTS: Final = (1.0, 0.8, 0.6, 0.4, 0.25, 0.15)
#: Below this share of a device nothing is offered: no retraining would end in its window.
LEAST_SHARE: Final = 0.05
#: Cameras whose retrainings are tried in plans, those with the largest gain of their own first.
MOST_TRIED: Final = 4
#: From the transfer's end to the work's begin, in seconds.
START_S: Final = 3.0
#: From the end of trials elsewhere until their profiles are here, in seconds.
BACK_S: Final = 2.0
#: Trials are run elsewhere where their profiles are here so many seconds sooner: pictures leave the box.
SOONER_S: Final = 2.0
#: Of gains that differ by less the smaller offer is taken.
SAME_GAIN: Final = 0.0005


def share_to_lend(worth: Callable[[float], float], most: float) -> float:
    """The largest share, at most `most`, that costs a box's own plan nothing; 0: none. `worth(share)` is that of its
    plan without the share."""
    if most < LEAST_SHARE:
        return 0.0
    whole = worth(0.0)
    for part in PARTS:
        share = round(part * most, 6)
        if share >= LEAST_SHARE and worth(share) >= whole - AS_GOOD:
            return share
    return 0.0


def retrained_until(plan: WindowPlan) -> float | None:
    """Seconds from the window's start until no retraining runs any more by a plan; None: one runs to its end."""
    busy = [any(a.retraining_share > 0 for a in segment.streams.values()) for segment in plan.segments]
    if not any(busy):
        return 0.0
    last = max(n for n, one in enumerate(busy) if one)
    return plan.segments[last + 1].start_s if last + 1 < len(busy) else None


def lend_out(
    problem: WindowProblem,
    offers: Sequence[LendingOffer],
    borrower: Borrower,
    worth: Callable[[WindowProblem], float],
) -> tuple[LentRetraining, ...]:
    """The retrainings that other boxes shall do, at most the `room` of each offer and there one after the other: each
    time the one with which the plan is worth most, as long as it is worth `LEAST_GAIN` more."""
    left = {o.box: o for o in sorted(offers, key=lambda o: (o.share, o.box)) if usable(o, borrower)}
    lent: list[LentRetraining] = []
    value = worth(problem) if left else 0.0
    while left:
        found = [one for s in problem.streams if (one := _best(s, problem, tuple(left.values()), borrower)) is not None]
        found.sort(key=lambda one: (-one[0], one[1].camera))
        tried = [(worth(with_lent(problem, (one,))), one) for _, one in found[:MOST_TRIED]]
        best = max(tried, key=lambda t: t[0], default=None)
        if best is None or best[0] <= value + LEAST_GAIN:
            break
        value, chosen = best
        lent.append(chosen)
        problem = with_lent(problem, (chosen,))
        offer = left[chosen.box]
        if offer.room > 1:
            left[chosen.box] = given(offer, chosen.ends_s - problem.label_delay_s)
        else:
            del left[chosen.box]
    return tuple(lent)


def profiles_out(
    waiting: Sequence[str],
    begun_s: float,
    budget_s: float,
    speed: float,
    offers: Sequence[LendingOffer],
    borrower: Borrower,
) -> tuple[LentProfiles, ...]:
    """The cameras whose configurations other boxes shall try, of those that wait for a profiler here, in their order.
    Here `begun_s` device seconds of trials come before them, each takes `budget_s` of them, and `speed` are done in a
    second. From the last on a camera is given to the box that is done first, where that is `SOONER_S` before it would
    be done here."""
    left = {o.box: o for o in sorted(offers, key=lambda o: o.box) if usable(o, borrower)}
    lent: list[LentProfiles] = []
    for number in range(len(waiting), 0, -1):
        camera = waiting[number - 1]
        found = [
            (ends_s + BACK_S, o.box)
            for o in left.values()
            if camera in borrower.sizes
            and (ends_s := done_in(o, borrower.sizes[camera], budget_s, borrower)) is not None
        ]
        here_s = (begun_s + number * budget_s) / max(speed, 1e-9)
        if not found or min(found)[0] + SOONER_S >= here_s:
            continue
        ends_s, box = min(found)
        lent.append(LentProfiles(camera, box, left[box].share, ends_s))
        left[box] = given(left[box], ends_s - BACK_S)
        left = {b: o for b, o in left.items() if o.room > 0}
    return tuple(lent)


def given(offer: LendingOffer, until_s: float) -> LendingOffer:
    """The offer after a work was given to it that is done there in `until_s` seconds."""
    return replace(offer, room=max(0, offer.room - 1), busy_s=max(offer.busy_s, until_s))


def done_in(offer: LendingOffer, size: int, work_s: float, borrower: Borrower) -> float | None:
    """Seconds from now until a work in one thread is done at an offer, after those before it; `size` bytes go there
    first, and it takes `work_s` seconds of the borrower's device. None: it is not known."""
    faster = offer.units / borrower.units
    thread = 1.0 / borrower.units if borrower.device == "cpu" else 1.0
    begins_in_s = max(size / offer.rate, offer.busy_s) + START_S
    return offer.ends_in(begins_in_s, lambda share: min(thread, share * faster), work_s)


def with_lent(problem: WindowProblem, lent: Sequence[LentRetraining], late_s: float = 0.0) -> WindowProblem:
    """The problem where these cameras are not retrained here, and are better once the result is there. One that
    should be there already is taken to come within `late_s`."""
    by_camera = {one.camera: one for one in lent}

    def stream(s: StreamProblem) -> StreamProblem:
        one = by_camera.get(s.id)
        if one is None:
            return s
        at_s = min(problem.window_s, max(one.arrives_s, problem.label_delay_s + late_s))
        return replace(s, options=(), arrival=Arrival(at_s, one.accuracy, one.box))

    return replace(problem, streams=tuple(stream(s) for s in problem.streams))


def usable(offer: LendingOffer, borrower: Borrower) -> bool:
    """Whether a box can give a work to an offer at all."""
    # It is not known how a GPU's seconds compare with a CPU's before it was tried.
    return offer.share >= LEAST_SHARE and offer.room > 0 and offer.device == borrower.device


def _best(
    stream: StreamProblem, problem: WindowProblem, offers: Sequence[LendingOffer], borrower: Borrower
) -> tuple[float, LentRetraining] | None:
    """The gain of a camera's best retraining over the window, at the best offer; offers by rising share."""
    if stream.running is not None or stream.arrival is not None or stream.id not in borrower.sizes:
        return None
    best: tuple[float, LentRetraining] | None = None
    for offer in offers:
        for option in stream.options:
            one = _lent(stream, option, offer, problem, borrower)
            if one is None:
                continue
            gain = (option.end_accuracy - stream.start_accuracy) * (problem.window_s - one.arrives_s) / problem.window_s
            if gain > 0 and (best is None or gain > best[0] + SAME_GAIN):
                best = (gain, one)
    return best


def _lent(
    stream: StreamProblem, option: RetrainingOption, offer: LendingOffer, problem: WindowProblem, borrower: Borrower
) -> LentRetraining | None:
    """A retraining at an offer, after those that the lender does before it; None: it may never end. Nothing that began
    here goes on there: all of its work is left."""
    faster = offer.units / borrower.units
    share, _ = _useful(option, offer.share * faster)
    begins_in_s = max(borrower.sizes[stream.id] / offer.rate, offer.busy_s) + START_S
    ends_in_s = offer.ends_in(begins_in_s, lambda s: _useful(option, s * faster)[1], option.device_seconds)
    if ends_in_s is None:
        return None
    ends_s = problem.label_delay_s + ends_in_s
    return LentRetraining(
        stream.id, option, offer.box, min(offer.share, share / faster), ends_s + borrower.gate_s, option.end_accuracy,
        option.device_seconds / faster, ends_s,
    )  # fmt: skip


def _useful(option: RetrainingOption, share: float) -> tuple[float, float]:
    """The least share with the speed that `share` brings, and that speed; both in seconds of the borrower's device. A
    retraining in one thread is no faster on more cores; one that was not measured is as fast as its share is large."""
    if not option.throughput:
        return share, share
    speed = option.speed(min(1.0, share))
    enough = (x for x, y in option.throughput if y >= speed)
    return min(share, next(enough, share)), speed
