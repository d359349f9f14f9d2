"""The service of rules, alarms and objects. Values are edge.appliance.answers.alarms and
edge.settings.RuleSettings; errors are edge.core.errors.

`cameras` and `tenants` (not None) limit an answer to these, by the rule of edge.appliance.answers.seen_alarms, and
each alarm is as a user of these may see it: the rule is asked once. A page that is shorter than its limit is the last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.finder_service import FinderService
from edge.settings import RuleSettings


class AlarmsService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`."""

    # -- rules
    def rules(self) -> list[RuleSettings]:
        """Every rule."""

    def rule(self, rule: str) -> RuleSettings:
        """One of `rules()`. Raises NotFound."""

    async def add_rule(self, settings: Mapping[str, Any], by: str) -> RuleSettings:
        """In force at once, kept over restarts; without `id` it gets one. Raises InvalidValues, Conflict."""

    async def change_rule(self, rule: str, patch: Mapping[str, Any], by: str) -> RuleSettings:
        """JSON merge patch (the id cannot change). Raises NotFound, InvalidValue, InvalidValues."""

    async def remove_rule(self, rule: str, by: str) -> None:
        """Its alarms end. Raises NotFound."""

    # -- alarms and objects (blocking, but for `acknowledge`: transports call them in a thread)
    def alarms(
        self,
        limit: int,
        before: int | None,
        camera: str | None,
        rule: str | None,
        active: bool | None,
        cameras: Collection[str] | None,
        tenants: Collection[str] | None = None,
    ) -> list[AlarmAnswer]:
        """Newest first."""

    def alarm(self, number: int) -> AlarmAnswer:
        """One alarm. Raises NotFound."""

    async def acknowledge(self, number: int, by: str) -> AlarmAnswer:
        """Acknowledge an alarm; the first user to do so is kept. Raises NotFound."""

    def alarm_picture(self, number: int) -> bytes:
        """JPEG. Raises NotFound (no such alarm, or no picture of it)."""

    def objects(
        self,
        limit: int,
        before: int | None,
        camera: str | None,
        class_name: str | None,
        active: bool | None,
        cameras: Collection[str] | None,
    ) -> list[ObjectAnswer]:
        """Newest first."""

    def object(self, number: int) -> ObjectAnswer:
        """One object. Raises NotFound."""

    def object_picture(self, number: int) -> bytes:
        """JPEG. Raises NotFound."""

    @property
    def finder(self) -> FinderService:
        """The search of objects, and a camera's day."""
