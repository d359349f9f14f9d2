"""Differences of a site's file and an appliance: the changes that make the second like the first. Pure.

Only what can be changed while an appliance runs is compared: cameras, rules, outputs, the retraining windows, how
served models share the box. Other fields of a file count when the appliance is started with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edge.core.secrecy import without_credentials
from edge.settings import OutputsSettings, Settings, SiteSettings

Json = dict[str, Any]
_HIDDEN = "(not shown)"
_SECRET_FIELD = re.compile(r"password|secret|token", re.I)
_SECRET_PARAMETER = re.compile(r"((?:password|passwd|pwd|pass|token|secret|key|auth)=)[^&\s'\"]*", re.I)
#: Sections that are read when the appliance starts, and only then.
_AT_START = ("site", "data_dir", "database_url", "teacher", "machine", "web", "recording", "retention")
_MISSING = object()


@dataclass(frozen=True)
class Difference:
    """One field. `before` None with `added`: it is not there yet; values are plain JSON."""

    path: str
    before: Any
    after: Any

    def in_words(self) -> str:
        """For people; nothing that might be a secret."""
        return f"{self.path}: {_shown(self.path, self.before)} -> {_shown(self.path, self.after)}"


@dataclass(frozen=True)
class Change:
    """One request: `method` and `path` (under /api/v1) with `body`, and in `fields` what it changes."""

    kind: Literal["add", "change", "remove"]
    subject: str
    method: Literal["POST", "PATCH", "DELETE"]
    path: str
    body: Json | None
    fields: tuple[Difference, ...] = ()

    def in_words(self) -> str:
        """For people: one line, and one for each field."""
        sign = {"add": "+", "change": "~", "remove": "-"}[self.kind]
        return "\n".join([f"{sign} {self.subject}", *(f"    {f.in_words()}" for f in self.fields)])


@dataclass(frozen=True)
class Running:
    """The appliance's settings: those of each camera, of the windows (from the next one on), of the served models
    (None: it serves none), each rule by its id, and outputs as `GET /outputs` shows them."""

    cameras: Mapping[str, Json]
    retraining: Json
    planning: Json | None
    rules: Mapping[str, Json] = field(default_factory=dict)
    outputs: Json = field(default_factory=dict)


@dataclass(frozen=True)
class SiteDifferences:
    """The changes; cameras and rules ("rules.ID") that the file does not name and that stay; sections that count at a
    start only."""

    changes: tuple[Change, ...]
    unnamed: tuple[str, ...]
    at_start: tuple[str, ...]


def compare(site: SiteSettings, running: Running, prune: bool = False) -> SiteDifferences:
    """The changes due. A section that the file does not have is left as it is; cameras and rules that it does not
    name are removed with `prune` only. The same file twice gives no changes the second time."""
    given = site.model_fields_set
    changes: list[Change] = []
    at_start = [name for name in _AT_START if name in given]
    if "retraining" in given:
        wanted = site.retraining.model_dump(mode="json")
        changes += _changed("retraining", "/retraining", running.retraining, wanted)
    if site.serving is not None:
        if running.planning is None:
            at_start.append("serving")
        else:
            at_start += [f"serving.{n}" for n in sorted(site.serving.model_fields_set - {"planning"})]
            if "planning" in site.serving.model_fields_set:
                wanted = site.serving.planning.model_dump(mode="json")
                changes += _changed("serving.planning", "/serving", running.planning, wanted)
    cameras = {c.id: c.model_dump(mode="json") for c in site.cameras}
    unnamed = [camera for camera in running.cameras if camera not in cameras]
    if prune:
        changes += [Change("remove", f"cameras.{c}", "DELETE", f"/cameras/{c}", None) for c in unnamed]
        unnamed = []
    for camera, wanted in cameras.items():
        has = running.cameras.get(camera)
        if has is not None:
            changes += _changed(f"cameras.{camera}", f"/cameras/{camera}", has, wanted)
            continue
        said = next(c for c in site.cameras if c.id == camera)
        changes.append(Change("add", f"cameras.{camera}", "POST", "/cameras", wanted, _said(said)))
    if "rules" in given:
        # After the cameras: a rule names their zones.
        more, left_alone = _rules(site, running.rules, prune)
        changes += more
        unnamed += left_alone
    if "outputs" in given:
        more, left_alone = _outputs(site.outputs, running.outputs, prune)
        changes += more
        unnamed += left_alone
    return SiteDifferences(tuple(changes), tuple(unnamed), tuple(at_start))


def _rules(site: SiteSettings, has: Mapping[str, Json], prune: bool) -> tuple[list[Change], list[str]]:
    """Changes of rules, and the rules that stay though the file does not name them."""
    wanted = {r.id: r for r in site.rules}
    unnamed = [rule for rule in has if rule not in wanted]
    changes = [Change("remove", f"rules.{r}", "DELETE", f"/rules/{r}", None) for r in unnamed] if prune else []
    for rule, settings in wanted.items():
        body = settings.model_dump(mode="json")
        if rule in has:
            changes += _changed(f"rules.{rule}", f"/rules/{rule}", has[rule], body)
        else:
            changes.append(Change("add", f"rules.{rule}", "POST", "/rules", body, _said(settings)))
    return changes, [] if prune else [f"rules.{r}" for r in unnamed]


def _outputs(wanted: OutputsSettings, running: Json, prune: bool) -> tuple[list[Change], list[str]]:
    """Changes of broker and webhooks, and those that stay though the file does not name them."""
    broker = running.get("mqtt")
    webhooks = {str(w["id"]): {k: v for k, v in w.items() if k != "state"} for w in running.get("webhooks", ())}
    ids = {webhook.id for webhook in wanted.webhooks}
    gone = {f"outputs.webhooks.{w}": f"/outputs/webhooks/{w}" for w in webhooks if w not in ids}
    if broker is not None and wanted.mqtt is None:
        gone["outputs.mqtt"] = "/outputs/mqtt"
    changes = [Change("remove", name, "DELETE", path, None) for name, path in gone.items()] if prune else []
    if wanted.mqtt is not None:
        body = wanted.mqtt.model_dump(mode="json")
        if broker is None:
            changes.append(Change("add", "outputs.mqtt", "PATCH", "/outputs/mqtt", body, _said(wanted.mqtt)))
        else:
            has = {k: v for k, v in broker.items() if k != "state"}
            changes += _changed("outputs.mqtt", "/outputs/mqtt", has, body)
    for webhook in wanted.webhooks:
        subject, body = f"outputs.webhooks.{webhook.id}", webhook.model_dump(mode="json")
        if webhook.id in webhooks:
            changes += _changed(subject, f"/outputs/webhooks/{webhook.id}", webhooks[webhook.id], body)
        else:
            changes.append(Change("add", subject, "POST", "/outputs/webhooks", body, _said(webhook)))
    return changes, [] if prune else list(gone)


def _said(settings: Settings) -> tuple[Difference, ...]:
    """Of an added part the file's own fields are shown, not every default."""
    said = settings.model_dump(mode="json", exclude_unset=True)
    return tuple(Difference(path, None, value) for path, value in _leaves(said, "") if path != "id" and value != "")


def _changed(subject: str, path: str, before: Json, after: Json) -> list[Change]:
    fields = tuple(differences(before, after))
    return [Change("change", subject, "PATCH", path, patch(before, after), fields)] if fields else []


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Fields that differ, in the order of their names. Lists are compared whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True) and not _same_number(before, after):
        yield Difference(path, before, after)


def patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The JSON merge patch (RFC 7396) that makes `before` into `after`: null takes a name away."""
    out: Json = {}
    for key in sorted({*before, *after}):
        old, new = before.get(key, _MISSING), after.get(key, _MISSING)
        if new is _MISSING:
            out[key] = None
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = patch(old, new)
            if inner:
                out[key] = inner
        elif old is _MISSING or next(differences(old, new), None) is not None:
            out[key] = new
    return out


def _same_number(before: Any, after: Any) -> bool:
    """5 and 5.0 are the same setting, also inside lists."""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return all(next(differences(a, b), None) is None for a, b in zip(before, after, strict=True))
    numbers = isinstance(before, int | float) and isinstance(after, int | float)
    return numbers and not isinstance(before, bool) and not isinstance(after, bool) and before == after


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _shown(path: str, value: Any) -> str:
    if value is None:
        return "none"
    if _SECRET_FIELD.search(path):
        return _HIDDEN
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = _SECRET_PARAMETER.sub(r"\1***", without_credentials(text))
    # One line, nothing that a terminal acts on.
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= 200 else clean[:197] + "..."
