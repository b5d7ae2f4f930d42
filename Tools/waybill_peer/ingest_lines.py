"""Times, ids and addresses of events, and the lines that hold them."""

import dataclasses
import datetime
import hashlib
import json
import ipaddress
import re

from .ingest_json import Fault, unescaped

LINE_MAX, LINE_HEAD = 32 << 10, 160
NAME_MAX, USER_MAX, AGENT_MAX = 255, 256, 512
TIMES = range(946_684_800_000, 4_102_444_800_000)
# What a sender's clock may show: the years 1 to 9999.
CLOCKS = range(-62_135_596_800_000, 253_402_300_800_000)
TIME_MAX = 64

CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
ZONE = r"(Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)"
ISO = re.compile(rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})(?:[Tt ]{CLOCK}(?: ?{ZONE})?)?")
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
MAIL = re.compile(rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?([0-9]{{1,2}}) ({'|'.join(MONTHS)}) ([0-9]{{4}}) {CLOCK} {ZONE}")
COUNT = re.compile(r"(-?[0-9]{1,14})(?:\.([0-9]*))?")


def moment(year, month, day, hour, minute, second, fraction, zone):
    """Milliseconds since 1970; `None` where there is no such day or time."""
    hour, minute, second = (int(part or 0) for part in (hour, minute, second))
    sign, ahead = (-1 if zone[0] == "-" else 1, zone[1:].replace(":", "")) if zone and zone[0] in "+-" else (1, "0000")
    hours, minutes = int(ahead[:2]), int(ahead[2:] or 0)
    if hour > 23 or minute > 59 or second > 60 or hours > 23 or minutes > 59:
        return None
    try:
        days = (datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days
    except ValueError:
        return None
    minute += days * 1440 + hour * 60 - sign * (hours * 60 + minutes)
    return (minute * 60 + second) * 1000 + int((fraction or "").ljust(3, "0")[:3])


def time_in(text, is_clock_early=False):
    """A text's time, if it has one meaning."""
    text, time = text.strip(" \t\r\n"), None
    if match := ISO.fullmatch(text):
        time = moment(*map(int, match.groups()[:3]), *match.groups()[3:])
    elif match := MAIL.fullmatch(text):
        time = moment(int(match[3]), MONTHS.index(match[2]) + 1, int(match[1]), *match.groups()[3:])
    elif match := COUNT.fullmatch(text):
        seconds = int(match[1]) * 1000 + int((match[2] or "").ljust(3, "0")[:3])
        time = seconds if text[0] != "-" and not is_clock_early and seconds in TIMES else int(match[1])
    return time if time is not None and time in CLOCKS else None


def time_of(value, sent_at=None):
    """The sender's time in milliseconds, and its text as it came; `None` without one."""
    if value is None or value.kind == "null" or value.kind == "string" and not value.text.strip(" \t\r\n"):
        return None
    text = value.text if value.kind == "string" else value.raw.decode()
    time = time_in(text, sent_at is not None and sent_at < TIMES.start) if value.kind in ("string", "number") else None
    return time, cut(text, TIME_MAX)


def sending_time(value):
    time = time_of(value)
    return time and time[0]


def time_text(time):
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=time)
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}.{time % 1000:03d}Z"


UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
DERIVED = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
SESSION = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def uuid_text(number):
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def derived_id(*parts):
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:16], "big")
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


def parsed_address(text):
    """An address that may have a port; version 4 in version 6 is version 4; `None` if it is neither."""
    match = re.fullmatch(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?|([^:]*):([0-9]{1,5})", text)
    if match and int(match[2] or match[4] or 0) <= 65535:
        text = match[1] if match[1] is not None else match[3]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if found.version == 6 and found.scope_id is not None:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def kept_address(policy, address):
    found = None if address is None or policy == "drop" else parsed_address(address)
    if found is None or policy == "keep":
        return None if found is None else str(found)
    return str(ipaddress.ip_network((found, 24 if found.version == 4 else 48), strict=False).network_address)


def cut(text, most):
    """The beginning of a text, of whole characters."""
    return text.encode()[:most].decode(errors="ignore") if len(text.encode()) > most else text


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
        self.fields, self.extra, self.context, self.address, self.taken = None, [], [], None, set()

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
        if not UUID.fullmatch(text.lower()):
            return derived_id(self.source.key, text)
        # Nobody names an id that is made here.
        return derived_id(self.source.key, text.lower()) if DERIVED.fullmatch(text.lower()) else text.lower()

    def addition_id(self, id):
        return derived_id("", "traits", self.source.key, id)

    def time(self, sent, sent_at=None, is_late=False):
        """An event's time, the sender's as a line has it where that is another one, and whether it is of no use."""
        if sent is None:
            return self.received_at, None, False
        time, text = sent
        if time is not None:
            ahead = 0 if sent_at is None or abs(self.received_at - sent_at) <= 2000 else self.received_at - sent_at
            if time in TIMES and ahead:
                if sent_at not in TIMES:
                    ahead = ahead if sent_at >= time and time + ahead in TIMES else 0
                elif is_late and ahead > 0:
                    ahead = 0
            if time + ahead in TIMES:
                return time + ahead, quoted(time_text(time)) if ahead else None, False
        return self.received_at, quoted(text), True

    def kept(self, address):
        return kept_address(self.source.addresses, address)


def agent_of(value, header):
    if not text_of(value):
        return quoted(header) if header is not None else None
    return value.raw if len(value.text.encode()) <= AGENT_MAX else quoted(cut(value.text, AGENT_MAX))
