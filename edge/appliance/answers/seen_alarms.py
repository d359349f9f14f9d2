"""The alarms that a user of some cameras or some tenants has: one rule for lists, pictures and acknowledgements."""

from __future__ import annotations

from collections.abc import Callable, Collection

from edge.appliance.answers.alarms import AlarmAnswer, TenantDetails
from edge.appliance.answers.limit import limited
from edge.core.access import Principal


def alarm_for(caller: Principal, alarm: AlarmAnswer) -> AlarmAnswer | None:
    """The alarm as the caller may see it; None: they may not, and it is not theirs to acknowledge. A user who sees
    a camera or a tenant has its alarms; one of the whole box, a served model's too, is for those who see all of it."""
    if caller.sees_all:
        return alarm
    of_one = alarm.camera is not None or isinstance(alarm.details, TenantDetails)
    return limited(alarm, caller.may_see, caller.may_see_tenant) if of_one else None


def alarms_of(cameras: Collection[str] | None, tenants: Collection[str] | None) -> Callable[[AlarmAnswer], bool]:
    """Whether an alarm is one for a user of these cameras and tenants (None: of all), as `alarm_for` says."""
    limits = (None if only is None else frozenset(only) for only in (cameras, tenants))
    of_cameras, of_tenants = limits
    reader = Principal("", "viewer", of_cameras, tenants=of_tenants)
    return lambda alarm: alarm_for(reader, alarm) is not None
