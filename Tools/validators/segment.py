"""Segment's HTTP tracking API: one call a line, one part the `batch` of a request."""

from common import TIME, Object, is_number, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"

# https://segment.com/docs/connections/spec/: the calls and what each must have
SPECIFIC = {"screen": ["name", "properties"], "track": ["event", "properties"], "identify": ["traits"]}
# https://segment.com/docs/connections/sources/catalog/libraries/server/http-api/#max-request-size
CALL, BODY = 32_000, 500_000
# https://segment.com/docs/connections/rate-limits/: "2500 events", "10,000 properties"
CALLS, PROPERTIES = 2500, 10_000
# https://github.com/segmentio/segment-docs/issues/5924
MESSAGE_ID = 100
# https://segment.com/docs/connections/spec/common/#context
CONTEXT = {"app", "os", "device", "locale", "library", "timezone", "groupId", "userAgent", "location"}
# No LIMITS: a call of 32 KB cannot have 10 000 properties.


def _products(products):
    """Problems of a list of products, https://segment.com/docs/connections/spec/ecommerce/v2/#order-completed."""
    problems = []
    for product in products:
        if isinstance(product, Object) and {"item_id", "item_name"} & set(product):
            problems.append("a product has another vocabulary's names")
    return problems


def check(record, as_of=None):
    call = parse(record)
    kind = call.get("type")
    if kind not in SPECIFIC:
        return [f"type {kind!r}"]
    # https://segment.com/docs/connections/spec/common/#timestamps: with `sentAt`, Segment moves the event by the
    # difference to the time of receipt; a file that is sent later must not have it.
    problems = members(
        call, ["type", "messageId", "timestamp", "context"] + SPECIFIC[kind], ["anonymousId", "userId"])
    if problems:
        return problems
    if len(record) >= CALL:
        problems.append("32 KB or more")
    # https://segment.com/docs/connections/sources/catalog/libraries/server/http-api/#errors
    if not call.get("userId") and not call.get("anonymousId"):
        problems.append("neither userId nor anonymousId")
    for name in ("userId", "anonymousId", "event", "name"):
        if name in call and (not is_text(call[name]) or not call[name]):
            problems.append(name)
    if not is_text(call["messageId"]) or not 1 <= units(call["messageId"]) <= MESSAGE_ID:
        problems.append("messageId")
    # https://segment.com/docs/connections/spec/common/#timestamps: ISO 8601
    if not is_text(call["timestamp"]) or not TIME.fullmatch(call["timestamp"]):
        problems.append("timestamp")
    properties = call["traits" if kind == "identify" else "properties"]
    if not isinstance(properties, dict) or len(properties) > PROPERTIES:
        return problems + ["more than 10 000 properties"]
    # https://segment.com/docs/connections/spec/track/#properties: revenue is a number
    if "revenue" in properties and next(iter(properties)) == "revenue" and "value" in properties and \
            not is_number(properties["revenue"]):
        problems.append("revenue is not a number")
    if isinstance(properties.get("products"), list):
        problems += _products(properties["products"])
    problems += [f"context.{name} is not known" for name in call["context"] if name not in CONTEXT]
    if not is_text(call["context"].get("groupId", "")):
        problems.append("context.groupId")
    if call["context"].get("library") != {"name": "waybill", "version": "1"}:
        problems.append("context.library")
    return problems


def event_count(record):
    return 1


def check_request(part):
    body = len(part) + len('{"batch":[],"writeKey":""}') + 64
    problems = ["more than 2500 calls"] if part.count(b"\n") > CALLS else []
    return problems + (["more than 500 KB"] if body > BODY else [])
