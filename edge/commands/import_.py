"""`magpie import frigate config.yml -o site.yaml`: cameras of another system as a site configuration."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from edge.core.errors import Conflict, InvalidValue, MagpieError
from edge.upkeep.frigate import Imported, import_frigate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie import`."""
    parser.add_argument("system", choices=("frigate",), help="whose configuration it is")
    parser.add_argument("file", type=Path, help="its configuration (YAML)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the site configuration to write")
    parser.add_argument("--secrets", type=Path, help="file for the passwords (default: OUTPUT with .secrets)")
    parser.add_argument("--force", action="store_true", help="replace files that exist")


def run(args: argparse.Namespace) -> int:
    """Returns 0. Raises MagpieError for a file that cannot be read or has no camera; then nothing is written."""
    secrets = args.secrets or args.output.with_suffix(".secrets")
    variables = {name: value for name, value in os.environ.items() if name.startswith("FRIGATE_")}
    found = import_frigate(_read(args.file), str(secrets.absolute()), variables)
    for path in (args.output, *([secrets] if found.secrets else ())):
        if path.exists() and not args.force:
            raise Conflict(f"{path} exists", "give another name, or --force")
    if found.secrets:
        # JSON, because a password may have any character. For its owner only, before anything is in it.
        _write(secrets, json.dumps(dict(found.secrets), indent=1, ensure_ascii=False) + "\n", 0o600)
    _write(args.output, _document(found, args.file.name), 0o644)
    sys.stdout.write(f"{args.output}: {len(found.site['cameras'])} cameras\n")
    if found.secrets:
        sys.stdout.write(f"{secrets}: {len(found.secrets)} passwords, readable by you only\n")
    if found.left:
        sys.stdout.write("not carried over:\n")
        sys.stdout.writelines(f"  {_line(where)}: {why}\n" for where, why in found.left)
    return 0


def _document(found: Imported, name: str) -> str:
    site = {"site": "site", "data_dir": "var", **found.site}
    body = yaml.safe_dump(site, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    return f"# Cameras of {_line(name)}. See configs/site.yaml for every field; start it with `magpie run`.\n\n{body}"


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def _write(path: Path, text: str, mode: int) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise MagpieError(f"{path}: cannot be written: {error.strerror}") from None


def _read(path: Path) -> Any:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MagpieError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise MagpieError(f"{path}: not a YAML file") from None
    if not isinstance(value, dict):
        raise InvalidValue(str(path), type(value).__name__, "a Frigate configuration")
    return value
