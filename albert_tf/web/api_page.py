"""The API as a page: /openapi.json in HTML, without scripts or other servers."""

import importlib.resources
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jinja2

from albert_tf.web import page

_SOURCE = (
    importlib.resources.files(__package__).joinpath("api_page.html").read_text("utf-8")
)
HEADERS = page.headers(_SOURCE)
_TEMPLATE = jinja2.Environment(
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).from_string(_SOURCE)
_LIMITS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "minimum": "from {}",
    "maximum": "to {}",
    "default": "by default {}",
}


def render(schema: Mapping[str, Any]) -> str:
    """The page as HTML.

    Args:
      schema: the OpenAPI document.
    """
    return _TEMPLATE.render(
        info=schema["info"],
        # Endpoints of the model first, then those of the server.
        operations=sorted(_operations(schema), key=lambda one: not one["takes"]),
        objects=list(_objects(schema)),
    )


def _operations(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body = _content(operation.get("requestBody", {}))
            example = _resolve(schema, body).get("examples", [None])[0]
            yield {
                "method": method.upper(),
                "path": path,
                "summary": operation["summary"],
                "takes": body.get("$ref", "").split("/")[-1],
                "example": json.dumps(example, indent=2) if example else "",
                "answers": [
                    {
                        "status": status,
                        "description": answer["description"],
                        "gives": _content(answer).get("$ref", "").split("/")[-1],
                    }
                    for status, answer in sorted(operation["responses"].items())
                ],
            }


def _content(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return part.get("content", {}).get("application/json", {}).get("schema", {})


def _resolve(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in part:
        return part
    return schema["components"]["schemas"][part["$ref"].split("/")[-1]]


def _objects(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, described in schema.get("components", {}).get("schemas", {}).items():
        required = described.get("required", [])
        yield {
            "name": name,
            "description": described.get("description", ""),
            "fields": [
                {
                    "name": field,
                    "type": _type(value),
                    "is_required": field in required,
                    "notes": list(_notes(value)),
                }
                for field, value in described.get("properties", {}).items()
            ],
        }


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        return value["$ref"].split("/")[-1]
    if "anyOf" in value:
        return " or ".join(_type(one) for one in value["anyOf"])
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}"
    if isinstance(value.get("additionalProperties"), dict):
        return f"object of {_type(value['additionalProperties'])}"
    return value.get("type", "anything")


def _notes(value: Mapping[str, Any]) -> Iterator[str]:
    if "description" in value:
        yield value["description"]
    yield from (
        text.format(value[key])
        for key, text in _LIMITS.items()
        if value.get(key) is not None
    )
    if "items" in value:
        yield from (f"each: {note}" for note in _notes(value["items"]))
    for one in value.get("anyOf", []):
        yield from _notes(one)
