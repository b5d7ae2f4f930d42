"""Mixpanel's /import: one event a line, one part a request.

Repository mixpanel/docs: import-events.mdx, data-type.mdx, reserved-properties.mdx.
"""

import re

from common import PLACEHOLDERS, depth, is_integer, is_text, lines as records, members, parse, size

EXTENSION = "ndjson"
# Those with `$` cannot be an event's own; the others may.
OURS = {
    "$insert_id", "$device_id", "$user_id", "$os", "$os_version", "$app_version_string", "$app_build_number",
    "$model"}
READ = {"time", "distinct_id", "ip"}
RESERVED = {"token", "bucket", ""}


def check_value(value, list_size=8192):
    """Problems of a property's value."""
    problems = []
    if depth(value) > 3:
        problems.append("nested more than three deep")
    stack = [value]
    while stack:
        item = stack.pop()
        if is_text(item) and size(item) > 255:
            problems.append("a string of more than 255 bytes")
        if isinstance(item, (list, dict)):
            if len(item) >= 255:
                problems.append("255 elements or more")
            stack.extend(item.values() if isinstance(item, dict) else item)
    return problems


def check_person(value):
    text = value.removeprefix("$device:") if is_text(value) else ""
    return [] if text not in PLACEHOLDERS and size(value) <= 255 else [f"id {value!r}"]


def check(record, as_of=None):
    event = parse(record)
    problems = members(event, ["event", "properties"])
    if problems:
        return problems
    if len(record) >= 1_000_000:
        problems.append("1 MB or more")
    if not is_text(event["event"]) or size(event["event"]) > 255:
        problems.append("event")
    properties = event["properties"]
    if len(properties) >= 255 or properties.repeats:
        problems.append("255 properties or more, or one twice")
    if not is_integer(properties.get("time")) or int(properties["time"]) < 31_536_000_000:
        problems.append("time")
    elif as_of is not None and int(properties["time"]) - as_of > 3_600_000:
        problems.append("more than an hour ahead")
    if not re.fullmatch(r"[0-9A-Za-z-]{1,36}", properties.get("$insert_id", "")):
        problems.append("$insert_id")
    problems += check_person(properties.get("distinct_id"))
    for name in ("$device_id", "$user_id"):
        if name in properties:
            problems += check_person(properties[name])
    if properties.get("ip") != "0":
        problems.append("ip is not 0: the uploader's place would become the event's")
    for name, value in properties.items():
        if size(name) > 255:
            problems.append("a name of more than 255 bytes")
        if name not in OURS | READ and (name.startswith(("$", "mp_")) or name in RESERVED):
            problems.append(f"reserved name {name!r}")
        problems += check_value(value)
    return problems


def event_count(record):
    return 1


def check_request(part):
    problems = ["more than 2000 events"] if part.count(b"\n") > 2000 else []
    return problems + (["more than 10 MB"] if len(part) > 10_000_000 else [])
