"""Checks JSON against the schemas of Protocol/: the part of JSON Schema 2020-12 that they use."""

import json
import re

from harness import REPOSITORY

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
KNOWN = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "required", "properties", "items", "enum",
         "const", "minimum", "maximum", "pattern"}


def violations(name, value):
    """Where a value differs from the schema in Protocol/NAME, in words."""
    whole = json.loads((REPOSITORY / "Protocol" / name).read_text(encoding="utf-8"))
    return list(_violations(whole, value, "$", whole))


def _violations(schema, value, place, whole):
    assert set(schema) <= KNOWN, f"{place}: the schema has {set(schema) - KNOWN}"
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    wanted = schema.get("type")
    if wanted and (not isinstance(value, TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")):
        yield f"{place}: {value!r} is not of type {wanted}"
        return
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    # Python's True is 1.
    if allowed and json.dumps(value) not in map(json.dumps, allowed):
        yield f"{place}: {value!r} is not allowed"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: {value} is out of range"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{place}: {value!r} does not match {schema['pattern']}"
    if isinstance(value, dict):
        for member in schema.get("required", []):
            if member not in value:
                yield f"{place}: {member} is missing"
        for member, one in schema.get("properties", {}).items():
            if member in value:
                yield from _violations(one, value[member], f"{place}.{member}", whole)
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from _violations(schema.get("items", {}), one, f"{place}[{index}]", whole)
