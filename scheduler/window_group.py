"""The group that a window retrains as one, from the choice to the end of its retraining."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edge.core.window import RetrainingOption, WindowPlan, WindowProblem
from scheduler.groups import Group, choose_group, for_all, free_sets, with_group_work

Options = dict[str, tuple[RetrainingOption, ...]]


@dataclass
class WindowGroup:
    """`possible` sets of cameras may be retrained as one; the `guests` in them are cameras of other boxes, whose
    pictures teach. A member gets the part `kept` of what its own would gain. The
    students in force of `taught` came of a group, and these cameras have few objects: only a group retrains them, since
    a retraining on those alone lost a part of what the others' had taught (docs/students.md).

    `group` is what was chosen for this window (None: one retraining each), `job` its retraining once that has begun,
    `gains` what each member gains at most, `parts` the part of it by each option of the leader, `alone` its leader's
    options as they cost alone. Members wait until it is over.
    """

    possible: tuple[tuple[str, ...], ...] = ()
    kept: float = 0.0
    taught: frozenset[str] = frozenset()
    guests: frozenset[str] = frozenset()
    group: Group | None = None
    job: str = ""
    gains: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    alone: tuple[RetrainingOption, ...] = ()

    def check(self, planned: bool, retrained: Collection[str]) -> None:
        """Raises AssertionError if an invariant is broken; `retrained` are the cameras whose retrainings run."""
        if self.group is not None:
            assert planned, "a group before there is a plan"
            assert not set(self.group.members) & set(retrained), "a member of a group is retrained beside it"

    def end(self) -> None:
        """One retraining each from here on."""
        self.group, self.job = None, ""

    def choose(
        self,
        problem: WindowProblem,
        options: Options,
        plan: Callable[[WindowProblem], WindowPlan],
        owned: Sequence[frozenset[str]] = (),
    ) -> None:
        """Retrain cameras as one, where `plan` expects more from it. With the cameras of several tenants (`owned`)
        those of one, without guests: no tenant pays for another's, or teaches with its pictures."""
        sets = self.possible
        if len(owned) > 1:
            parts = {tuple(c for c in cameras if c in mine) for cameras in sets for mine in owned}
            sets = tuple(sorted(p for p in parts if len(p) > 1))
        # A camera that is in no group that could be formed now is not kept from its own retraining.
        formed = [cameras for cameras in free_sets(problem, sets, self.guests) if len(cameras) > 1]
        self.taught &= frozenset(c for cameras in formed for c in cameras)
        choice = choose_group(problem, sets, self.kept, plan, self.taught, self.guests) if sets else None
        if choice is not None:
            leader = choice.group.leader
            self.group, self.job, self.alone = choice.group, "", options[leader]
            self.gains, self.parts = choice.gains, choice.parts
            options[leader] = with_group_work(self.alone, choice.group)

    def waits(self, camera: str) -> bool:
        """Whether a camera is a member: nothing of its own is retrained now."""
        return self.group is not None and camera in self.group.members

    def withholds(self, camera: str) -> bool:
        """Whether nothing of a camera's own is retrained: it waits, or only a group may retrain it, and none does."""
        led = self.group is not None and camera == self.group.leader
        return self.waits(camera) or (camera in self.taught and not led)

    def asked(self, problem: WindowProblem) -> WindowProblem:
        """The question to the policy, with the members' gains."""
        if self.group is None:
            return problem
        return for_all(problem, self.group, self.gains, self.parts)

    def unpaid(self, plan: WindowPlan) -> bool:
        """Whether a plan has no place for the group's retraining, which has not begun."""
        if self.group is None or self.job:
            return False
        found = (g.streams.get(self.group.leader) for g in plan.segments)
        return all(allocation is None or allocation.retrain_config is None for allocation in found)

    def dissolve(self, options: Options) -> None:
        """One retraining each after all, before the group's has begun."""
        if self.group is not None and self.group.leader in options:
            options[self.group.leader] = self.alone
        self.end()

    def begun(self, camera: str, job: str) -> tuple[str, ...]:
        """A retraining begins: the members that it is for too."""
        if self.group is None or self.group.leader != camera:
            return ()
        self.job = job
        return self.group.members

    def guests_of(self, camera: str) -> tuple[str, ...]:
        """The cameras of other boxes whose pictures teach in the retraining of `camera`."""
        return self.group.guests if self.group is not None and self.group.leader == camera else ()

    def has_taught(self, camera: str, job: str) -> bool:
        """Whether a camera is a member that was judged with the result of `job`, the group's retraining."""
        return self.waits(camera) and job == self.job != ""

    def over(self, camera: str, job: str) -> bool:
        """Whether a retraining that was judged, or failed, is the group's; if so its members wait no longer."""
        if self.group is None or (self.group.leader, self.job) != (camera, job):
            return False
        self.end()
        return True

    def leave(self, camera: str, options: Options) -> None:
        """A camera is gone: the group goes on without it once its retraining has begun."""
        if self.group is None or camera not in (self.group.leader, *self.group.members):
            return
        left = tuple(m for m in self.group.members if m != camera)
        if self.job and (left or self.group.guests) and camera != self.group.leader:
            self.group = replace(self.group, members=left)
        elif self.job or camera == self.group.leader:
            self.end()
        else:
            self.dissolve(options)
