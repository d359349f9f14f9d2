"""Tenants and how they share the box. Shares, performance and utility are 0-1. A tenant's settings are
edge.settings.TenantSettings, the box's edge.settings.SharingSettings; reasons are codes of edge.core.tenants with their
numbers."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.marks import OfCameras, OfTenant, Shown, answer, kept
from edge.core.tenants import ForgottenCode, TenantReasonCode, TenantSource, TenantState
from edge.settings import SharingSettings, TenantSettings


@answer
class TenantReasonAnswer:
    """Why a tenant has its share (edge.core.tenants.TenantReasonCode, with the numbers of the code). `others`: the
    tenants that gave for it, or got what it gave."""

    code: Shown[TenantReasonCode]
    numbers: Shown[Mapping[str, float]]
    others: tuple[str, ...]


@answer
class TenantDemand:
    """The share with which the goal is expected to be met, and its bounds; null: no share is known to reach it. `best`:
    the performance that is expected with the whole box (null: nothing was measured). With a `best`, and neither `share`
    nor `low`, the goal is out of reach; with `low` alone it may be."""

    share: Shown[float | None]
    low: Shown[float | None]
    high: Shown[float | None]
    best: Shown[float | None]


@answer
class LearnedAnswer:
    """The learned state of a tenant: reports since the last change, changes noticed, when the last report came; values
    that were not usable; why, and when, what was learned was last forgotten."""

    reports: Shown[int]
    changes: Shown[int]
    last_utc_s: Shown[float | None]
    age_s: Shown[float | None]
    dropped: Shown[int]
    forgotten: Shown[ForgottenCode | None]
    forgotten_utc_s: Shown[float | None]


@answer
class ShareOfTenant:
    """A tenant's share of the device. `held`: its budget; `given`: the share that its executors or cameras have in the
    plan in force; `entitlement`: its share by right; `floor`: the least that it has, by its setting or by the need of
    its plan; `raised_to_floor`: how much its budget was raised to it; `moves` since the start."""

    held: Shown[float]
    given: Shown[float]
    entitlement: Shown[float]
    floor: Shown[float]
    raised_to_floor: Shown[float]
    moves: Shown[int]


@answer
class TenantAnswer:
    """A tenant now. `performance` and `utility` null: nothing was measured lately. `load`: requests per second
    (cameras: null). `missed_s`: in so much measured time it has missed its goal. `implicit`: a default tenant that no
    settings name. `cameras` also has those of its settings that are off. Users of some cameras see the tenants all of
    whose cameras they may see, users of some tenants see these."""

    id: OfTenant[str]
    name: Shown[str]
    settings: Shown[TenantSettings]
    implicit: Shown[bool]
    models: Shown[tuple[str, ...]]
    applications: tuple[str, ...]
    cameras: OfCameras[tuple[str, ...]]
    share: Shown[ShareOfTenant]
    state: Shown[TenantState]
    performance: Shown[float | None]
    goal: Shown[float]
    utility: Shown[float | None]
    load: Shown[float | None]
    missed_s: Shown[float]
    demand: Shown[TenantDemand]
    source: Shown[TenantSource]
    reason: Shown[TenantReasonAnswer]
    learned: Shown[LearnedAnswer]


@answer
class CurvePoint:
    """The performance expected with a share at the present load, and its bounds (about 90 %)."""

    share: Shown[float]
    performance: Shown[float]
    low: Shown[float]
    high: Shown[float]


@answer
class CurveReport:
    """A recent report: the performance that was measured with the share given, under a load (requests per second)."""

    utc_s: Shown[float]
    share: Shown[float]
    performance: Shown[float]
    load: Shown[float | None]


@answer
class TenantCurve:
    """The learned curve; `points` is empty where nothing was measured yet. `now`: the share
    that the tenant has now (null: it has no members); `last`: the newest report, with the share given then."""

    id: OfTenant[str]
    goal: Shown[float]
    points: Shown[tuple[CurvePoint, ...]]
    reports: Shown[tuple[CurveReport, ...]]
    now: Shown[float | None]
    last: Shown[CurveReport | None]
    learned: Shown[LearnedAnswer]


@answer
class TenantDetail:
    """One tenant with its curve."""

    tenant: Shown[TenantAnswer]
    curve: Shown[TenantCurve]


@answer
class TenantsAnswer:
    """Every tenant, the implicit ones last. `active` false: there is one tenant at most, so nothing is shared by
    tenants and all is planned as without them. `capacity`: the share that there is for all of them."""

    active: Shown[bool]
    capacity: Shown[float]
    tenants: Shown[tuple[TenantAnswer, ...]]


@answer
class SharingAnswer:
    """The settings of the sharing; when shares were decided last and will be next (null: not yet, or not known), and
    the welfare now: mean and least utility of the tenants that were measured. `dwell_s`: a tenant that moved stays for
    so long, by the settings or, where a move starts executors anew (`restarts`), for a least time. `lacking`: floors
    are more than there is, by so much of the device; then each tenant has its part of its own."""

    settings: Shown[SharingSettings]
    dwell_s: Shown[float]
    restarts: Shown[bool]
    active: Shown[bool]
    capacity: Shown[float]
    decided_utc_s: Shown[float | None]
    next_utc_s: Shown[float | None]
    lacking: Shown[float]
    social_welfare: float | None
    egalitarian_welfare: float | None


@kept
class TenantHistoryRow:
    """Means of five minutes (or of a window, of cameras) of one tenant. `performance` null: nothing was measured.
    `held`: its budget then. `need`: the share of its plan by its profile, `used`: the share that its workers used while
    nothing was measured, `entitlement`: its share by right then (null: not known)."""

    tenant: OfTenant[str]
    utc_s: Shown[float]
    seconds: Shown[float]
    held: Shown[float]
    given: Shown[float]
    performance: Shown[float | None]
    goal: Shown[float]
    utility: Shown[float | None]
    load: Shown[float | None]
    requests: Shown[int]
    floor: Shown[float] = 0.0
    need: Shown[float | None] = None
    used: Shown[float | None] = None
    entitlement: Shown[float | None] = None


@answer
class TenantHistory:
    """The last day, oldest first."""

    rows: Shown[tuple[TenantHistoryRow, ...]]


@answer
class TenantWhatIf:
    """One tenant over the recorded day: as it was, and as it is expected under the policy. Null: nothing measured."""

    id: str
    share: float
    utility: float | None
    other_share: float
    other_utility: float | None


@answer
class SharingWhatIf:
    """The recorded day under another policy: performance is expected by the learned curves, moved to what was
    recorded. `rows` of five minutes, `seconds` in all, were replayed, from `from_utc_s` on; the means of the tenants'
    utilities and the least one, in the mean over time."""

    policy: str
    rows: int
    seconds: float
    from_utc_s: float | None
    social_welfare: float | None
    egalitarian_welfare: float | None
    other_social_welfare: float | None
    other_egalitarian_welfare: float | None
    tenants: tuple[TenantWhatIf, ...]
