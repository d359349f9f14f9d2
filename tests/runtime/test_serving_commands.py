"""Clients' commands to the model repository are always answered; and the index that they get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from serving_parts import layout, version

from edge.core.errors import InvalidValue, NotFound, Unavailable
from edge.core.front_messages import Layout, RepositoryAnswer, RepositoryCommand
from edge.core.model_reasons import ModelReason
from edge.core.oip import RepositoryEntry
from edge.core.serving_reasons import Refusal
from edge.runtime.serving_commands import RepositoryCommands
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_status import View, repository_index
from edge.serving.repository import StoredVersion


class Loader:
    """Loads `known` models only."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    async def load(self, model: str, parameters: Mapping[str, object]) -> None:
        if model == "strange":
            raise KeyError(model)
        if model != "known":
            raise NotFound(f"no model {model}")
        self.done.append(("load", model))

    async def unload(self, model: str) -> None:
        self.done.append(("unload", model))


class Box:
    """A repository, the models of it, and their loader in one."""

    def __init__(self) -> None:
        self.loader = Loader()
        self.offers = {"known": Offer("known", "checking")}
        self.answers: list[RepositoryAnswer] = []
        self.changed: list[tuple[str, str]] = []
        self.commands = RepositoryCommands(
            self, self, self.loader, View, lambda: None, self.answers.append,  # type: ignore[arg-type]
            lambda command: self.changed.append((command.action, command.model)),
        )  # fmt: skip

    def index(self) -> tuple[StoredVersion, ...]:
        return (StoredVersion("known", "1"),)

    async def ask(self, action: str, model: str = "") -> RepositoryAnswer:
        await self.commands.carry_out(RepositoryCommand(7, action, model))
        return self.answers[-1]


async def test_what_was_loaded_and_unloaded_is_reported() -> None:
    box = Box()
    assert await box.ask("load", "known") == RepositoryAnswer(7)
    assert await box.ask("unload", "known") == RepositoryAnswer(7)
    assert box.changed == box.loader.done == [("load", "known"), ("unload", "known")]


async def test_the_index_is_answered_and_changes_nothing() -> None:
    box = Box()
    answer = await box.ask("index")
    assert answer.index == (RepositoryEntry("known", "1", "LOADING", "checking"),)
    assert box.changed == []


@pytest.mark.parametrize(
    ("action", "model", "code", "words"),
    [
        ("load", "other", NotFound.code, "no model other"),
        ("load", "strange", Unavailable.code, "load: something went wrong inside the server; its log tells more"),
        ("rename", "known", InvalidValue.code, "rename"),
    ],
)
async def test_an_error_is_answered_too(action: str, model: str, code: str, words: str) -> None:
    box = Box()
    answer = await box.ask(action, model)
    assert (answer.number, answer.code) == (7, code)
    assert words in answer.error
    assert box.changed == []


# the index


def state(offer: Offer | None, view: View | None = None, routes: Layout | None = None, reason: str = "") -> Any:
    entries = [StoredVersion("a", "1", reason)]
    offers = {} if offer is None else {"a": offer}
    (found,) = repository_index(entries, offers, view or View(), routes)
    assert (found.name, found.version) == ("a", "1")
    return found.state, found.reason


def test_a_version_is_ready_where_requests_go_to_it() -> None:
    one, two = version("a"), version("a", "2")
    assert state(Offer("a", "offered", version=one), routes=layout(one)) == ("READY", "")
    assert state(Offer("a", "offered", version=one), routes=layout(two)) == ("LOADING", "offered")
    assert state(Offer("a", "offered", version=two), routes=layout(two)) == ("UNAVAILABLE", "")
    assert state(Offer("a", "offered", version=one), routes=Layout(1, (), (one,))) == ("LOADING", "offered")


def test_the_reason_is_reported_where_it_is_not() -> None:
    offered = Offer("a", "offered", version=version("a"))
    assert state(None) == ("UNAVAILABLE", "unloaded")
    assert state(None, reason="no such file") == ("UNAVAILABLE", "no such file")
    assert state(offered, View(refused={"a": Refusal("failing", "a", said="too slow")})) == (
        "UNAVAILABLE",
        "a: too slow",
    )
    assert state(Offer("a", "failed", ModelReason("failed", "no tensors"))) == ("UNAVAILABLE", "no tensors")
    assert state(Offer("a", "measuring")) == ("LOADING", "measuring")
