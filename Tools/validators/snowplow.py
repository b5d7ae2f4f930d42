"""Snowplow's tracker protocol 2: one payload a line, one part the `data` of a request; and drafts of schemas."""

import decimal
import math
import re

from common import UUID, Number, Object, depth, is_integer, is_number, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"

# https://docs.snowplow.io/docs/api-reference/iglu/common-architecture/schemaver/ and …/self-describing-jsons/
SCHEMA = re.compile(
    r"iglu:([A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9_-]+/jsonschema/[1-9][0-9]*-(?:0|[1-9][0-9]*)-(?:0|[1-9][0-9]*))")
# https://docs.snowplow.io/docs/events/going-deeper/http-requests/: the envelopes of an event and of its entities
EVENT = "iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0"
ENTITIES = "iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-"
# https://docs.snowplow.io/docs/fundamentals/canonical-event/: the columns' sizes
SIZES = {"duid": 128, "uid": 255, "aid": 255, "lang": 255, "sid": 128}
# https://docs.snowplow.io/docs/api-reference/stream-collector/configure/: maxPayloadSize, and the body's limit
PAYLOAD, BODY = 1 << 20, 2 << 20
DEPTH = 40
# https://github.com/snowplow/iglu-central/tree/master/schemas: the public schemas that an export uses. A member is a text
# with its longest and shortest length, an amount, or a count; the third value is whether it must be there.
PUBLIC = "com.snowplowanalytics."
ANY, LONG, LABEL, AMOUNT, COUNT = (0, math.inf), (0, 4096), (0, 256), "amount", "count"
SCHEMAS = {
    "mobile/screen_view/jsonschema/1-0-0": {
        "id": ((0, 36), True), "name": (ANY, True), "previousName": (ANY, False)},
    "snowplow.ecommerce/product/jsonschema/1-0-0": {
        "id": (LONG, True), "name": (LONG, False), "category": (LONG, True), "price": (AMOUNT, True),
        "list_price": (AMOUNT, False), "quantity": (COUNT, False), "size": (LABEL, False), "variant": (LABEL, False),
        "brand": (LABEL, False), "inventory_status": (LABEL, False), "position": (COUNT, False),
        "currency": ((3, 3), True), "creative_id": (LABEL, False)},
    "snowplow.ecommerce/transaction/jsonschema/1-0-0": {
        "transaction_id": (LONG, True), "revenue": (AMOUNT, True), "currency": ((3, 3), True),
        "payment_method": ((0, 128), True), "total_quantity": (COUNT, True), "tax": (AMOUNT, False),
        "shipping": (AMOUNT, False), "discount_code": ((0, 99), False), "discount_amount": (AMOUNT, False)},
    "snowplow.ecommerce/refund/jsonschema/1-0-0": {
        "transaction_id": (LONG, True), "currency": ((3, 3), True), "refund_amount": (AMOUNT, True),
        "refund_reason": (LONG, False)},
}
# See `hard_cases.py`: where in the event, how many, in which unit, and what happens to one more.
LIMITS = (("user", 255, "unit", "refused"), ("anon", 128, "unit", "refused"))


def _described(value):
    """The schema's path and the data of a self-describing object."""
    match = SCHEMA.fullmatch(value["schema"])
    return match.group(1) if match else None, value["data"]


def envelope(record):
    """The schema's path and the members of the event in a payload."""
    return _described(parse(parse(record)["ue_pr"])["data"])


def entities(record):
    """The schema's path and the members of each entity of a payload."""
    payload = parse(record)
    return list(map(_described, parse(payload["co"])["data"])) if "co" in payload else []


def _fits(value, kind):
    if kind == COUNT:
        return is_integer(value) and 0 <= int(value) <= 9_999_999
    if kind == AMOUNT:
        # "multipleOf": 0.01, from 0 to 9999999
        return is_number(value) and 0 <= decimal.Decimal(value) <= 9_999_999 and decimal.Decimal(value) * 100 % 1 == 0
    return is_text(value) and kind[0] <= len(value) <= kind[1]


def _check_described(value):
    """Problems of a self-describing object, by its public schema if it has one."""
    problems = members(value, ["schema", "data"])
    if problems:
        return problems
    path, data = _described(value)
    if path is None:
        problems.append(f"schema {value['schema']!r}")
    elif not isinstance(data, Object):
        problems.append("data is not an object")
    elif path.startswith(PUBLIC):
        schema = SCHEMAS.get(path.removeprefix(PUBLIC))
        if schema is None:
            return [f"no such public schema: {path}"]
        problems += members(data, [name for name in schema if schema[name][1]], schema)
        problems += [f"{name} {item!r} of {path}" for name, item in data.items()
                     if name in schema and not _fits(item, schema[name][0])]
    return problems


def check(record, as_of=None):
    payload = parse(record)
    # https://docs.snowplow.io/docs/events/going-deeper/http-requests/. No `stm`: only an upload knows it.
    problems = members(
        payload, ["e", "eid", "dtm", "ttm", "p", "aid", "tna", "tv", "ue_pr"], ["duid", "uid", "sid", "lang", "ua", "co"])
    if problems:
        return problems
    # https://github.com/snowplow/iglu-central, payload_data: every value is a string
    if not all(map(is_text, payload.values())):
        return ["a value is not a string"]
    if len(record) >= PAYLOAD:
        problems.append("1 MiB or more")
    if payload["e"] != "ue" or payload["p"] != "mob" or payload["tv"] != "wb-1":
        problems.append("e, p or tv")
    if not UUID.fullmatch(payload["eid"]):
        problems.append("eid")
    # https://docs.snowplow.io/docs/events/timestamps/: milliseconds; a true timestamp is used as it is
    if not re.fullmatch(r"\d{12,14}", payload["dtm"]) or payload["dtm"] != payload["ttm"]:
        problems.append("dtm or ttm")
    for name, limit in SIZES.items():
        if not 0 < units(payload.get(name, "-")) <= limit:
            problems.append(f"{name} is longer than {limit}, or empty")
    # https://github.com/snowplow/iglu-central, payload_data: "sid" has the format of a UUID
    if "sid" in payload and not UUID.fullmatch(payload["sid"]):
        problems.append("sid is not a UUID")
    # https://github.com/snowplow/enrich, JsonUtilsSpec: "maximum allowed JSON depth exceeded" at a `maxJsonDepth` of 40
    if any(depth(parse(payload[name])) > DEPTH for name in ("ue_pr", "co") if name in payload):
        problems.append(f"nested more than {DEPTH} deep")
    inner = parse(payload["ue_pr"])
    problems += members(inner, ["schema", "data"])
    if inner.get("schema") != EVENT:
        problems.append("schema of the envelope")
    problems += _check_described(inner["data"])
    if "co" in payload:
        outer = parse(payload["co"])
        problems += members(outer, ["schema", "data"])
        if not re.fullmatch(re.escape(ENTITIES) + "[01]", outer.get("schema", "")):
            problems.append("schema of the entities")
        if not isinstance(outer["data"], list) or not outer["data"]:
            return problems + ["no entities"]
        for entity in outer["data"]:
            problems += _check_described(entity)
    return problems


def event_count(record):
    return 1


def check_request(part):
    schema = '{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[]}'
    # Ours: 500, so that one that is refused is found soon.
    problems = ["more than 500 events"] if part.count(b"\n") > 500 else []
    return problems + (["more than 2 MiB"] if len(part) + len(schema) > BODY else [])


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
