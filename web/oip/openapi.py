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
    for action, words in (("load", "Load a model, or what changed of it"), ("unload", "Drain a model and unload it")):
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
    text = {"type": "string"}
    shape = {"type": "array", "items": {"type": "integer"}}
    tensor = {"name": text, "datatype": {"enum": list(DATATYPES)}, "shape": shape}
    spec = {"type": "object", "properties": tensor, "required": list(tensor)}
    data = {"type": "array", "description": "row-major, flat or nested as the shape says"}
    count = {"type": "integer", "minimum": 0}
    counter = {"type": "object", "properties": {"count": count, "ns": count}}
    durations = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
    model_stats = {
        "type": "object",
        "properties": {
            "name": text,
            "version": text,
            "last_inference": {**count, "description": "milliseconds since the epoch"},
            "inference_count": count,
            "execution_count": count,
            "inference_stats": {"type": "object", "properties": dict.fromkeys(durations, counter)},
            "batch_stats": {"type": "array", "items": {"type": "object"}},
        },
    }
    request = {
        "id": text,
        "parameters": {
            **_PARAMETERS,
            "properties": {
                "priority": {**count, "description": "1 is the highest; 0: the model's own"},
                "timeout": {**count, "description": "microseconds; 0: the model's objective alone"},
                "binary_data_output": {"type": "boolean"},
            },
        },
        "inputs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {**tensor, "parameters": _PARAMETERS, "data": data},
                "required": list(tensor),
            },
        },
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": text, "parameters": _PARAMETERS},
                "required": ["name"],
            },
        },
    }
    output = {
        "type": "object",
        "properties": {**tensor, "parameters": _PARAMETERS, "data": data},
        "required": list(tensor),
    }
    response = {
        "model_name": text,
        "model_version": text,
        "id": text,
        "parameters": _PARAMETERS,
        "outputs": {"type": "array", "items": output},
    }
    metadata = {
        "name": text,
        "versions": {"type": "array", "items": text},
        "platform": text,
        "inputs": {"type": "array", "items": spec},
        "outputs": {"type": "array", "items": spec},
    }
    server = {"name": text, "version": text, "extensions": {"type": "array", "items": text}}
    return {
        "Error": {"type": "object", "properties": {"error": text}, "required": ["error"]},
        "Probe": {
            "type": "object",
            "properties": {"live": {"type": "boolean"}, "ready": {"type": "boolean"}, "name": text},
        },
        "ServerMetadata": {"type": "object", "properties": server, "required": list(server)},
        "ModelMetadata": {"type": "object", "properties": metadata, "required": list(metadata)},
        "ModelConfig": {"type": "object", "properties": {"name": text}},
        "Statistics": {
            "type": "object",
            "properties": {"model_stats": {"type": "array", "items": model_stats}},
            "required": ["model_stats"],
        },
        "InferRequest": {"type": "object", "properties": request, "required": ["inputs"]},
        "InferResponse": {"type": "object", "properties": response, "required": ["model_name", "outputs"]},
    }
