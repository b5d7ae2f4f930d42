"""Checks JSON against the schemas of Protocol/: the part of JSON Schema 2020-12 that they use."""

import json
import re

from harness import REPOSITORY

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
         "null": type(None)}
KNOWN = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "required", "properties", "items", "enum",
         "const", "minimum", "maximum", "exclusiveMinimum", "pattern", "minLength", "maxLength", "minProperties",
         "additionalProperties", "allOf", "anyOf", "not", "if", "then"}


def violations(name, value):
    """Where a value differs from the schema in Protocol/NAME, in words."""
    whole = json.loads((REPOSITORY / "Protocol" / name).read_text(encoding="utf-8"))
    return list(_violations(whole, value, "$", whole))


def is_a(value, kind):
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _violations(schema, value, place, whole):
    if schema is False:
        yield f"{place} is not allowed"
        return
    assert set(schema) <= KNOWN, f"{place}: the schema has {set(schema) - KNOWN}"
    if "$ref" in schema:
        target = whole
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from _violations(target, value, place, whole)
    wanted = schema.get("type", [])
    if wanted and not any(is_a(value, kind) for kind in ([wanted] if isinstance(wanted, str) else wanted)):
        yield f"{place}: {value!r} is not of type {wanted}"
        return
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    # Python's True is 1.
    if allowed and json.dumps(value) not in map(json.dumps, allowed):
        yield f"{place}: {value!r} is not allowed"
    yield from _combined(schema, value, place, whole)
    if is_a(value, "number"):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{place}: {value} is out of range"
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            yield f"{place}: {value} is too small"
    if isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            yield f"{place}: {value!r} does not match {schema['pattern']}"
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield f"{place}: {len(value)} characters"
    if isinstance(value, dict):
        yield from _members(schema, value, place, whole)
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from _violations(schema.get("items", {}), one, f"{place}[{index}]", whole)


def _combined(schema, value, place, whole):
    def fits(part):
        return not any(_violations(part, value, place, whole))
    for part in schema.get("allOf", []):
        yield from _violations(part, value, place, whole)
    if "anyOf" in schema and not any(map(fits, schema["anyOf"])):
        yield f"{place}: {value!r} fits nothing that is allowed"
    if "not" in schema and fits(schema["not"]):
        yield f"{place}: {value!r} is not allowed"
    if "if" in schema and fits(schema["if"]):
        yield from _violations(schema["then"], value, place, whole)


def _members(schema, value, place, whole):
    if len(value) < schema.get("minProperties", 0):
        yield f"{place} has {len(value)} members"
    for member in schema.get("required", []):
        if member not in value:
            yield f"{place}: {member} is missing"
    known = schema.get("properties", {})
    for member, one in value.items():
        yield from _violations(known.get(member, schema.get("additionalProperties", {})), one, f"{place}.{member}", whole)
