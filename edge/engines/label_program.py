"""The program `label` of a fleet's jobs: a teacher labels a folder's pictures, at its own pace, into a COCO file.

It may be lost at any moment and done again, here or elsewhere where the folder is the same: the labels of each picture
are kept as a line beside the file, and no picture is labelled twice. A copy that goes on somewhere does no harm, since
the same pictures by the same teacher give the same lines; the file gets its name when all of it is there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge.core.errors import Conflict, InvalidValue
from edge.detectors.classes import ClassMap
from edge.detectors.pictures import decoded, read_jpeg
from edge.engines.job_folders import folder_of, inside
from edge.engines.label_work import LabelWork, label_work
from edge.files import os_errors, store_whole
from edge.models.descriptions import described
from golden.labelling import Labeller
from golden.spec import TeacherSpec, read_teacher
from golden.teacher import open_teacher

_JPEG: Final = (".jpg", ".jpeg")
_PICTURES: Final = (*_JPEG, ".png")
_MOST_PICTURES: Final = 200_000


@dataclass(frozen=True)
class LabelPlaces:
    """Files of a work: the pictures' folder, the file to write, and the file of what is labelled so far."""

    pictures: Path
    out: Path
    so_far: Path


def label(arguments: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, Any]]:
    """Answers with the numbers of `pictures`, of `objects`, of pictures that are `unreadable`, and with `again`: how
    many an earlier run had labelled. Raises InvalidValue for a folder, a path or a class that is not there, Conflict
    where another work wrote `out`, WeightsError for model files that are missing, StoreError, DiskFull."""
    work = label_work(arguments)
    root = folder_of(work.folder)
    places = _places(work, root)
    path = described(work.teacher, "teacher")
    if path == Path(work.teacher):
        raise InvalidValue("arguments.teacher", work.teacher, "the name of a shipped teacher (magpie models list)")
    spec = read_teacher(path)
    digest = _digest(work, spec)
    if places.out.exists():
        return _answer_of(places.out, digest)
    names = _names(places.pictures)
    done = _kept(places.so_far, digest)
    again = len(done.keys() & set(names))
    if again < len(names):
        labeller, classes = _labeller(work, spec)
        with os_errors(places.so_far), open(_started(places.so_far, digest), "ab", buffering=0) as kept:
            for name in names:
                if name not in done:
                    done[name] = _labelled(labeller, classes, places.pictures / name)
                    # One write for a line, at the end of the file: another copy's lines stay whole.
                    kept.write(_line({"file": name, **done[name]}))
                    yield from ()  # the file is the checkpoint
    document = coco_document(work, names, done, digest)
    store_whole(places.out, (json.dumps(document, indent=1) + "\n").encode())
    places.so_far.unlink(missing_ok=True)
    return {**document["magpie"]["counts"], "again": again}


def coco_document(
    work: LabelWork, names: Sequence[str], rows: Mapping[str, Mapping[str, Any]], digest: str
) -> dict[str, Any]:
    """The COCO file: pictures by their path below `pictures`, boxes in pixels, with the teacher's `score`. Pictures
    that cannot be read are left out and named."""
    readable = [name for name in names if "objects" in rows[name]]
    classes = list(work.classes) or sorted({found["class"] for name in readable for found in rows[name]["objects"]})
    annotations: list[dict[str, Any]] = []
    images = []
    for number, name in enumerate(readable, 1):
        row = rows[name]
        images.append({"id": number, "file_name": name, "width": row["width"], "height": row["height"]})
        for found in row["objects"]:
            x1, y1, x2, y2 = found["box"]
            box = [x1 * row["width"], y1 * row["height"], (x2 - x1) * row["width"], (y2 - y1) * row["height"]]
            annotations.append(
                {"id": len(annotations) + 1, "image_id": number, "category_id": classes.index(found["class"]) + 1,
                 "bbox": [round(side, 2) for side in box], "area": round(box[2] * box[3], 2), "iscrowd": 0,
                 "score": found["score"]}
            )  # fmt: skip
    unreadable = [name for name in names if "objects" not in rows[name]]
    counts = {"pictures": len(images), "objects": len(annotations), "unreadable": len(unreadable)}
    return {
        "info": {"description": f"Labels of the teacher {work.teacher} (Magpie)"},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": n, "name": name, "supercategory": ""} for n, name in enumerate(classes, 1)],
        "magpie": {"teacher": work.teacher, "work": digest, "counts": counts, "unreadable": unreadable},
    }


def _places(work: LabelWork, root: Path) -> LabelPlaces:
    pictures = inside(root, "pictures", work.pictures)
    if not pictures.is_dir():
        raise InvalidValue("arguments.pictures", work.pictures, f"a folder in the folder {work.folder}")
    out = inside(root, "out", work.out)
    return LabelPlaces(pictures, out, out.with_name(f".{out.name}.so-far"))


def _names(folder: Path) -> list[str]:
    """Pictures below a folder, by their path in it. Links are not followed."""
    found = []
    with os_errors(folder):
        for place, _, files in os.walk(folder):
            found += [Path(place, name) for name in files if name.lower().endswith(_PICTURES)]
    names = sorted(str(path.relative_to(folder)) for path in found if not path.is_symlink())
    if not 0 < len(names) <= _MOST_PICTURES:
        raise InvalidValue("arguments.pictures", f"{len(names)} pictures", f"1 to {_MOST_PICTURES} JPEG and PNG files")
    return names


def _labeller(work: LabelWork, spec: TeacherSpec) -> tuple[Labeller, tuple[str, ...]]:
    """The teacher, and the classes that its answers index."""
    teacher = open_teacher(spec, work.threads)
    classes = work.classes or teacher.classes
    class_map = ClassMap.build(classes, teacher.classes, work.class_map, "arguments.class_map")
    return Labeller(teacher, class_map, spec.label_score), class_map.classes


def _labelled(labeller: Labeller, classes: Sequence[str], path: Path) -> dict[str, Any]:
    """A picture's size and objects; nothing for one that cannot be read."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    picture = read_jpeg(data) if path.suffix.lower() in _JPEG else decoded(data)
    if picture is None:
        return {}
    found = labeller.label_picture(picture).labels
    objects = [
        {"box": [round(float(side), 5) for side in box], "class": classes[index], "score": round(float(s), 4)}
        for box, s, index in zip(found.boxes, found.scores, found.classes, strict=True)
    ]
    return {"width": picture.shape[1], "height": picture.shape[0], "objects": objects}


# -- what an earlier run did


def _digest(work: LabelWork, spec: TeacherSpec) -> str:
    """Two runs with the same digest label alike."""
    mapped = sorted((name, wanted) for name, wanted in work.class_map.items())
    return hashlib.sha256(repr((spec, work.pictures, work.classes, mapped)).encode()).hexdigest()


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"


def _started(path: Path, digest: str) -> Path:
    """The file of what is labelled so far; one of another work is begun anew."""
    if not path.exists() or _first_line(path) != {"work": digest}:
        store_whole(path, _line({"work": digest}))
    elif not path.read_bytes().endswith(b"\n"):  # a line that a loss cut off
        with path.open("ab") as kept:
            kept.write(b"\n")
    return path


def _first_line(path: Path) -> Any:
    with path.open("rb") as kept:
        return _row(kept.readline())


def _kept(path: Path, digest: str) -> dict[str, dict[str, Any]]:
    """The labels so far, by picture. A line that a loss cut off is labelled again."""
    try:
        first, *lines = path.read_bytes().split(b"\n")
    except OSError:
        return {}
    if _row(first) != {"work": digest}:
        return {}
    rows = [row for row in map(_row, lines) if isinstance(row, dict) and "file" in row]
    return {row.pop("file"): row for row in reversed(rows)}


def _row(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _answer_of(out: Path, digest: str) -> dict[str, Any]:
    """The answer of a run that wrote the file before its answer was lost."""
    document = _row(out.read_bytes())
    ours = document.get("magpie") if isinstance(document, dict) else None
    if not isinstance(ours, dict) or ours.get("work") != digest:
        raise Conflict(f"{out.name} is there already, and is not of this work", "give another name in arguments.out")
    return {**ours["counts"], "again": ours["counts"]["pictures"] + ours["counts"]["unreadable"]}
