"""Rules, alarms and objects in dictionaries, with the real settings model, for the web tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from finder_double import DictFinder

from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.answers.read import read
from edge.appliance.answers.seen_alarms import shown_to
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.settings import DEFAULT_RULES, RuleSettings, merge, parse
from web.examples.alarms import ALARM, OBJECT


class DictAlarms:
    """Implements `AlarmsService`. Two alarms of each camera and one of none; two objects of each camera."""

    def __init__(self, cameras: Callable[[], Collection[str]], jpeg: bytes) -> None:
        self._cameras, self.jpeg = cameras, jpeg
        self.kept: dict[str, RuleSettings] = {r.id: r for r in DEFAULT_RULES}
        self.acknowledged: dict[int, str] = {}
        #: Tenants with an alarm, and their cameras.
        self.tenants: dict[str, tuple[str, ...]] = {}
        #: Tenants (None: none) with an alarm of a served model, and the cameras that it is of.
        self.served: dict[str | None, tuple[str, ...]] = {}
        self.finder = DictFinder(self, cameras)

    def _made(self) -> list[AlarmAnswer]:
        out = [
            ALARM
            | {
                "id": 1,
                "camera": None,
                "kind": "disk",
                "rule": "disk-low",
                "object": None,
                "picture": False,
                "details": {},
            }
        ]
        for camera in sorted(self._cameras()):
            for ended in (None, 1790000020.0):
                number = len(out) + 1
                out.append(ALARM | {"id": number, "camera": camera, "ended_utc_s": ended, "object": number})
        for tenant, cameras in self.tenants.items():
            details = {"tenant": tenant, "cameras": cameras}
            about = {"kind": "tenant", "rule": "tenant-goal-missed", "object": None, "picture": False}
            out.append(ALARM | about | {"id": len(out) + 1, "camera": None, "details": details})
        for tenant, cameras in self.served.items():
            details = {"model": "plates", "tenant": tenant, "cameras": cameras}
            about = {"kind": "slo", "rule": "late", "object": None, "picture": False}
            out.append(ALARM | about | {"id": len(out) + 1, "camera": None, "details": details})
        for alarm in out:
            alarm["acknowledged_by"] = self.acknowledged.get(alarm["id"])
        return [read(AlarmAnswer, a) for a in out[::-1]]

    def rules(self) -> list[RuleSettings]:
        return list(self.kept.values())

    def rule(self, rule: str) -> RuleSettings:
        if rule not in self.kept:
            raise NotFound(f"rule {rule} does not exist")
        return self.kept[rule]

    async def add_rule(self, settings: Mapping[str, Any], by: str) -> RuleSettings:
        rule = parse(RuleSettings, {"id": "made-up", **settings})
        if rule.id in self.kept:
            raise Conflict(f"rule {rule.id} exists already")
        self.kept[rule.id] = rule
        return self.rule(rule.id)

    async def change_rule(self, rule: str, patch: Mapping[str, Any], by: str) -> RuleSettings:
        before = self.rule(rule).model_dump(mode="json")
        if patch.get("id", rule) != rule:
            raise InvalidValue("id", patch["id"], f"{rule} (an id does not change)")
        self.kept[rule] = parse(RuleSettings, {k: v for k, v in merge(before, patch).items() if v is not None})
        return self.rule(rule)

    async def remove_rule(self, rule: str, by: str) -> None:
        self.rule(rule)
        del self.kept[rule]

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
        shown = shown_to(cameras, tenants)
        return [
            seen for a in self._made()
            if (before is None or a.id < before)
            and (camera is None or a.camera == camera)
            and (rule is None or a.rule == rule)
            and (active is None or (a.ended_utc_s is None) == active)
            and (seen := shown(a)) is not None
        ][:limit]  # fmt: skip

    def alarm(self, number: int) -> AlarmAnswer:
        found = next((a for a in self._made() if a.id == number), None)
        if found is None:
            raise NotFound(f"alarm {number} does not exist")
        return found

    async def acknowledge(self, number: int, by: str) -> AlarmAnswer:
        self.alarm(number)
        self.acknowledged.setdefault(number, by)
        return self.alarm(number)

    def alarm_picture(self, number: int) -> bytes:
        if not self.alarm(number).picture:
            raise NotFound(f"no picture of alarm {number} is kept")
        return self.jpeg

    def objects(
        self,
        limit: int,
        before: int | None,
        camera: str | None,
        class_name: str | None,
        active: bool | None,
        cameras: Collection[str] | None,
    ) -> list[ObjectAnswer]:
        return [
            read(ObjectAnswer, OBJECT | {"id": a.id, "camera": a.camera, "ended_utc_s": a.ended_utc_s})
            for a in self.alarms(1000, before, camera, None, active, cameras)
            if a.camera is not None and class_name in (None, OBJECT["class"])
        ][:limit]

    def object(self, number: int) -> ObjectAnswer:
        found = next((o for o in self.objects(1000, None, None, None, None, None) if o.id == number), None)
        if found is None:
            raise NotFound(f"object {number} does not exist")
        return found

    def object_picture(self, number: int) -> bytes:
        self.object(number)
        return self.jpeg
