"""The services of the real appliance and of its test double have the methods of the services' Protocols, with the same
parameters, annotations and answers; the double journals entries with the keys of the real ones."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from appliance_double import DictAppliance

from edge.appliance.appliance import Services
from edge.appliance.capacity import CapacityForecasts
from edge.appliance.discovery import CameraDiscovery
from edge.appliance.finder import Finder
from edge.appliance.service import ApplianceService
from edge.core.journal_keys import entry_keys

#: The real classes of services that are parts of others.
PARTS = {"alarms.finder": Finder, "cameras.discovery": CameraDiscovery, "windows.capacity": CapacityForecasts}


def parts_of(protocol: type, before: str = "") -> dict[str, type]:
    """The Protocols of the services, by name, and of the services in them."""
    found: dict[str, type] = {}
    for name, part in vars(protocol).items():
        if isinstance(part, property):
            kind = get_type_hints(part.fget)["return"]
            found |= {before + name: kind, **parts_of(kind, f"{before}{name}.")}
    return found


SERVICES = parts_of(ApplianceService)
REAL = {**get_type_hints(Services), **PARTS}


def methods(of: type) -> dict[str, Any]:
    """Public methods: for each parameter its name, kind, whether it may be left out, and its type; and the answer's."""
    found = {}
    for name, method in inspect.getmembers(of, inspect.isfunction):
        if not name.startswith("_"):
            types = get_type_hints(method)
            parameters = list(inspect.signature(method).parameters.values())[1:]
            of_each = [(p.name, p.kind.name, p.default is not p.empty, types[p.name]) for p in parameters]
            found[name] = (inspect.iscoroutinefunction(method), of_each, types["return"])
    return found


def journaled(path: Path) -> dict[str, set[str]]:
    """The keys of each kind that a module's `note` writes, but for those of a dict that is unpacked."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "note":
            kinds = [n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant)]
            for kind in kinds:
                assert isinstance(kind, str)
                found.setdefault(kind, set()).update(k.arg for k in node.keywords if k.arg is not None)
    return found


def test_the_real_services_are_known() -> None:
    assert set(REAL) == set(SERVICES)


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_the_double_answers_as_the_service(service: str) -> None:
    wanted = methods(SERVICES[service])
    assert wanted
    double: Any = DictAppliance()
    for name in service.split("."):
        double = getattr(double, name)
    found = methods(type(double))
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_the_real_one_answers_as_the_service(service: str) -> None:
    wanted, found = methods(SERVICES[service]), methods(REAL[service])
    assert {name: found.get(name) for name in wanted} == wanted


def test_the_double_journals_what_the_real_one_does() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(Path(__file__).parent.glob("*_double.py")):
        found |= journaled(path)
    assert len(found) > 8
    assert found == {kind: set(entry_keys(kind).known) for kind in found}
