"""`magpie backup FILE`: everything that an appliance remembers, in one verified file. It may be running."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edge.commands.upkeep import add_place, place
from edge.core.access import SECRETS_FILE
from edge.upkeep.backup import back_up


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie backup`."""
    parser.add_argument("file", type=Path, help="the back-up to write, e.g. magpie-2026-11-21.tar")
    add_place(parser)
    parser.add_argument("--pictures", action="store_true", help="with the pictures of the windows that are still kept")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    """0; 1 if model files were damaged and are missing from it. Raises MagpieError."""
    data_dir, url = place(args)
    done = back_up(args.file, data_dir, url, pictures=args.pictures, site=args.config, force=args.force)
    sys.stdout.write(
        f"{done.path}: {done.bytes / 1e6:.1f} MB, {done.models} models, {done.files} other files, read back and whole\n"
    )
    if (data_dir / SECRETS_FILE).exists():
        sys.stdout.write(f"{SECRETS_FILE} is not in it: after a restore the secrets are to be set again\n")
    if done.vanished:
        sys.stdout.write(f"{done.vanished} files were deleted while it was made and are not in it\n")
    if done.strange:
        sys.stdout.write(f"{done.strange} files with names that Magpie does not give are not in it\n")
    for line in done.damaged:
        sys.stdout.write(f"NOT IN IT, DAMAGED: {line}\n")
    return 1 if done.damaged else 0
