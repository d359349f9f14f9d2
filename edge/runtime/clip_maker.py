"""The clips of one camera, made in its worker: cut out of the ring when their end is there, written in a thread."""

from __future__ import annotations

import logging
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final

from edge.clips.mp4 import clip_path, write_clip
from edge.clips.rests import Rests
from edge.clips.ring import Footage, PacketRing
from edge.core.clips import CODECS, TICKS, ClipAsked, ClipFailed, ClipMade, Cut, RingNow
from edge.core.clock import Clock, SystemClock
from edge.core.errors import DiskFull, MagpieError
from edge.core.memory import give_back
from edge.core.vision import Observation
from edge.ingest.masking import Masker
from edge.settings import CameraSettings, ClipSettings
from scheduler.clips.asking import MOST_AT_ONCE
from scheduler.clips.cutting import cut, cut_by, due

log = logging.getLogger("magpie.clips")

#: Answers that are remembered for the boxes of clips.
_MOST_ANSWERS: Final = 4000
Done = ClipMade | ClipFailed


class ClipMaker:
    """`folder` is the appliance's data folder. Used from the worker's loop only; `ring` is filled by the reader."""

    def __init__(
        self, camera: CameraSettings, settings: ClipSettings, folder: Path, clock: Clock | None = None
    ) -> None:
        self._camera, self._folder = camera, folder
        self._clock: Clock = clock or SystemClock()
        self._ring_s = settings.ring_s
        self.ring = PacketRing(settings.ring_s, int(settings.ring_mb * 1e6))
        #: With the monotonic time by which each is cut.
        self._asked: list[tuple[ClipAsked, float]] = []
        self._writing: list[tuple[ClipAsked, Future[Done]]] = []
        self._done: list[Done] = []
        self._answers: deque[Observation] = deque(maxlen=_MOST_ANSWERS)
        self._rests = Rests()
        self._masker = Masker(camera.all_masks()) if camera.masks else None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="clips")

    def ask(self, asked: ClipAsked) -> None:
        """Make a clip as soon as its end is there; a later `step` returns it, or its failure."""
        if len(self._asked) + len(self._writing) >= MOST_AT_ONCE:
            self._done.append(ClipFailed(asked.number, asked.camera, "too_many"))
        else:
            self._asked.append((asked, cut_by(asked, self._clock.utc(), self._clock.monotonic())))

    def answered(self, observation: Observation) -> None:
        """An answer, whose boxes belong to the clips of its time."""
        self._answers.append(observation)
        # Not by UTC: after a clock that was set back nothing would be old until it is as late again.
        while self._answers[0].monotonic_s < observation.monotonic_s - 2 * self._ring_s:
            self._answers.popleft()

    def step(self, cut_short: bool = False) -> list[Done]:
        """Cut what can be cut; returns the clips that are made or failed since the last call. `cut_short`: nothing more
        will come."""
        if self._asked:
            stretches, now_s = self.ring.stretches(), self._clock.monotonic()
            for one in [a for a in self._asked if cut_short or now_s >= a[1] or due(a[0], stretches)]:
                self._asked.remove(one)
                self._cut(one[0], cut(one[0], stretches, cut_short))
        for asked, future in [w for w in self._writing if w[1].done()]:
            self._writing.remove((asked, future))
            self._done.append(future.result())
        done, self._done = self._done, []
        return done

    def finish(self, patience_s: float = 2.0) -> list[Done]:
        """Cut everything that was asked for as it is now, and wait for the files. Clips that are not written by then
        have failed."""
        self._rests.none()
        done = self.step(cut_short=True)
        ends = time.monotonic() + patience_s
        while self._writing and time.monotonic() < ends:
            wait([w[1] for w in self._writing], max(0.0, ends - time.monotonic()), FIRST_COMPLETED)
            done += self.step(cut_short=True)
        self._rests.give_up()
        for asked, future in self._writing:
            future.cancel()
            done.append(ClipFailed(asked.number, asked.camera, "interrupted"))
        self._writing.clear()
        return done

    def close(self) -> None:
        """Nothing more is made."""
        self._writer.shutdown(wait=False, cancel_futures=True)

    def now(self) -> RingNow:
        """The ring's state."""
        return self.ring.now()

    def _cut(self, asked: ClipAsked, found: Cut | None) -> None:
        footage = None if found is None else self.ring.footage(found)
        if found is None or footage is None:
            self._done.append(self._nothing(asked))
            return
        boxes = self._boxes(asked, footage)
        self._writing.append((asked, self._writer.submit(self._write, asked, found, footage, boxes)))

    def _nothing(self, asked: ClipAsked) -> ClipFailed:
        held = self.ring.stretches()
        if not held:
            codec = self.ring.now().codec
            unknown = bool(codec) and codec not in CODECS
            return ClipFailed(asked.number, asked.camera, "codec" if unknown else "not_in_ring")
        return ClipFailed(asked.number, asked.camera, "not_in_ring", held[0].keys_utc_s[0], held[-1].end_utc_s)

    def _boxes(self, asked: ClipAsked, footage: Footage) -> dict[str, Any]:
        """The side-car: the boxes of each answer, with its time in the clip."""
        names, first_pts = self._camera.classes, footage.first_pts
        pictures = {utc_s: (pts - first_pts) / TICKS for pts, utc_s in footage.shown.items()}
        answers = []
        for one in self._answers:
            at_s = pictures.get(one.utc_s)
            if at_s is None:
                continue
            found = one.detections
            boxes = [
                {"class": names[int(c)], "score": round(float(s), 3), "box": [round(float(v), 4) for v in b]}
                for b, s, c in zip(found.boxes, found.scores, found.classes, strict=True)
                if 0 <= int(c) < len(names)
            ]
            answers.append({"at_s": round(at_s, 3), "model_version": one.model_version, "boxes": boxes})
        begins = footage.begins_utc_s
        return {"clip": asked.number, "camera": asked.camera, "begins_utc_s": begins, "answers": answers}

    def _write(self, asked: ClipAsked, found: Cut, footage: Footage, boxes: dict[str, Any]) -> Done:
        """In the writer's thread."""
        try:
            path = clip_path(self._folder, asked.camera, asked.number)
            mask = self._masker
            file = write_clip(path, footage, boxes, None if mask is None else self._rests.between(mask.frame))
        except DiskFull:
            return ClipFailed(asked.number, asked.camera, "disk_full")
        except MagpieError as error:
            log.warning("clip %d: %s", asked.number, error)
            return ClipFailed(asked.number, asked.camera, "not_written")
        except Exception:  # nothing that a camera sent may end its worker
            log.exception("clip %d could not be written", asked.number)
            return ClipFailed(asked.number, asked.camera, "not_written")
        finally:
            give_back()
        codec = footage.codec if mask is None else "h264"
        return ClipMade(
            asked.number, asked.camera, footage.begins_utc_s, file.seconds, codec, file.width, file.height, file.bytes,
            file.sha256, found.missing_before_s, found.missing_after_s, found.end, mask is not None,
        )  # fmt: skip
