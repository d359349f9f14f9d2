"""One plan of all served models, made tenant by tenant: each tenant's models within its own budget, partitions united.
One tenant that serves, beside cameras, has a budget too.

A tenant's plan is the smallest one, as without tenants; the rest of its budget is given to its partitions that are
busiest, in shares that were measured. So a larger budget is felt, and where shares can be changed live a moved budget
starts no process anew. Partitions hold models of one tenant only.

A tenant's plan knows nothing of the other tenants' partitions on the device, which may slow its batches (interference).
So the plans are judged together, and where a model would break its objective because of neighbours of another tenant,
its tenant's plan is made anew for batches that take as much longer as was judged, and so on for a few rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edge.core.applications import Application
from edge.core.serving import DeviceTable, Gpulet, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.fitting import Capacity, Fitted, PlanFunction, fit
from scheduler.gpulets.pipelines import FitFunction, FittedPipelines, PipelineDemand, SplitSearch
from scheduler.gpulets.stage_drift import slowed
from scheduler.gpulets.verdict import times, verdict

_EPS = 1e-6
#: Budgets that are more than there is by no more than this are rounded, not too large. Cutting them would put one of
#: exactly a partition below it.
_ROUNDED = 1e-4
#: So often plans are made anew because of neighbours of other tenants: a plan that makes up for them takes larger
#: shares, which slow the neighbours more, and so on; the effect shrinks each time.
ROUNDS = 3
#: Neighbours that slow a model by a smaller part more than was planned for are no reason to plan anew.
_LEAST_MORE = 0.005


@dataclass(frozen=True)
class ServingBudget:
    """The share of the device that the models of one tenant may take. `members` are models and applications; those that
    no budget names belong to `rest`."""

    tenant: str
    share: float
    members: frozenset[str] = frozenset()
    rest: bool = False


@dataclass(frozen=True)
class FitTenants:
    """A FitFunction. `inner` plans the models of each tenant; without budgets it plans all, as without tenants."""

    inner: FitFunction
    budgets: tuple[ServingBudget, ...]

    def __call__(
        self,
        models: Sequence[ServedModel],
        own: Sequence[ServedModel],
        pipelines: Sequence[PipelineDemand],
        table: DeviceTable | None,
        capacity: Capacity,
        plan: PlanFunction,
        max_gpulets: int | None = None,
    ) -> FittedPipelines:
        """Of budgets that are more than `capacity` together that is cut which their plans do not need."""
        if not self.budgets:
            return self.inner(models, own, pipelines, table, capacity, plan, max_gpulets)
        owner = owners(self.budgets, [m.name for m in models], [p.application for p in pipelines])
        asked = []
        for budget in self.budgets:
            mine = [m for m in models if owner[m.name] == budget.tenant]
            its = [p for p in pipelines if owner[p.application.name] == budget.tenant]
            if mine or its:
                share = round(min(1.0, budget.share), 6)
                asked.append(_TenantDemand(mine, [m for m in own if owner[m.name] == budget.tenant], its, share))
        planner = _Planner(self.inner, table, capacity.cameras_priority, plan, max_gpulets)
        cut = sum(a.share for a in asked) > capacity.most + _ROUNDED
        if cut:
            asked = planner.cut(asked, capacity.most)
        parts: list[FittedPipelines] = []
        for one in asked:
            parts.append(planner.part(one, parts, {}))
        slower = planner.around_neighbours(asked, parts)
        return replace(_united(parts, table, capacity, max_gpulets, slower), cut=cut)


@dataclass(frozen=True)
class _TenantDemand:
    """The models and applications of one tenant, which are planned within `share`."""

    models: Sequence[ServedModel]
    own: Sequence[ServedModel]
    pipelines: Sequence[PipelineDemand]
    share: float


@dataclass(frozen=True)
class _Planner:
    """Makes one tenant's part of the plan."""

    inner: FitFunction
    table: DeviceTable | None
    cameras_priority: int
    plan: PlanFunction
    max_gpulets: int | None

    def part(
        self, asked: _TenantDemand, others: Sequence[FittedPipelines], slower: Mapping[str, float]
    ) -> FittedPipelines:
        """The plan beside those of `others`, with so many times the latencies of some models."""
        left = self.max_gpulets
        if left is not None:
            left = max(1, left - sum(len(p.fitted.plan.gpulets) for p in others))
        table = slowed(self.table, slower) if self.table is not None and slower else self.table
        return _filled(self._smallest(asked, table, left), self.table, asked.share)

    def _smallest(self, asked: _TenantDemand, table: DeviceTable | None, left: int | None) -> FittedPipelines:
        """The plan within the share, without the rest of it."""
        room = Capacity(asked.share, asked.share, self.cameras_priority)
        return self.inner(asked.models, asked.own, asked.pipelines, table, room, self.plan, left)

    def cut(self, asked: Sequence[_TenantDemand], most: float) -> list[_TenantDemand]:
        """Shares that are `most` together: the need of each plan stays, of the rest equal parts are cut. Where plans
        need more, equal parts of everything."""
        needs = [self._smallest(a, self.table, self.max_gpulets).fitted.plan.total_share for a in asked]
        more, left = sum(a.share for a in asked) - sum(needs), most - sum(needs)
        if left < 0:
            needs, more, left = [0.0] * len(asked), more + sum(needs), most
        return [replace(a, share=round(n + (a.share - n) * left / more, 6)) for a, n in zip(asked, needs, strict=True)]

    def around_neighbours(self, asked: Sequence[_TenantDemand], parts: list[FittedPipelines]) -> dict[str, float]:
        """Make parts anew, in place, whose models break their objective because of neighbours of other tenants. How
        many times the measured latencies of a model are planned for, where it is more than once.

        No model loses its place by that: such a part stays as it was."""
        slower: dict[str, float] = {}
        stays: set[int] = set()
        if self.table is None:
            return slower
        for _ in range(ROUNDS):
            news = False
            for n, factors in slowed_by_others([p.fitted for p in parts], self.table).items():
                more = {m: f for m, f in factors.items() if f > slower.get(m, 1.0) * (1.0 + _LEAST_MORE)}
                if not more or n in stays:
                    continue
                tried = {**slower, **more}
                again = self.part(asked[n], [p for k, p in enumerate(parts) if k != n], tried)
                if set(again.fitted.refused) - set(parts[n].fitted.refused):
                    stays.add(n)
                    continue
                slower, parts[n], news = tried, again, True
            if not news:
                break
        return slower


def slowed_by_others(parts: Sequence[Fitted], table: DeviceTable) -> dict[int, dict[str, float]]:
    """By the number of a part and model: how many times as long its batches take beside all parts as beside its own, of
    the models in a partition that breaks an objective so."""
    together = iter(times(table, [g for p in parts for g in p.plan.gpulets]))
    out: dict[int, dict[str, float]] = {}
    for n, part in enumerate(parts):
        objectives = {m.queue_id: m.slo_ms for m in part.problem.models}
        for alone, beside in zip(times(table, part.plan.gpulets), together, strict=False):
            batches = alone.gpulet.models
            if not (beside.overfull() or any(beside.late(objectives[b.queue_id]) for b in batches)):
                continue
            for batch, before, now in zip(batches, alone.factors, beside.factors, strict=True):
                if now > before + _EPS:
                    mine = out.setdefault(n, {})
                    mine[batch.model] = max(mine.get(batch.model, 1.0), now / before)
    return out


def owners(
    budgets: Sequence[ServingBudget], models: Sequence[str], applications: Sequence[Application]
) -> dict[str, str]:
    """The tenant of each model and application. An application and all models that it may ask are of one tenant: that
    of the application, else that of its first model that a tenant names. A model that is asked by applications of
    several tenants brings them together under the first of the budgets."""
    rest = next((b.tenant for b in budgets if b.rest), budgets[-1].tenant)
    groups = _groups(applications)
    grouped = {name for group in groups for name in group.names}
    groups += [_AskedTogether((), frozenset({name})) for name in models if name not in grouped]
    out: dict[str, str] = {}
    for group in groups:
        out |= dict.fromkeys(group.names, group.owner(budgets) or rest)
    return out


@dataclass(frozen=True)
class DisputedMember:
    """A model or application that the tenant `named_by` names and that counts for `tenant`: `application` asks it, or a
    model of it."""

    member: str
    named_by: str
    tenant: str
    application: str

    def words(self) -> str:
        """It as a sentence without a full stop."""
        return (
            f"{self.member}, which tenant {self.named_by} names, counts for tenant {self.tenant}, as application "
            f"{self.application} asks it, or a model of it: an application and all that it may ask have one tenant"
        )


def disputed(budgets: Sequence[ServingBudget], applications: Sequence[Application]) -> tuple[DisputedMember, ...]:
    """The members of budgets that `owners` gives to another tenant, by name."""
    out = []
    for group in _groups(applications):
        tenant = group.owner(budgets)
        its = next((b.members for b in budgets if b.tenant == tenant), frozenset())
        for budget in budgets:
            for name in sorted(budget.members & group.names) if tenant not in (None, budget.tenant) else ():
                asking = [a.name for a in applications if a.name in group.applications and a.name != name]
                asking.sort(key=lambda a: (a not in its, not _asks(applications, a, name), a))
                out.append(DisputedMember(name, budget.tenant, str(tenant), (*asking, name)[0]))
    return tuple(sorted(out, key=lambda d: d.member))


@dataclass(frozen=True)
class _AskedTogether:
    """Applications that ask the same models, and the names of all of them and of these models."""

    applications: tuple[str, ...]
    names: frozenset[str]

    def owner(self, budgets: Sequence[ServingBudget]) -> str | None:
        """The tenant that it is of. Its applications say so, if a tenant names one of them; else its models do."""
        for wanted in (frozenset(self.applications), self.names):
            tenant = next((b.tenant for b in budgets if b.members & wanted), None)
            if tenant is not None:
                return tenant
        return None


def _names(application: Application) -> frozenset[str]:
    """Its own name and those of all models that it may ask."""
    asked = {o.model for s in application.stages for o in s.options}
    return frozenset({application.name, *(s.model for s in application.stages), *asked})


def _asks(applications: Sequence[Application], application: str, name: str) -> bool:
    return any(a.name == application and name in _names(a) for a in applications)


def _groups(applications: Sequence[Application]) -> list[_AskedTogether]:
    groups: list[_AskedTogether] = []
    for application in applications:
        names = _names(application)
        touched = [g for g in groups if g.names & names]
        groups = [g for g in groups if not g.names & names]
        joined = (*(a for g in touched for a in g.applications), application.name)
        groups.append(_AskedTogether(joined, names.union(*(g.names for g in touched))))
    return groups


def shares_of(plan: ServingPlan | None, owner: Mapping[str, str]) -> dict[str, float]:
    """The share of the device that a plan gives to each tenant."""
    out: dict[str, float] = {}
    for gpulet in plan.gpulets if plan is not None else ():
        tenant = owner.get(gpulet.models[0].model)
        if tenant is not None:
            out[tenant] = out.get(tenant, 0.0) + gpulet.share
    return {t: round(s, 6) for t, s in out.items()}


def need_of(models: Sequence[ServedModel], table: DeviceTable | None, plan: PlanFunction) -> float:
    """The share of the smallest plan that holds these models, alone on the device; as much as fits of them."""
    if not models:
        return 0.0
    return round(fit(models, table, Capacity(1.0, 1.0), plan).plan.total_share, 6)


def _filled(found: FittedPipelines, table: DeviceTable | None, share: float) -> FittedPipelines:
    """The same plan, with the rest of the budget given to its busiest partitions, step by step, as far as the tenant's
    own partitions do not slow each other beyond an objective then."""
    plan = found.fitted.plan
    if table is None or not plan.gpulets:
        return found
    plans = [plan]
    while (more := _one_step_more(plans[-1], table, share - plans[-1].total_share)) is not None:
        plans.append(more)
    if len(plans) == 1:
        return found
    # One partition alone may be too strong a neighbour for another that gets its step next.
    best = next((p for p in reversed(plans) if _holds(found.fitted.problem, table, p)), plans[-1])
    return replace(found, fitted=replace(found.fitted, plan=best))


def _one_step_more(plan: ServingPlan, table: DeviceTable, left: float) -> ServingPlan | None:
    """The plan with the next measured share for its busiest partition that can have it; None: no partition can."""
    steps = [
        (_load(g, table), -n, larger)
        for n, g in enumerate(plan.gpulets)
        if (larger := _larger(g, table)) is not None and larger - g.share <= left + _EPS
    ]
    if not steps:
        return None
    _, n, larger = max(steps)
    gpulets = list(plan.gpulets)
    gpulets[-n] = replace(gpulets[-n], share=larger)
    return replace(plan, gpulets=tuple(gpulets))


def _holds(problem: ServingProblem, table: DeviceTable, plan: ServingPlan) -> bool:
    """Whether each objective is kept; shares are bounded by budgets, which may be rounded."""
    return verdict(replace(problem, capacity=1.0), table, plan).valid


def _load(gpulet: Gpulet, table: DeviceTable) -> float:
    """The part of its duty cycle in which it is busy."""
    busy = sum(table.solo_ms(b.model, gpulet.percent, b.batch) for b in gpulet.models)
    return busy / gpulet.duty_cycle_ms


def _larger(gpulet: Gpulet, table: DeviceTable) -> float | None:
    """The next share at which all its batches were measured; None: there is none."""
    rows = [table.latency_ms[b.model] for b in gpulet.models]
    common = set.intersection(*(set(r) for r in rows))
    for percent in sorted(common):
        if percent > gpulet.percent and all(
            len(r[percent]) >= b.batch for r, b in zip(rows, gpulet.models, strict=True)
        ):
            return percent / 100
    return None


def _united(
    parts: Sequence[FittedPipelines],
    table: DeviceTable | None,
    capacity: Capacity,
    most: int | None,
    slower: Mapping[str, float],
) -> FittedPipelines:
    fitted = [p.fitted for p in parts]
    problem = ServingProblem(tuple(m for f in fitted for m in f.problem.models), 1, round(capacity.most, 6), most)
    gpulets = tuple(g for f in fitted for g in f.plan.gpulets)
    reasons = tuple(dict.fromkeys(r for f in fitted for r in f.plan.reasons))
    reasons += tuple(
        f"{model}: batches are planned to take {factor:.2f} times as long, beside other tenants"
        for model, factor in sorted(slower.items())
    )
    policy = next((f.plan.policy for f in fitted if f.plan.policy), "")
    plan = ServingPlan(True, gpulets, policy, reasons)
    # Where neighbours of other tenants could not be made up for, the plan says so.
    if table is not None and gpulets and len(parts) > 1 and not _holds(problem, table, plan):
        plan = replace(plan, reasons=(*reasons, "neighbours of other tenants may slow it"))
    united = FittedPipelines(
        Fitted(
            problem,
            plan,
            {k: v for f in fitted for k, v in f.capped.items()},
            {k: v for f in fitted for k, v in f.refused.items()},
        ),
        {k: v for p in parts for k, v in p.budgets.items()},
        tuple(r for p in parts for r in p.reasons),
        {k: v for p in parts for k, v in p.choices.items()},
        {k: v for p in parts for k, v in p.rates.items()},
        {k: v for p in parts for k, v in p.queues.items()},
        tuple(q for p in parts for q in p.two_queues),
    )
    searches = [p.search for p in parts if p.search is not None]
    if not searches:
        return united
    steps, most = sum(s.steps for s in searches), sum(s.most for s in searches)
    return united.with_search(SplitSearch(steps, most, all(s.complete for s in searches)))
