"""Requests of other products' SDKs as events of Waybill, a second time, as Documentation/ingest.md says.

    request ─▶ inflated, unwrapped ─▶ ingest_json: events ─▶ ingest_dialects: ids and lines ─▶ Reading(dialect, key, lines, faults)

It shares no code with the Swift sources. JSON is read with its bytes kept, because a line holds values as they came.
"""

import base64
import dataclasses
import re
import zlib

from .ingest_json import BLANK, EVENTS_MAX, Fault, LISTS, Refused, parse_body
from .ingest_lines import Context, Random, Source, joined, kept_address, quoted, sending_time, text_of
from .ingest_dialects import TYPES, amplitude, get, native, posthog, segment

BODY_MAX = 4 << 20
INFLATED_MIN, INFLATION_MAX = 256 << 10, 100


def inflated(body, encoding):
    if encoding not in (None, "", "identity", "gzip", "x-gzip", "deflate"):
        raise Refused("encoding")
    if len(body) < 2:
        return body
    is_gzip = body[:2] == b"\x1f\x8b"
    is_zlib = body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0
    if not (is_gzip or is_zlib or encoding == "deflate"):
        return body
    output, rest = b"", body
    try:
        while rest:
            stream = zlib.decompressobj(47 if is_gzip or is_zlib else -15)
            output += stream.decompress(rest, BODY_MAX + 1 - len(output))
            if len(output) > BODY_MAX:
                raise Refused("too-large")
            if len(output) > INFLATED_MIN + INFLATION_MAX * len(body):
                raise Refused("inflation")
            if not stream.eof:
                raise Refused("malformed")
            rest = stream.unused_data
    except zlib.error:
        raise Refused("malformed") from None
    return output


def form_decoded(text):
    return re.sub(rb"%([0-9a-fA-F]{2})", lambda match: bytes([int(match[1], 16)]), text.replace(b"+", b" "))


def form_pairs(text):
    for pair in text.split(b"&"):
        name, sign, value = pair.partition(b"=")
        if sign:
            yield form_decoded(name), form_decoded(value)


def form_value(text, wanted):
    return next((value for name, value in form_pairs(text) if name == wanted), None)


def base64_decoded(text):
    """Either alphabet, with or without padding; a blank was a plus."""
    text = re.sub(rb"[\r\n\t]", b"", text).translate(bytes.maketrans(b" -_", b"++/"))
    match = re.fullmatch(rb"([A-Za-z0-9+/]+)={0,2}", text)
    if not match or len(match[1]) % 4 == 1:
        return None
    return base64.b64decode(match[1] + b"=" * (-len(match[1]) % 4))


def unwrapped(body):
    first = body.lstrip(BLANK)[:1]
    if first in (b"", b"{", b"[", b"\xef"):
        return body
    value = form_value(body, b"data")
    if value is not None:
        return base64_decoded(value) or value
    return base64_decoded(body) or body


PIXEL_TAKEN = ("key", "writeKey", "api_key", "event", "id", "user", "anon", "ts")


def pixel_body(query):
    values = {}
    for name, value in list(form_pairs(b"&".join([pair for pair in query.split(b"&") if pair][:64]))):
        values.setdefault(name.decode(errors="replace"), value.decode(errors="replace"))
    members = [(b'"type"', b'"track"')]
    for name, member in (("event", "event"), ("id", "messageId"), ("user", "userId")):
        if name in values:
            members.append((quoted(member), quoted(values[name])))
    members.append((b'"anonymousId"', quoted(values.get("anon", values.get("id", "pixel")))))
    if "ts" in values:
        members.append((b'"timestamp"', quoted(values["ts"])))
    members.append((b'"properties"', joined(
        [(quoted(name), quoted(value)) for name, value in values.items() if name not in PIXEL_TAKEN])))
    return joined(members)


def route(method, path):
    """Dialect, and what the path says about a call's type."""
    path = path.rstrip("/")
    known = {"/v1/b": "segment", "/v1/batch": "segment", "/v1/import": "segment", "/v1/events": "native",
             "/batch": "posthog", "/e": "posthog", "/i/v0/e": "posthog", "/capture": "posthog",
             "/2/httpapi": "amplitude"}
    if path == "/v1/pixel.gif" and method == "GET":
        return "pixel", None
    if path in known and (method == "POST" or method == "GET" and path in ("/e", "/i/v0/e", "/capture")):
        return known[path], None
    for kind in TYPES:
        if method == "POST" and path in (f"/v1/{kind}", f"/v1/{kind[0]}"):
            return "segment", kind
    raise Refused("route")


def named_key(query, headers):
    for name in (b"writeKey", b"key", b"api_key"):
        if (value := form_value(query, name)) is not None:
            return value.decode(errors="replace")
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return rest
    if scheme.lower() == "basic" and (decoded := base64_decoded(rest.encode())):
        return decoded.split(b":")[0].decode(errors="replace")
    return None


def one_key(values):
    """The first text of these values, if all texts are the same."""
    keys = [value.text for value in values if text_of(value)]
    if len(set(keys)) > 1:
        raise Refused("several-keys")
    return keys[0] if keys else None


def body_key(body):
    """The body's own key, else the one that its events have."""
    own = one_key(body.get(name) for name in ("writeKey", "api_key", "token"))
    if own is not None:
        return own
    lists = [body.get(name) for name in ("batch", "data") if body.get(name) and body.get(name).kind == "array"]
    properties = [get(body, "properties", "token")]
    for event in (event for found in lists for event in found.elements):
        named = [value for value in (get(event, "api_key"), get(event, "token")) if text_of(value)]
        one_key(named)
        properties.append(named[0] if named else get(event, "properties", "token"))
    return one_key(properties)


@dataclasses.dataclass
class Reading:
    dialect: str
    key: str | None
    lines: list
    faults: list
    remarks: list


def read(method, path, query, headers, body, context):
    """Reads a request; raises `Refused` if it is not read as a whole."""
    headers = {name.lower(): value for name, value in headers.items()}
    dialect, path_type = route(method, path)
    if dialect == "pixel":
        text = pixel_body(query.encode())
    else:
        body = body if body or dialect != "posthog" else query.encode()
        text = inflated(body, headers.get("content-encoding", "").lower())
        text = text if dialect == "native" else unwrapped(text)
    key = named_key(query.encode(), headers)
    if dialect == "native":
        events = native_events(text, context)
    else:
        whole_body, is_broken = parse_body(text)
        key = key if key is not None or dialect == "pixel" else body_key(whole_body)
        if dialect == "posthog" and whole_body.get("events"):
            dialect = "amplitude"
        events = list(body_events(dialect, path_type, whole_body, is_broken, text, context))
    reading = Reading(dialect, key, [], [], [])
    for index, (raw, make) in enumerate(events):
        try:
            lines, remarks = make()
            for id, rest in lines:
                number = len(reading.lines) + 1
                reading.lines.append((id, number, rest))
            reading.remarks += [f"{index} {reason}" for reason in remarks]
        except Fault as fault:
            reading.faults.append((str(fault), raw))
    return reading


def native_events(text, context):
    text = text[3:] if text.startswith(b"\xef\xbb\xbf") else text
    lines = [line for line in text.split(b"\n") if line.strip(BLANK)]
    if len(lines) > EVENTS_MAX:
        raise Refused("too-many-events")
    return [(line, lambda line=line: native(line, context)) for line in lines]


def body_events(dialect, path_type, body, is_broken, text, context):
    """The bytes of each event, and what makes its lines."""
    if any(found and found.kind == "array" and len(found.elements) > EVENTS_MAX for found in map(body.get, LISTS)):
        raise Refused("too-many-events")

    def made(event, make):
        if event.kind != "object":
            raise Fault("not-json" if event.kind == "broken" else "not-an-object")
        return make()

    if dialect == "amplitude":
        names, sent = ("events",), sending_time(body.get("client_upload_time"))
    elif dialect == "posthog":
        names, sent = ("batch", "data"), sending_time(body.get("sent_at"))
        sent = sending_time(body.get("sentAt")) if sent is None else sent
    else:
        names, sent = ("batch",), sending_time(body.get("sentAt"))

    def lines(event, is_single):
        if dialect == "amplitude":
            return amplitude(event, sent, context)
        if dialect == "posthog":
            return posthog(event, sent, context)
        own = None if is_single else sending_time(event.get("sentAt"))
        return segment(event, sent if own is None else own, path_type, context, is_single)

    found = next((body.get(name) for name in names if body.get(name) and body.get(name).kind == "array"), None)
    if found is None:
        def single():
            if dialect == "amplitude":
                raise Fault("unknown-type")
            if is_broken:
                raise Fault("not-json")
            return lines(body, True)
        yield text, single
        return
    for event in found.elements:
        yield event.raw, lambda event=event: made(event, lambda: lines(event, False))
