"""The graph of a pipeline for planners: longest paths, modules that may be merged, and its series-parallel tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from edge.core.pipelines import PipelineProblem


@dataclass(frozen=True)
class Branch:
    """Part of a graph: parts that run one after the other ("series") or side by side ("parallel"). A part is a branch
    or the index of a module."""

    kind: Literal["series", "parallel"]
    parts: tuple[Branch | int, ...]


Tree = Branch | int


@dataclass(frozen=True)
class PipelineGraph:
    """Modules by index, in the order of the problem. `parents[m]` and `children[m]` are indices; `order` lists each
    module after its parents. `tree` joins the modules in series and in parallel; where the graph is not of that kind
    (`exact` False), modules of equal depth stand in parallel, which is stricter than the graph."""

    parents: tuple[tuple[int, ...], ...]
    children: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    tree: Tree = field(compare=False)
    exact: bool = field(compare=False)

    @staticmethod
    def of(problem: PipelineProblem) -> PipelineGraph:
        """The graph of `problem`."""
        index = {module.name: n for n, module in enumerate(problem.modules)}
        parents = tuple(tuple(index[p] for p in problem.parents[m.name]) for m in problem.modules)
        children = tuple(tuple(index[b] for a, b in problem.edges if a == m.name) for m in problem.modules)
        order = tuple(index[name] for name in problem.order)
        tree, exact = _tree(order, parents, children)
        return PipelineGraph(parents, children, order, tree, exact)

    def longest(self, latencies: Sequence[float]) -> float:
        """The longest path, in seconds."""
        return max(self._ends(latencies))

    def limits(self, latencies: Sequence[float], objective: float) -> list[float]:
        """Of each module the latency that the others leave it: `objective` less the longest path through it without
        itself."""
        before = self._ends(latencies)
        after = [0.0] * len(latencies)
        for m in reversed(self.order):
            after[m] = max((after[c] + latencies[c] for c in self.children[m]), default=0.0)
        return [objective - (before[m] - latencies[m]) - after[m] for m in range(len(latencies))]

    def path(self, latencies: Sequence[float]) -> tuple[int, ...]:
        """The modules of the longest path."""
        ends = self._ends(latencies)
        path = [max(range(len(ends)), key=ends.__getitem__)]
        while self.parents[path[0]]:
            path.insert(0, max(self.parents[path[0]], key=ends.__getitem__))
        return tuple(path)

    def depths(self) -> list[int]:
        """Of each module the number of modules on the longest way through it, that is from a source to an end."""
        return [round(1 - limit) for limit in self.limits([1.0] * len(self.parents), 0.0)]

    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Modules that share their parents and their children, together; the others alone."""
        groups: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
        for m in range(len(self.parents)):
            groups.setdefault((frozenset(self.parents[m]), frozenset(self.children[m])), []).append(m)
        return tuple(tuple(group) for group in groups.values())

    def _ends(self, latencies: Sequence[float]) -> list[float]:
        ends = [0.0] * len(latencies)
        for m in self.order:
            ends[m] = latencies[m] + max((ends[p] for p in self.parents[m]), default=0.0)
        return ends


def _tree(
    order: tuple[int, ...], parents: tuple[tuple[int, ...], ...], children: tuple[tuple[int, ...], ...]
) -> tuple[Tree, bool]:
    """The tree of the modules in `order`, and whether its longest paths are the graph's."""
    if len(order) == 1:
        return order[0], True
    inside = set(order)
    groups = _connected(order, inside, parents, children)
    if len(groups) > 1:
        trees = [_tree(group, parents, children) for group in groups]
        return Branch("parallel", tuple(t for t, _ in trees)), all(exact for _, exact in trees)
    pieces = _in_series(order, inside, parents, children)
    if len(pieces) > 1:
        trees = [_tree(piece, parents, children) for piece in pieces]
        return Branch("series", tuple(t for t, _ in trees)), all(exact for _, exact in trees)
    return _layers(order, inside, parents), False


def _connected(
    order: tuple[int, ...],
    inside: set[int],
    parents: tuple[tuple[int, ...], ...],
    children: tuple[tuple[int, ...], ...],
) -> list[tuple[int, ...]]:
    """The modules in groups that no edge joins, each in order."""
    group_of: dict[int, int] = {}
    for start in order:
        if start in group_of:
            continue
        group_of[start] = start
        todo = [start]
        while todo:
            m = todo.pop()
            for n in (*parents[m], *children[m]):
                if n in inside and n not in group_of:
                    group_of[n] = start
                    todo.append(n)
    return [tuple(m for m in order if group_of[m] == start) for start in dict.fromkeys(group_of[m] for m in order)]


def _in_series(
    order: tuple[int, ...],
    inside: set[int],
    parents: tuple[tuple[int, ...], ...],
    children: tuple[tuple[int, ...], ...],
) -> list[tuple[int, ...]]:
    """The modules in pieces that stand one behind the other: every end of a piece feeds every start of the next. Other
    edges from piece to piece then lie on no longer path."""
    pieces, begin = [], 0
    for cut in range(1, len(order)):
        first, second = set(order[:cut]), inside - set(order[:cut])
        ends = [m for m in first if not any(c in first for c in children[m])]
        starts = [m for m in second if not any(p in second for p in parents[m])]
        if all(start in children[end] for end in ends for start in starts):
            pieces.append(order[begin:cut])
            begin = cut
    return [*pieces, order[begin:]]


def _layers(order: tuple[int, ...], inside: set[int], parents: tuple[tuple[int, ...], ...]) -> Branch:
    depth: dict[int, int] = {}
    for m in order:
        depth[m] = 1 + max((depth[p] for p in parents[m] if p in inside), default=-1)
    layers = [tuple(m for m in order if depth[m] == d) for d in range(max(depth.values()) + 1)]
    return Branch("series", tuple(x[0] if len(x) == 1 else Branch("parallel", x) for x in layers))
