"""PostHog's /batch: one event a line, one part the `batch` of a request."""

import calendar
import time

from common import TIME, UUID, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"

# https://posthog.com/docs/product-analytics/identify, "Illegal distinct IDs": in any case of letters …
ILLEGAL_WORDS = {
    "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email", "undefined", "true", "false"}
# … and exactly. People of such ids become one.
ILLEGAL_TEXTS = {"[object Object]", "NaN", "None", "none", "null", "0"}
# https://www.unicode.org/Public/UCD/latest/ucd/PropList.txt, White_Space, which the capture service in Rust trims, and the byte
# order mark, which JavaScript trims too; Python's own `strip` takes four more.
BLANK = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200b)))
# https://posthog.com/docs/data/ingestion-warnings: longer ids are shortened, "Ingested event after shortening …"
ID = 200
# The same page, "Discarded event exceeding 1MB limit"
EVENT = 1_000_000
# The same page, "An event was sent more than 23 hours in the future": stored and never shown
AHEAD = 23 * 3_600_000
# https://posthog.com/docs/data/events: names that begin with `$` are PostHog's
OWN_EVENTS = {"$screen", "$identify", "$set"}
# https://posthog.com/docs/data/events#default-properties, https://posthog.com/docs/api/capture
OWN_PROPERTIES = {
    "$screen_name", "$session_id", "$device_id", "$os", "$os_version", "$app_version", "$app_build", "$lib",
    "$process_person_profile", "$anon_distinct_id", "$set", "$set_once", "$unset", "$groups", "$raw_user_agent", "$geoip_country_code",
    "$geoip_disable"}
# https://posthog.com/docs/product-analytics/group-analytics: a group's key
GROUP = 400
# https://posthog.com/docs/data/sessions: a UUID of version 7, at most 24 hours long
SESSION = 24 * 3_600_000
# https://posthog.com/docs/api/capture#batch-events: "20MB"; 1000 is ours.
EVENTS, BODY = 1000, 20_000_000
# See `hard_cases.py`: where in the event, how many, in which unit, and what happens to one more.
LIMITS = (("user", 200, "unit", "refused"),)


def _milliseconds(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) * 1000 + int(text[20:23])


def is_illegal(person):
    """Whether an id makes no person: blank, which refuses the whole batch, or an illegal one, in quotes too."""
    text = person.strip(BLANK)
    if len(text) > 2 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return not text or text in ILLEGAL_TEXTS or text.isascii() and text.lower() in ILLEGAL_WORDS


def _id(value, name):
    return [] if is_text(value) and not is_illegal(value) and units(value) <= ID else [f"{name} {value!r}"]


def _session(event, session):
    if not is_text(session) or not UUID.fullmatch(session) or session[14] != "7":
        return ["$session_id is not a version 7 UUID"]
    age = _milliseconds(event["timestamp"]) - int(session[:8] + session[9:13], 16)
    return [] if 0 <= age <= SESSION else ["$session_id is not of the last 24 hours"]


def _properties(event):
    problems = []
    properties = event["properties"]
    for key in properties:
        if not key or key.startswith("$") and key not in OWN_PROPERTIES:
            problems.append(f"property {key!r}")
    # https://posthog.com/docs/product-analytics/geoip: without it, the uploader's address would place the event
    if properties.get("$geoip_disable") is not True:
        problems.append("$geoip_disable")
    if "$session_id" in properties:
        problems += _session(event, properties["$session_id"])
    # https://posthog.com/docs/product-analytics/identify: a device that is identified as itself can never be merged
    if event["event"] == "$identify":
        problems += _id(properties.get("$anon_distinct_id"), "$anon_distinct_id") \
            if "$anon_distinct_id" in properties else []
        if properties.get("$anon_distinct_id") == event["distinct_id"]:
            problems.append("a device is identified as itself")
    # https://posthog.com/docs/product-analytics/person-properties: "$set" and "$set_once"; ours: a property in one of them
    once = properties.get("$set_once", {})
    if not isinstance(once, dict) or set(once) & set(properties.get("$set", {})):
        problems.append("$set_once")
    for key in [*properties.get("$set", {}), *once]:
        if key.startswith("$") or not key:
            problems.append(f"person property {key!r}")
    removed = properties.get("$unset", [])
    if not all(is_text(key) and key and not key.startswith("$") for key in removed) or len(set(removed)) < len(removed) or \
            set(removed) & {*properties.get("$set", {}), *once}:
        problems.append("$unset")
    if "$device_id" in properties and (not is_text(properties["$device_id"]) or is_illegal(properties["$device_id"])):
        problems.append("$device_id")
    if "$groups" in properties:
        groups = properties["$groups"]
        if not isinstance(groups, dict) or not groups or not all(
                is_text(key) and 1 <= units(key) <= GROUP for key in groups.values()):
            problems.append("$groups")
        # https://posthog.com/docs/data/anonymous-vs-identified-events: groups need events of people
        if "$process_person_profile" in properties:
            problems.append("$groups of an event without a person")
    return problems


def check(record, as_of=None):
    event = parse(record)
    # https://posthog.com/docs/data/timestamps: `sent_at` would shift the event by its age
    problems = members(event, ["event", "uuid", "distinct_id", "timestamp", "properties"])
    if problems:
        return problems
    if len(record) > EVENT:
        problems.append("more than 1 MB")
    # https://posthog.com/docs/data/ingestion-warnings, "Discarded event with no event name"
    name = event["event"]
    if not is_text(name) or not name or name.startswith("$") and name not in OWN_EVENTS:
        problems.append(f"event {name!r}")
    # The same page, "Refused to process event with invalid UUID"
    if not is_text(event["uuid"]) or not UUID.fullmatch(event["uuid"]):
        problems.append("uuid")
    problems += _id(event["distinct_id"], "distinct_id")
    if not is_text(event["timestamp"]) or not TIME.fullmatch(event["timestamp"]):
        return problems + ["timestamp"]
    if as_of is not None and _milliseconds(event["timestamp"]) - as_of > AHEAD:
        problems.append("more than 23 hours ahead")
    return problems + _properties(event)


def event_count(record):
    return 1


def check_request(part):
    body = len(part) + len('{"api_key":"","historical_migration":false,"batch":[]}') + 64
    problems = ["more than 1000 events"] if part.count(b"\n") > EVENTS else []
    return problems + (["20 MB or more"] if body >= BODY else [])
