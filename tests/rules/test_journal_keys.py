"""The keys of journal entries are declared (edge.core.journal_keys): the code writes those, and docs/journal.md names
them. The code is read where it writes keys; `MADE` has the documents that are made elsewhere."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Final

from parsed_code import REPO, parsed

from edge.appliance.clips import ClipRetention
from edge.core.alarms import Alarm
from edge.core.configs import StudentSpec
from edge.core.journal_keys import ENTRY_KEYS, entry_keys
from edge.core.journal_kinds import JOURNAL_KINDS, LIVE_ONLY_KINDS
from edge.core.learning import LearningBudget
from edge.core.models import ModelVersion
from edge.core.tracks import ObjectNews, TrackedObject
from edge.runtime.camera_workers import _STATES
from edge.runtime.judging import Judged
from edge.runtime.versions import _named
from edge.store.alarms import AlarmRetention
from edge.store.counts import CountRetention
from edge.store.retention import RetentionReport

ALL: Final = JOURNAL_KINDS | LIVE_ONLY_KINDS
ROOMS: Final = ("edge", "scheduler", "web")
#: Functions that write or send an entry, and the class of one that is made without them.
WRITERS: Final = frozenset(
    {"note", "_note", "_on_event", "send_live", "_send_live", "_tell", "NewEvent", "JournalEntry"}
)

_ALARM = Alarm(1, "r", "R", "object", "info", "north", "7", "new", 1.0, "words")
_OBJECT = TrackedObject(7, "north", "car", 0.9, (0.0, 0.0, 1.0, 1.0), 1.0, 2.0, 1.0, 5)
_VERSION = ModelVersion(
    "v", "north", "blob", StudentSpec("detection", "ssdlite_mobilenet_v3", ("car",), (96, 160)), 0.0
)
_JUDGED = Judged(
    True, True, 0.7, "v2", "better", {}, began_with="v0", taught_with=("south",), trained_on="b2", boxes=("b2",)
)
#: Documents that are made elsewhere, by the expression that stands for them where the entry is written.
MADE: Final[Mapping[str, frozenset[str]]] = {
    "alarm.to_json()": frozenset(_ALARM.to_json()),
    "news.to_json()": frozenset(ObjectNews(_OBJECT, "new", False).to_json()),
    "_named(camera.version)": frozenset(_named(_VERSION)),
    "_named(found)": frozenset(_named(_VERSION)),
    "judged.facts(job.config)": frozenset(_JUDGED.facts("c")),
    "judged.facts(config)": frozenset(_JUDGED.facts("c")),
    "budget.to_json()": frozenset(LearningBudget(0.1, 1, 1, 1.0, 1.0, 1.0, 1.0, 0.1).to_json()),
    "report.to_json()": frozenset(RetentionReport(0, 0, 0, 0, 0, 0, 0, 0, ()).to_json()),
    "counted.to_json()": frozenset(CountRetention(0, 0, 0).to_json()),
    "clips.to_json()": frozenset(ClipRetention(0, 0, 0, ()).to_json()),
    "old.to_json()": frozenset(AlarmRetention(0, 0, 0, 0, 0, ()).to_json()),
}
#: Kinds that are looked up where the entry is written, by the expression.
LOOKED_UP: Final[Mapping[str, frozenset[str]]] = {
    "_STATES[status.state]": frozenset(_STATES.values()),
    "_PHASES[alarm.phase]": frozenset({"alarm.new", "alarm.update", "alarm.end"}),
    "judged.kind": frozenset({"model.promoted", "model.rejected"}),
}
#: Those that hand an entry on to another writer, which is looked at where it is called.
HANDED_ON: Final = frozenset(
    {
        "edge/appliance/appliance.py: note",
        "edge/appliance/journal.py: note",
        "edge/appliance/journal.py: send_live",
        "edge/appliance/outputs.py: _note",
        "edge/runtime/runtime.py: _worker_event",
        "edge/store/journal.py: append",
    }
)


class Unknown(Exception):
    """An expression whose keys this test cannot read."""


class Module:
    """A module with the function that each node is in."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path, self.tree = path, tree
        self.function: dict[ast.AST, ast.FunctionDef | ast.AsyncFunctionDef | None] = {}
        self._walk(tree, None)

    def _walk(self, node: ast.AST, inside: ast.FunctionDef | ast.AsyncFunctionDef | None) -> None:
        for child in ast.iter_child_nodes(node):
            self.function[child] = inside
            self._walk(child, child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else inside)

    def calls(self, name: str) -> list[ast.Call]:
        """Calls of a function of that name."""
        return [node for node in self.function if isinstance(node, ast.Call) and called(node) == name]

    def writers(self) -> list[ast.Call]:
        """Calls that may write or send an entry."""
        return [node for node in self.function if isinstance(node, ast.Call) and called(node) in WRITERS]

    def keys(self, node: ast.expr) -> frozenset[str]:
        """The keys that an expression can have. Raises Unknown."""
        text = ast.unparse(node)
        if text in MADE:
            return MADE[text]
        if isinstance(node, ast.Dict):
            return frozenset().union(*map(self._part, node.keys, node.values))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self.keys(node.left) | self.keys(node.right)
        if isinstance(node, ast.IfExp):
            return self.keys(node.body) | self.keys(node.orelse)
        if isinstance(node, ast.Name):
            return self._named(node)
        raise Unknown(f"{self.path}:{node.lineno}: {text}")

    def _part(self, key: ast.expr | None, value: ast.expr) -> frozenset[str]:
        if key is None:
            return self.keys(value)
        if isinstance(key, ast.Constant):
            return frozenset({key.value})
        raise Unknown(f"{self.path}:{key.lineno}: {ast.unparse(key)}")

    def _named(self, node: ast.Name) -> frozenset[str]:
        function = self.function[node]
        assert function is not None
        names = [a.arg for a in function.args.args]
        if node.id in names:
            place = names.index(node.id) - (names[0] == "self")
            return frozenset().union(*(self.keys(c.args[place]) for c in self.calls(function.name)))
        given = [
            n.value
            for n in ast.walk(function)
            if isinstance(n, ast.Assign | ast.AnnAssign)
            and n.value is not None
            and any(
                isinstance(t, ast.Name) and t.id == node.id for t in getattr(n, "targets", [getattr(n, "target", 0)])
            )
        ]
        if not given:
            raise Unknown(f"{self.path}:{node.lineno}: {node.id}")
        return frozenset().union(*map(self.keys, given))


@cache
def modules() -> tuple[Module, ...]:
    """Those that name a writer."""
    found = []
    for room in ROOMS:
        for path, text, tree in parsed(room):
            if any(f"{name}(" in text for name in WRITERS):
                found.append(Module(path, tree))
    return tuple(found)


def arguments(call: ast.Call) -> list[ast.expr]:
    """Those that may be an entry's kind."""
    return [*call.args, *(k.value for k in call.keywords if k.arg == "kind")]


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def kinds_of(node: ast.expr) -> frozenset[str]:
    """The journal kinds that an expression can be; none if it is of something else."""
    if isinstance(node, ast.Constant):
        return frozenset({node.value} & ALL if isinstance(node.value, str) else ())
    if isinstance(node, ast.IfExp):
        return kinds_of(node.body) | kinds_of(node.orelse)
    return LOOKED_UP.get(ast.unparse(node), frozenset())


def data_of(call: ast.Call, kind: ast.expr) -> ast.expr | None:
    """The argument that is the entry's data: `data=`, or the last one after the kind that is no camera or window."""
    for keyword in call.keywords:
        if keyword.arg == "data":
            return keyword.value
    rest = call.args[call.args.index(kind) + 1 :] if kind in call.args else []
    return rest[-1] if rest else None


@cache
def written() -> Mapping[str, frozenset[str]]:
    """The keys of each kind that the code writes."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for call in module.writers():
            for kind in arguments(call):
                names, data = kinds_of(kind), data_of(call, kind)
                keys = module.keys(data) if names and data is not None else frozenset()
                for name in names:
                    found[name] |= keys
    for name, keys_of_worker in found.items():
        if name.startswith("worker.") and "worker" in keys_of_worker:
            keys_of_worker.add("kind")  # Runtime._worker_event says which kind of worker it is
    return {name: frozenset(keys) for name, keys in found.items()}


def test_every_kind_has_its_keys() -> None:
    assert set(ENTRY_KEYS) == ALL
    assert [kind for kind, keys in ENTRY_KEYS.items() if keys.shown & keys.hidden] == []


def test_every_key_that_is_written_is_declared_and_none_else() -> None:
    """If this fails for a new key: declare it in edge.core.journal_keys, and in docs/journal.md."""
    found = written()
    assert set(found) == ALL
    assert {k: sorted(found[k] ^ entry_keys(k).known) for k in ALL if found[k] != entry_keys(k).known} == {}


def test_every_writer_is_looked_at() -> None:
    """A writer whose kind is a variable must be one that hands on what others wrote."""
    missed = set()
    for module in modules():
        for call in module.writers():
            given, inside = arguments(call), module.function[call]
            variables = [g for g in given if isinstance(g, ast.Name | ast.Attribute | ast.Subscript)]
            if any("kind" in ast.unparse(v) for v in variables) and not any(map(kinds_of, given)):
                missed.add(f"{module.path}: {'' if inside is None else inside.name}")
    assert missed == HANDED_ON


def test_the_docs_name_each_key_of_each_kind() -> None:
    """Rows of docs/journal.md: kinds | what happened | keys | keys for readers of all cameras."""
    lines = (REPO / "docs/journal.md").read_text(encoding="utf-8").splitlines()
    wrong = []
    for row in [line.split("|") for line in lines if line.startswith("| `")]:
        kinds, shown, hidden = (re.findall(r"`([a-z0-9_.]+)`", row[n]) for n in (1, 3, 4))
        for kind in kinds:
            keys = entry_keys(kind)
            if (sorted(shown), sorted(hidden)) != (sorted(keys.shown), sorted(keys.hidden)):
                wrong.append(f"{kind}: {sorted(keys.shown)} | {sorted(keys.hidden)}")
    assert wrong == []


def test_only_what_is_declared_so_is_shown_to_users_of_some_cameras() -> None:
    others = {"began_with", "leader", "members", "sibling", "sibling_version", "taught_with"}
    assert [kind for kind, keys in ENTRY_KEYS.items() if keys.shown & others] == []
    assert entry_keys("a kind of an earlier version").known == frozenset()
