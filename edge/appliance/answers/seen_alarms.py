"""The alarms that a user of some cameras or some tenants has: one rule for lists, pictures and acknowledgements."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from edge.appliance.answers.alarms import AlarmAnswer, ServedDetails, TenantDetails
from edge.appliance.answers.limit import limited
from edge.core.access import Principal


def alarm_for(caller: Principal, alarm: AlarmAnswer) -> AlarmAnswer | None:
    """The alarm as the caller may see it; None: they may not, and it is not theirs to acknowledge. A user who sees
    a camera or a tenant has its alarms, those of its served models too; one of the whole box, as of a model of no
    tenant, is for those who see all of it."""
    if caller.sees_all:
        return alarm
    details = alarm.details
    of_tenant = isinstance(details, TenantDetails | ServedDetails) and details.tenant is not None
    of_one = alarm.camera is not None or of_tenant
    return limited(alarm, caller.may_see, caller.may_see_tenant) if of_one else None


def shown_to(
    cameras: Collection[str] | None, tenants: Collection[str] | None
) -> Callable[[AlarmAnswer], AlarmAnswer | None]:
    """The rule `alarm_for`, for a user of these cameras and tenants (None: of all)."""
    limits = (None if only is None else frozenset(only) for only in (cameras, tenants))
    of_cameras, of_tenants = limits
    reader = Principal("", "viewer", of_cameras, tenants=of_tenants)
    return partial(alarm_for, reader)
