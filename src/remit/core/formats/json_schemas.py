"""JSON Schemas of the public shapes, derived from the structs that read and write them."""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from remit.core import config, decision, intent, record

Schema: TypeAlias = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:remit:schema:"
REF = "#/$defs/{name}"
INTENT_TEXTS = ("constraints", "acceptance_criteria")


def build_schema(name: str) -> Schema:
    about, make = SCHEMAS[name]
    return add_title(name, about, make())


def add_title(name: str, about: str, schema: Schema) -> Schema:
    return {"$schema": DIALECT, "$id": f"{ID}{name}", "title": name, "description": about, **schema}


def build_struct_schema(*kinds: object) -> Schema:
    """Return the schema of the first struct, with the definitions of all; absent parts have no default."""
    (schema, *_), definitions = msgspec.json.schema_components(kinds, ref_template=REF)
    for definition in definitions.values():
        for field in definition.get("properties", {}).values():
            if field.get("default") is UNSET:
                del field["default"]
    return {**schema, "$defs": definitions}


def _build_record_schema() -> Schema:
    definitions: Schema = build_struct_schema(record.Body, record.Vcs, record.Tool, record.TracedFile)["$defs"]
    definitions["Body"]["properties"].pop("detail", None)
    definitions["Body"]["required"] = ["event", "schema", "intent_id", "session_id", "chain"]
    definitions["Chain"]["required"] = ["log", "seq", "prev"]
    body, vcs, tool, traced = ({"$ref": REF.format(name=name)} for name in ("Body", "Vcs", "Tool", "TracedFile"))
    properties = {
        "version": {"const": record.TRACE_VERSION},
        "id": {"type": "string", "format": "uuid"},
        "timestamp": {"type": "string", "format": "date-time"},
        "vcs": vcs,
        "tool": tool,
        "files": {"type": "array", "items": traced},
        "metadata": {"type": "object", "properties": {record.KEY: body}, "required": [record.KEY]},
    }
    required = ["version", "id", "timestamp", "files", "metadata"]
    return {"type": "object", "properties": properties, "required": required, "$defs": definitions}


def _build_intents_file_schema() -> Schema:
    shape = build_struct_schema(intent.Intent)["$defs"]["Intent"]
    properties: Schema = shape["properties"]
    properties["id"]["pattern"] = f"^{intent.INTENT_ID.pattern}$"
    properties["owned_scope"] |= {"minItems": 1}
    properties["status"] = {"enum": sorted([*intent.STATUSES, *intent.STATUS_ALIASES])}
    for name in INTENT_TEXTS:
        properties[name] = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}
    listed = {"type": "array", "items": {"$ref": REF.format(name="Intent")}}
    top = {"version": {"type": ["string", "number"]}, "active_intents": listed}
    return {"type": "object", "properties": top, "required": ["active_intents"], "$defs": {"Intent": shape}}


SCHEMAS: dict[str, tuple[str, Callable[[], Schema]]] = {
    "intents-file": ("active_intents.yaml, read as JSON", _build_intents_file_schema),
    "config": ("remit.toml, read as JSON", lambda: build_struct_schema(config.Config)),
    "record": ("a line of the ledger", _build_record_schema),
    "decision": ("what all checks together say of a call", lambda: build_struct_schema(decision.Decision)),
    "violation": ("why a call was denied", lambda: build_struct_schema(decision.Violation)),
    "lint-finding": ("one thing wrong with an intents file", lambda: build_struct_schema(intent.LintFinding)),
}
