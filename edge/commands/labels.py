"""`magpie labels export|import`: people's labels as COCO or YOLO files, of a running appliance or of a data folder."""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from edge.commands.remote import remote_of
from edge.core.clock import SystemClock
from edge.core.errors import Conflict, InvalidValue, MagpieError, NotFound
from edge.core.truth import Finding
from edge.upkeep import label_files as files

if TYPE_CHECKING:
    from edge.appliance.truth import Truth

#: So much of a file goes into one request; the appliance takes 256 kB.
_BATCH_BYTES = 150_000
_FORMATS = ("coco", "yolo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie labels`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in (("export", "write people's labels of a camera into a file"), ("import", "add labels of a file")):
        action = actions.add_parser(name, help=text)
        action.add_argument("--camera", required=True, help="id of the camera")
        action.add_argument("--format", choices=_FORMATS, default="coco")
        action.add_argument("--url", help="a running appliance, e.g. http://127.0.0.1:8080")
        action.add_argument(
            "--token-from", default="", metavar="REF", help="env:NAME or file:/path[#key], an API token"
        )
        action.add_argument("--data-dir", type=Path, help="the data folder of an appliance that does not run")
        action.add_argument("--database-url", help="its database (default: SQLite in the folder)")
        if name == "export":
            action.add_argument("--out", type=Path, required=True, help="a new file: .json (COCO) or .zip (YOLO)")
        else:
            action.add_argument("file", type=Path, help="COCO: a .json file; YOLO: a .zip file or a folder")
            action.add_argument(
                "--complete", action="store_true", help="every picture in it holds all the objects that there are"
            )


def run(args: argparse.Namespace) -> int:
    """0: done. Raises MagpieError: no such camera, a file that cannot be read, an appliance that does not answer."""
    if (args.url is None) == (args.data_dir is None):
        raise InvalidValue("--url, --data-dir", None, "one of the two")
    return _export(args) if args.action == "export" else _import(args)


def _export(args: argparse.Namespace) -> int:
    if args.out.exists():
        raise Conflict(f"{args.out} exists", "give another name")
    if args.url is not None:
        document = remote_of(args).ask("GET", f"{_path(args)}/export?format=coco")
    else:
        with _Offline(args) as truth:
            document = json.loads(truth.export(args.camera, "coco").content)
    count = len(document["images"])
    if args.format == "coco":
        content = (json.dumps(document, indent=1) + "\n").encode()
    elif count == 0:
        content = files.zipped(files.to_yolo([], []))
    else:
        names = [str(c["name"]) for c in document["categories"]]
        content = files.zipped(files.to_yolo(files.from_coco(document), names))
    try:
        args.out.write_bytes(content)
    except OSError as error:
        raise MagpieError(f"{args.out} could not be written: {error.strerror}") from None
    sys.stdout.write(f"{count} pictures, {len(document['annotations'])} objects: {args.out}\n")
    return 0


def _import(args: argparse.Namespace) -> int:
    totals = dict.fromkeys(("pictures", "answers", "incomplete", "unknown", "there"), 0)
    bodies = list(_bodies(args.file, args.format, args.complete))

    def add(report: Mapping[str, Any]) -> None:
        for key in totals:
            totals[key] += int(report[key])

    if args.url is not None:
        remote = remote_of(args)
        for body in bodies:
            add(remote.ask("POST", f"{_path(args)}/import", body))
    else:
        with _Offline(args) as truth:
            for body in bodies:
                add(asdict(truth.import_labels(args.camera, body, "magpie labels")))
    sys.stdout.write(
        f"{totals['answers']} answers added from {totals['pictures']} pictures; {totals['there']} were there already;"
        f" left out: {totals['incomplete']} pictures not marked as complete (--complete says that all are),"
        f" {totals['unknown']} of no labelled frame here\n"
    )
    return 0


def _bodies(path: Path, form: str, complete: bool) -> Iterator[dict[str, Any]]:
    """The file as bodies of requests, each of a bearable size."""
    if form == "coco":
        for part in _parts_of_coco(_read_json(path)):
            yield {"format": "coco", "document": part, "complete": complete}
        return
    texts = _read_texts(path)
    files.from_yolo(texts)  # refused as a whole, before any part of it is sent
    shared = {name: text for name, text in texts.items() if name in (files.CLASSES, files.COMPLETE)}
    rest = [(name, text) for name, text in texts.items() if name not in shared]
    for some in _batches(rest, lambda item: len(item[0]) + len(item[1]) + 10):
        yield {"format": "yolo", "files": shared | dict(some), "complete": complete}


def _parts_of_coco(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kept = files.kept_answers(document, "magpie labels")
    if kept:
        ours = document["magpie"]
        for some in _batches(list(ours["answers"]), lambda row: len(json.dumps(row))):
            yield {"magpie": {"camera": ours["camera"], "answers": some}}
        return
    files.from_coco(document)
    objects: dict[int, list[dict[str, Any]]] = {}
    for row in document["annotations"]:
        objects.setdefault(row["image_id"], []).append({k: row[k] for k in ("image_id", "category_id", "bbox")})
    for some in _batches(list(document["images"]), lambda i: len(json.dumps([i, objects.get(i["id"], [])]))):
        annotations = [row for image in some for row in objects.get(image["id"], [])]
        yield {"categories": document["categories"], "images": some, "annotations": annotations}


def _batches(rows: list[Any], size: Any) -> Iterator[list[Any]]:
    some: list[Any] = []
    total = 0
    for row in rows:
        if some and total + size(row) > _BATCH_BYTES:
            yield some
            some, total = [], 0
        some.append(row)
        total += size(row)
    if some:
        yield some


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue(str(path), str(error)[:100], "a COCO file (JSON)") from None
    if not isinstance(value, dict):
        raise InvalidValue(str(path), type(value).__name__, "a COCO file (a JSON object)")
    return value


def _read_texts(path: Path) -> dict[str, str]:
    try:
        if path.is_dir():
            return {p.name: p.read_text(encoding="utf-8") for p in sorted(path.glob("*.txt"))}
        with zipfile.ZipFile(path) as archive:
            entries = [i for i in archive.infolist() if i.filename.endswith(".txt")]
            if sum(i.file_size for i in entries) > 64 << 20:
                raise InvalidValue(str(path), "more than 64 MB of text", "a smaller archive")
            return {Path(i.filename).name: archive.read(i).decode("utf-8") for i in entries}
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from None
    except (zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise InvalidValue(str(path), str(error)[:100], "a ZIP file or a folder of YOLO text files") from None


def _path(args: argparse.Namespace) -> str:
    return f"/cameras/{quote(args.camera, safe='')}/truth"


class _Offline:
    """The labels of a data folder that no appliance runs on. Raises Conflict (one does), NotFound."""

    def __init__(self, args: argparse.Namespace) -> None:
        if not args.data_dir.is_dir():
            raise NotFound(f"{args.data_dir}: there is no such folder")
        from edge.store.store import Store

        self._camera = args.camera
        self._store = Store(args.database_url, args.data_dir)
        self._data = args.data_dir

    def __enter__(self) -> Truth:
        from edge.appliance.truth import Truth

        return Truth(self._store.answers, self._data, SystemClock(), self._check, _unheard)

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def _check(self, camera: str) -> None:
        if camera not in {c.id for c in self._store.settings.cameras()}:
            raise NotFound(f"camera {camera} does not exist")


def _unheard(_: Finding) -> None:
    """Findings are for a running appliance."""
