"""Descriptions of applications whose source is a camera: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from source_kit import COLOUR, STAGE, described

from edge.core.application_sources import SOURCE_INPUTS, ApplicationSource
from edge.core.errors import MagpieError
from edge.serving.pipeline_files import parse_application


def test_inputs_are_those_of_the_camera_and_limits_are_read() -> None:
    source = {"camera": "gate", "classes": ["car"], "min_score": 0.4, "most": 3, "max_rate": 2.5}
    app = parse_application("app", described(source=source))
    assert app.inputs == SOURCE_INPUTS
    assert app.source == ApplicationSource("gate", ("car",), 0.4, 3, 2.5)
    assert app.source.rate(10.0) == 2.5
    assert app.source.rate(1.0) == 1.0
    named = parse_application("app", described(inputs=[{"name": "boxes", "datatype": "FP32", "shape": [-1, -1, 4]}]))
    assert named.inputs == SOURCE_INPUTS, "naming some of them changes nothing"
    assert named.source is not None
    assert named.source.rate(7.0) == 7.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source": {}}, r"source\.camera"),
        ({"source": {"camera": "a b"}}, r"source\.camera: got 'a b'"),
        ({"source": {"camera": "gate", "classes": ["car", "car"]}}, r"source\.classes"),
        ({"source": {"camera": "gate", "min_score": 2}}, r"source\.min_score"),
        ({"source": {"camera": "gate", "most": 0}}, r"source\.most"),
        ({"source": {"camera": "gate", "max_rate": 0}}, r"source\.max_rate"),
        ({"source": {"camera": "gate", "fps": 3}}, r"source\.fps"),
        ({"source": None}, "inputs"),
        ({"rate": 5}, "rate: got 5.*camera answers at its own"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]}, r"inputs\[0\]\.name: got 'x'.*picture"),
        ({"inputs": [{"name": "picture", "datatype": "FP32", "shape": [-1, -1, -1, 3]}]},
         r"inputs\[0\]\.datatype: got 'FP32'.*UINT8"),
        ({"inputs": [{"name": "boxes", "datatype": "FP32", "shape": [-1, 4]}]}, r"inputs\[0\]\.shape"),
        ({"stages": [{**STAGE, "inputs": {"pictures": "image"}}]}, r"stages\[look\]\.inputs: got 'image'.*picture"),
        ({"outputs": [{**COLOUR, "datatype": "BYTES"}]}, r"outputs\[colour\]\.datatype"),
        ({"outputs": [{**COLOUR, "shape": [-1, 2, 4]}]}, r"outputs\[colour\]\.shape.*\(-1, 2, 3\)"),
        ({"outputs": [{**COLOUR, "shape": [-1, 2], "attribute": {}, "from": "look.count"}]}, "cuts out the camera"),
        ({"outputs": [{**COLOUR, "shape": [-1, 2, 3], "attribute": {}}]}, "a number for each object"),
        ({"outputs": [{**COLOUR, "from": "boxes"}]}, r"outputs\[colour\]\.from"),
        ({"outputs": [{**COLOUR, "attribute": {"softmax": True}}]}, r"attribute\.softmax"),
        ({"outputs": [{**COLOUR, "attribute": {"labels": ["a", "a", "b"]}}]}, r"attribute\.labels"),
    ],
)  # fmt: skip
def test_bad_sources_are_refused_with_their_field(change: dict[str, Any], says: str) -> None:
    with pytest.raises(MagpieError, match=says):
        parse_application("app", described(**change))


def test_an_attribute_needs_a_camera() -> None:
    inputs = [{"name": s.name, "datatype": s.datatype, "shape": list(s.shape)} for s in SOURCE_INPUTS]
    with pytest.raises(MagpieError, match=r"outputs\[colour\]\.attribute.*no camera is the source"):
        parse_application("app", described(source=None, inputs=inputs))


@pytest.mark.parametrize(
    ("shape", "datatype", "attribute"),
    [([-1, 2], "FP32", {}), ([-1, 2, 1], "FP16", {}), ([-1, 2], "INT64", {"labels": ["a", "b"]}),
     ([-1, 2, 2], "FP32", {"labels": ["a", "b"], "softmax": True, "min_score": 0.5})],
)  # fmt: skip
def test_numbers_scores_and_places_of_labels_become_attributes(
    shape: list[int], datatype: str, attribute: dict[str, Any]
) -> None:
    output = {**COLOUR, "shape": shape, "datatype": datatype, "attribute": attribute}
    assert parse_application("app", described(outputs=[output])).outputs[0].attribute is not None
