"""The alarms that a user of some cameras or some tenants has: one rule for lists, pictures and acknowledgements."""

from __future__ import annotations

from edge.appliance.answers.alarms import AlarmAnswer, TenantDetails
from edge.appliance.answers.limit import limited
from edge.core.access import Principal


def alarm_for(caller: Principal, alarm: AlarmAnswer) -> AlarmAnswer | None:
    """The alarm as the caller may see it; None: they may not, and it is not theirs to acknowledge. A user of
    some cameras or tenants has the alarms of these; one of the whole box is for those who see all of it."""
    if caller.sees_all:
        return alarm
    of_tenant = caller.tenants is not None and isinstance(alarm.details, TenantDetails)
    return limited(alarm, caller.may_see, caller.may_see_tenant) if alarm.camera is not None or of_tenant else None
