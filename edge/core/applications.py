"""Applications: several served models behind one name, as values (gpu-lets, section 5: `game` and `traffic`).

An application is a graph of stages without cycles. Each stage asks one model; its inputs come from the application's
inputs or from the answers of other stages, by a few operations on pictures. Every value keeps the request's rows as its
first dimension. A stage that cuts boxes out of its picture asks its model once for each cut-out, and its answers have
the shape (rows, `most`, ...), unused places zero; `STAGE.count` tells how many are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from edge.core import checks
from edge.core.application_sources import ApplicationSource, AttributeOutput, SourceFault
from edge.core.errors import InvalidValue
from edge.core.oip import ModelMetadata, TensorSpec
from edge.core.serving import MOST_QUEUES, MOST_RATE

#: The output that a cutting stage has beside its model's: how many places of each row are used, INT32 (rows,).
COUNT = "count"
PLATFORM = "pipeline"
#: Stages of one application.
MOST_STAGES = 64
#: Of the time that is kept for later stages an earlier one may use this part before its request is given up.
LENT = 0.25


@dataclass(frozen=True)
class ValueSource:
    """Where a value of an application comes from: the output `tensor` of `stage`, or with no stage the application's
    input `tensor`."""

    stage: str | None
    tensor: str

    @staticmethod
    def from_text(text: str) -> ValueSource:
        """Inverse of `text`."""
        stage, dot, tensor = text.partition(".")
        return ValueSource(stage, tensor) if dot else ValueSource(None, text)

    @property
    def text(self) -> str:
        """As descriptions write it: STAGE.OUTPUT, or the input's name."""
        return self.tensor if self.stage is None else f"{self.stage}.{self.tensor}"


#: The input that has the boxes of the camera's objects, where a camera is the source of the application.
CAMERA_BOXES = ValueSource(None, "boxes")


@dataclass(frozen=True)
class Crop:
    """The part (`left`, `top`, `right`, `bottom`) of a picture, in fractions of its width and height."""

    left: float
    top: float
    right: float
    bottom: float

    def __post_init__(self) -> None:
        for name in ("left", "top"):
            checks.in_range(f"crop.{name}", getattr(self, name), 0.0, 1.0)
        checks.in_range("crop.right", self.right, self.left, 1.0, low_open=True)
        checks.in_range("crop.bottom", self.bottom, self.top, 1.0, low_open=True)


@dataclass(frozen=True)
class Resize:
    """A picture scaled to `height` x `width` pixels."""

    height: int
    width: int

    def __post_init__(self) -> None:
        checks.in_range("resize.height", self.height, 1, 8192)
        checks.in_range("resize.width", self.width, 1, 8192)


@dataclass(frozen=True)
class Grey:
    """A colour picture (R, G, B) as one channel of luminance."""


@dataclass(frozen=True)
class Normalise:
    """UINT8 (rows, height, width, channels) to FP32 (rows, channels, height, width): (value / 255 - mean) / std."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        checks.not_empty("normalise.mean", self.mean)
        if len(self.mean) != len(self.std):
            raise InvalidValue("normalise.std", self.std, f"as many numbers as mean has ({len(self.mean)})")
        for n, value in enumerate(self.std):
            checks.positive(f"normalise.std[{n}]", value)


@dataclass(frozen=True)
class CropBoxes:
    """At most `most` cut-outs of each picture, the likeliest first, each scaled to `height` x `width` pixels.

    `boxes` names a value (rows, boxes, 4) of (left, top, right, bottom): in fractions, or in pixels of a picture of
    `scale` = (height, width). Taken are boxes whose score (`scores`: (rows, boxes)) is at least `above`, and whose
    label (`labels`: (rows, boxes)) is one of `classes` (empty: any); and which have an area. A box is cut out with its
    sides times `margin`; `square`: as the square of its longer side. Parts outside the picture are left out.
    """

    boxes: ValueSource
    height: int
    width: int
    most: int = 1
    scores: ValueSource | None = None
    above: float = 0.0
    labels: ValueSource | None = None
    classes: tuple[int, ...] = ()
    scale: tuple[int, int] | None = None
    margin: float = 1.0
    square: bool = False

    def __post_init__(self) -> None:
        checks.in_range("crop_boxes.margin", self.margin, 0.1, 10.0)
        checks.in_range("crop_boxes.height", self.height, 1, 8192)
        checks.in_range("crop_boxes.width", self.width, 1, 8192)
        checks.in_range("crop_boxes.most", self.most, 1, 1024)
        checks.in_range("crop_boxes.above", self.above, -1e9, 1e9)
        if self.classes and self.labels is None:
            raise InvalidValue(
                "crop_boxes.labels", None, "the value that holds the boxes' labels, as classes are given"
            )
        for n, size in enumerate(self.scale or ()):
            checks.in_range(f"crop_boxes.scale[{n}]", size, 1, 65536)

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """The values that it reads beside the picture."""
        return tuple(s for s in (self.boxes, self.scores, self.labels) if s is not None)


Operation = Crop | Resize | Grey | Normalise | CropBoxes


@dataclass(frozen=True)
class Feed:
    """One input of a stage's model: the value `source` after `operations`, in their order."""

    source: ValueSource
    operations: tuple[Operation, ...] = ()

    @property
    def cut(self) -> CropBoxes | None:
        """Its operation that cuts boxes out, if it has one."""
        return next((o for o in self.operations if isinstance(o, CropBoxes)), None)

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """All values that it reads."""
        return (self.source, *(self.cut.sources if self.cut else ()))


@dataclass(frozen=True)
class Alternative:
    """A model that may answer a stage, and the part of its answers that are right, 0-1, as its owner measured it."""

    model: str
    accuracy: float

    def __post_init__(self) -> None:
        checks.in_range(f"alternatives[{self.model}].accuracy", self.accuracy, 0.0, 1.0, low_open=True)


@dataclass(frozen=True)
class Stage:
    """One question to one model. `inputs[name of the model's input]`. `per_request`: how many rows it asks for on
    average for one row of the application (for planning; a stage that cuts asks for as many as there are cut-outs).
    `alternatives` are models that take the same inputs and may answer instead of `model`; each has an accuracy then."""

    name: str
    model: str
    inputs: Mapping[str, Feed]
    version: str | None = None
    per_request: float = 1.0
    accuracy: float | None = None
    alternatives: tuple[Alternative, ...] = ()

    def __post_init__(self) -> None:
        at = f"stages[{self.name}]"
        if not self.name or "." in self.name:
            raise InvalidValue("stage.name", self.name, "a name without a dot")
        checks.not_empty(f"{at}.inputs", list(self.inputs))
        checks.in_range(f"{at}.per_request", self.per_request, 0.0, 1e6, low_open=True)
        if self.cut is not None and len(self.inputs) > 1:
            raise InvalidValue(f"{at}.inputs", sorted(self.inputs), "one input, as the stage cuts boxes out of it")
        if self.accuracy is not None:
            checks.in_range(f"{at}.accuracy", self.accuracy, 0.0, 1.0, low_open=True)
        if self.alternatives:
            if self.accuracy is None:
                raise InvalidValue(f"{at}.accuracy", None, "a number from 0 to 1, as the stage has alternatives")
            if self.version is not None:
                raise InvalidValue(f"{at}.version", self.version, "no version, as the stage has alternatives")
            checks.unique(f"{at}.alternatives", [self.model, *(a.model for a in self.alternatives)])

    @property
    def options(self) -> tuple[Alternative, ...]:
        """The models that may answer it, the most accurate first; none where it has no alternatives."""
        if not self.alternatives or self.accuracy is None:
            return ()
        every = (Alternative(self.model, self.accuracy), *self.alternatives)
        return tuple(sorted(every, key=lambda option: (-option.accuracy, option.model)))

    def answered_by(self, model: str) -> Stage:
        """The stage with one of its `options` as its model."""
        if model == self.model:
            return self
        accuracy = next(a.accuracy for a in self.alternatives if a.model == model)
        others = tuple(a for a in self.options if a.model != model)
        return replace(self, model=model, accuracy=accuracy, alternatives=others)

    @property
    def cut(self) -> CropBoxes | None:
        """Its operation that cuts boxes out, if it has one."""
        return next((feed.cut for feed in self.inputs.values() if feed.cut), None)

    @cached_property
    def sources(self) -> tuple[ValueSource, ...]:
        """All values that it reads, each once, in the order of their texts."""
        every = {source for feed in self.inputs.values() for source in feed.sources}
        return tuple(sorted(every, key=lambda source: source.text))

    @cached_property
    def after(self) -> frozenset[str]:
        """The stages whose answers it reads."""
        return frozenset(source.stage for source in self.sources if source.stage is not None)


@dataclass(frozen=True)
class ApplicationOutput:
    """An output of the application: the value `source`, given out as `spec`; with `attribute` it also describes the
    objects of the camera that feeds the application."""

    spec: TensorSpec
    source: ValueSource
    attribute: AttributeOutput | None = None


@dataclass(frozen=True)
class Application:
    """Stages behind one name, answered within `slo_ms` from end to end. `budgets`: milliseconds of each stage in the
    plan in force; empty: nothing is planned yet. `source` is the camera that asks it (None: clients do), `unfed` why
    that camera gives it nothing (None: it does). `queues`: the number of the queue of
    its model that a stage asks; 0 for a stage that is not there. Raises InvalidValue where a value is read that no
    input or stage gives, for cycles, for more than `MOST_STAGES` stages, for a rate at which a model would be asked
    more than `MOST_RATE`, for budgets that are not of all stages or that add up to more than `slo_ms` on some way, and
    for a queue of no stage."""

    name: str
    slo_ms: float
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[ApplicationOutput, ...]
    stages: tuple[Stage, ...]
    version: str = "1"
    priority: int = 0
    rate: float = 0.0  # expected requests per second to start with
    digest: str = field(default="", compare=False)
    budgets: Mapping[str, float] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    source: ApplicationSource | None = None
    unfed: SourceFault | None = None

    def __post_init__(self) -> None:
        checks.positive("slo_ms", self.slo_ms)
        checks.in_range("rate", self.rate, 0.0, MOST_RATE)
        checks.not_empty("inputs", self.inputs)
        checks.not_empty("outputs", self.outputs)
        checks.not_empty("stages", self.stages)
        if len(self.stages) > MOST_STAGES:
            raise InvalidValue("stages", f"{len(self.stages)} stages", f"at most {MOST_STAGES} stages")
        checks.unique("inputs", [i.name for i in self.inputs])
        checks.unique("outputs", [o.spec.name for o in self.outputs])
        checks.unique("stages", [s.name for s in self.stages])
        given = {i.name for i in self.inputs}
        stages = {s.name: s for s in self.stages}
        for tensor in self.inputs:
            if "." in tensor.name:
                raise InvalidValue("inputs.name", tensor.name, "a name without a dot")
        for stage in self.stages:
            if self.name in (stage.model, *(a.model for a in stage.alternatives)):
                raise InvalidValue(f"stages[{stage.name}].model", self.name, "another model than the application")
            for source in stage.sources:
                self._known(f"stages[{stage.name}].inputs", source, given, stages)
        for output in self.outputs:
            self._known(f"outputs[{output.spec.name}].from", output.source, given, stages)
            cut = _cut_for(output.source, stages)
            shape = output.spec.shape
            if cut and output.source.tensor != COUNT and (len(shape) < 2 or shape[1] != cut.most):
                raise InvalidValue(
                    f"outputs[{output.spec.name}].shape", shape, f"(-1, {cut.most}, ...), one per cut-out"
                )
            if output.attribute is not None:
                self._check_attribute(output, stages)
        self._check_order()
        self._check_rate()
        if self.budgets:
            self._check_budgets()
        for name, number in self.queues.items():
            checks.one_of("queues", name, stages)
            checks.in_range(f"queues[{name}]", number, 0, MOST_QUEUES - 1)

    def _check_attribute(self, output: ApplicationOutput, stages: Mapping[str, Stage]) -> None:
        at = f"outputs[{output.spec.name}]"
        if self.source is None:
            raise InvalidValue(f"{at}.attribute", output.spec.name, "none, as no camera is the source")
        cut = _cut_for(output.source, stages)
        if cut is None or cut.boxes != CAMERA_BOXES or output.source.tensor == COUNT:
            allowed = "an output of a stage that cuts out the camera's `boxes`"
            raise InvalidValue(f"{at}.from", output.source.text, allowed)
        assert output.attribute is not None
        output.attribute.check(at, output.spec, cut.most)

    def _check_budgets(self) -> None:
        names = sorted(s.name for s in self.stages)
        if sorted(self.budgets) != names:
            raise InvalidValue("budgets", sorted(self.budgets), f"one of each stage: {', '.join(names)}")
        for name, budget_ms in self.budgets.items():
            checks.positive(f"budgets[{name}]", budget_ms)
        name, longest_ms = max(self.rest_ms.items(), key=lambda item: item[1])
        if longest_ms > self.slo_ms * (1 + 1e-9):
            raise InvalidValue(
                f"budgets[{name}]", longest_ms, f"at most {self.slo_ms:g} ms on the way from it to an end"
            )

    @staticmethod
    def _known(path: str, source: ValueSource, given: set[str], stages: Mapping[str, Stage]) -> None:
        if source.stage in stages and source.tensor:
            if source.tensor == COUNT and _cut_for(source, stages) is None:
                allowed = f"an output of {source.stage}'s model ({COUNT} is there where boxes are cut)"
                raise InvalidValue(path, source.text, allowed)
            return
        if source.stage is not None or source.tensor not in given:
            allowed = ", ".join([*sorted(given), *(f"{s}.OUTPUT" for s in stages)])
            raise InvalidValue(path, source.text, f"an input or a stage's output: {allowed}")

    def _check_order(self) -> None:
        done: set[str] = set()
        left = list(self.stages)
        while left:
            free = [s for s in left if s.after <= done]
            if not free:
                raise InvalidValue(
                    "stages", [s.name for s in left], "stages that do not wait for each other in a circle"
                )
            done |= {s.name for s in free}
            left = [s for s in left if s.name not in done]

    def _check_rate(self) -> None:
        if self.rate <= self.most_rate:
            return
        stage = max(self.stages, key=lambda s: s.per_request)
        allowed = f"rows at which no model is asked more than {MOST_RATE:g} a second, of {self.rate:g} requests"
        raise InvalidValue(f"stages[{stage.name}].per_request", stage.per_request, allowed)

    @cached_property
    def most_rate(self) -> float:
        """The largest rate, in rows per second, at which none of its models is asked more than `MOST_RATE`. A model
        that may answer several stages counts for all of them."""
        rows: dict[str, float] = {}
        for stage in self.stages:
            for model in {stage.model, *(a.model for a in stage.alternatives)}:
                rows[model] = rows.get(model, 0.0) + stage.per_request
        return min(MOST_RATE, MOST_RATE / max(rows.values()))

    @cached_property
    def rest_ms(self) -> Mapping[str, float]:
        """Stage -> the largest sum of budgets on a way from it to an end, itself included. Empty without budgets."""
        readers = {s.name: [r.name for r in self.stages if s.name in r.after] for s in self.stages}
        rest: dict[str, float] = {}

        def longest(name: str) -> float:
            if name not in rest:
                rest[name] = self.budgets[name] + max((longest(r) for r in readers[name]), default=0.0)
            return rest[name]

        return {name: longest(name) for name in self.budgets}

    def part_of_rest(self, stage: str) -> float:
        """The part of the time that is left which `stage` gets: its budget over the longest sum of budgets from it to
        an end, so that time saved before it goes to all that follow, each by its need. 1 where nothing is planned."""
        return self.budgets[stage] / self.rest_ms[stage] if self.budgets else 1.0

    def most_of_rest(self, stage: str) -> float:
        """The part of the time that is left after which `stage` is given up: its own, and `LENT` of what is kept for
        the stages behind it. These seldom need all of theirs, which holds their worst case."""
        own = self.part_of_rest(stage)
        return own + LENT * (1.0 - own)

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """Stage -> stages on the longest way from a beginning to it, itself included."""
        depths: dict[str, int] = {}
        stages = {s.name: s for s in self.stages}

        def depth(name: str) -> int:
            if name not in depths:
                depths[name] = 1 + max((depth(b) for b in stages[name].after), default=0)
            return depths[name]

        return {s.name: depth(s.name) for s in self.stages}

    @property
    def models(self) -> tuple[str, ...]:
        """The models that it asks, each once, in the order of the stages."""
        return tuple(dict.fromkeys(s.model for s in self.stages))

    @property
    def every_model(self) -> frozenset[str]:
        """The models that it asks or may ask."""
        return frozenset((*self.models, *(a.model for s in self.stages for a in s.alternatives)))

    @property
    def choice(self) -> Mapping[str, str]:
        """Stage -> the model that answers it, of the stages that have alternatives."""
        return {s.name: s.model for s in self.stages if s.alternatives}

    def choosing(self, choice: Mapping[str, str]) -> Application:
        """The application with these models, by stage; the budgets stay."""
        return replace(self, stages=tuple(s.answered_by(choice.get(s.name, s.model)) for s in self.stages))

    @property
    def accuracy(self) -> float | None:
        """The part of requests that every stage answers right, taken as independent of each other; None where no stage
        has an accuracy. A stage without one counts as right."""
        known = [s.accuracy for s in self.stages if s.accuracy is not None]
        return math.prod(known) if known else None

    @property
    def metadata(self) -> ModelMetadata:
        """The description for clients."""
        outputs = tuple(o.spec for o in self.outputs)
        return ModelMetadata(self.name, (self.version,), PLATFORM, self.inputs, outputs)


def _cut_for(source: ValueSource, stages: Mapping[str, Stage]) -> CropBoxes | None:
    """The operation that cuts boxes out for the stage that gives the value; None: no stage gives it, or none cuts."""
    return None if source.stage is None or source.stage not in stages else stages[source.stage].cut
