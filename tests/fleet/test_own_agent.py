"""Orders to the agent of this box: which errors its appliance and the commands get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge.core.errors import Conflict, InvalidValue, MagpieError, NotUnderstood, Unavailable
from edge.core.fleet_links import FleetOrder
from edge.fleet.folder import FleetFolder
from edge.fleet.own_agent import OwnAgent
from edge.settings import FleetSettings, parse


@pytest.mark.parametrize(
    ("answered", "kind", "words"),
    [
        (NotUnderstood("this box does not know the question"), Conflict, "does not carry out the order: this box"),
        (InvalidValue("kind", "invite", "move or drain"), Conflict, "does not carry out the order: kind: got 'invite'"),
        (InvalidValue("hours", 0.0, "a number above 0"), InvalidValue, "hours: got 0.0"),
        (MagpieError("this box failed to answer"), Unavailable, "could not carry out the order: this box failed"),
        (Unavailable("no head is known now"), Unavailable, "^no head"),
    ],
)
async def test_an_order_that_the_head_does_not_know_differs_from_a_value_that_is_not_allowed(
    tmp_path: Path, answered: MagpieError, kind: type[MagpieError], words: str
) -> None:
    class Agent(OwnAgent):
        async def ask(self, *_: Any, **__: Any) -> Any:
            raise answered

    settings = parse(FleetSettings, {"name": "b1", "token": "env:X"})
    with pytest.raises(kind, match=words):
        await Agent(FleetFolder(tmp_path), settings).order(FleetOrder("invite", "b1"))
