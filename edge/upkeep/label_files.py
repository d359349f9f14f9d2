"""Answers of people as label files, and label files as answers: COCO JSON and YOLO text.

Pictures are named by window and frame (`picture_name`). Both formats say which objects there are; neither can say which
boxes are wrong or whether a picture was looked at as a whole. So each file of ours also holds the names of the pictures
that were answered completely, and the COCO file holds every answer (`magpie.answers`). A file of others is read without
both.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from edge.core import checks
from edge.core.accuracy import match
from edge.core.disagreements import IOU
from edge.core.errors import InvalidValue
from edge.core.truth import (
    KINDS,
    Answer,
    AskableFrame,
    FrameKey,
    Marked,
    Question,
    QuestionKind,
    Verdict,
    fitting,
)
from edge.core.vision import Detections
from edge.core.zones import Box
from edge.store.answers import AnswerRecord

CLASSES, COMPLETE = "classes.txt", "complete.txt"
_NAME = re.compile(r"(?:.*[/_-])?w(\d{1,15})-f(\d{1,15})\.(?:jpe?g|png|txt)", re.IGNORECASE)
#: The most objects in a picture, and pictures in one file.
MAX_OBJECTS, MAX_PICTURES = 300, 10_000


@dataclass(frozen=True)
class PictureLabels:
    """People's labels of a picture. `complete`: nothing else is."""

    key: FrameKey
    objects: tuple[tuple[Box, str], ...]
    complete: bool
    width: int = 0
    height: int = 0


def picture_name(key: FrameKey) -> str:
    """File name of a picture."""
    return f"w{key.window:08d}-f{key.frame:08d}.jpg"


def key_of(name: str, path: str) -> FrameKey:
    """The frame that a file's name says. Raises InvalidValue."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise InvalidValue(path, name, "a name like w00000012-f00000345.jpg (window and frame)")
    return FrameKey(int(found.group(1)), int(found.group(2)))


# -- out


def to_coco(pictures: Sequence[PictureLabels], records: Iterable[AnswerRecord], camera: str) -> dict[str, Any]:
    """A COCO detection file. Pictures of unknown size are taken as 1000 x 1000 pixels, and say so."""
    names = sorted({name for p in pictures for _, name in p.objects})
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, picture in enumerate(pictures, 1):
        width, height = picture.width or 1000, picture.height or 1000
        images.append(
            {"id": number, "file_name": picture_name(picture.key), "width": width, "height": height,
             "magpie": {"window": picture.key.window, "frame": picture.key.frame, "complete": picture.complete,
                        "size_known": bool(picture.width)}}
        )  # fmt: skip
        for (x1, y1, x2, y2), name in picture.objects:
            w, h = (x2 - x1) * width, (y2 - y1) * height
            annotations.append(
                {"id": len(annotations) + 1, "image_id": number, "category_id": names.index(name) + 1,
                 "bbox": [round(x1 * width, 3), round(y1 * height, 3), round(w, 3), round(h, 3)],
                 "area": round(w * h, 3), "iscrowd": 0}
            )  # fmt: skip
    return {
        "info": {"description": f"Answers of people about pictures of camera {camera} (Magpie)"},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": n, "name": name, "supercategory": ""} for n, name in enumerate(names, 1)],
        "magpie": {"camera": camera, "answers": [r.to_json() for r in records]},
    }


def to_yolo(pictures: Sequence[PictureLabels], classes: Sequence[str]) -> dict[str, str]:
    """Text files by name: one for each picture, the class names, and the names of the complete pictures."""
    names = list(dict.fromkeys([*classes, *(name for p in pictures for _, name in p.objects)]))
    files = {CLASSES: "".join(f"{name}\n" for name in names)}
    for picture in pictures:
        lines = [
            f"{names.index(name)} {(x1 + x2) / 2:.6f} {(y1 + y2) / 2:.6f} {x2 - x1:.6f} {y2 - y1:.6f}\n"
            for (x1, y1, x2, y2), name in picture.objects
        ]
        files[picture_name(picture.key).replace(".jpg", ".txt")] = "".join(lines)
    files[COMPLETE] = "".join(f"{picture_name(p.key)}\n" for p in pictures if p.complete)
    return files


def zipped(files: Mapping[str, str]) -> bytes:
    """The files in one ZIP archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text)
    return out.getvalue()


# -- in


def from_coco(document: Mapping[str, Any], path: str = "document") -> list[PictureLabels]:
    """Raises InvalidValue naming the field that is wrong."""
    names: dict[int, str] = {}
    for n, row in enumerate(_list(document, "categories", path)):
        where = f"{path}.categories[{n}]"
        names[_whole(row, "id", where)] = _text(row, "name", where)
    pictures: dict[int, tuple[FrameKey, int, int, bool]] = {}
    for n, row in enumerate(_list(document, "images", path)):
        where = f"{path}.images[{n}]"
        size = [_whole(row, side, where) for side in ("width", "height")]
        for side, value in zip(("width", "height"), size, strict=True):
            checks.in_range(f"{where}.{side}", value, 1, 100_000)
        ours = row.get("magpie")
        complete = isinstance(ours, Mapping) and ours.get("complete") is True
        key = key_of(_text(row, "file_name", where), f"{where}.file_name")
        number = _whole(row, "id", where)
        if number in pictures:
            raise InvalidValue(f"{where}.id", number, "each id once")
        pictures[number] = (key, size[0], size[1], complete)
    objects: dict[int, list[tuple[Box, str]]] = {number: [] for number in pictures}
    for n, row in enumerate(_list(document, "annotations", path)):
        where = f"{path}.annotations[{n}]"
        image, category = _whole(row, "image_id", where), _whole(row, "category_id", where)
        checks.one_of(f"{where}.image_id", image, pictures)
        checks.one_of(f"{where}.category_id", category, names)
        _, width, height, _ = pictures[image]
        x, y, w, h = _numbers(row.get("bbox"), 4, f"{where}.bbox")
        box = _box((x / width, y / height, (x + w) / width, (y + h) / height), f"{where}.bbox", row.get("bbox"))
        objects[image].append((box, names[category]))
    return _checked(
        [PictureLabels(k, tuple(objects[i]), complete, w, h) for i, (k, w, h, complete) in pictures.items()], path
    )


def from_yolo(files: Mapping[str, str], path: str = "files") -> list[PictureLabels]:
    """`files`: text by name, as `to_yolo` makes them. Raises InvalidValue naming file and line."""
    if CLASSES not in files:
        raise InvalidValue(f"{path}.{CLASSES}", None, "a file with one class name a line")
    names = [line.strip() for line in str(files[CLASSES]).splitlines() if line.strip()]
    checks.not_empty(f"{path}.{CLASSES}", names)
    complete = {
        key_of(line.strip(), f"{path}.{COMPLETE}") for line in str(files.get(COMPLETE, "")).split("\n") if line.strip()
    }
    out = []
    for name, text in files.items():
        if name in (CLASSES, COMPLETE):
            continue
        key, objects = key_of(name, f"{path}.{name}"), []
        for n, line in enumerate(str(text).splitlines(), 1):
            if not line.strip():
                continue
            where = f"{path}.{name} line {n}"
            fields = line.split()
            index, x, y, w, h = _numbers(fields, 5, where)
            if index != int(index) or not 0 <= index < len(names):
                raise InvalidValue(where, fields[0], f"a class from 0 to {len(names) - 1}")
            objects.append((_box((x - w / 2, y - h / 2, x + w / 2, y + h / 2), where, line), names[int(index)]))
        out.append(PictureLabels(key, tuple(objects), key in complete))
    return _checked(out, path)


def _checked(pictures: list[PictureLabels], path: str) -> list[PictureLabels]:
    checks.not_empty(f"{path} (pictures)", pictures)
    checks.unique(f"{path} (pictures)", [picture_name(p.key) for p in pictures])
    checks.in_range(f"{path} (number of pictures)", len(pictures), 1, MAX_PICTURES)
    for picture in pictures:
        where = f"{path} (objects in {picture_name(picture.key)})"
        checks.in_range(where, len(picture.objects), 0, MAX_OBJECTS)
    return pictures


def _list(row: Mapping[str, Any], field: str, path: str) -> list[Mapping[str, Any]]:
    given = row.get(field)
    if not isinstance(given, list) or not all(isinstance(item, Mapping) for item in given):
        raise InvalidValue(f"{path}.{field}", given, "a list of objects")
    return given


def _whole(row: Mapping[str, Any], field: str, path: str) -> int:
    given = row.get(field)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 2**53:
        raise InvalidValue(f"{path}.{field}", given, "a whole number")
    return given


def _text(row: Mapping[str, Any], field: str, path: str) -> str:
    given = row.get(field)
    if not isinstance(given, str) or not 0 < len(given) <= 512:
        raise InvalidValue(f"{path}.{field}", given, "a text of 1 to 512 characters")
    checks.plain_text(f"{path}.{field}", given)
    return given


def _numbers(given: Any, count: int, path: str) -> list[float]:
    try:
        values = [float(v) for v in given]
    except (TypeError, ValueError):
        values = []
    if len(values) != count or not all(checks.finite(v) for v in values):
        raise InvalidValue(path, given, f"{count} numbers")
    return values


def _box(box: Box, path: str, given: Any) -> Box:
    """Clipped to the picture where rounding put it outside."""
    slack = 0.01
    if min(box) < -slack or max(box) > 1 + slack or box[0] >= box[2] or box[1] >= box[3]:
        raise InvalidValue(path, given, "a box of some size inside the picture")
    x1, y1, x2, y2 = (min(max(v, 0.0), 1.0) for v in box)
    return (x1, y1, x2, y2)


def kept_answers(document: Mapping[str, Any], by: str, path: str = "document") -> list[AnswerRecord]:
    """The answers that a COCO file of ours holds, as brought in by the importer `by`; none in a file of others.

    Raises InvalidValue naming the field that is wrong.
    """
    ours = document.get("magpie")
    if not isinstance(ours, Mapping) or "answers" not in ours:
        return []
    camera = _text(ours, "camera", f"{path}.magpie")
    out = []
    for n, row in enumerate(_list(ours, "answers", f"{path}.magpie")):
        out.append(_kept(row, camera, by, f"{path}.magpie.answers[{n}]"))
    return out


def _kept(row: Mapping[str, Any], camera: str, importer: str, where: str) -> AnswerRecord:
    key = FrameKey(_whole(row, "window", where), _whole(row, "frame", where))
    kind, verdict = row.get("kind"), row.get("verdict")
    checks.one_of(f"{where}.kind", kind, KINDS)
    candidate = None if kind == "missed" else _whole(row, "candidate", where)
    objects = [
        (_box(_four(m.get("box"), f"{where}.marked[{i}].box"), f"{where}.marked[{i}].box", m.get("box")),
         _text(m, "class", f"{where}.marked[{i}]"))
        for i, m in enumerate(_list(row, "marked", where))
    ]  # fmt: skip
    names = tuple(dict.fromkeys(name for _, name in objects))
    (utc_s,) = _numbers([row.get("utc_s")], 1, f"{where}.utc_s")
    missed = None if row.get("missed") is None else _whole(row, "missed", where)
    by = _author(row, where)
    boxes = [
        None if row.get(side) is None else _four(row.get(side), f"{where}.{side}")
        for side in ("student_box", "teacher_box")
    ]
    name = None if row.get("class") is None else _text(row, "class", where)
    size = [_whole(row, side, where) for side in ("width", "height")]
    try:
        marked = tuple(Marked(box, names.index(name)) for box, name in objects)
        question = Question(key, cast(QuestionKind, kind), candidate)
        answer = Answer(question, cast(Verdict, verdict), by, utc_s, missed, marked, "import", importer)
        return AnswerRecord(camera, answer, names, name, boxes[0], boxes[1], size[0], size[1])
    except InvalidValue as error:
        raise InvalidValue(f"{where}: {error.path}", error.given, error.allowed) from None


def _author(row: Mapping[str, Any], where: str) -> str:
    """The person who answered. Files without `imported_by` are of the older format, in which `by` of an imported answer
    is "PERSON via IMPORTER". No person's name holds " via "."""
    by = _text(row, "by", where)
    return by if "imported_by" in row else by.partition(" via ")[0]


def _four(given: Any, path: str) -> Box:
    x1, y1, x2, y2 = _numbers(given, 4, path)
    return (x1, y1, x2, y2)


# -- labels as answers


def answers_to(
    picture: PictureLabels, frame: AskableFrame, classes: Sequence[str]
) -> list[tuple[Question, Verdict, int | None, tuple[Marked, ...]]]:
    """Answers of a complete picture's labels to the frame's questions: (question, verdict, missed, marked).

    An incomplete picture answers nothing: it would say "yes" only, and missing answers would not be counted.
    Raises InvalidValue for a class that is none of the camera's.
    """
    for _, name in picture.objects:
        checks.one_of(f"labels of {picture_name(picture.key)} (class)", name, classes)
    if not picture.complete:
        return []
    there = [classes.index(name) for _, name in picture.objects]
    truth = Detections.build([box for box, _ in picture.objects], [1.0] * len(there), there)
    owners: list[dict[int, int]] = []
    for boxes in (
        [(c, c.student, c.student_score) for c in frame.candidates if c.student is not None],
        [(c, c.teacher, c.teacher_score) for c in frame.candidates if c.teacher is not None],
    ):
        found = Detections.build(
            [b for _, b, _ in boxes], [s for _, _, s in boxes], [c.class_index for c, _, _ in boxes]
        )
        owners.append({c.index: int(o) for (c, _, _), o in zip(boxes, match(found, truth, IOU), strict=True)})
    out: list[tuple[Question, Verdict, int | None, tuple[Marked, ...]]] = []
    seen: set[int] = set()
    for c in frame.candidates:
        student, teacher = owners[0].get(c.index, -1), owners[1].get(c.index, -1)
        seen |= {o for o in (student, teacher) if o >= 0}
        out.append((Question(picture.key, "box", c.index), fitting(c.group, student >= 0, teacher >= 0), None, ()))
    rest = [n for n in range(len(there)) if n not in seen]
    marked = tuple(Marked(picture.objects[n][0], there[n]) for n in rest)
    out.append((Question(picture.key, "missed"), "counted", len(rest), marked))
    return out
