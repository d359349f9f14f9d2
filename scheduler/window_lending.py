"""The retrainings of a window that other boxes do, from the choice to their end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from edge.core import events as ev
from edge.core.lending import Borrower, LendingOffer, LentRetraining
from edge.core.plan_causes import PlanCauseCode
from edge.core.window import WindowPlan, WindowProblem
from scheduler.fleet.lending import lend_out, with_lent
from scheduler.timeline import evaluate

#: Causes of plans that may lend retrainings out: there is something new to lend, or to lend to.
LENDING_CAUSES: Final[frozenset[PlanCauseCode]] = frozenset(
    {"prepared", "profiles_late", "lenders_offered", "retraining_completed", "lender_failed", "group_over"}
)
#: A lent retraining that is later than thought is taken to come after this part of a window.
LATE_PART = 0.05
#: An offer that is larger by less is no news.
MORE_SHARE = 0.05
#: An offer may be so old when it is heard, in seconds: works of that time are not in it.
HEARD_LATE_S = 5.0


@dataclass(frozen=True)
class LentJob:
    """A retraining that was lent at `at_s`; `job` is empty until it has begun."""

    lent: LentRetraining
    job: str = ""
    at_s: float = 0.0


@dataclass
class WindowLending:
    """`offers` of other boxes to the box `me`, as of `heard_s`; `out` is all that is lent, by camera; `tried` are
    cameras whose lent retraining did not come back: they are not lent again in this window. `due`: the next plan may
    lend out, also where another one is asked for before it is made."""

    offers: tuple[LendingOffer, ...] = ()
    me: Borrower | None = None
    heard_s: float = 0.0
    out: dict[str, LentJob] = field(default_factory=dict)
    tried: frozenset[str] = frozenset()
    due: bool = False

    def copy(self) -> WindowLending:
        """A copy that may be changed."""
        return replace(self, out=dict(self.out))

    def check(self, retrained: Collection[str]) -> None:
        """Raises AssertionError if an invariant is broken; `retrained` are the cameras whose retrainings run here."""
        assert not set(self.out) & set(retrained), "a camera is retrained here and elsewhere"

    def lent(self) -> tuple[LentRetraining, ...]:
        """All that is lent."""
        return tuple(one.lent for one in self.out.values())

    def asked(self, problem: WindowProblem) -> WindowProblem:
        """The problem with what is lent."""
        return with_lent(problem, self.lent(), LATE_PART * problem.window_s) if self.out else problem

    def asked_for(self, cause: PlanCauseCode) -> None:
        """A plan is asked for."""
        self.due = self.due or cause in LENDING_CAUSES

    def choose(
        self,
        problem: WindowProblem,
        busy: Collection[str],
        plan: Callable[[WindowProblem], WindowPlan],
        at_s: float,
    ) -> bool:
        """Lend out what pays at `at_s`, of cameras that are not `busy`; whether there is more now. `problem` has all
        that is lent already."""
        offers = [self._now(o, problem, at_s) for o in self.offers]
        if self.me is None or not any(o.room > 0 for o in offers):
            return False
        never = self.tried | set(busy)
        me = replace(self.me, sizes={c: n for c, n in self.me.sizes.items() if c not in never})
        found = lend_out(problem, offers, me, lambda p: worth(p, plan(p)))
        self.out |= {one.camera: LentJob(one, at_s=at_s) for one in found}
        return bool(found)

    def _now(self, offer: LendingOffer, problem: WindowProblem, at_s: float) -> LendingOffer:
        """An offer as it is at `at_s`, behind what this box has given to that lender."""
        given = [one for one in self.out.values() if one.lent.box == offer.box]
        unheard = sum(one.at_s > self.heard_s - HEARD_LATE_S for one in given)
        until_s = max((one.lent.ends_s - problem.label_delay_s for one in given), default=0.0)
        now = offer.later(at_s - self.heard_s)
        return replace(now, room=max(0, offer.room - unheard), busy_s=max(now.busy_s, until_s))

    def could_help(self, event: ev.LendersOffered) -> bool:
        """Take offers in; whether there is more than before, so that a new plan could lend more."""
        before = {o.box: o.share if o.room > 0 else 0.0 for o in self.offers}
        self.offers, self.me, self.heard_s = event.offers, event.me, event.at_s
        return any(o.room > 0 and o.share > before.get(o.box, 0.0) + MORE_SHARE for o in self.offers)

    def begin(self, window: int, plan_number: int) -> list[ev.Instruction]:
        """Orders to begin what was chosen."""
        out: list[ev.Instruction] = []
        for camera, one in self.out.items():
            if not one.job:
                job, lent = f"w{window}-{camera}-p{plan_number}", one.lent
                self.out[camera] = replace(one, job=job)
                out.append(
                    ev.StartRetraining(
                        camera, job, lent.option.id, lent.share, window - 1, (), plan_number, lender=lent.box
                    )
                )
        return out

    def over(self, camera: str, job: str, *, failed: bool = False) -> str:
        """A retraining ended: the box that did it; empty: it was not lent."""
        one = self.out.get(camera)
        if one is None or one.job != job:
            return ""
        del self.out[camera]
        if failed:
            self.tried |= {camera}
        return one.lent.box

    def leave(self, camera: str, reason: str, keep: bool = False) -> list[ev.Instruction]:
        """A camera's lent retraining is waited for no longer; with `keep` a candidate that is here is still judged."""
        one = self.out.pop(camera, None)
        return [] if one is None or not one.job else [ev.StopRetraining(camera, one.job, reason, keep)]

    def end(self, reason: str) -> list[ev.Instruction]:
        """The window is over: nothing is waited for but the judgement of candidates that are here."""
        self.tried, self.due = frozenset(), False
        return [order for camera in sorted(self.out) for order in self.leave(camera, reason, keep=True)]


def worth(problem: WindowProblem, plan: WindowPlan) -> float:
    """Mean accuracy of the window and of `carry_s` after it, which the models that it ends with serve."""
    outcome = evaluate(problem, plan.segments)
    ends = [steps[-1].momentary for steps in outcome.steps.values() if steps]
    after = sum(ends) / max(1, len(ends))
    whole = problem.window_s + problem.carry_s
    return (outcome.objective * problem.window_s + after * problem.carry_s) / whole
