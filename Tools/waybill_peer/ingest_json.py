"""JSON whose values know their bytes, and bodies of which only parts are JSON."""

import dataclasses
import json
import re


EVENTS_MAX, DEPTH_MAX = 20_000, 64
BLANK = b" \t\r\n"


class NotJSON(Exception):
    """Bytes that are not JSON."""


class Fault(Exception):
    """Why an event is no line."""


class Refused(Exception):
    """Why a body as a whole is not read."""


STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
SCALAR = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
SPACE = re.compile(rb"[ \t\r\n]*")


@dataclasses.dataclass
class Value:
    kind: str
    raw: bytes
    start: int
    end: int
    members: list = dataclasses.field(default_factory=list)
    elements: list = dataclasses.field(default_factory=list)

    @property
    def body(self):
        """A string as it stands between its quotes."""
        return self.raw[1:-1]

    @property
    def text(self):
        return unescaped(self.raw)

    def get(self, name):
        """The first member of that name."""
        return next((value for key, value in self.members if unescaped(key) == name), None)

    def depth(self):
        inner = [value.depth() for _, value in self.members] + [value.depth() for value in self.elements]
        return (1 if self.kind in ("object", "array") else 0) + max(inner, default=0)


def unescaped(string):
    """The text of a string with its quotes; what is no character is U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", json.loads(string))


def skip(data, at):
    return SPACE.match(data, at).end()


def scan(data, at, depth):
    """The value at a position, inside `depth` containers."""
    first = data[at:at + 1]
    if first == b'"':
        match = STRING.match(data, at)
        if not match:
            raise NotJSON
        try:
            match.group().decode()
        except UnicodeDecodeError:
            raise NotJSON from None
        return Value("string", match.group(), at, match.end())
    if first in (b"{", b"["):
        return scan_container(data, at, depth + 1, first == b"{")
    match = SCALAR.match(data, at)
    if not match:
        raise NotJSON
    word = match.group()
    return Value(word.decode() if word in (b"true", b"false", b"null") else "number", word, at, match.end())


def scan_container(data, start, depth, is_object):
    if depth > DEPTH_MAX:
        raise NotJSON
    members, elements, closer = [], [], b"}" if is_object else b"]"
    at = skip(data, start + 1)
    while data[at:at + 1] != closer or members or elements:
        if is_object:
            if data[at:at + 1] != b'"':
                raise NotJSON
            key = scan(data, at, depth)
            at = skip(data, key.end)
            if data[at:at + 1] != b":":
                raise NotJSON
            at = skip(data, at + 1)
        value = scan(data, at, depth)
        if is_object:
            members.append((key.raw, value))
        else:
            elements.append(value)
        at = skip(data, value.end)
        if data[at:at + 1] == closer:
            break
        if data[at:at + 1] != b",":
            raise NotJSON
        at = skip(data, at + 1)
    kind = "object" if is_object else "array"
    return Value(kind, data[start:at + 1], start, at + 1, members, elements)


def parse(data, start=0):
    at = skip(data, start)
    value = scan(data, at, 0)
    if skip(data, value.end) != len(data):
        raise NotJSON
    return value


LISTS = ("batch", "events", "data")


def rough_end(data, start, closer):
    """Where a value that is not JSON ends: at the comma or bracket after it, by its quotes and brackets alone."""
    stack, at = [], start
    while at < len(data):
        byte = data[at:at + 1]
        if byte == b'"':
            at += 1
            while data[at:at + 1] != b'"':
                at += 2 if data[at:at + 1] == b"\\" else 1
                if at >= len(data):
                    raise Refused("malformed")
        elif byte in (b"{", b"["):
            stack.append(b"}" if byte == b"{" else b"]")
        elif byte in (b"}", b"]"):
            if byte != (stack[-1] if stack else closer):
                raise Refused("malformed")
            if not stack:
                return at
            stack.pop()
        elif byte == b"," and not stack:
            return at
        at += 1
    raise Refused("malformed")


class Splitter:
    """Reads an object whose members, or list elements, need not be JSON each."""

    def __init__(self, data):
        self.data, self.broken = data, 0

    def byte(self, at):
        if at >= len(self.data):
            raise Refused("malformed")
        return self.data[at:at + 1]

    def value(self, at, depth, closer):
        try:
            value = scan(self.data, at, depth)
            if self.data[(end := skip(self.data, value.end)):end + 1] in (b",", closer):
                return value, end
        except NotJSON:
            pass
        end = rough_end(self.data, at, closer)
        raw = self.data[at:end].rstrip(BLANK)
        if not raw:
            raise Refused("malformed")
        self.broken += 1
        if self.broken > EVENTS_MAX:
            raise Refused("too-many-events")
        return Value("broken", raw, at, at + len(raw)), end

    def run(self, at):
        if self.byte(at := skip(self.data, at)) != b"{":
            raise Refused("malformed")
        members, start = [], at
        at = skip(self.data, at + 1)
        while self.byte(at) != b"}" or members:
            match = STRING.match(self.data, at)
            if not match or not is_utf8(match.group()):
                raise Refused("malformed")
            at = skip(self.data, match.end())
            if self.byte(at) != b":":
                raise Refused("malformed")
            at = skip(self.data, at + 1)
            if unescaped(match.group()) in LISTS and self.byte(at) == b"[":
                value, at = self.list(at)
            else:
                value, at = self.value(at, 1, b"}")
            members.append((match.group(), value))
            if self.byte(at) == b"}":
                break
            if self.byte(at) != b",":
                raise Refused("malformed")
            at = skip(self.data, at + 1)
        if skip(self.data, at + 1) != len(self.data):
            raise Refused("malformed")
        return Value("object", self.data[start:at + 1], start, at + 1, members)

    def list(self, start):
        elements, at = [], skip(self.data, start + 1)
        if self.byte(at) == b"]":
            return Value("array", self.data[start:at + 1], start, at + 1), skip(self.data, at + 1)
        while True:
            value, at = self.value(at, 2, b"]")
            elements.append(value)
            if self.byte(at) == b"]":
                end = at + 1
                return Value("array", self.data[start:end], start, end, [], elements), skip(self.data, end)
            at = skip(self.data, at + 1)


def is_utf8(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def parse_body(body):
    """The body as an object, and whether something of it is not JSON; a list is the `batch` of an object."""
    mark = 3 if body.startswith(b"\xef\xbb\xbf") else 0
    text = body
    if body[mark:].lstrip(BLANK).startswith(b"["):
        text, mark = b'{"batch":' + body[mark:] + b"}", 0
    try:
        value = parse(text, mark)
        if value.kind != "object":
            raise Refused("malformed")
        return value, False
    except NotJSON:
        splitter = Splitter(text)
        return splitter.run(mark), splitter.broken > 0
