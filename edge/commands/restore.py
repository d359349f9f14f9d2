"""`magpie restore FILE`: put a back-up in place. The appliance must not be running."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from edge.commands.upkeep import add_place, place
from edge.core.errors import Conflict
from edge.upkeep.archive import ArchiveReader
from edge.upkeep.backup import SITE, restore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie restore`."""
    parser.add_argument("file", type=Path, help="a file that `magpie backup` wrote")
    add_place(parser)
    parser.add_argument("--force", action="store_true", help="replace the data that is there")
    parser.add_argument("--check", action="store_true", help="only read the back-up and compare its hashes")
    parser.add_argument("--site-to", type=Path, metavar="FILE", help="write the site configuration that is in it here")


def run(args: argparse.Namespace) -> int:
    """Returns 0. Raises MagpieError; then the data is as it was."""
    if args.site_to is not None and args.site_to.exists() and not args.force:
        raise Conflict(f"{args.site_to} exists", "give another name, or --force")
    if args.check:
        with ArchiveReader(args.file) as archive:
            archive.verify()
            _print(
                f"{args.file}: whole, {len(archive.manifest.members)} files, {_when(archive.manifest.created_utc_s)}"
            )
    else:
        data_dir, url = place(args)
        done = restore(args.file, data_dir, url, force=args.force)
        _print(f"restored the state of {_when(done.created_utc_s)}: {done.models} models, {done.files} other files")
        if done.kept is not None:
            _print(f"the database that was here is {done.kept}")
        for line in done.damaged:
            _print(f"NOT IN THE BACK-UP: {line}")
    if args.site_to is not None:
        with ArchiveReader(args.file) as archive:
            if SITE not in archive.manifest.members:
                _print("no site configuration is in it (it was made without --config)")
                return 0
            args.site_to.unlink(missing_ok=True)
            archive.extract(SITE, args.site_to)
            _print(f"{args.site_to}: the site configuration; passwords in addresses have to be put in again")
    return 0


def _when(utc_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(utc_s))


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
