"""A module that another names in a string, as "edge.x.y:function" or for `python -m`, is imported by that text: the
contracts on imports hold for it too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from parsed_code import REPO, ROOMS, parsed, walked
from test_import_contracts import LINTER

NAMED = re.compile(r"((?:edge|golden|microprofiler|scheduler|web)(?:\.\w+)+)(?::\w+)?")
#: (module, module named): the module that another process begins with, which does not come into this one.
EXEMPT = {
    ("edge.commands.fleet_agent", "edge.cli"),  # the agent is the command itself
    ("edge.runtime.process", "edge.runtime.preload"),  # loads all workers into the server that they are forked from
}


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def named(tree: ast.Module) -> Iterator[str]:
    """Modules of the product that strings of a module name."""
    for node in walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = NAMED.fullmatch(node.value)
            place = REPO / found[1].replace(".", "/") if found else None
            if found and place and (place.is_dir() or place.with_suffix(".py").is_file()):
                yield found[1]


def within(module: str, rooms: Iterable[str]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def floors(contract: dict[str, Any]) -> Iterator[list[list[str]]]:
    """The layers of a contract, the highest first: the modules of each."""
    for container in contract.get("containers", [""]):
        before = f"{container}." if container else ""
        yield [[before + room for room in re.split(r" *[:|] *", layer)] for layer in contract["layers"]]


def broken(module: str, other: str) -> list[str]:
    """The contracts that an import of `other` by `module` breaks."""
    found = []
    for contract in LINTER["contracts"]:
        if contract["type"] == "layers":
            for layers in floors(contract):
                low, high = ([n for n, rooms in enumerate(layers) if within(one, rooms)] for one in (module, other))
                if low and high and high[0] < low[0]:
                    found.append(contract["name"])
        elif contract["type"] == "independence":
            one, another = ([room for room in contract["modules"] if within(name, [room])] for name in (module, other))
            if one and another and one != another:
                found.append(contract["name"])
        elif contract["type"] == "forbidden" and within(module, contract["source_modules"]):
            found += [contract["name"]] * within(other, contract["forbidden_modules"])
    return found


def test_every_kind_of_contract_is_read() -> None:
    # A contract on circles of imports says nothing about one import.
    kinds = {contract["type"] for contract in LINTER["contracts"]} - {"acyclic_siblings"}
    assert kinds == {"layers", "independence", "forbidden"}


def test_a_module_that_a_string_names_may_be_imported() -> None:
    seen, faults = set(), []
    for room in ROOMS:
        for path, _, tree in parsed(room):
            module = module_of(path)
            for other in named(tree):
                seen.add((module, other))
                if (module, other) not in EXEMPT:
                    faults += [f"{module} names {other}: {name}" for name in broken(module, other)]
    assert faults == []
    assert ("edge.engines.programs", "edge.engines.label_work") in seen
    assert seen >= EXEMPT, "exempt, but gone"


@pytest.mark.parametrize(
    ("module", "other", "breaks"),
    [
        ("edge.engines.programs", "edge.runtime.supervisor", True),
        ("edge.engines.programs", "edge.engines.label_program", False),
        ("edge.fleet.engine_keeper", "edge.engines.programs", False),
        ("edge.core.fields", "web.app", True),
        ("golden.teacher", "edge.runtime", True),
        ("scheduler.fleet.gang", "scheduler.fleet.controller", True),
        ("edge.ingest.reader", "edge.store.store", True),
        ("edge.ingest.reader", "edge.ingest.streams", False),
        ("edge.store.store", "edge.core.events", False),
        ("microprofiler.curve", "scheduler.relay", True),
    ],
)
def test_the_contracts_are_read(module: str, other: str, breaks: bool) -> None:
    assert bool(broken(module, other)) is breaks
