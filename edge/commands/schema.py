"""`magpie schema NAME`: a JSON schema of a file format, derived from the types. Starts without torch."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from edge.core.file_schemas import FILE_FORMATS, file_schema

HELP = "print a JSON schema of a file format"

#: The site configuration has its schema from the settings that check it.
SITE = "site"
_NAMES = sorted([*FILE_FORMATS, SITE])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`schema NAME`."""
    parser.add_argument("name", choices=_NAMES, metavar="NAME", help="one of " + ", ".join(_NAMES))


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    sys.stdout.write(json.dumps(schema(args.name), indent=2) + "\n")
    return 0


def schema(name: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the file format called `name`."""
    if name == SITE:
        from edge.settings import site_schema

        return site_schema()
    return file_schema(name)
