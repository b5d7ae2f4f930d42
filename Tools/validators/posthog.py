"""PostHog's /batch: one event a line, one part the `batch` of a request.

Repository PostHog/posthog.com: docs/api/capture; PostHog/posthog: rust/capture.
"""

import calendar
import time

from common import PLACEHOLDERS, TIME, UUID, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"
OWN_EVENTS = {"$screen", "$identify", "$set"}
OWN_PROPERTIES = {
    "$screen_name", "$session_id", "$device_id", "$os", "$os_version", "$app_version", "$app_build", "$lib",
    "$process_person_profile", "$anon_distinct_id", "$set", "$unset"}


def _milliseconds(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) * 1000 + int(text[20:23])


def check(record, as_of=None):
    event = parse(record)
    problems = members(event, ["event", "uuid", "distinct_id", "timestamp", "properties"])
    if problems:
        return problems
    name = event["event"]
    if not is_text(name) or not name or name.startswith("$") and name not in OWN_EVENTS:
        problems.append(f"event {name!r}")
    if not UUID.fullmatch(event["uuid"]):
        problems.append("uuid")
    if not TIME.fullmatch(event["timestamp"]):
        return problems + ["timestamp"]
    person = event["distinct_id"]
    if not is_text(person) or person in PLACEHOLDERS or not 1 <= units(person) <= 200:
        problems.append(f"distinct_id {person!r}")
    properties = event["properties"]
    if properties.repeats:
        problems.append("a property stands twice")
    for key in properties:
        if not key or key.startswith("$") and key not in OWN_PROPERTIES:
            problems.append(f"property {key!r}")
    if "$session_id" in properties:
        session = properties["$session_id"]
        if not UUID.fullmatch(session) or session[14] != "7":
            problems.append("$session_id is not a version 7 UUID")
        else:
            age = _milliseconds(event["timestamp"]) - int(session[:8] + session[9:13], 16)
            if not 0 <= age <= 24 * 3_600_000:
                problems.append("$session_id is not of the last 24 hours")
    if name == "$identify" and properties.get("$anon_distinct_id") == person:
        problems.append("a device is identified as itself")
    for key in properties.get("$set", {}):
        if key.startswith("$") or not key:
            problems.append(f"person property {key!r}")
    if not all(map(is_text, properties.get("$unset", []))):
        problems.append("$unset")
    return problems


def event_count(record):
    return 1


def check_request(part):
    body = len(part) + len('{"api_key":"","historical_migration":false,"batch":[]}') + 64
    problems = ["more than 1000 events"] if part.count(b"\n") > 1000 else []
    return problems + (["20 MB or more"] if body >= 20_000_000 else [])
