"""Snowplow's tracker protocol 2: one payload a line, one part the `data` of a request; and drafts of schemas.

Repository snowplow/documentation: http-requests, canonical-event, stream-collector/configure.
"""

import re

from common import UUID, Number, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"
SCHEMA = re.compile(
    r"iglu:([A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9_-]+/jsonschema/[1-9][0-9]*-(?:0|[1-9][0-9]*)-(?:0|[1-9][0-9]*))")
SCREEN = "com.snowplowanalytics.mobile/screen_view/jsonschema/1-0-0"


def envelope(record):
    """The schema's path and the members of the event in a payload."""
    data = parse(parse(record)["ue_pr"])["data"]
    match = SCHEMA.fullmatch(data["schema"])
    return match.group(1) if match else None, data["data"]


def check(record, as_of=None):
    payload = parse(record)
    problems = members(
        payload, ["e", "eid", "dtm", "ttm", "p", "aid", "tna", "tv", "ue_pr"], ["duid", "uid", "sid", "lang"])
    if problems:
        return problems
    if not all(map(is_text, payload.values())):
        return ["a value is not a string"]
    if len(record) >= 1 << 20:
        problems.append("1 MiB or more")
    if payload["e"] != "ue" or payload["p"] != "mob" or payload["tv"] != "wb-1":
        problems.append("e, p or tv")
    if not UUID.fullmatch(payload["eid"]):
        problems.append("eid")
    if not re.fullmatch(r"\d{12,14}", payload["dtm"]) or payload["dtm"] != payload["ttm"]:
        problems.append("dtm or ttm")
    for name, limit in (("duid", 128), ("uid", 255), ("aid", 255), ("lang", 255), ("sid", 128)):
        if not 0 < units(payload.get(name, "-")) <= limit:
            problems.append(f"{name} is longer than {limit}, or empty")
    inner = parse(payload["ue_pr"])
    problems += members(inner, ["schema", "data"])
    if inner.get("schema") != "iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0":
        problems.append("schema of the envelope")
    problems += members(inner["data"], ["schema", "data"])
    path, data = envelope(record)
    if path is None:
        problems.append(f"schema {inner['data']['schema']!r}")
    if not isinstance(data, dict) or data.repeats:
        problems.append("data is not an object, or has a name twice")
    elif path == SCREEN:
        problems += members(data, ["id", "name"], ["previousName"])
    return problems


def event_count(record):
    return 1


def check_request(part):
    schema = '{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[]}'
    problems = ["more than 500 events"] if part.count(b"\n") > 500 else []
    return problems + (["more than 2 MiB"] if len(part) + len(schema) > 2 << 20 else [])


def _type(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Number):
        return "integer" if re.fullmatch(r"-?\d+", value) else "number"
    return {str: "string", list: "array"}.get(type(value), "object")


def check_draft(draft, path):
    """Problems of a draft of a schema, and what it says of each member's types."""
    schema = parse(draft)
    vendor, name, form, version = path.split("/")
    problems = members(schema, ["$schema", "self", "type", "properties", "additionalProperties"], ["description"])
    if schema.get("self") != {"vendor": vendor, "name": name, "format": form, "version": version}:
        problems.append("self is not where it stands")
    return problems, {key: set(value["type"]) for key, value in schema["properties"].items()}


def fits(data, types):
    """Whether a draft with those types holds for an event's members."""
    for name, value in data.items():
        allowed = types.get(name, set())
        kind = _type(value)
        if kind not in allowed and not (kind == "integer" and "number" in allowed):
            return False
    return True
