"""Events of Segment, PostHog, Amplitude and Waybill itself as lines; each function returns ids and the lines' rest, and remarks."""

import dataclasses
import re

from .ingest_json import DEPTH_MAX, Fault, NotJSON, Value, parse, unescaped
from .ingest_lines import (
    AGENT_MAX, Line, SESSION, TIME_MAX, USER_MAX, agent_of, finished, id_of, id_text, joined, members_of, name_of, object_of,
    one_line, quoted, text_of, time_of, user_of)

# Segment.

EARLY = ("analytics-swift", "analytics-kotlin", "Analytics-CSharp")
PROVIDERS = {
    "Google Analytics 4": "ga4", "Google Analytics 4 Web": "ga4", "Firebase": "ga4", "Mixpanel": "mixpanel",
    "Amplitude": "amplitude", "Actions Amplitude": "amplitude", "PostHog": "posthog", "Snowplow": "snowplow",
    "Flurry": "flurry", "Segment.io": "segment"}
TYPES = ("track", "identify", "page", "screen", "group", "alias")


def get(value, *names):
    """A member of a member: objects on the way."""
    for name in names:
        value = value.get(name) if value is not None and value.kind == "object" else None
    return value


def segment(event, sent_at, path_type, context, is_single):
    kind = event.get("type")
    kind = kind.text if text_of(kind) and kind.text in TYPES else path_type
    if kind is None:
        raise Fault("unknown-type")
    around = object_of(event.get("context"))
    if is_single and around and around.depth() > DEPTH_MAX - 2:
        raise Fault("not-json")
    library = get(around, "library", "name")
    time = time_of(event.get("originalTimestamp"), sent_at) or time_of(event.get("timestamp"), sent_at)
    time, client, is_unusable = context.time(time, sent_at, bool(text_of(library)) and library.text in EARLY)
    id = context.id(event.get("messageId"))
    user, anon = user_of(event.get("userId")), id_of(event.get("anonymousId"))
    if not user and not anon:
        raise Fault("no-person")
    line = segment_line(event, kind, around)
    line["user"], line["anon"] = user, anon
    segment_context(line, around, context)
    segment_providers(line, object_of(event.get("integrations")))
    line["ts_client"] = client
    return [(id, line.rest(time, context.source))], ["bad-time"] * is_unusable


def segment_line(event, kind, around):
    properties = object_of(event.get("properties"), "bad-member")
    if kind == "track":
        line = Line("event", name_of(event.get("event")))
        line.fields = properties
    elif kind in ("page", "screen"):
        line, page = Line("screen", b'"screen_view"'), get(around, "page")
        candidates = (event.get("name"), get(properties, "name"), get(properties, "path"), get(page, "path"),
                      get(properties, "title"), get(page, "title"))
        line["screen"] = next(filter(None, map(text_of, candidates)), b'"page"')
        line.fields = properties
        if category := text_of(event.get("category")):
            line.extra.append(("category", category))
    elif kind == "identify":
        line = Line("user", b'"set_user"')
        traits = object_of(event.get("traits"), "bad-traits")
        if traits is None and (traits := object_of(get(around, "traits"))):
            line.taken.add("traits")
        line["traits"] = joined(members_of(traits))
    elif kind == "group":
        line = Line("event", b'"$group"')
        line.fields = object_of(event.get("traits"), "bad-traits")
        if group := id_of(event.get("groupId")):
            line.extra.append(("group_id", group))
    else:
        line = Line("event", b'"$alias"')
        if former := id_of(event.get("previousId")):
            line.extra.append(("previous_id", former))
    return line


def segment_context(line, around, context):
    line.address = context.address
    line["user_agent"] = agent_of(get(around, "userAgent"), context.user_agent)
    if around is None:
        return
    line["app"], line["build"] = id_of(get(around, "app", "version")), id_of(get(around, "app", "build"))
    line["os"], line["os_version"] = text_of(get(around, "os", "name")), id_of(get(around, "os", "version"))
    line["model"], line["lang"] = text_of(get(around, "device", "model")), text_of(get(around, "locale"))
    if text_of(around.get("ip")):
        line.address = context.kept(around.get("ip").text)
    taken = {"ip", "locale", "userAgent"} | line.taken
    for name, own in (("app", ("version", "build")), ("os", ("name", "version")), ("device", ("model",))):
        if object_of(around.get(name)):
            taken.add(name)
            if rest := members_of(around.get(name), own):
                line.context.append((quoted(name), joined(rest)))
    line.context += members_of(around, taken)


def segment_providers(line, integrations):
    everyone, named = True, {}
    for key, value in integrations.members if integrations else []:
        if unescaped(key) in ("All", "all"):
            everyone = value.kind != "false"
        elif provider := PROVIDERS.get(unescaped(key)):
            named[provider] = value.kind != "false"
    if not everyone:
        line["providers"] = b"[" + b",".join(quoted(name) for name in sorted(named) if named[name]) + b"]"
    elif skipped := [(quoted(name), b'{"skip":true}') for name in sorted(named) if not named[name]]:
        line["overrides"] = joined(skipped)


# PostHog.

POSTHOG_TAKEN = (
    "token", "distinct_id", "$device_id", "$anon_distinct_id", "$set", "$set_once", "$unset", "$os", "$os_version",
    "$app_version", "$app_build", "$device_model", "$locale", "$raw_user_agent", "$ip", "$insert_id",
    "$process_person_profile", "$is_identified")


def posthog(event, sent_at, context):
    name = name_of(event.get("event"))
    properties = object_of(event.get("properties"), "bad-member")
    ignored = get(properties, "$ignore_sent_at")
    sent_at = None if ignored and ignored.kind == "true" else sent_at
    time = time_of(event.get("timestamp"), sent_at)
    if time is not None:
        time, client, is_unusable = context.time(time, sent_at)
    else:
        time, client, is_unusable = context.received_at - posthog_offset(event.get("offset")), None, False
    own = event.get("uuid")
    id = context.id(own if id_text(own) else get(properties, "$insert_id"))
    kind = event.get("event").text
    if kind in ("$identify", "$set", "$set_once"):
        line = Line("user", b'"set_user"')
        posthog_traits(line, event, properties)
    elif kind in ("$pageview", "$screen"):
        line = Line("screen", b'"screen_view"')
        candidates = [get(properties, name) for name in ("$screen_name", "$pathname", "$current_url")]
        line["screen"] = next(filter(None, map(text_of, candidates)), b'"page"')
    else:
        line = Line("event", {"$groupidentify": b'"$group"', "$create_alias": b'"$alias"'}.get(kind, name))
    posthog_person(line, event, properties)
    sender = line.members.get("user", line.members.get("anon"))
    if kind == "$groupidentify":
        group = id_of(get(properties, "$group_key"))
        line.extra = ([("group_id", group)] if group else []) + [("distinct_id", sender)]
    elif kind == "$create_alias":
        line.extra.append(("previous_id", sender))
    if kind in ("$groupidentify", "$create_alias"):
        line.members.pop("user", None)
        line.members.pop("anon", None)
    if kind == "$create_alias":
        line["user"] = user_of(get(properties, "alias"))
        if "user" not in line.members:
            raise Fault("no-person")
    session = get(properties, "$session_id")
    taken = set(POSTHOG_TAKEN)
    if text_of(session) and SESSION.fullmatch(session.text.lower()):
        line["session"] = quoted(session.text.lower())
        taken.add("$session_id")
    for member, name in (("os", "$os"), ("model", "$device_model"), ("lang", "$locale")):
        line[member] = text_of(get(properties, name))
    for member, name in (("os_version", "$os_version"), ("app", "$app_version"), ("build", "$app_build")):
        line[member] = id_of(get(properties, name))
    line["user_agent"] = agent_of(get(properties, "$raw_user_agent"), context.user_agent)
    named = get(properties, "$ip")
    line.address = (context.kept(named.text) if text_of(named) else None) or context.address
    if properties and not line.is_user():
        line.fields = dataclasses.replace(
            properties, members=[member for member in properties.members if unescaped(member[0]) not in taken])
    line["ts_client"] = client
    lines = [(id, line.rest(time, context.source))]
    if not line.is_user() and kind != "$groupidentify":
        person = Line("user", b'"set_user"')
        if posthog_traits(person, event, properties):
            for member in ("session", "user", "anon", "ts_client"):
                person[member] = line.members.get(member)
            lines.append((context.addition_id(id), person.rest(time, context.source)))
    return lines, ["bad-time"] * is_unusable


def posthog_offset(value):
    if value is None or not re.fullmatch(rb"[+-]?[0-9]{1,18}", text := value.body if value.kind == "string" else value.raw):
        return 0
    return int(text) if 0 <= int(text) <= 2_592_000_000 else 0


def posthog_person(line, event, properties):
    distinct, inner = event.get("distinct_id"), get(properties, "distinct_id")
    chosen = distinct if id_of(distinct) else inner
    if not id_of(chosen):
        raise Fault("no-person")
    text = (distinct.text if text_of(distinct) else None) or (inner.text if text_of(inner) else None)
    device = get(properties, "$device_id")
    flags = [get(properties, name) for name in ("$process_person_profile", "$is_identified")]
    if any(flag and flag.kind == "false" for flag in flags) or (text_of(device) and device.text == text):
        line["anon"] = id_of(chosen)
    else:
        line["user"] = user_of(chosen)
        line["anon"] = text_of(get(properties, "$anon_distinct_id")) or text_of(device)


def posthog_traits(line, event, properties):
    """Writes traits; returns whether there are any."""
    def of(name):
        return object_of(event.get(name)) or object_of(get(properties, name))
    traits, once = of("$set"), of("$set_once")
    unset = event.get("$unset") or get(properties, "$unset")
    names = [name.raw for name in unset.elements if name.kind == "string"] if unset and unset.kind == "array" else []
    names = [name for name in names if not (traits and traits.get(unescaped(name)))]
    line["traits"] = joined(members_of(traits) + [(name, b"null") for name in names])
    if once:
        line["traits_once"] = joined(members_of(once, no_null=True))
    return bool(traits or once or names)


# Amplitude.

GROUP_TAKEN = (
    "event_type", "event_properties", "time", "insert_id", "app_version", "os_name", "os_version", "device_model", "language",
    "ip", "user_agent")
AMPLITUDE_TAKEN = ("user_properties", "user_id", "device_id", *GROUP_TAKEN)
UNPLACED = ("$append", "$prepend", "$preInsert", "$postInsert", "$remove", "$clearAll")
OPERATIONS = ("$set", "$setOnce", "$add", "$unset", *UNPLACED)


def amplitude(event, uploaded_at, context):
    name, kind = name_of(event.get("event_type")), event.get("event_type").text
    time, client, is_unusable = context.time(time_of(event.get("time"), uploaded_at), uploaded_at)
    id = context.id(event.get("insert_id"))
    user = anon = None
    if kind == "$identify":
        line = Line("user", b'"set_user"')
        if properties := object_of(event.get("user_properties"), "bad-traits"):
            amplitude_traits(line, properties)
    else:
        line = Line("event", b'"$group"' if kind == "$groupidentify" else name)
        line.fields = object_of(event.get("event_properties"), "bad-member")
        line.context = members_of(event, GROUP_TAKEN if kind == "$groupidentify" else AMPLITUDE_TAKEN)
    if kind != "$groupidentify":
        user, anon = user_of(event.get("user_id")), id_of(event.get("device_id"))
        if not user and not anon:
            raise Fault("no-person")
    line["user"], line["anon"] = user, anon
    line["app"], line["os_version"] = id_of(event.get("app_version")), id_of(event.get("os_version"))
    line["os"] = text_of(event.get("os_name")) or text_of(event.get("platform"))
    line["model"], line["lang"] = text_of(event.get("device_model")), text_of(event.get("language"))
    line["user_agent"] = agent_of(event.get("user_agent"), context.user_agent)
    named = event.get("ip")
    line.address = context.kept(named.text) if text_of(named) and named.text != "$remote" else context.address
    line["ts_client"] = client
    lines, remarks = [(id, line.rest(time, context.source))], ["bad-time"] * is_unusable
    if (user or anon) and not line.is_user() and (properties := object_of(event.get("user_properties"), "bad-traits")):
        person = Line("user", b'"set_user"')
        for member in ("user", "anon", "ts_client"):
            person[member] = line.members.get(member)
        amplitude_traits(person, properties)
        lines.append((context.addition_id(id), person.rest(time, context.source)))
    properties = object_of(event.get("user_properties"))
    if (user or anon) and properties and any(properties.get(name) for name in UNPLACED):
        remarks.append("bad-traits")
    return lines, remarks


def amplitude_traits(line, properties):
    traits = object_of(properties.get("$set"))
    members = members_of(traits) if traits else members_of(properties, OPERATIONS)
    if unplaced := [member for member in properties.members if unescaped(member[0]) in UNPLACED]:
        line.fields = dataclasses.replace(properties, members=unplaced)
    if once := object_of(properties.get("$setOnce")):
        line["traits_once"] = joined(members_of(once, no_null=True))
    if added := object_of(properties.get("$add")):
        if any(value.kind != "number" for _, value in added.members):
            raise Fault("bad-traits")
        line["traits_add"] = joined(members_of(added))
    for key, _ in (object_of(properties.get("$unset")) or Value("object", b"", 0, 0)).members:
        if not (traits or dataclasses.replace(properties, members=[
                member for member in properties.members if unescaped(member[0]) not in OPERATIONS])).get(unescaped(key)):
            members.append((key, b"null"))
    line["traits"] = joined(members)


# Waybill's own events.

DECIDED = ("v", "id", "writer", "seq", "via", "ts", "env", "bundle", "up", "dt", "kind", "name")


def is_text(value, least, most=None):
    return value.kind == "string" and least <= len(value.text.encode()) <= (most or 1 << 40)


def is_pattern(value, pattern):
    return value.kind == "string" and b"\\" not in value.raw and re.fullmatch(pattern, value.body.decode()) is not None


def is_integer(value, least, most):
    return value.kind == "number" and re.fullmatch(rb"-?[0-9]+", value.raw) is not None and least <= int(value.raw) <= most


def all_kinds(value, kinds):
    return value.kind == "object" and all(member.kind in kinds for _, member in value.members)


def is_override(value):
    names = [unescaped(key) for key, _ in value.members]
    return (value.kind == "object" and names and set(names) <= {"name", "data", "skip"}
            and ("name" not in names or is_text(value.get("name"), 1))
            and ("data" not in names or value.get("data").kind == "object")
            and ("skip" not in names or value.get("skip").kind == "true"))


KINDS = ("null", "false", "true", "number", "string", "array", "object")
ALLOWED = {
    **dict.fromkeys(("screen", "screen_class", "screen_id", "prev", "os_version", "model", "lang"), lambda v: is_text(v, 0)),
    **dict.fromkeys(("app", "build", "os", "log"), lambda v: is_text(v, 1)),
    **dict.fromkeys(("prev_ms", "session_n"), lambda v: is_integer(v, 0, 2**53 - 1)),
    **dict.fromkeys(("traits", "data"), lambda v: v.kind == "object"),
    "user": lambda v: (v.kind == "number" and len(v.raw) <= USER_MAX) or is_text(v, 1, USER_MAX),
    "anon": lambda v: v.kind == "number" or is_text(v, 1),
    "user_agent": lambda v: is_text(v, 0, AGENT_MAX),
    "session": lambda v: is_pattern(v, SESSION.pattern),
    "ts_client": lambda v: is_text(v, 0, TIME_MAX),
    "country": lambda v: is_pattern(v, "[A-Z]{2}"),
    "tz": lambda v: is_integer(v, -1440, 1440),
    "sample_rate": lambda v: v.kind == "number" and 0 < float(v.raw) <= 1,
    "ids": lambda v: all_kinds(v, ("string",)),
    "traits_once": lambda v: all_kinds(v, KINDS[1:]),
    "traits_add": lambda v: all_kinds(v, ("number",)),
    "consent": lambda v: all_kinds(v, ("true", "false")) and v.get("analytics") and v.get("ads"),
    "providers": lambda v: v.kind == "array" and all(is_text(item, 1) for item in v.elements),
    "overrides": lambda v: v.kind == "object" and all(is_override(item) for _, item in v.members),
}


def native(data, context):
    try:
        event = parse(data, 3 if data.startswith(b"\xef\xbb\xbf") else 0)
    except NotJSON:
        raise Fault("not-json") from None
    if event.kind != "object":
        raise Fault("not-an-object")
    name, kind, version = name_of(event.get("name")), event.get("kind"), event.get("v")
    kind = b'"event"' if kind is None or kind.kind == "null" else kind.raw
    if kind not in (b'"event"', b'"action"', b'"screen"', b'"user"', b'"meta"'):
        raise Fault("unknown-type")
    if version and version.kind != "null" and version.raw != b"1":
        raise Fault("bad-member")
    if kind == b'"meta"' and not event.get("name").text.startswith("wb."):
        raise Fault("bad-member")
    time, client, is_unusable = context.time(time_of(event.get("ts")))
    id = context.id(event.get("id"))
    members, seen = [(b'"kind"', kind), (b'"name"', name)] + ([(b'"ts_client"', client)] if client else []), set()
    for key, value in event.members:
        own = unescaped(key)
        if own in DECIDED:
            continue
        if own not in ALLOWED:
            members.append((key, one_line(value)))
        elif own not in seen and value.kind != "null":
            if not ALLOWED[own](value):
                raise Fault("bad-traits" if own.startswith("traits") else "bad-member")
            seen.add(own)
            if is_unusable and own == "ts_client":
                continue
            members.append((key, id_of(value) if own in ("user", "anon") else one_line(value)))
    if kind == b'"user"' and "traits" not in seen:
        raise Fault("bad-traits")
    if kind == b'"screen"' and "screen" not in seen:
        raise Fault("bad-member")
    members += [(b'"bundle"', quoted(context.source.bundle)), (b'"env"', quoted(context.source.env))]
    return [(id, finished(time, members))], ["bad-time"] * is_unusable
