"""Google Analytics 4, Measurement Protocol for app streams: one request body a line."""

import re

from common import Object, is_integer, is_number, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"

# https://developers.google.com/analytics/devguides/collection/protocol/ga4/reference?client_type=firebase#reserved_event_names
RESERVED_EVENTS = set("""
    ad_activeview ad_click ad_exposure ad_query ad_reward adunit_exposure app_clear_data app_exception app_install
    app_remove app_store_refund app_update app_upgrade dynamic_link_app_open dynamic_link_app_update
    dynamic_link_first_open error firebase_campaign firebase_in_app_message_action firebase_in_app_message_dismiss
    firebase_in_app_message_impression first_open first_visit notification_dismiss notification_foreground
    notification_open notification_receive notification_send os_update session_start user_engagement""".split())
# https://firebase.google.com/docs/reference/ios/firebaseanalytics/api/reference/Classes/FIRAnalytics
RESERVED_EVENTS |= {
    "app_store_subscription_cancel", "app_store_subscription_convert", "app_store_subscription_renew",
    "session_start_with_rollout"}
# https://developers.google.com/analytics/devguides/collection/protocol/ga4/reference?client_type=firebase#reserved_parameter_names
RESERVED_PARAMETERS = {"firebase_conversion"}
# https://developers.google.com/analytics/devguides/collection/protocol/ga4/reference?client_type=firebase#reserved_user_property_names
RESERVED_PROPERTIES = {
    "first_open_time", "first_visit_time", "last_deep_link_referrer", "user_id", "first_open_after_install"}
# The same three sections: names of events, parameters and user properties must not begin with these.
PREFIXES = ("_", "firebase_", "ga_", "google_", "gtag.")
# https://developers.google.com/analytics/devguides/collection/protocol/ga4/sending-events?client_type=firebase#limitations
EVENTS, PARAMETERS, PROPERTIES, BODY = 25, 25, 25, 130_000
NAME, VALUE, PROPERTY_NAME, PROPERTY_VALUE = 40, 100, 24, 36
# https://support.google.com/analytics/answer/9267744: longer values of these three parameters.
VALUES = {"page_title": 300, "page_referrer": 420, "page_location": 1000}
# https://developers.google.com/analytics/devguides/collection/ga4/reference/events#purchase: "up to 200 elements", and the
# parameters of an item that are not custom.
ITEMS = 200
ITEM = set("""
    affiliation coupon creative_name creative_slot currency discount index item_brand item_category item_category2
    item_category3 item_category4 item_category5 item_id item_list_id item_list_name item_name item_variant location_id
    price promotion_id promotion_name quantity""".split())
# https://developers.google.com/analytics/devguides/collection/ga4/item-scoped-ecommerce: "up to 27 custom parameters"
CUSTOM = 27
# https://support.google.com/analytics/answer/9213390
USER_ID = 256
# https://developers.google.com/analytics/devguides/collection/protocol/ga4/reference?client_type=firebase#payload_post_body:
# an older time is moved to 72 hours ago, without an error.
AGE = 72 * 3_600_000
# See `hard_cases.py`: where in the event, how many, in which unit, and what happens to one more.
LIMITS = (("value", 100, "unit", "cut"), ("trait", 36, "unit", "cut"), ("user", 256, "unit", "refused"),
          ("page_title", 300, "unit", "cut"), ("page_referrer", 420, "unit", "cut"),
          ("page_location", 1000, "unit", "cut"), ("fields", 24, "count", "gone"), ("items", 200, "count", "gone"),
          ("item", 27, "count", "gone"), ("key", 40, "byte", "cut"))


def _has_name(name, limit):
    # "The name must contain only alphanumeric characters and underscores and must start with a letter", #limitations
    return units(name) <= limit and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and not name.startswith(PREFIXES)


def _scalar(value, limit, what):
    if is_text(value):
        return [] if units(value) <= limit else [f"{what} is too long"]
    # ga-dev-tools' schema, https://ga-dev-tools.google/ga4/event-builder/: a parameter is a string or a number.
    return [] if is_number(value) else [f"{what} is neither a string nor a number"]


def _items(items):
    problems = [f"{len(items)} items"] if len(items) > ITEMS else []
    for item in items:
        if not isinstance(item, Object):
            problems.append("an item is not an object")
            continue
        # …/reference/events#purchase: "One of item_id or item_name is required"
        if not {"item_id", "item_name"} & set(item):
            problems.append("an item without item_id and item_name")
        if sum(key not in ITEM for key in item) > CUSTOM:
            problems.append("an item has too many parameters of its own")
        for key, value in item.items():
            problems += [] if _has_name(key, NAME) else [f"item parameter {key!r}"]
            problems += _scalar(value, VALUE, f"item parameter {key}")
    return problems


def _event(event, as_of):
    # .../reference?client_type=firebase#payload_post_body: name, params, timestamp_micros
    problems = members(event, ["name", "params", "timestamp_micros"])
    if problems:
        return problems
    if not _has_name(event["name"], NAME) or event["name"] in RESERVED_EVENTS:
        problems.append(f"event name {event['name']!r}")
    if not is_integer(event["timestamp_micros"]):
        problems.append("timestamp_micros is not an integer")
    elif as_of is not None and as_of - int(event["timestamp_micros"]) // 1000 > AGE:
        problems.append("older than 72 hours")
    params = event["params"]
    if len(params) > PARAMETERS:
        problems.append("more than 25 parameters")
    # https://developers.google.com/analytics/devguides/collection/protocol/ga4/sending-events?client_type=firebase#recommended_parameters_for_reports:
    # without these two, the event does not show in reports of users and of the last minutes.
    if not is_integer(params.get("engagement_time_msec")) or int(params["engagement_time_msec"]) < 1:
        problems.append("engagement_time_msec is missing")
    # …/sending-events#recommended_parameters_for_reports: digits, as a number or in a string
    if "session_id" in params and not re.fullmatch(r"\d+", str(params["session_id"])):
        problems.append("session_id")
    for name, value in params.items():
        if not _has_name(name, NAME) or name in RESERVED_PARAMETERS:
            problems.append(f"parameter {name!r}")
        if name == "items":
            problems += _items(value) if isinstance(value, list) else ["items is not a list"]
        else:
            problems += _scalar(value, VALUES.get(name, VALUE), f"parameter {name}")
    return problems


def check(record, as_of=None):
    """Problems of one line; `as_of` is when it would be sent, in milliseconds."""
    request = parse(record)
    # https://developers.google.com/analytics/devguides/collection/protocol/ga4/reference?client_type=firebase#payload_post_body
    problems = members(
        request, ["app_instance_id", "events"], ["user_id", "consent", "device", "user_location", "user_properties"])
    if len(record) >= BODY:
        problems.append("130 kB or more")
    # https://ga-dev-tools.google/ga4/event-builder/: "app_instance_id" has 32 hexadecimal digits.
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", request.get("app_instance_id", "")):
        problems.append("app_instance_id")
    if "user_id" in request and not (is_text(request["user_id"]) and 1 <= units(request["user_id"]) <= USER_ID):
        problems.append("user_id")
    if "consent" in request:
        # .../reference?client_type=firebase#payload_consent
        problems += members(request["consent"], ["ad_user_data", "ad_personalization"])
        if not all(value in ("GRANTED", "DENIED") for value in request["consent"].values() if is_text(value)) or \
                not all(map(is_text, request["consent"].values())):
            problems.append("consent")
    events = request.get("events", [])
    if not 1 <= len(events) <= EVENTS:
        problems.append(f"{len(events)} events")
    for event in events:
        problems += _event(event, as_of)
    # https://developers.google.com/analytics/devguides/collection/protocol/ga4/user-properties?client_type=firebase
    properties = request.get("user_properties", Object())
    if len(properties) > PROPERTIES:
        problems.append("more than 25 user properties")
    for name, value in properties.items():
        if not _has_name(name, PROPERTY_NAME) or name in RESERVED_PROPERTIES:
            problems.append(f"user property {name!r}")
        problems += members(value, ["value", "timestamp_micros"])
        problems += _scalar(value.get("value"), PROPERTY_VALUE, f"user property {name}")
    return problems


def event_count(record):
    return len(parse(record)["events"])


def check_request(part):
    """A part is many requests, one a line."""
    return []
