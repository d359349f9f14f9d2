"""The part of an answer that a user gets who may see some cameras or some tenants only: as the answer's type says, and
the few cases that a type cannot express. Pure functions of the caller and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from edge.appliance.answers.alarms import AlarmAnswer
from edge.appliance.answers.cameras import CameraAnswer
from edge.appliance.answers.limit import limited
from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.seen_alarms import alarm_for
from edge.appliance.answers.state import BoxHealth, OpenHealth, ReasonCode
from edge.appliance.answers.tenants import TenantHistory, TenantsAnswer
from edge.appliance.answers.windows import ExplainedWindow, ShareAnswer, StretchAnswer
from edge.core.access import Principal
from edge.core.errors import Forbidden, NotFound
from edge.core.secrecy import without_credentials

T = TypeVar("T")

#: Settings of a camera that reach into the network or the file system, or name a secret, or hide parts of a picture:
#: an admin's.
REACHING: Final = ("url", "transport", "username", "password_from", "student.weights", "student.model", "masks")
_ABSENT: Final = object()
#: A share under it is rounding, not a part of the device.
_NOTHING: Final = 5e-4


def whole(caller: Principal, found: T) -> T:
    """An answer as the caller may see it. Raises NotFound if it is of a camera that the caller may not see."""
    if caller.sees_all:
        return found
    left = limited(found, caller.may_see, caller.may_see_tenant)
    if left is None:
        raise NotFound("there is no such thing")
    return left


def rows(caller: Principal, found: Iterable[T]) -> list[T]:
    """Those of many that are the caller's, as they may see each."""
    if caller.sees_all:
        return list(found)
    return [left for left in (limited(one, caller.may_see, caller.may_see_tenant) for one in found) if left is not None]


def alarm(caller: Principal, found: AlarmAnswer) -> AlarmAnswer:
    """One alarm. Raises NotFound, as of one that is not there, if it is not the caller's."""
    left = alarm_for(caller, found)
    if left is None:
        raise NotFound(f"alarm {found.id} does not exist")
    return left


def cameras_and_tenants(caller: Principal) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """Those that the caller may see (None: all), for `AlarmsService.alarms`, which makes a page of what `alarm_for`
    leaves of each: asked of its answers once more, the rule would leave the same."""
    return caller.cameras, caller.tenants


def metrics(caller: Principal, found: MetricsSnapshot) -> MetricsSnapshot:
    """`StateService.metrics`. The front's statistics do not say which camera asks an application: of models and
    applications that `serving` does not show to the caller there are none."""
    left = whole(caller, found)
    if caller.sees_all or left.statistics is None:
        return left
    shown = set() if left.serving is None else {model.name for model in left.serving.models}
    return replace(left, statistics=tuple(one for one in left.statistics if one.get("name") in shown))


def health(caller: Principal | None, found: BoxHealth) -> BoxHealth | OpenHealth:
    """`StateService.health`; without a log-in (None), code words only."""
    if caller is None:
        codes = sorted({reason.code for reason in found.reasons})
        return OpenHealth(live=found.live, ready=found.ready, reasons=tuple(ReasonCode(code=code) for code in codes))
    return whole(caller, found)


def explained(caller: Principal, story: ExplainedWindow) -> ExplainedWindow:
    """`WindowsService.explained`: the shares of other cameras count as one, unnamed."""
    ids = [c.camera for c in story.cameras]
    if all(map(caller.may_see, ids)):
        return story
    left = whole(caller, story)
    return replace(left, timeline=tuple(map(_with_others, story.timeline, left.timeline)))


def _with_others(every: StretchAnswer, left: StretchAnswer) -> StretchAnswer:
    rest = round(sum(s.share for s in every.shares) - sum(s.share for s in left.shares), 6)
    if rest <= _NOTHING:
        return left
    return replace(left, shares=(*left.shares, ShareAnswer(kind="others", camera=None, config=None, share=rest)))


def tenant_history(caller: Principal, found: TenantHistory, mine: TenantsAnswer) -> TenantHistory:
    """The rows of the tenants that the caller sees (`mine`): a row is kept without its tenant's cameras."""
    if caller.sees_all:
        return found
    seen = {tenant.id for tenant in mine.tenants}
    return replace(found, rows=tuple(row for row in found.rows if row.tenant in seen))


def camera(caller: Principal, found: CameraAnswer) -> CameraAnswer:
    """One of `CamerasService.all`; a user without the right to set its stream's address sees no password in it."""
    if caller.may("admin"):
        return found
    settings = found.settings.model_copy(update={"url": without_credentials(found.settings.url)})
    return replace(found, settings=settings)


def camera_patch(caller: Principal, patch: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raises Forbidden if the patch changes what only an admin may change; `before`: the settings in force."""
    if caller.may("admin"):
        return
    for path in REACHING:
        given, now = _at(patch, path), _at(before, path)
        if given is not _ABSENT and given != now:
            raise Forbidden(f"the role admin is needed to change {path}; {caller.name} is {caller.role}")


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return value
        value = value.get(part, _ABSENT)
    return value
