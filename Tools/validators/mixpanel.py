"""Mixpanel's /import: one event a line, one part a request."""

import re

from common import depth, is_integer, is_text, lines as records, members, parse, size

EXTENSION = "ndjson"

# https://docs.mixpanel.com/reference/import-events, "properties.distinct_id" and "properties.$insert_id": refused, because
# they usually come from a mistake. The empty text is allowed for distinct_id: no one.
DISALLOWED = {
    "00000000-0000-0000-0000-000000000000", "anon", "anonymous", "nil", "none", "null", "n/a", "na", "undefined",
    "unknown", "<nil>", "0", "-1", "true", "false", "[]", "{}"}
# https://docs.mixpanel.com/docs/tracking-methods/id-management/identifying-users-original: events that join people.
COMMANDS = {"$identify", "$create_alias", "$merge"}
# https://docs.mixpanel.com/docs/data-structure/property-reference/default-properties: those of an app that we know.
DEFAULT = {"$os", "$os_version", "$app_version_string", "$app_build_number", "$model", "mp_country_code"}
# https://docs.mixpanel.com/docs/data-structure/property-reference/reserved-properties: those that an event needs.
NEEDED = {"$insert_id", "$device_id", "$user_id"}
# The same page: the first three are never stored, hide the event or make it vanish.
FORBIDDEN = {"token", "bucket", "$bucket", "$ignore", "$distinct_id", "$time"}
# https://docs.mixpanel.com/reference/import-events, "Validation" and "Limits"
EVENTS, BODY, EVENT, PROPERTIES, ELEMENTS = 2000, 10_000_000, 1_000_000, 255, 255
FIRST, AHEAD = 31_536_000_000, 3_600_000
# https://docs.mixpanel.com/docs/data-structure/property-reference/data-type: "255 bytes", "maximum nesting depth of 3"
TEXT, DEPTH = 255, 3
# See `hard_cases.py`: where in the event, how many, in which unit, and what happens to one more.
LIMITS = (("value", 255, "byte", "cut"), ("name", 255, "byte", "cut"), ("key", 255, "byte", "cut"),
          ("user", 255, "byte", "refused"), ("list", 254, "count", "gone"), ("id", 36, "byte", "refused"))


def check_value(value):
    """Problems of a property's value."""
    problems = []
    if depth(value) > DEPTH:
        problems.append("nested more than three deep")
    stack = [value]
    while stack:
        item = stack.pop()
        if is_text(item) and size(item) > TEXT:
            problems.append("a string of more than 255 bytes")
        if isinstance(item, (list, dict)):
            if len(item) >= ELEMENTS:
                problems.append("255 elements or more")
            stack.extend(item.values() if isinstance(item, dict) else item)
    return problems


def check_person(value, may_be_nobody=False):
    """Problems of an id of a person, with the prefix that makes it a device's.

    https://docs.mixpanel.com/docs/tracking-methods/id-management/identifying-users-simplified
    """
    if value == "":
        return [] if may_be_nobody else ["an empty id"]
    return check_id(value.removeprefix("$device:") if is_text(value) else value)


def check_id(value):
    is_good = is_text(value) and 1 <= size(value) <= TEXT and value not in DISALLOWED
    return [] if is_good else [f"id {value!r}"]


def check(record, as_of=None):
    event = parse(record)
    problems = members(event, ["event", "properties"])
    if problems:
        return problems
    if len(record) >= EVENT:
        problems.append("1 MB or more")
    name = event["event"]
    if not is_text(name) or size(name) > TEXT:
        problems.append("event")
    # Ours: Mixpanel's own names begin with `$` or `mp_`; an app's never do.
    elif name in COMMANDS or name.startswith(("$", "mp_")):
        problems.append(f"event {name!r}")
    properties = event["properties"]
    if len(properties) >= PROPERTIES:
        problems.append("255 properties or more")
    if not is_integer(properties.get("time")) or int(properties["time"]) < FIRST:
        problems.append("time")
    elif as_of is not None and int(properties["time"]) - as_of > AHEAD:
        problems.append("more than an hour ahead")
    # "at most 36 bytes", "only alphanumeric characters or -"
    insert = properties.get("$insert_id", "")
    if not is_text(insert) or not re.fullmatch(r"[0-9A-Za-z-]{1,36}", insert) or insert in DISALLOWED:
        problems.append(f"$insert_id {insert!r}")
    # Left out, the server would make one of the uploader's address.
    problems += check_person(properties.get("distinct_id"), may_be_nobody=True)
    for name in ("$device_id", "$user_id"):
        if name in properties:
            problems += check_id(properties[name])
    # The server makes `$device:` and the id a person, unless the project merges as it once did.
    device = properties.get("$device_id", "")
    if is_text(device) and device != properties.get("distinct_id") and size("$device:" + device) > TEXT:
        problems.append("$device_id is too long")
    # The same page as above: such a user would be the person of a stranger's device.
    if str(properties.get("$user_id", "")).startswith("$device:"):
        problems.append("$user_id is a device's")
    # https://docs.mixpanel.com/docs/tracking-best-practices/geolocation: the uploader's place is not the person's.
    if properties.get("ip") != "0":
        problems.append("ip is not 0")
    for name, value in properties.items():
        if not name or size(name) > TEXT:
            problems.append("a name of more than 255 bytes, or none")
        if name in FORBIDDEN or name.startswith(("$", "mp_")) and name not in NEEDED | DEFAULT:
            problems.append(f"reserved name {name!r}")
        problems += check_value(value)
    return problems


def event_count(record):
    return 1


def check_request(part):
    problems = ["more than 2000 events"] if part.count(b"\n") > EVENTS else []
    return problems + (["more than 10 MB"] if len(part) > BODY else [])
