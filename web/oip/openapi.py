"""The OpenAPI description of the REST transport."""

from __future__ import annotations

from typing import Any, Final

from edge.core.oip import DATATYPES

_ABOUT: Final = """Open Inference Protocol v2 with the binary-tensor, model-repository, statistics and schedule-policy
extensions. Every error is {"error": "..."}. Raw tensors follow the JSON of a request or an answer; the header
Inference-Header-Content-Length then says where the JSON ends."""

_PARAMETERS: Final = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
_INDEX_ENTRY: Final = {
    "type": "object",
    "properties": {key: {"type": "string"} for key in ("name", "version", "state", "reason")},
    "required": ["name"],
}
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TENSOR: Final = {
    "name": _TEXT,
    "datatype": {"enum": list(DATATYPES)},
    "shape": {"type": "array", "items": {"type": "integer"}},
}


def document(version: str) -> dict[str, Any]:
    """OpenAPI 3.1, with `version` as that of the server."""
    model = "/v2/models/{model}"
    one = f"{model}/versions/{{version}}"
    paths: dict[str, Any] = {
        "/v2": {"get": _operation("Server metadata", "health", _reference("ServerMetadata"))},
        "/v2/": {"get": _operation("Server metadata", "health", _reference("ServerMetadata"))},
        "/v2/health/live": {"get": _operation("Is the server alive? 400: no", "health", _reference("Probe"))},
        "/v2/health/ready": {"get": _operation("Are all models served? 400: no", "health", _reference("Probe"))},
        "/v2/models/stats": {"get": _operation("Statistics of all models", "models", _reference("Statistics"))},
        "/v2/repository/index": {
            "post": _operation(
                "Every model and version that there is",
                "repository",
                {"type": "array", "items": _INDEX_ENTRY},
                body={"type": "object", "properties": {"ready": {"type": "boolean"}}},
            )
        },
        "/v2/openapi.json": {"get": _operation("This description", "health", {"type": "object"})},
    }
    for path in (model, one):
        parameters = [_model()] + ([_version()] if path == one else [])
        gets = {
            "": ("Metadata of a model", "ModelMetadata"),
            "/ready": ("Is the model served? 400: no", "Probe"),
            "/config": ("Configuration of a model", "ModelConfig"),
            "/stats": ("Statistics of a model", "Statistics"),
        }
        for end, (words, answer) in gets.items():
            paths[path + end] = {"parameters": parameters, "get": _operation(words, "models", _reference(answer))}
        paths[f"{path}/infer"] = {"parameters": parameters, "post": _infer()}
    for action, words in (("load", "Load a model, or its changes"), ("unload", "Drain a model and unload it")):
        body = {"type": "object", "properties": {"parameters": _PARAMETERS}}
        paths[f"/v2/repository/models/{{model}}/{action}"] = {
            "parameters": [_model()],
            "post": _operation(words, "repository", {"type": "object"}, body=body),
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Magpie served inference", "version": version, "description": _ABOUT},
        "tags": [{"name": "health"}, {"name": "models"}, {"name": "repository"}],
        "paths": paths,
        "components": {"schemas": _schemas()},
    }


def _model() -> dict[str, Any]:
    schema = {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}$"}
    return {"name": "model", "in": "path", "required": True, "schema": schema}


def _version() -> dict[str, Any]:
    return {"name": "version", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"}}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _operation(summary: str, tag: str, answer: dict[str, Any], body: dict[str, Any] | None = None) -> dict[str, Any]:
    error = {"content": {"application/json": {"schema": _reference("Error")}}}
    operation: dict[str, Any] = {
        "summary": summary,
        "tags": [tag],
        "responses": {
            "200": {"description": "done", "content": {"application/json": {"schema": answer}}},
            "4XX": {"description": "it cannot be done as asked", **error},
            "5XX": {"description": "it cannot be done now", **error},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": False, "content": {"application/json": {"schema": body}}}
    return operation


def _infer() -> dict[str, Any]:
    operation = _operation("Inference", "models", _reference("InferResponse"))
    raw = {"type": "string", "contentMediaType": "application/octet-stream"}
    operation["parameters"] = [
        {
            "name": "Inference-Header-Content-Length",
            "in": "header",
            "required": False,
            "description": "bytes of JSON in front of raw tensors; 0: the body is the model's one input",
            "schema": {"type": "integer", "minimum": 0},
        }
    ]
    operation["requestBody"] = {
        "required": True,
        "content": {
            "application/json": {"schema": _reference("InferRequest")},
            "application/octet-stream": {"schema": raw},
        },
    }
    operation["responses"]["200"]["content"]["application/octet-stream"] = {"schema": raw}
    operation["responses"]["200"]["headers"] = {
        "Inference-Header-Content-Length": {
            "description": "bytes of JSON in front of raw tensors, where there are any",
            "schema": {"type": "integer"},
        }
    }
    return operation


def _schemas() -> dict[str, Any]:
    server = {"name": _TEXT, "version": _TEXT, "extensions": {"type": "array", "items": _TEXT}}
    metadata = _model_metadata()
    return {
        "Error": {"type": "object", "properties": {"error": _TEXT}, "required": ["error"]},
        "Probe": {
            "type": "object",
            "properties": {"live": {"type": "boolean"}, "ready": {"type": "boolean"}, "name": _TEXT},
        },
        "ServerMetadata": {"type": "object", "properties": server, "required": list(server)},
        "ModelMetadata": {"type": "object", "properties": metadata, "required": list(metadata)},
        "ModelConfig": {"type": "object", "properties": {"name": _TEXT}},
        "Statistics": {
            "type": "object",
            "properties": {"model_stats": {"type": "array", "items": _model_statistics()}},
            "required": ["model_stats"],
        },
        "InferRequest": {"type": "object", "properties": _infer_request(), "required": ["inputs"]},
        "InferResponse": {"type": "object", "properties": _infer_response(), "required": ["model_name", "outputs"]},
    }


def _model_metadata() -> dict[str, Any]:
    spec = {"type": "object", "properties": _TENSOR, "required": list(_TENSOR)}
    return {
        "name": _TEXT,
        "versions": {"type": "array", "items": _TEXT},
        "platform": _TEXT,
        "inputs": {"type": "array", "items": spec},
        "outputs": {"type": "array", "items": spec},
    }


def _model_statistics() -> dict[str, Any]:
    counter = {"type": "object", "properties": {"count": _COUNT, "ns": _COUNT}}
    durations = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
    return {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "version": _TEXT,
            "last_inference": {**_COUNT, "description": "milliseconds since the epoch"},
            "inference_count": _COUNT,
            "execution_count": _COUNT,
            "inference_stats": {"type": "object", "properties": dict.fromkeys(durations, counter)},
            "batch_stats": {"type": "array", "items": {"type": "object"}},
        },
    }


def _tensor_data() -> dict[str, Any]:
    """A tensor of a request or an answer: its data too."""
    data = {"type": "array", "description": "row-major, flat or nested as the shape says"}
    return {
        "type": "object",
        "properties": {**_TENSOR, "parameters": _PARAMETERS, "data": data},
        "required": list(_TENSOR),
    }


def _infer_request() -> dict[str, Any]:
    output = {"type": "object", "properties": {"name": _TEXT, "parameters": _PARAMETERS}, "required": ["name"]}
    return {
        "id": _TEXT,
        "parameters": {
            **_PARAMETERS,
            "properties": {
                "priority": {**_COUNT, "description": "1 is the highest; 0: the model's own"},
                "timeout": {**_COUNT, "description": "microseconds; 0: the model's objective alone"},
                "binary_data_output": {"type": "boolean"},
            },
        },
        "inputs": {"type": "array", "minItems": 1, "items": _tensor_data()},
        "outputs": {"type": "array", "items": output},
    }


def _infer_response() -> dict[str, Any]:
    return {
        "model_name": _TEXT,
        "model_version": _TEXT,
        "id": _TEXT,
        "parameters": _PARAMETERS,
        "outputs": {"type": "array", "items": _tensor_data()},
    }
