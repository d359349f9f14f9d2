"""The part of an answer for a user of some cameras, chosen by the marks of its type
(`edge.appliance.answers.marks`): a field without a mark is hidden. Of settings inside it the fields are shown that
`edge.appliance.answers.settings_shown` lists."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import TypeAliasType

from edge.appliance.answers.marks import Mark
from edge.appliance.answers.settings_shown import shown_settings
from edge.core.journal_keys import entry_keys
from edge.settings import Settings

T = TypeVar("T")

_OTHER: Final = "another camera"
#: For a message about no single camera: it may name any.
_WHOLE_BOX: Final = "this concerns the whole box"
#: The code of a cause of which only words were kept: whom they name is not known.
_WORDS_ONLY: Final = "recorded"
_NOT_YOURS: Final = object()
_SCALARS: Final = (str, bytes, bool, int, float)
#: Whether a camera, or what is of none (None), is shown.
MaySee = Callable[[str | None], bool]


@dataclass(frozen=True)
class _Sight:
    camera: MaySee
    tenant: Callable[[str], bool]


def limited(value: T, may_see: MaySee, may_see_tenant: Callable[[str], bool] = lambda tenant: True) -> T | None:
    """The part of an answer for a reader of the cameras that `may_see` allows, and of the tenants; None: nothing of it.
    Raises TypeError for a type with a field that is hidden and cannot be empty, and for a value whose inside is not
    known."""
    found = _within(value, _Sight(may_see, may_see_tenant))
    return None if found is _NOT_YOURS else found


@cache
def hidden_fields(kind: Any) -> Mapping[str, Any]:
    """The fields of an answer's type that are hidden, with what stands for each: null, or nothing of many. Raises
    TypeError where that cannot be: such a field is marked, or may be null."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: _nothing(kind, name, hint) for name, hint in hints.items() if _mark(hint) is None}


@cache
def _marks(kind: Any) -> Mapping[str, Mark | None]:
    return {name: _mark(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def _mark(hint: Any) -> Mark | None:
    said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((m for m in said if isinstance(m, Mark)), None)


def _nothing(kind: type, name: str, hint: Any) -> Any:
    plain = hint
    while isinstance(plain, TypeAliasType) or get_origin(plain) is Annotated:
        plain = plain.__value__ if isinstance(plain, TypeAliasType) else get_args(plain)[0]
    origin = get_origin(plain)
    if origin in (Union, types.UnionType) and type(None) in get_args(plain):
        return None
    if origin is tuple:
        return ()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {}
    raise TypeError(f"{kind.__name__}.{name} has no mark of edge.appliance.answers.marks and cannot be empty")


def _row(value: Any, sight: _Sight) -> Any:
    """An answer, or `_NOT_YOURS`."""
    kind: Any = type(value)
    marks = _marks(kind)
    of_camera = next((getattr(value, name) for name, mark in marks.items() if mark is Mark.OF_CAMERA), None)
    several = (camera for name, mark in marks.items() if mark is Mark.OF_CAMERAS for camera in getattr(value, name))
    tenants = (getattr(value, name) for name, mark in marks.items() if mark is Mark.OF_TENANT)
    if not sight.camera(of_camera) or not all(map(sight.camera, several)) or not all(map(sight.tenant, tenants)):
        return _NOT_YOURS
    nothing = hidden_fields(kind)
    changes: dict[str, Any] = {}
    found: Any
    for name, mark in marks.items():
        if mark is Mark.ENTRY_DATA:
            found = {} if of_camera is None else _entry_data(value, marks, name)
        elif mark is Mark.CAUSE:
            found = getattr(value, name) if _may_read_cause(value, marks, sight) else _OTHER
        else:
            found = nothing[name] if mark is None else _shown(getattr(value, name), mark, sight, of_camera)
        if found is _NOT_YOURS:
            return _NOT_YOURS
        changes[name] = found
    return replace(value, **changes)


def _may_read_cause(value: Any, marks: Mapping[str, Mark | None], sight: _Sight) -> bool:
    said = {mark: getattr(value, name) for name, mark in marks.items() if mark in (Mark.ABOUT, Mark.CAUSE_CODE)}
    return said[Mark.CAUSE_CODE] != _WORDS_ONLY and sight.camera(said[Mark.ABOUT])


def _entry_data(entry: Any, marks: Mapping[str, Mark | None], name: str) -> Mapping[str, Any]:
    kind = next(getattr(entry, field) for field, mark in marks.items() if mark is Mark.ENTRY_KIND)
    shown = entry_keys(kind).shown
    return {key: value for key, value in getattr(entry, name).items() if key in shown}


def _shown(value: Any, mark: Mark, sight: _Sight, of_camera: str | None) -> Any:
    if mark is Mark.BY_CAMERA:
        return {camera: _within(v, sight) for camera, v in value.items() if sight.camera(camera)}
    if mark is Mark.OF_OWN:
        return {} if of_camera is None else value
    if mark is Mark.ABOUT:
        return value if sight.camera(value) else None
    if mark is Mark.MESSAGE:
        return _WHOLE_BOX if of_camera is None and value else value
    return _within(value, sight)


def _within(value: Any, sight: _Sight) -> Any:
    if is_dataclass(value):
        return _row(value, sight)
    if isinstance(value, Settings):
        return shown_settings(value)
    if isinstance(value, tuple):
        return tuple(v for v in (_within(v, sight) for v in value) if v is not _NOT_YOURS)
    if isinstance(value, Mapping):
        inside = {key: _within(v, sight) for key, v in value.items()}
        return {key: v for key, v in inside.items() if v is not _NOT_YOURS}
    if value is None or isinstance(value, _SCALARS):
        return value
    raise TypeError(
        f"a {type(value).__name__} in an answer may hold anything: use a tuple, a mapping or a type of answers"
    )
