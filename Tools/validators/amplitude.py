"""Amplitude's Batch API: one event a line, one part the `events` of a request.

Repository amplitude/amplitude-dev-center: batch-event-upload-api.md, http-v2-api.md.
"""

from common import Number, depth, is_integer, is_text, lines as records, members, parse, texts, units

EXTENSION = "ndjson"
INVALID_IDS = {
    "anonymous", "nil", "none", "null", "n/a", "na", "undefined", "unknown", "",
    "00000000-0000-0000-0000-000000000000", "{}", "lmy47d", "0", "-1"}
OWN_EVENTS = {"[Amplitude] Screen Viewed", "$identify"}


def check(record, as_of=None):
    event = parse(record)
    problems = members(
        event, ["event_type", "time", "insert_id", "session_id"],
        ["user_id", "device_id", "event_id", "app_version", "platform", "os_name", "os_version", "device_model",
         "language", "event_properties", "user_properties"])
    kind = event.get("event_type")
    if not is_text(kind) or kind not in OWN_EVENTS and kind.startswith(("[Amplitude]", "$")):
        problems.append(f"event_type {kind!r}")
    if "user_id" not in event and "device_id" not in event:
        problems.append("neither user_id nor device_id")
    for name in ("user_id", "device_id"):
        if name in event and (not is_text(event[name]) or units(event[name]) < 5 or event[name] in INVALID_IDS):
            problems.append(f"{name} {event[name]!r}")
    for name in ("time", "session_id", "event_id"):
        if name in event and not is_integer(event[name]):
            problems.append(f"{name} is not an integer")
    if int(event.get("session_id", Number(-1))) < -1 or not event.get("insert_id"):
        problems.append("session_id or insert_id")
    if any(units(text) > 1024 for text in texts(event)):
        problems.append("a string of more than 1024 characters")
    if ("user_properties" in event) != (kind == "$identify") or ("event_properties" in event) == (kind == "$identify"):
        problems.append("user_properties belong to $identify alone")
    properties = event.get("event_properties")
    if properties is not None:
        if len(properties) > 1024 or properties.repeats:
            problems.append("more than 1024 properties, or one twice")
        if depth(properties) > 40:
            problems.append("nested more than 40 deep")
    user = event.get("user_properties")
    if user is not None:
        problems += members(user, [], ["$set", "$unset"])
        names = list(user.get("$set", [])) + list(user.get("$unset", []))
        if len(names) > 1024 or len(set(names)) != len(names):
            problems.append("more than 1024 properties, or one twice")
        if depth(user) > 41 or set(user.get("$unset", {}).values()) - {"-"}:
            problems.append("user_properties")
    return problems


def event_count(record):
    return 1


def check_request(part):
    body = len(part) + len('{"api_key":"","events":[],"options":{"min_id_length":5}}') + 64
    problems = ["more than 2000 events"] if part.count(b"\n") > 2000 else []
    return problems + (["more than 20 MB"] if body > 20_000_000 else [])
