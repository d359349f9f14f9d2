"""The upgrade of this box: drained, the operator's command, back again. Its progress is kept in `upgrade.json`: an
upgrade that was cut short goes on where it was, and a command that may not have ended runs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Literal

from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError
from edge.core.fleet import BoxStatus
from edge.core.fleet_links import FleetStatus, Unplaced
from edge.core.fleet_upgrade import BoxAway, UpgradeProgress, UpgradeSeen
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.folder import FleetFolder
from scheduler.fleet.upgrading import UpgradeNext, UpgradeReason, next_of

#: A status that is older is of an agent that does not run.
_FRESH_S: Final = 10.0
_LOOK_S: Final = 1.0
_FILE: Final = "upgrade.json"
_AWAY: Final[dict[BoxAway, str]] = {
    "drained": "is drained", "silent": "is not heard", "lost": "is lost", "unknown": "is not known to answer",
}  # fmt: skip
_UNPLACED: Final[dict[Unplaced, str]] = {
    "no_box": "every other box is away",
    "no_zone": "no other box that is there reaches its zone",
    "drained": "the boxes that reach it are drained",
    "full": "no other box admits it",
    "refused": "the boxes that reach it could not start it",
}


class Upgrade:
    """`give(kind)` gives the head the order "drain" or "undrain" for this box, `run(command)` answers with the exit
    code, `show(line)` shows people a line. `version` shall run afterwards (empty: any); a step that lasts longer than
    `patience_s` is given up."""

    def __init__(
        self,
        me: str,
        folder: FleetFolder,
        appliance: ApplianceClient,
        give: Callable[[Literal["drain", "undrain"]], Awaitable[None]],
        run: Callable[[Sequence[str]], Awaitable[int]],
        show: Callable[[str], None],
        clock: Clock,
        patience_s: float,
        version: str = "",
        look_s: float = _LOOK_S,
    ) -> None:
        self._me, self._folder, self._appliance = me, folder, appliance
        self._give, self._run, self._show, self._clock = give, run, show, clock
        self._patience_s, self._version, self._look_s = patience_s, version, look_s
        self._shown = ""

    async def carry_out(self, command: Sequence[str]) -> bool:
        """Upgrade with `command` (empty: go on with the upgrade that was cut short); whether the box is back, and its
        command ended well. Raises InvalidValue, Conflict, StoreError."""
        with self._alone():
            progress = await self._begun(command)
            entered_s = self._clock.monotonic()
            while True:
                seen = await self.seen()
                waited_s = self._clock.monotonic() - entered_s
                then = next_of(progress, seen, waited_s, self._patience_s, self._version)
                self._explain(progress, seen, then)
                if then.do in ("done", "give_up"):
                    return await self._over(progress, seen, then)
                after = await self._step(progress, seen, then)
                if after.step != progress.step:
                    self._keep(after)
                    entered_s = self._clock.monotonic()
                elif then.do != "run":
                    await asyncio.sleep(self._look_s)
                progress = after

    async def _begun(self, command: Sequence[str]) -> UpgradeProgress:
        found = self._folder.read_json(_FILE)
        if found is not None:
            progress = UpgradeProgress(**(found | {"command": tuple(found["command"])}))
            if command and tuple(command) != progress.command:
                raise Conflict(
                    f"an upgrade by `{' '.join(progress.command)}` was cut short ({progress.step})",
                    "without a command it goes on; or remove upgrade.json in the folder fleet, and undrain the box",
                )
            self._show(f"going on with the upgrade by `{' '.join(progress.command)}`: {progress.step}")
            return progress
        if not command:
            raise InvalidValue("COMMAND", "", "the command that upgrades this box, after --")
        progress = UpgradeProgress("draining", tuple(command))
        if (await self.seen()).drained:
            raise Conflict(f"{self._me} is drained already", f"magpie fleet undrain SITE {self._me}")
        return progress

    async def _step(self, progress: UpgradeProgress, seen: UpgradeSeen, then: UpgradeNext) -> UpgradeProgress:
        if then.do == "run" and progress.step == "draining":
            return replace(progress, step="running", version=seen.version, started_utc_s=seen.started_utc_s)
        if then.do == "run":
            self._show(f"running {' '.join(progress.command)}")
            code = await self._run(progress.command)
            self._show(f"it ended with {code}")
            return replace(progress, step="returning", code=code)
        if then.do == "drain":
            self._keep(progress)
            await self._order("drain")
        if then.do == "undrain":
            if progress.step == "returning":
                return replace(progress, step="undraining")
            await self._order("undrain")
        return progress

    async def _order(self, kind: Literal["drain", "undrain"]) -> None:
        try:
            await self._give(kind)
        except MagpieError as error:  # no head now: it is given again
            self._show_once(f"{kind}: {error}")

    async def _over(self, progress: UpgradeProgress, seen: UpgradeSeen, then: UpgradeNext) -> bool:
        """The upgrade has ended, or goes on only after an administrator has looked."""
        if then.do == "done":
            self._forget()
            return True
        if progress.step == "draining":
            if seen.drained:
                await self._order("undrain")
            self._forget()
        elif progress.step == "undraining" and then.reason == "command":
            self._forget()
        else:
            self._show(f"{self._me} stays drained; magpie fleet upgrade SITE goes on from here")
        return False

    # -- what is seen

    async def seen(self) -> UpgradeSeen:
        """This box and the others now."""
        status = await asyncio.to_thread(self._folder.read, "status.json", FleetStatus)
        fresh = status is not None and abs(self._clock.utc() - status.utc_s) <= _FRESH_S
        try:
            version, started_utc_s = await self._appliance.running()
            # One that another box answers already may not have stopped here.
            here, answers = [str(c["id"]) for c in await self._appliance.cameras()], True
        except MagpieError:
            version, started_utc_s, here, answers = "", 0.0, [], False
        if status is None or not fresh:
            return UpgradeSeen(False, answers, version, started_utc_s)
        agreement = status.agreement
        member = agreement.member(self._me)
        here += [c.id for c in agreement.cameras if c.owner == self._me or (c.previous == self._me and not c.answered)]
        cameras = tuple(sorted(set(here)))
        away: dict[str, BoxAway] = {}
        for other in agreement.members:
            state: BoxStatus | Literal["unknown"] = status.boxes.get(other.name, "unknown")
            if other.name == self._me:
                continue
            if state != "open":
                away[other.name] = state
            elif other.drained:
                away[other.name] = "drained"
        drained = member is not None and member.drained
        return UpgradeSeen(True, answers, version, started_utc_s, drained, cameras, dict(status.waiting), away)

    # -- what people see

    def _explain(self, progress: UpgradeProgress, seen: UpgradeSeen, then: UpgradeNext) -> None:
        if then.do in ("wait", "give_up"):
            words = self._words(then.reason, progress, seen)
            self._show_once(words if then.do == "wait" else f"given up: {words}")
        elif then.do == "done":
            same = "" if seen.version != progress.version else " (as before)"
            self._show_once(f"{self._me} is back: version {seen.version}{same}")
        elif then.do in ("drain", "undrain"):
            self._show_once(f"{self._me}: {then.do}")

    def _words(self, reason: UpgradeReason, progress: UpgradeProgress, seen: UpgradeSeen) -> str:
        match reason:
            case "others":
                return "another box is away: " + ", ".join(f"{b} {_AWAY[why]}" for b, why in sorted(seen.away.items()))
            case "cameras":
                named = (f"{c} ({_UNPLACED[seen.waiting[c]]})" if c in seen.waiting else c for c in seen.cameras)
                return f"cameras on {self._me} still: " + ", ".join(named)
            case "agent":
                return f"the agent of {self._me} reports nothing, or there is no head"
            case "appliance":
                return f"the appliance of {self._me} does not answer"
            case "restart":
                return f"the appliance of {self._me} has not begun anew: version {seen.version}"
            case "version":
                return f"the appliance of {self._me} is of version {seen.version}, not {self._version}"
            case _:
                return f"the command ended with {progress.code}; {self._me} takes cameras again"

    def _show_once(self, line: str) -> None:
        """Show a line, unless it is the one before again."""
        if line != self._shown:
            self._shown = line
            self._show(line)

    # -- what is kept

    def _keep(self, progress: UpgradeProgress) -> None:
        self._folder.write_json(
            _FILE,
            {
                "step": progress.step, "command": list(progress.command), "version": progress.version,
                "started_utc_s": progress.started_utc_s, "code": progress.code,
            },
        )  # fmt: skip

    def _forget(self) -> None:
        (self._folder.path / _FILE).unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._folder.path / "upgrade.lock").open("w") as file, contextlib.ExitStack() as parts:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Conflict(f"an upgrade of {self._me} runs already") from None
            parts.callback(fcntl.flock, file, fcntl.LOCK_UN)
            yield
