"""`magpie models`: which model files are known and here; fetch, check and add them.

Exit codes: 0 all is well; 1 a file could not be fetched or was refused, is damaged, half here or unknown; 2 wrong use.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from edge.core.clock import Clock, SystemClock
from edge.core.errors import DiskFull, InvalidValue, MagpieError
from edge.core.licences import UNKNOWN, check_licence, covers
from edge.core.model_files import models_folder
from edge.models.adding import Addition, add_model
from edge.models.catalogue import SHIPPED, Catalogue, CatalogueEntry, read_catalogue
from edge.models.fetch import Fetched, Fetcher, FetchProgress, FetchWaiting, Happening, StartedAnew, mirror_address
from edge.models.folder import Accepted, ModelsFolder, utc_text
from edge.models.shelf import Checked, KnownModel, check, chosen, known_descriptions, known_models
from edge.runtime.memory_limit import usable_bytes, worker_limit_bytes

#: A terminal's line of progress is written at most so often.
_EVERY_S: Final = 0.1
_STATES: Final = {"here": "here", "missing": "-", "partial": "half here", "changed": "ANOTHER FILE"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `magpie models`."""
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--folder", type=Path, help="models folder (default: $MAGPIE_MODELS, else ~/.local/share/magpie/models)"
    )
    where.add_argument("--catalogue", type=Path, default=SHIPPED, help="another catalogue than the shipped one")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=text, description=text, parents=[where])

    listing = action("list", "known model files, those here, their licences and users")
    listing.add_argument("--json", action="store_true", help="as JSON, for programs")
    pull = action("pull", "fetch model files, or all files of a teacher or student; goes on where it broke off")
    pull.add_argument(
        "names", nargs="*", metavar="NAME", help="a model, a teacher, a student, or a description's .yaml"
    )
    pull.add_argument("--all", action="store_true", help="every known file")
    pull.add_argument(
        "--from", dest="mirror", metavar="FOLDER|URL", help="fetch from this folder or mirror, and from nowhere else"
    )
    _accept(pull)
    checking = action("check", "read files and compare their hashes; names damaged, swapped and half-fetched ones")
    checking.add_argument("names", nargs="*", metavar="NAME", help="a model (default: all that are here)")
    adding = action("add", "copy an ONNX file into the models folder, with its licence")
    adding.add_argument("file", type=Path, help="the file")
    adding.add_argument("--name", required=True, help="its name: it is kept as NAME.onnx")
    adding.add_argument("--licence", required=True, help="its SPDX licence; LicenseRef-NAME for your own; unknown")
    adding.add_argument("--attribution", default="", help="whose it is; kept beside it")
    adding.add_argument("--replace", action="store_true", help="take the place of another file of that name")
    adding.add_argument(
        "--worker-memory-mb", type=_memory, default=None, metavar="MB",
        help="memory that may be taken to open it, as in the site file; default: a quarter of the machine's, at least "
        "2048",
    )  # fmt: skip
    _accept(adding)


def _memory(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 512 <= found <= 16_777_216:
        raise argparse.ArgumentTypeError("a number from 512 to 16777216")
    return found


def _accept(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept-licence", default="", metavar="LICENCE", help="take a licence that is refused else, as AGPL-3.0"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out; the exit code. Raises MagpieError for what the user must know."""
    catalogue = read_catalogue(args.catalogue)
    folder = ModelsFolder(args.folder.absolute() if args.folder else models_folder(os.environ))
    return _ACTIONS[args.action](args, catalogue, folder)


def _list(args: argparse.Namespace, catalogue: Catalogue, folder: ModelsFolder) -> int:
    models = known_models(catalogue, folder)
    if args.json:
        descriptions = known_descriptions(catalogue, models, os.environ)
        value = {
            "folder": str(folder.path),
            "models": [asdict(m) for m in models],
            "descriptions": [asdict(d) for d in descriptions],
        }
        _print(json.dumps(value, indent=1))
        return 0
    _print(f"models folder: {folder.path}")
    rows = [("name", "here", "MB", "licence", "used by"), *(_row(m) for m in models)]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    for row in rows:
        cells = [row[n].rjust(widths[n]) if n == 2 else row[n].ljust(widths[n]) for n in range(4)]
        _print("  ".join([*cells, row[4]]).rstrip())
    return 0


def _row(m: KnownModel) -> tuple[str, str, str, str, str]:
    licence = f"{m.licence} (to be accepted)" if m.refused else m.licence
    users = [
        f"{kind} {', '.join(names)}" for kind, names in (("student", m.students), ("teacher", m.teachers)) if names
    ]
    return m.name, _STATES[m.state], f"{m.bytes / 1e6:.1f}", licence, "; ".join(users) or ("added" if m.added else "")


def _pull(args: argparse.Namespace, catalogue: Catalogue, folder: ModelsFolder) -> int:
    if args.all == bool(args.names):
        raise InvalidValue("NAME", args.names, "names of models, teachers or students; or --all alone")
    entries = catalogue.entries if args.all else chosen(args.names, catalogue, os.environ)
    addresses = {e.name: (mirror_address(args.mirror, e.file),) if args.mirror else e.addresses for e in entries}
    if not entries:
        _print(f"{', '.join(args.names)}: comes with Magpie, nothing is to be fetched")
    clock = SystemClock()
    shown = _Shown(clock, terminal=sys.stderr.isatty())
    fetcher = Fetcher(folder, clock, time.sleep, shown.show)
    _spare_acceptance(args.accept_licence, entries)
    failed = 0
    for entry in entries:
        try:
            _allow(folder, entry, args.accept_licence, clock)
            done = fetcher.fetch(entry, addresses[entry.name])
        except DiskFull:
            raise
        except MagpieError as error:
            shown.clear()
            sys.stderr.write(f"magpie models: {error}\n")
            failed += 1
        else:
            shown.clear()
            _print(_summary(entry, done))
    return 1 if failed else 0


def _spare_acceptance(accepted: str, entries: tuple[CatalogueEntry, ...]) -> None:
    """An acceptance of which no file has need is a mistyped one."""
    if accepted and not any(covers(accepted, e.licence) for e in entries):
        known = ", ".join(dict.fromkeys(e.licence for e in entries))
        raise InvalidValue("--accept-licence", accepted, f"a licence of what is pulled: {known}")


def _allow(folder: ModelsFolder, entry: CatalogueEntry, accepted: str, clock: Clock) -> None:
    """Raises LicenceRefused; remembers what is accepted now."""
    if accepted and covers(accepted, entry.licence):
        folder.accept(Accepted(accepted, entry.name, _by(), utc_text(clock.utc())))
    check_licence(entry.name, entry.licence, folder.accepted_for(entry.name))


def _summary(entry: CatalogueEntry, done: Fetched) -> str:
    how = {"was_here": "was here", "came": f"from {done.address}", "replaced": f"from {done.address}, for another file"}
    return f"{entry.name}: {done.bytes / 1e6:.1f} MB, {entry.licence}, {how[done.how]}"


def _check(args: argparse.Namespace, catalogue: Catalogue, folder: ModelsFolder) -> int:
    found = check(catalogue, folder, args.names)
    for one in found:
        _print(_verdict(one, folder))
    bad = sum(one.verdict != "here" for one in found)
    _print(f"{len(found)} files checked, {bad} of them not as they should be")
    return 1 if bad else 0


def _verdict(one: Checked, folder: ModelsFolder) -> str:
    match one.verdict:
        case "here":
            return f"good       {one.name}"
        case "missing":
            return f"MISSING    {one.name}: {folder.file(one.file)} is not there"
        case "partial":
            return f"HALF HERE  {one.name}: `magpie models pull {one.name}` brings the rest"
        case "changed" if one.found:
            return f"SWAPPED    {one.name}: {one.file} has the SHA-256 {one.found}, expected {one.expected}"
        case "changed":
            return f"SWAPPED    {one.name}: {one.file} has another size than it should have"
        case _:
            return f"UNKNOWN    {one.file}: nothing is known about it; `magpie models add` records its licence"


def _add(args: argparse.Namespace, catalogue: Catalogue, folder: ModelsFolder) -> int:
    if args.accept_licence and not covers(args.accept_licence, args.licence):
        raise InvalidValue("--accept-licence", args.accept_licence, f"the file's licence: {args.licence or 'unknown'}")
    licence = "unknown" if args.licence.strip().lower() in UNKNOWN else args.licence
    limit = worker_limit_bytes(args.worker_memory_mb, usable_bytes())
    addition = Addition(
        args.file, args.name, licence, _by(), args.attribution, args.accept_licence, args.replace, limit
    )
    done = add_model(folder, catalogue, SystemClock(), addition)
    how = {"was_here": "was here", "came": "added", "replaced": "replaced"}[done.how]
    _print(f"{done.notice.name}: {how}, {done.notice.bytes / 1e6:.1f} MB, {done.notice.licence}, {done.path}")
    _print(f"SHA-256 {done.notice.sha256}; a description names it as ${{MAGPIE_MODELS}}/{done.notice.file}")
    return 0


_ACTIONS: Final[dict[str, Callable[[argparse.Namespace, Catalogue, ModelsFolder], int]]] = {
    "list": _list,
    "pull": _pull,
    "check": _check,
    "add": _add,
}


class _Shown:
    """Events for people: troubles always, progress on a terminal only."""

    def __init__(self, clock: Clock, *, terminal: bool) -> None:
        self._clock, self._terminal = clock, terminal
        self._next_s, self._open = 0.0, False

    def show(self, happening: Happening) -> None:
        if isinstance(happening, FetchProgress):
            now = self._clock.monotonic()
            if self._terminal and now >= self._next_s:
                self._next_s, self._open = now + _EVERY_S, True
                share = min(happening.done / max(happening.total, 1), 1.0)
                mb = f"{happening.done / 1e6:.1f} of {happening.total / 1e6:.1f} MB"
                sys.stderr.write(f"\r\x1b[K{happening.name}  {mb}  {share:.0%}")
                sys.stderr.flush()
            return
        self.clear()
        if isinstance(happening, FetchWaiting):
            sys.stderr.write(f"{happening.name}: another process fetches it now; waiting\n")
        elif isinstance(happening, StartedAnew):
            words = "does not go on where it broke off, or has another file: from the start"
            sys.stderr.write(f"{happening.name}: {happening.address} {words}\n")
        elif happening.again_in_s is not None:
            words = f"{happening.message}; again in {happening.again_in_s:.0f} s"
            sys.stderr.write(f"{happening.name}: {urlsplit(happening.address).netloc}: {words}\n")

    def clear(self) -> None:
        """End the line of progress."""
        if self._open:
            sys.stderr.write("\r\x1b[K")
            self._open = False


def _by() -> str:
    """The account that typed the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return str(os.getuid())


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
