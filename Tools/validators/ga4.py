"""Google Analytics 4, Measurement Protocol for app streams: one request body a line.

developers.google.com/analytics/devguides/collection/protocol/ga4 (reference, user-properties).
"""

import re

from common import Number, Object, is_integer, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
RESERVED_EVENTS = set("""
    ad_activeview ad_click ad_exposure ad_query ad_reward adunit_exposure app_clear_data app_exception app_install
    app_remove app_store_refund app_update app_upgrade dynamic_link_app_open dynamic_link_app_update
    dynamic_link_first_open error firebase_campaign firebase_in_app_message_action firebase_in_app_message_dismiss
    firebase_in_app_message_impression first_open first_visit notification_dismiss notification_foreground
    notification_open notification_receive notification_send os_update session_start user_engagement
    app_store_subscription_cancel app_store_subscription_convert app_store_subscription_renew
    session_start_with_rollout""".split())
RESERVED_PROPERTIES = {
    "first_open_time", "first_visit_time", "last_deep_link_referrer", "user_id", "first_open_after_install"}
PREFIXES = ("_", "firebase_", "ga_", "google_", "gtag.")
VALUES = {"page_title": 300, "page_referrer": 420, "page_location": 1000}
ITEM = set("""
    affiliation coupon creative_name creative_slot currency discount index item_brand item_category item_category2
    item_category3 item_category4 item_category5 item_id item_list_id item_list_name item_name item_variant location_id
    price promotion_id promotion_name quantity""".split())


def _name(name, limit):
    return len(name) <= limit and NAME.fullmatch(name) and not name.startswith(PREFIXES)


def _scalar(value, limit, what):
    if is_text(value):
        return [] if units(value) <= limit else [f"{what} is too long"]
    return [] if isinstance(value, Number) else [f"{what} is neither a string nor a number"]


def _parameter(name, value):
    problems = [] if _name(name, 40) else [f"parameter {name!r}"]
    if name == "items" and isinstance(value, list):
        for item in value:
            if not isinstance(item, Object) or item.repeats:
                problems.append("an item is not an object with unique names")
                continue
            if sum(key not in ITEM for key in item) > 10:
                problems.append("an item has too many parameters of its own")
            for key, inner in item.items():
                problems += [] if _name(key, 40) else [f"item parameter {key!r}"]
                problems += _scalar(inner, 100, f"item parameter {key}")
        return problems
    return problems + _scalar(value, VALUES.get(name, 100), f"parameter {name}")


def _event(event, as_of):
    problems = members(event, ["name", "params", "timestamp_micros"])
    if problems:
        return problems
    if not _name(event["name"], 40) or event["name"] in RESERVED_EVENTS:
        problems.append(f"event name {event['name']!r}")
    if not is_integer(event["timestamp_micros"]):
        problems.append("timestamp_micros is not an integer")
    elif as_of is not None and as_of - int(event["timestamp_micros"]) // 1000 > 72 * 3_600_000:
        problems.append("older than 72 hours")
    params = event["params"]
    if len(params) > 25 or params.repeats:
        problems.append("more than 25 parameters, or one twice")
    if not is_integer(params.get("engagement_time_msec")) or int(params["engagement_time_msec"]) < 1:
        problems.append("engagement_time_msec is missing")
    # The exporter's own comes first; without it, an app may have a field of that name.
    if next(iter(params), None) == "session_id" and not re.fullmatch(r"\d+", str(params["session_id"])):
        problems.append("session_id")
    for name, value in params.items():
        problems += _parameter(name, value)
    return problems


def check(record, as_of=None):
    """Problems of one line; `as_of` is when it would be sent, in milliseconds."""
    request = parse(record)
    problems = members(
        request, ["app_instance_id", "events"], ["user_id", "consent", "device", "user_properties"])
    if len(record) >= 130_000:
        problems.append("130 kB or more")
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", request.get("app_instance_id", "")):
        problems.append("app_instance_id")
    if "user_id" in request and not 1 <= units(request["user_id"]) <= 256:
        problems.append("user_id")
    if "consent" in request:
        problems += members(request["consent"], ["ad_user_data", "ad_personalization"])
        if not set(request["consent"].values()) <= {"GRANTED", "DENIED"}:
            problems.append("consent")
    events = request.get("events", [])
    if not 1 <= len(events) <= 25:
        problems.append(f"{len(events)} events")
    for event in events:
        problems += _event(event, as_of)
    properties = request.get("user_properties", Object())
    if len(properties) > 25 or properties.repeats:
        problems.append("more than 25 user properties, or one twice")
    for name, value in properties.items():
        if not _name(name, 24) or name in RESERVED_PROPERTIES:
            problems.append(f"user property {name!r}")
        problems += members(value, ["value", "timestamp_micros"])
        problems += _scalar(value.get("value"), 36, f"user property {name}")
    return problems


def event_count(record):
    return len(parse(record)["events"])


def check_request(part):
    """A part is many requests, one a line."""
    return []
