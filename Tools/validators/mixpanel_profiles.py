"""Mixpanel's /engage: one JSON array of updates a part, the updates of one event a line."""

from common import Invalid, is_number, is_text, members, parse, size
from mixpanel import check_person, check_value

EXTENSION = "json"

# https://docs.mixpanel.com/reference/profile-set: members of an update. As properties they would name another person,
# or the uploader's place and time.
OWN = {"$token", "$distinct_id", "$ip", "$ignore_time", "$ignore_alias"}
# https://docs.mixpanel.com/reference/profile-batch-update: "up to 2000", and 1 MB each
UPDATES, UPDATE = 2000, 1_000_000
# https://docs.mixpanel.com/docs/data-structure/property-reference/reserved-properties: computed by Mixpanel
COMPUTED = {"$mp_first_event_time"}
# https://docs.mixpanel.com/docs/data-structure/property-reference/data-type
NAME = 255
# https://docs.mixpanel.com/reference/profile-set, …/profile-set-property-once, …/profile-numerical-add,
# …/profile-delete-property: each takes an object or, the last, a list of names. Ours: one update for each, in this order.
OPERATIONS = ["$set", "$unset", "$set_once", "$add"]
# See `hard_cases.py`: where in the event, how many, in which unit, and what happens to one more.
LIMITS = (("trait", 255, "byte", "cut"),)


def records(part):
    """The updates of each event, without brackets and commas around them."""
    if part == b"[]\n":
        return []
    if not part.startswith(b"[") or not part.endswith(b"]\n"):
        raise Invalid("no array")
    found = part[1:-2].split(b",\n")
    if any(b"\n" in record for record in found):
        raise Invalid("a line feed where none belongs")
    return found


def check(record, as_of=None):
    problems = []
    updates = parse(b"[" + record + b"]")
    done = [name for update in updates for name in OPERATIONS if name in update]
    if not done or done != [name for name in OPERATIONS if name in done] or len(done) != len(updates):
        problems.append(f"updates with {done}")
    for update in updates:
        operation = next((name for name in OPERATIONS if name in update), "$set")
        problems += members(update, ["$token", "$distinct_id", operation])
        # Ours: no secret in a file.
        if update.get("$token") != "${MIXPANEL_TOKEN}":
            problems.append("$token is not a placeholder")
        problems += check_person(update.get("$distinct_id"))
        names = update.get(operation)
        if operation != "$unset":
            if not isinstance(names, dict) or not names:
                problems.append(f"{operation} changes nothing")
                continue
            for value in names.values():
                # "Takes a JSON object containing keys and numerical values"
                problems += check_value(value) if operation != "$add" or is_number(value) else [f"{value!r} is added"]
        elif not isinstance(names, list) or not names or not all(map(is_text, names)):
            problems.append("$unset is not a list of names")
            continue
        for name in names:
            if not name or size(name) > NAME:
                problems.append("a name of more than 255 bytes, or none")
            if name in OWN | COMPUTED:
                problems.append(f"reserved name {name!r}")
    if len(record) > len(updates) * UPDATE:
        problems.append("more than 1 MB an update")
    return problems


def event_count(record):
    return 1


def check_request(part):
    updates = parse(part)
    problems = ["more than 2000 updates"] if len(updates) > UPDATES else []
    # https://docs.mixpanel.com/reference/import-events: the size of a body, for lack of one for /engage
    return problems + (["more than 10 MB"] if len(part) > 10_000_000 else [])
