"""Amplitude's Batch API: one event a line, one part the `events` of a request."""

from common import depth, is_integer, is_number, is_text, lines as records, members, parse, texts, units

EXTENSION = "ndjson"

# https://amplitude.com/docs/apis/analytics/http-v2, "Keys for the event argument": those that an export has
KEYS = {
    "user_id", "device_id", "event_id", "app_version", "platform", "os_name", "os_version", "device_model", "language",
    "country", "event_properties", "user_properties", "groups", "price", "quantity", "revenue", "productId", "revenueType",
    "currency"}
# The same page, "Device IDs and User IDs": refused as ids. Ids of zeros come from limited ad tracking.
INVALID_IDS = {
    "anonymous", "nil", "none", "null", "n/a", "na", "undefined", "unknown", "", "[]", "{}", "lmy47d", "0", "-1",
    "00000000-0000-0000-0000-000000000000"}
# https://amplitude.com/docs/apis/analytics/batch-event-upload: "5 characters or more", 2000 events, 20 MB
ID, EVENTS, BODY = 5, 2000, 20_000_000
# https://amplitude.com/docs/apis/analytics/http-v2, "quantity": an integer
QUANTITY = (1 << 31) - 1
# https://amplitude.com/docs/apis/analytics/http-v2, "String character limit", "Object depth may not exceed 40 layers"
TEXT, DEPTH = 1024, 40
# https://amplitude.com/docs/data/property-limits
PROPERTIES = 1024
# https://amplitude.com/docs/apis/analytics/identify: `$identify` is an event for user properties alone; names like
# `[Amplitude] Screen Viewed` are those of Amplitude's own SDKs.
OWN_EVENTS = {"[Amplitude] Screen Viewed", "$identify"}
# The same page, "user_properties supported operations": those that an export has
OPERATIONS = ["$set", "$setOnce", "$add", "$unset"]
# See `hard_cases.py`: where in the event, how many, in which unit, and what happens to one more.
LIMITS = (("value", 1024, "unit", "cut"), ("name", 1024, "unit", "cut"), ("key", 1024, "unit", "cut"),
          ("trait", 1024, "unit", "cut"), ("user", 1024, "unit", "refused"), ("fields", 1024, "count", "gone"))


def _commerce(event):
    """Problems of revenue and groups."""
    problems = []
    for name in ("price", "revenue"):
        if name in event and not is_number(event[name]):
            problems.append(f"{name} is not a number")
    if "quantity" in event and not (is_integer(event["quantity"]) and int(event["quantity"]) <= QUANTITY):
        problems.append("quantity is not an integer of 32 bits")
    # "price … Required for revenue data if the revenue field is not sent"
    if {"quantity", "productId", "revenueType", "currency"} & set(event) and not {"price", "revenue"} & set(event):
        problems.append("a revenue event without an amount")
    # "If all three of revenue, price and quantity are sent, price times quantity counts": one way alone
    if "price" in event and "revenue" in event:
        problems.append("both price and revenue")
    for name in ("productId", "revenueType", "currency"):
        if name in event and not is_text(event[name]):
            problems.append(f"{name} is not a string")
    # "groups": an object of group types, each with a value or a list of values
    groups = event.get("groups", {})
    if not isinstance(groups, dict) or not all(is_text(group) and group for group in groups.values()) or \
            "groups" in event and not groups:
        problems.append("groups")
    return problems


def _properties(event):
    problems = []
    is_identify = event["event_type"] == "$identify"
    if ("user_properties" in event) != is_identify or ("event_properties" in event) == is_identify:
        problems.append("user_properties belong to $identify alone")
    properties = event.get("event_properties")
    if properties is not None:
        if not isinstance(properties, dict) or len(properties) > PROPERTIES:
            problems.append("more than 1024 properties")
        if depth(properties) > DEPTH:
            problems.append("nested more than 40 deep")
    user = event.get("user_properties")
    if user is not None:
        # https://amplitude.com/docs/apis/analytics/identify#user_properties-supported-operations: no operation of one
        # property twice; the value of $unset is "-", and $add increments a property by a number.
        problems += members(user, [], OPERATIONS)
        names = [name for operation in OPERATIONS for name in user.get(operation, [])]
        if not all(map(is_number, user.get("$add", {}).values())):
            problems.append("$add of something that is not a number")
        if len(names) > PROPERTIES or len(set(names)) != len(names):
            problems.append("more than 1024 properties, or one in two operations")
        if depth(user) > DEPTH + 1 or set(user.get("$unset", {}).values()) - {"-"}:
            problems.append("user_properties")
    return problems


def check(record, as_of=None):
    event = parse(record)
    problems = members(event, ["event_type", "time", "insert_id", "session_id"], KEYS)
    if problems:
        return problems
    kind = event["event_type"]
    if not is_text(kind) or not kind or kind not in OWN_EVENTS and kind.startswith(("[Amplitude]", "$")):
        problems.append(f"event_type {kind!r}")
    # "user_id … Required unless device_id is present"
    if "user_id" not in event and "device_id" not in event:
        problems.append("neither user_id nor device_id")
    for name in ("user_id", "device_id"):
        if name in event and (not is_text(event[name]) or units(event[name]) < ID or event[name] in INVALID_IDS):
            problems.append(f"{name} {event[name]!r}")
    for name in ("time", "session_id", "event_id"):
        if name in event and not is_integer(event[name]):
            problems.append(f"{name} is not an integer")
    # "session_id … -1 is equivalent to no session"
    if is_integer(event["session_id"]) and int(event["session_id"]) < -1:
        problems.append("session_id")
    # "insert_id": recommended, for duplicates; ours: always.
    if not is_text(event["insert_id"]) or not event["insert_id"]:
        problems.append("insert_id")
    if any(units(text) > TEXT for text in texts(event)):
        problems.append("a string of more than 1024 characters")
    return problems + _commerce(event) + _properties(event)


def event_count(record):
    return 1


def check_request(part):
    body = len(part) + len('{"api_key":"","events":[],"options":{"min_id_length":5}}') + 64
    problems = ["more than 2000 events"] if part.count(b"\n") > EVENTS else []
    return problems + (["more than 20 MB"] if body > BODY else [])
