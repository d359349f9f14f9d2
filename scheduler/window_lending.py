"""The retrainings of a window that other boxes do, from the choice to their end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from edge.core import events as ev
from edge.core.lending import Borrower, LendingOffer, LentRetraining
from edge.core.window import WindowPlan, WindowProblem
from scheduler.fleet.lending import lend_out, with_lent
from scheduler.timeline import evaluate

#: A lent retraining that is later than thought is taken to come after this part of a window.
LATE_PART = 0.05
#: An offer that is larger by less is no news.
MORE_SHARE = 0.05


@dataclass(frozen=True)
class LentJob:
    """A lent retraining; `job` is empty until it has begun."""

    lent: LentRetraining
    job: str = ""


@dataclass
class WindowLending:
    """`offers` of other boxes to the box `me`, as of `heard_s`; `out` is all that is lent, by camera; `tried` are
    cameras whose lent retraining did not come back: they are not lent again in this window."""

    offers: tuple[LendingOffer, ...] = ()
    me: Borrower | None = None
    heard_s: float = 0.0
    out: dict[str, LentJob] = field(default_factory=dict)
    tried: frozenset[str] = frozenset()

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

    def choose(
        self,
        problem: WindowProblem,
        busy: Collection[str],
        plan: Callable[[WindowProblem], WindowPlan],
        at_s: float,
    ) -> bool:
        """Lend out what pays at `at_s`, of cameras that are not `busy`; whether there is more now. `problem` has all
        that is lent already."""
        taken = {one.box for one in self.lent()}
        age_s = at_s - self.heard_s
        offers = [
            o if o.left_s is None else replace(o, left_s=o.left_s - age_s) for o in self.offers if o.box not in taken
        ]
        if self.me is None or not offers:
            return False
        never = self.tried | set(busy)
        me = replace(self.me, sizes={c: n for c, n in self.me.sizes.items() if c not in never})
        found = lend_out(problem, offers, me, lambda p: worth(p, plan(p)))
        self.out |= {one.camera: LentJob(one) for one in found}
        return bool(found)

    def could_help(self, event: ev.LendersOffered) -> bool:
        """Take offers in; whether there is more than before, so that a new plan could lend more."""
        before = {o.box: o.share for o in self.offers}
        self.offers, self.me, self.heard_s = event.offers, event.me, event.at_s
        taken = {one.box for one in self.lent()}
        return any(o.share > before.get(o.box, 0.0) + MORE_SHARE and o.box not in taken for o in self.offers)

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

    def leave(self, camera: str, reason: str) -> list[ev.Instruction]:
        """A camera, or all that is lent, is waited for no longer."""
        one = self.out.pop(camera, None)
        return [] if one is None or not one.job else [ev.StopRetraining(camera, one.job, reason)]

    def end(self, reason: str) -> list[ev.Instruction]:
        """The window is over: nothing is waited for."""
        self.tried = frozenset()
        return [order for camera in sorted(self.out) for order in self.leave(camera, reason)]


def worth(problem: WindowProblem, plan: WindowPlan) -> float:
    """Mean accuracy of the window and of `carry_s` after it, which the models that it ends with serve."""
    outcome = evaluate(problem, plan.segments)
    ends = [steps[-1].momentary for steps in outcome.steps.values() if steps]
    after = sum(ends) / max(1, len(ends))
    whole = problem.window_s + problem.carry_s
    return (outcome.objective * problem.window_s + after * problem.carry_s) / whole
