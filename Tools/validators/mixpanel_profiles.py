"""Mixpanel's /engage: one JSON array of updates a part, the updates of one event a line.

Repository mixpanel/docs: profile-set.mdx, user-profile-limits.mdx.
"""

from common import Invalid, is_text, members, parse, size
from mixpanel import check_person, check_value

EXTENSION = "json"


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


def _updates(record):
    return parse(b"[" + record + b"]")


def check(record, as_of=None):
    problems = []
    updates = _updates(record)
    if not 1 <= len(updates) <= 2:
        problems.append(f"{len(updates)} updates")
    for update in updates:
        operation = "$set" if "$set" in update else "$unset"
        problems += members(update, ["$token", "$distinct_id", operation])
        if update.get("$token") != "${MIXPANEL_TOKEN}":
            problems.append("$token is not a placeholder")
        problems += check_person(update.get("$distinct_id"))
        names = update.get(operation)
        if operation == "$set":
            if names.repeats or not names:
                problems.append("$set sets nothing, or something twice")
            for value in names.values():
                problems += check_value(value)
        elif not isinstance(names, list) or not names or not all(map(is_text, names)):
            problems.append("$unset is not a list of names")
        if any(size(name) > 255 or not name for name in names):
            problems.append("a name of more than 255 bytes, or none")
    if len(record) > 2_000_000:
        problems.append("more than 1 MB an update")
    return problems


def event_count(record):
    return 1


def check_request(part):
    updates = parse(part)
    problems = ["more than 2000 updates"] if len(updates) > 2000 else []
    return problems + (["more than 10 MB"] if len(part) > 10_000_000 else [])
