"""Errors as an HTTP status and a plain message."""

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import fastapi
from fastapi import exceptions, responses
from starlette import exceptions as http_exceptions

from albert_tf.web import batching, middleware, model, schemas, service
from albert_tf.web import settings as settings_lib

_NUM_SHOWN = 3
_MAX_PATH = 60
_SOON = {"Retry-After": "1"}
# The framework gives only a status for these.
_PLAIN = {
    400: "the body must be JSON in UTF-8 without deep nesting and huge numbers",
    404: "there is no such page; GET /v1/model lists the endpoints of this model",
    405: "this page does not support that method; see /docs",
}


def handle(
    app: fastapi.FastAPI,
    settings: settings_lib.ServerSettings,
    served: service.Service,
) -> None:
    """Adds handlers of all errors to an app."""
    plain = {**_PLAIN, 413: middleware.too_large(settings.max_body_bytes)}

    async def http_error(request, error: http_exceptions.HTTPException):
        if error.status_code == 404 and _is_early(request.url.path, served):
            return answer(503, service.LOADING, _SOON)
        message = plain.get(error.status_code, error.detail)
        return answer(error.status_code, message, error.headers)

    async def invalid(request, error: exceptions.RequestValidationError):
        return answer(422, message_of(error.errors(), _example(request.url.path)))

    async def unanswerable(request, error: model.Unanswerable):
        return answer(422, str(error))

    async def busy(request, error: RuntimeError):
        return answer(503, str(error), _SOON)

    async def fault(request, error: Exception):
        # The server logs the traceback, which clients should not see.
        return answer(500, "the server failed on this request; its log says why")

    app.exception_handler(http_exceptions.HTTPException)(http_error)
    app.exception_handler(exceptions.RequestValidationError)(invalid)
    app.exception_handler(model.Unanswerable)(unanswerable)
    for kind in (
        batching.QueueFull,
        batching.BatcherClosed,
        service.NotReady,
        service.TooLate,
    ):
        app.exception_handler(kind)(busy)
    app.exception_handler(500)(fault)


def _is_early(path: str, served: service.Service) -> bool:
    """Returns whether the model may have this path once it is loaded."""
    known = (endpoint.path for endpoint in schemas.ENDPOINTS)
    return not served.is_ready and path in known


def answer(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> responses.JSONResponse:
    """An error as JSON."""
    return responses.JSONResponse({"error": message}, status, headers=headers)


def _example(path: str) -> Any:
    """Returns the example of a request for an endpoint; None for another path."""
    for endpoint in schemas.ENDPOINTS:
        if endpoint.path == path:
            extra: Any = endpoint.request.model_config["json_schema_extra"]
            return extra["examples"][0]
    return None


def message_of(errors: Sequence[Mapping[str, Any]], example: Any = None) -> str:
    """The message for a body that is not valid.

    Args:
      errors: those of pydantic.
      example: a valid body.
    """
    shown = [_one(error, example) for error in errors[:_NUM_SHOWN]]
    if len(errors) > _NUM_SHOWN:
        shown.append(f"and {len(errors) - _NUM_SHOWN} more")
    return "; ".join(shown)


def _one(error: Mapping[str, Any], example: Any) -> str:
    """The message of one error: the place, the rule, and what was received."""
    place = list(error["loc"])
    if error["type"] == "json_invalid":
        return f"the body must be JSON; {error['ctx']['error']} at character {place[1]}"
    received = error["input"]
    if place == ["body"]:
        if error["type"] == "missing":
            return "there must be a body, a JSON object; received none"
        if isinstance(received, bytes):
            return (
                "the header Content-Type must be application/json; received another, "
                "or none"
            )
        return f"the body must be a JSON object; received {reprlib.repr(received)}"
    where = _path(place[1:])
    if error["type"] == "missing":
        return f"{where} must be given; received {reprlib.repr(received)}"
    if error["type"] == "extra_forbidden":
        return f"{where} is unknown; remove it, or see /docs for the right name"
    if error["type"] == "value_error":  # from schemas; it contains what was received
        return f"{where}: {error['msg'].removeprefix('Value error, ')}"
    if error["type"] in ("model_type", "model_attributes_type"):
        form = json.dumps(_form(_at(example, place[1:])), ensure_ascii=False)
        return (
            f"{where} must be an object such as {form}; received "
            f"{reprlib.repr(received)}"
        )
    size = f", {len(received)} long" if isinstance(received, str | list) else ""
    return f"{where}: {error['msg']}; received {reprlib.repr(received)}{size}"


def _at(example: Any, place: Sequence[int | str]) -> Any:
    """Returns the part of an example at a place; of a list its first item."""
    for part in place:
        example = example[0 if isinstance(part, int) else part]
    return example


def _form(example: Any) -> Any:
    """Returns an example with its texts left out."""
    if isinstance(example, dict):
        return {name: _form(value) for name, value in example.items()}
    if isinstance(example, list):
        return [_form(value) for value in example]
    return "…" if isinstance(example, str) else example


def _path(place: Sequence[int | str]) -> str:
    """`texts[1]`, `examples[0].question` and the like."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    path = "".join(parts).removeprefix(".")[:_MAX_PATH]
    # A name may be any JSON string, with lone surrogates too.
    return path.encode("ascii", "backslashreplace").decode()
