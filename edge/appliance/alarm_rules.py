"""The rules of alarms: those of the site's file until they are changed, then those of the database."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from edge.core.alarms import Rule
from edge.core.checks import made_plain
from edge.core.errors import Conflict, InvalidValue, InvalidValues, NotFound
from edge.core.journal_kinds import JournalNote
from edge.runtime.camera import CameraRuntime
from edge.settings import RuleSettings, merge, parse
from edge.store.store import Store

_MAX_RULES = 200


class AlarmRules:
    """`in_force` are the rules since `open`. `cameras()` are those that rules may name, `note` journals, and
    `changed(rules)` is called with the ids of rules that are new or other than before."""

    def __init__(
        self,
        settings: Iterable[RuleSettings],
        store: Store,
        cameras: Callable[[], Mapping[str, CameraRuntime]],
        note: JournalNote,
        changed: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._store, self._cameras, self._note, self._changed = store, cameras, note, changed
        self._settings: dict[str, RuleSettings] = {r.id: r for r in settings}
        self.in_force: tuple[Rule, ...] = ()
        self._changing = asyncio.Lock()

    async def open(self) -> None:
        """Read the rules that were changed by an earlier run. Raises MagpieError."""
        document = await asyncio.to_thread(self._store.settings.get_settings, "rules")
        if document is not None:
            kept = [parse(RuleSettings, made_plain(r), f"rules[{n}]") for n, r in enumerate(document.get("rules", ()))]
            self._settings = {r.id: r for r in kept}
        self.in_force = tuple(r.rule() for r in self._settings.values())

    def every(self) -> list[RuleSettings]:
        """Every rule."""
        return list(self._settings.values())

    def one(self, rule: str) -> RuleSettings:
        """One rule. Raises NotFound."""
        if rule not in self._settings:
            raise NotFound(f"rule {rule} does not exist")
        return self._settings[rule]

    async def add(self, settings: Mapping[str, Any], by: str) -> RuleSettings:
        """Add a rule; without `id` it gets one. Raises InvalidValues, Conflict."""
        async with self._changing:
            given = dict(settings)
            if "id" not in given:
                given["id"] = _identity(str(given.get("name") or given.get("kind") or "rule"), self._settings)
            rule = parse(RuleSettings, given)
            if rule.id in self._settings:
                raise Conflict(f"rule {rule.id} exists already")
            if len(self._settings) >= _MAX_RULES:
                raise Conflict(f"there are {_MAX_RULES} rules already", "remove one first")
            self._check(rule)
            await self._put({**self._settings, rule.id: rule}, by)
            self._note("rule.added", data={"rule": rule.id, "by": by})
        return self.one(rule.id)

    async def change(self, rule: str, patch: Mapping[str, Any], by: str) -> RuleSettings:
        """JSON merge patch; null sets a field back to its default. Raises NotFound, InvalidValues."""
        async with self._changing:
            before = self.one(rule).model_dump(mode="json")
            if patch.get("id", rule) != rule:
                raise InvalidValue("id", patch["id"], f"{rule} (an id does not change)")
            merged = {k: v for k, v in merge(before, patch).items() if v is not None}
            changed = parse(RuleSettings, merged)
            if changed != self._settings[rule]:
                self._check(changed, self._settings[rule])
                await self._put({**self._settings, rule: changed}, by)
                self._note("rule.changed", data={"rule": rule, "by": by, "fields": sorted(patch)})
        return self.one(rule)

    async def remove(self, rule: str, by: str) -> None:
        """Remove a rule. Raises NotFound."""
        async with self._changing:
            self.one(rule)
            await self._put({k: v for k, v in self._settings.items() if k != rule}, by)
            self._note("rule.removed", data={"rule": rule, "by": by})

    async def _put(self, settings: dict[str, RuleSettings], by: str) -> None:
        document = {"rules": [r.model_dump(mode="json") for r in settings.values()]}
        await asyncio.to_thread(self._store.settings.put_settings, "rules", document, by)
        before, self._settings = self._settings, settings
        self.in_force = tuple(r.rule() for r in settings.values())
        self._changed(tuple(k for k, r in settings.items() if before.get(k) != r))

    def _check(self, rule: RuleSettings, before: RuleSettings | None = None) -> None:
        """Each camera and zone of a rule is there, or was named `before`: a rule about a camera or zone that is gone
        can still be changed and switched off. Raises InvalidValues."""
        cameras = {c: r.settings for c, r in self._cameras().items()}
        named = [cameras[c] for c in rule.cameras if c in cameras] if rule.cameras else list(cameras.values())
        known: dict[str, Collection[str]] = {
            "cameras": cameras,
            "classes": {name for c in named for name in c.classes},
            "zones": {zone.name for c in named for zone in c.zones},
            "from_zones": {zone.name for c in named for zone in c.zones},
            "lines": {line.name for c in named for line in c.lines},
        }
        problems = [
            InvalidValue(
                f"{field}[{n}]", value, "one of " + (", ".join(sorted(there)) or "none: there are no " + field)
            )
            for field, there in known.items()
            for n, value in enumerate(getattr(rule, field))
            if value not in there and (before is None or value not in getattr(before, field))
        ]
        if problems:
            raise InvalidValues(problems)


def _identity(name: str, taken: Collection[str]) -> str:
    """An id that is like the name and that no other has."""
    base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50] or "rule"
    return next(i for i in (base, *(f"{base}-{n}" for n in range(2, _MAX_RULES + 3))) if i not in taken)
