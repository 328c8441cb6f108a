"""The console's API as an OpenAPI document, made from the table of pages and the bodies of requests that write."""

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, get_type_hints

from msgspec import Struct
from msgspec.json import schema_components

from remit.servers.web.pages.page import Page

PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
REFERENCE = "#/components/schemas/{name}"
REFUSALS = ("400", "401", "403", "404", "408", "409", "413", "414", "421", "429", "500", "503", "504")


class RequestError(Struct, frozen=True):
    """Why a request was refused. `code` is the HTTP status, `fix` the next step."""

    code: int
    message: str
    target: str
    fix: str


def describe_api(pages: Iterable[Page], bodies: Mapping[str, type | None]) -> dict[str, Any]:
    """Return the OpenAPI document. `bodies` has the shape of each body by the address that takes it."""
    answers = {page.url: get_type_hints(page.read)["return"] for page in pages}
    shapes = [*answers.values(), *(body for body in bodies.values() if body), RequestError]
    schemas, components = schema_components(shapes, ref_template=REFERENCE)
    by_shape = dict(zip(shapes, schemas, strict=True))
    paths: dict[str, Any] = {}
    for page in pages:
        operation = describe_operation(page.url, by_shape[answers[page.url]], page.title)
        operation["parameters"] += [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in page.query_names
        ]
        paths[name_twin(page.url)] = {"get": operation}
    for url, body in bodies.items():
        operation = describe_operation(url, {}, "Write")
        content = {"application/json": {"schema": by_shape[body] if body else {"type": "object"}}}
        operation["requestBody"] = {"required": True, "content": content}
        operation["security"] = [{"cookie": [], "proof": []}]
        paths[PARAMETER.sub(r"{\1}", url)] = {"post": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "The console of Remit", "version": version("remit")},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": SECURITY},
        "security": [{"cookie": []}],
    }


SECURITY = {
    "cookie": {"type": "apiKey", "in": "cookie", "name": "remit_read"},
    "proof": {"type": "apiKey", "in": "header", "name": "Remit-Proof"},
}


def name_twin(url: str) -> str:
    """Return the address of a page's JSON twin, as OpenAPI writes it."""
    plain = PARAMETER.sub(r"{\1}", url)
    return "/index.json" if url == "/" else f"{plain}.json"


def describe_operation(url: str, data: dict[str, Any], title: str) -> dict[str, Any]:
    names = PARAMETER.findall(url)
    return {
        "summary": title,
        "parameters": [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names],
        "responses": {
            "200": describe_response("The answer.", "data", data),
            **{
                status: describe_response("Refused.", "error", {"$ref": REFERENCE.format(name=RequestError.__name__)})
                for status in REFUSALS
            },
        },
    }


def describe_response(words: str, key: str, schema: dict[str, Any]) -> dict[str, Any]:
    properties = {"schema_version": {"const": 1}, key: schema}
    envelope = {"type": "object", "required": list(properties), "properties": properties}
    return {"description": words, "content": {"application/json": {"schema": envelope}}}
