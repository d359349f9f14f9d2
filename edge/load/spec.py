"""The specification of a load run: checked field by field; the same from a scenario file and the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from edge.core.errors import InvalidValue, InvalidValues, NotFound
from edge.load.arrivals import Bursty, Flat, OfferedLoad, Pattern, Poisson, Sine, Steps, Wave
from edge.load.recorded import read_recorded


class _SpecPart(BaseModel):
    """Unknown keys fail; values do not change after they were checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PoissonArrivals(_SpecPart):
    """Requests that know nothing of each other."""

    kind: Literal["poisson"] = "poisson"

    def pattern(self, folder: Path, model: str) -> Pattern:
        return Poisson()


class BurstyArrivals(_SpecPart):
    """See edge.load.arrivals.Bursty."""

    kind: Literal["bursty"]
    burstiness: float = Field(4.0, ge=1, le=1000, description="rate in a burst over the mean rate")
    burst_s: float = Field(1.0, ge=0.001, le=86400, description="mean length of a burst")
    calm: float = Field(0.0, ge=0, le=1, description="rate between bursts over the mean rate")

    def pattern(self, folder: Path, model: str) -> Pattern:
        return Bursty(self.burstiness, self.burst_s, self.calm)


class RecordedArrivals(_SpecPart):
    """Arrivals in a file (edge.load.recorded); a relative path is relative to the scenario file."""

    kind: Literal["recorded"]
    file: str = Field(min_length=1)

    def pattern(self, folder: Path, model: str) -> Pattern:
        return read_recorded(folder / self.file, model)


class SineWave(_SpecPart):
    """The rate times 1 + depth * sin(2 pi (t / period_s + phase))."""

    kind: Literal["sine"]
    period_s: float = Field(gt=0, le=1e7)
    depth: float = Field(ge=0, le=1)
    phase: float = Field(0.0, ge=-1, le=1)

    def wave(self) -> Wave:
        return Sine(self.period_s, self.depth, self.phase)


class StepsWave(_SpecPart):
    """From each (second, factor) on, the rate times that factor."""

    kind: Literal["steps"]
    steps: tuple[tuple[float, float], ...] = Field(min_length=1, max_length=100_000)
    repeat_s: float | None = Field(None, gt=0)

    def wave(self) -> Wave:
        return Steps(self.steps, self.repeat_s)


Arrivals = Annotated[PoissonArrivals | BurstyArrivals | RecordedArrivals, Field(discriminator="kind")]
Waves = Annotated[SineWave | StepsWave, Field(discriminator="kind")]


class ModelLoad(_SpecPart):
    """The requests to one model (or application)."""

    name: str = Field(min_length=1, max_length=200)
    version: str | None = None
    rate: float | None = Field(None, ge=0, le=1e6, description="requests per second; absent: as recorded")
    slo_ms: float | None = Field(None, gt=0, le=3_600_000, description="absent: the model's own, if the server says it")
    arrivals: Arrivals = PoissonArrivals()
    wave: Waves | None = None
    rows: int = Field(1, ge=1, le=100_000, description="rows of data in one request")
    priority: int = Field(0, ge=0, le=2**31)
    send_timeout: bool = Field(False, description="also tell the server the SLO as the request's own timeout")
    shapes: dict[str, tuple[Annotated[int, Field(ge=0, le=2**31)], ...]] = Field(
        default_factory=dict, description="tensor -> its dimensions after the first, where the model leaves them open"
    )
    inputs: dict[str, str] = Field(default_factory=dict, description="tensor -> .npy file to take rows from")
    outputs: tuple[str, ...] = Field((), description="outputs asked for; empty: all")
    samples: int = Field(16, ge=1, le=10_000, description="different requests made beforehand and sent in turn")

    @model_validator(mode="after")
    def _has_a_rate(self) -> ModelLoad:
        if self.rate is None and self.arrivals.kind != "recorded":
            raise ValueError("rate: requests per second are wanted (only recorded arrivals have a rate of their own)")
        return self

    def demand(self, folder: Path) -> OfferedLoad:
        """The model's arrivals; reads recorded ones. Raises NotFound, InvalidValue."""
        wave = self.wave.wave() if self.wave is not None else Flat()
        return OfferedLoad(self.arrivals.pattern(folder, self.name), self.rate, wave)


class LoadSpec(_SpecPart):
    """One run."""

    url: str = Field("http://127.0.0.1:8000", min_length=1, max_length=2000)
    models: tuple[ModelLoad, ...] = Field(min_length=1, max_length=1000)
    duration_s: float = Field(60.0, gt=0, le=1e6)
    warm_up_s: float = Field(0.0, ge=0, le=1e6, description="seconds before the run whose requests do not count")
    seed: int = Field(0, ge=0, lt=2**63)
    max_in_flight: int = Field(4096, ge=1, le=50_000, description="more are not sent, and counted as the client's loss")
    give_up_s: float = Field(30.0, gt=0, le=3600, description="a request without an answer for so long has failed")
    folder: Path = Field(Path(), description="relative files are looked up here")

    @field_validator("url")
    @classmethod
    def _http(cls, value: str) -> str:
        value = value.rstrip("/")
        value = value if "://" in value else f"http://{value}"
        if not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#]*)?", value):
            raise ValueError("an address like http://HOST:PORT is wanted")
        return value

    @model_validator(mode="after")
    def _once(self) -> LoadSpec:
        names = [(m.name, m.version) for m in self.models]
        for name, version in names:
            if names.count((name, version)) > 1:
                raise ValueError(f"models: {name} is named more than once")
        return self


def parse_load(value: Any, folder: Path | None = None) -> LoadSpec:
    """A run from the content of a scenario file. Raises InvalidValues with each problem's path."""
    if not isinstance(value, Mapping):
        raise InvalidValue("scenario", value, "fields, models among them")
    try:
        return LoadSpec.model_validate({**value, **({} if folder is None else {"folder": folder})})
    except ValidationError as error:
        raise InvalidValues(
            [
                InvalidValue(
                    ".".join(str(p) for p in e["loc"]) or "scenario",
                    None if e["type"] == "missing" else e["input"],
                    e["msg"].removeprefix("Value error, "),
                )
                for e in error.errors(include_url=False)
            ]
        ) from None


def read_load(path: Path) -> dict[str, Any]:
    """The fields of a scenario file (YAML or JSON), `folder` set to its own. Raises NotFound, InvalidValue."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidValue(str(path), "text that cannot be read", f"YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(value, Mapping) or "folder" in value:
        raise InvalidValue(str(path), value, "a scenario: models, and the other fields that docs/serving-load.md names")
    return {**value, "folder": path.resolve().parent}
