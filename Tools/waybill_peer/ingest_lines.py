"""Times, ids and addresses of events, and the lines that hold them."""

import dataclasses
import datetime
import hashlib
import json
import re

from .ingest_json import Fault, unescaped

LINE_MAX, LINE_HEAD = 32 << 10, 160
NAME_MAX, USER_MAX, AGENT_MAX = 255, 256, 512
TIMES = range(946_684_800_000, 4_102_444_800_000)
# What a sender's clock may show: 1970 to 9999.
CLOCKS = range(253_402_300_800_000)

RFC3339 = re.compile(
    rb"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2}))")


def rfc3339(text):
    match = RFC3339.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    offset = int(match[9] or 0) * 60 + int(match[10] or 0)
    if hour > 23 or minute > 59 or second > 60 or int(match[9] or 0) > 23 or int(match[10] or 0) > 59:
        return None
    try:
        days = (datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days
    except ValueError:
        return None
    minutes = (days * 24 + hour) * 60 + minute - (-offset if match[8] == b"-" else offset)
    return (minutes * 60 + second) * 1000 + int((match[7] or b"0").ljust(3, b"0")[:3])


def whole(text):
    digits = text.split(b".")[0]
    return int(digits) if len(digits) < 15 and re.fullmatch(rb"[+-]?[0-9]+", digits) else None


def time_of(value):
    """Milliseconds of a member that is there."""
    if value is None or value.kind == "null":
        return None
    time = None
    if value.kind == "string":
        time = rfc3339(value.body)
        time = whole(value.body) if time is None else time
    elif value.kind == "number":
        time = whole(value.raw)
    if time is None or time not in CLOCKS:
        raise Fault("bad-time")
    return time


def sending_time(value):
    try:
        return time_of(value)
    except Fault:
        return None


def time_text(time):
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=time)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time % 1000:03d}Z"


UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SESSION = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def uuid_text(number):
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def derived_id(key, text):
    number = int.from_bytes(hashlib.sha256(f"{key}\0{text}".encode()).digest()[:16], "big")
    return uuid_text(number & ~(0xF << 76) & ~(3 << 62) | 8 << 76 | 2 << 62)


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (self.state ^ self.state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        return mixed ^ mixed >> 31

    def uuid(self, time):
        counter, rest = self.next() >> 52, self.next() % 2**62
        return uuid_text(time << 80 | 7 << 76 | counter << 64 | 2 << 62 | rest)


def kept_address(policy, address):
    if address is None or policy == "drop":
        return None
    if policy == "keep":
        return address if len(address.encode()) <= 45 else None
    parts = address.split(".")
    if len(parts) == 4 and all(re.fullmatch(r"\+?[0-9]+", part) and int(part) < 256 for part in parts):
        return ".".join(parts[:3]) + ".0"
    halves = [[group for group in half.split(":")] if half else [] for half in address.split("::")]
    groups = [group for half in halves for group in half]
    if len(halves) > 2 or not all(re.fullmatch("[0-9A-Fa-f]{1,4}", group) for group in groups):
        return None
    if len(halves) == 2:
        if len(groups) > 7:
            return None
        groups = halves[0] + ["0"] * (8 - len(groups)) + halves[1]
    if len(groups) != 8:
        return None
    return ":".join(f"{int(group, 16):x}" for group in groups[:3]) + "::"


def cut(text):
    """A browser's name for itself within its limit."""
    return text.encode()[:AGENT_MAX].decode(errors="ignore") if len(text.encode()) > AGENT_MAX else text


def quoted(text):
    """A string with the escapes that are needed, and no others."""
    return json.dumps(text, ensure_ascii=False).encode()


def one_line(value):
    return value.raw.replace(b"\n", b" ").replace(b"\r", b" ")


def text_of(value):
    """A string that is not empty, with its quotes."""
    return value.raw if value is not None and value.kind == "string" and value.body else None


def id_of(value):
    if value is not None and value.kind == "number":
        return b'"' + value.raw + b'"'
    return text_of(value)


def id_text(value):
    if value is not None and value.kind == "number":
        return value.raw.decode()
    return value.text if text_of(value) else None


def user_of(value):
    if id_of(value) and len(id_text(value).encode()) > USER_MAX:
        raise Fault("bad-member")
    return id_of(value)


def name_of(value):
    if not text_of(value):
        raise Fault("no-name")
    if len(value.text.encode()) > NAME_MAX:
        raise Fault("bad-member")
    return value.raw


def object_of(value, fault=None):
    """An object; `null` and an empty list are none, and other things are a fault if there is one."""
    if value is not None and value.kind == "object":
        return value
    if fault and value is not None and value.kind != "null" and not (value.kind == "array" and not value.elements):
        raise Fault(fault)
    return None


def joined(members):
    return b"{" + b",".join(key + b":" + value for key, value in members) + b"}"


def members_of(value, without=(), no_null=False):
    """Members as they came, on one line."""
    return [(key, one_line(member)) for key, member in (value.members if value else [])
            if unescaped(key) not in without and not (no_null and member.kind == "null")]


class Line:
    """The members of one line, in their order."""

    ORDER = ("kind", "name", "screen", "session", "user", "anon", "traits", "traits_once", "traits_add", "app", "build",
             "bundle", "os", "os_version", "model", "lang", "user_agent", "env", "data", "providers", "overrides",
             "ts_client")

    def __init__(self, kind, name):
        self.members = {"kind": quoted(kind), "name": name}
        self.fields, self.extra, self.context, self.address = None, [], [], None

    def __setitem__(self, name, value):
        if value is not None:
            self.members[name] = value

    def is_user(self):
        return self.members["kind"] == b'"user"'

    def data(self):
        extra = [(quoted(name), value) for name, value in self.extra]
        context = ([(b'"ip"', quoted(self.address))] if self.address is not None else []) + self.context
        if self.fields is None and not extra and not context:
            return None
        own = members_of(self.fields, [name for name, _ in self.extra])
        if context and not (self.fields and self.fields.get("context")):
            extra.append((b'"context"', joined(context)))
        return joined(own + extra)

    def rest(self, time, source):
        self["bundle"], self["env"], self["data"] = quoted(source.bundle), quoted(source.env), self.data()
        if self.is_user():
            self.members.setdefault("traits", b"{}")
        return finished(time, [(quoted(name), self.members[name]) for name in self.ORDER if name in self.members])


def finished(time, members):
    rest = b"".join(b"," + key + b":" + value for key, value in [(b'"ts"', quoted(time_text(time))), *members]) + b"}\n"
    if len(rest) + LINE_HEAD > LINE_MAX:
        raise Fault("too-long")
    return rest


@dataclasses.dataclass
class Source:
    """A key, and the app that it stands for."""
    key: str
    bundle: str
    env: str
    addresses: str = "drop"


@dataclasses.dataclass
class Context:
    source: Source
    received_at: int
    address: str | None
    user_agent: str | None
    random: Random

    def id(self, value):
        text = id_text(value)
        if text is None:
            return self.random.uuid(self.received_at)
        return text.lower() if UUID.fullmatch(text.lower()) else derived_id(self.source.key, text)

    def corrected(self, time, sent_at, is_late=False):
        """An event's time, and the sender's where the two differ."""
        is_usual, ahead = time in TIMES, 0 if sent_at is None else self.received_at - sent_at
        if is_usual and (sent_at is None or sent_at not in TIMES or abs(ahead) <= 2000 or (is_late and ahead > 0)):
            return time, None
        if time + ahead not in TIMES:
            raise Fault("bad-time")
        return (time + ahead, time) if abs(ahead) > 2000 else (time, None)

    def kept(self, address):
        return kept_address(self.source.addresses, address)


def agent_of(value, header):
    if not text_of(value):
        return quoted(header) if header is not None else None
    return value.raw if len(value.text.encode()) <= AGENT_MAX else quoted(cut(value.text))
