"""The words of the Waybill line protocol, written only from Protocol/protocol.md: messages, batches, connections."""
import base64
import binascii
import hashlib
import json
import re
import select
import threading
import time
import unicodedata
import zlib

INTEGER_MAX = 2**53 - 1
LINE_MAX = 4096
LIMITS = {"line": 1 << 20, "raw": 2 << 20, "wire": 2162688, "lines": 65536, "streams": 262144, "idle_ms": 90000}
TAIL_MAX = 512
START_MAX = 16

NAK_CODES = ("gap", "corrupt", "too-large", "retry-after", "sealed", "in-use", "prove", "not-allowed")
ERR_CODES = ("syntax", "order", "version", "token", "limit", "timeout", "agent-in-use", "unavailable")
REASONS = ("too-long", "torn-tail", "truncated", "held", "elsewhere", "before", "hole")
LAYOUTS = {
    "HELLO": "object", "READY": "object", "OPEN": "number:positive object",
    "AT": "number:positive offset:integer count:integer digest:digest end:integer skipped?:positive",
    "BATCH": "number:positive offset:integer raw:positive lines:positive wire:positive crc:crc",
    "ACK": "number:positive offset:integer end:integer", "NAK": "number:positive offset:integer code:nak text",
    "SKIP": "number:positive offset:integer length:positive reason:reason tail:tail",
    "SEAL": "number:positive offset:integer",
    "SEALED": "number:positive count:integer digest:digest end:integer skipped?:positive",
    "STORED": "number:positive offset:integer", "NOTE": "object", "PING": "value:integer", "PONG": "value:integer",
    "WAIT": "value:integer", "MOVE": "object", "ERR": "code:err text", "BYE": "",
    # In journals alone.
    "MARK": "position:integer value:integer crc:crc", "START": "position:integer start:start incarnation:incarnation",
    "TAIL": "number:positive tail:bytes", "RESTING": "count:integer bytes:integer crc:crc"}
LAYOUTS = {word: [field.partition(":")[::2] for field in layout.split()] for word, layout in LAYOUTS.items()}
FROM_AGENT = {"HELLO", "OPEN", "BATCH", "SKIP", "SEAL", "PING", "PONG", "BYE"}
FROM_RECEIVER = {
    "READY", "AT", "ACK", "NAK", "SEALED", "STORED", "NOTE", "PING", "PONG", "WAIT", "MOVE", "ERR", "BYE"}
IN_JOURNALS = {"MARK", "START", "TAIL", "RESTING"}


def is_integer(value, least=0):
    return type(value) is int and least <= value <= INTEGER_MAX


def is_string(value, least=0, longest=LINE_MAX):
    return isinstance(value, str) and least <= len(value.encode("utf-8", "surrogatepass")) <= longest


def is_name(value, least=0, longest=LINE_MAX):
    """Section 3: no control characters, no unpaired surrogates, and not the character that stands for such."""
    return is_string(value, least, longest) and not any(
        unicodedata.category(each) in ("Cc", "Cs") or each == "\ufffd" for each in value)


def is_hexadecimal(value, length):
    return isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{length}}}", value) is not None


def is_key(value):
    """16 bytes in base64url: of 22 characters the last one has four bits to spare."""
    return isinstance(value, str) and re.fullmatch("[A-Za-z0-9_-]{21}[AQgw]", value) is not None


def are_starts(value):
    return (isinstance(value, list) and len(value) > 0 and all(
        isinstance(pair, list) and len(pair) == 2 and is_hexadecimal(pair[0], 16) and is_integer(pair[1])
        for pair in value) and all(one[1] <= two[1] for one, two in zip(value, value[1:])))


def is_client(value):
    return isinstance(value, dict) and all(is_name(value.get(name)) for name in CLIENT)


CLIENT = ("principal", "agent", "address")
COUNTED = {"quarantined": ("stream", "reason", "count"), "refused?": ("stream", "export", "reason", "count")}


def are_counts(value):
    return isinstance(value, list) and all(
        isinstance(each, dict) and is_string(each.get("stream")) and is_string(each.get("reason"))
        and is_integer(each.get("count")) for each in value)


def are_refusals(value):
    return are_counts(value) and all(is_string(each.get("export")) for each in value)


# Word → its members in order, with what holds for the value; a `?` marks an optional one.
MEMBERS = {
    "HELLO": {"protocol": lambda value: isinstance(value, list) and all(map(is_integer, value)),
              "agent": lambda value: is_name(value, 1, 128), "instance": lambda value: is_name(value, 1, 64),
              "token?": is_string, "key?": is_key,
              "accept": lambda value: isinstance(value, list) and all(map(is_string, value)),
              "software?": is_string, "time?": is_integer},
    "READY": {"protocol": is_integer, "receiver": is_name, "incarnation": lambda value: is_hexadecimal(value, 32),
              "start": lambda value: is_hexadecimal(value, 16), "end": is_integer, "starts": are_starts,
              "id?": is_string, "fleet?": lambda value: is_hexadecimal(value, 32), "level?": lambda value: value in ("durable", "stored"),
              "limits": lambda value: isinstance(value, dict) and all(is_integer(value.get(key), 1) for key in LIMITS),
              "window": lambda value: is_integer(value, 1), "time": is_integer},
    "OPEN": {"stream": is_string, "source": is_string, "env": lambda value: value in ("dev", "internal", "prod"),
             "bundle": lambda value: is_name(value, 1, 255), "format": lambda value: value in ("waybill", "ndjson"),
             "time?": is_string, "name?": is_string, "user?": is_string, "anonymous?": is_string, "from?": is_integer,
             "by?": is_string, "proof?": lambda value: is_hexadecimal(value, 32), "client?": is_client},
    "NOTE": {"quarantined": are_counts, "refused?": are_refusals},
    "MOVE": {"receivers": lambda value: isinstance(value, list) and all(map(is_string, value))}}


class Refused(Exception):
    """A line or a batch that is not to be taken; the word says why."""


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def decode_object(word, text):
    try:
        # Of two members with one name the first counts; NaN and Infinity are Python's own.
        value = json.loads(text, object_pairs_hook=lambda pairs: dict(reversed(pairs)), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise Refused("bad-json") from None
    if not isinstance(value, dict) or depth(value) > 64:
        raise Refused("bad-json")
    message = {}
    for name, is_good in MEMBERS[word].items():
        member = value.get(name.rstrip("?"))
        if member is None and name.endswith("?"):
            continue
        if not is_good(member):
            raise Refused("bad-member")
        message[name.rstrip("?")] = trimmed(name, member)
    counts = message.get("quarantined", []) + message.get("refused", [])
    ids = [message["stream"]] if word == "OPEN" else [each["stream"] for each in counts]
    if not all(re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", stream) for stream in ids):
        raise Refused("bad-stream-id")
    if word == "READY":
        starts = message["starts"][-START_MAX:]
        if message["start"] != starts[-1][0] or starts[-1][1] > message["end"]:
            raise Refused("bad-member")
        message.update(starts=starts, level=message.get("level", "durable"))
    return message


def trimmed(name, member):
    """A member without what no reader of this version knows, and without unpaired surrogates."""
    if name == "limits":
        return {key: member[key] for key in LIMITS}
    if name == "client?":
        return {key: member[key] for key in CLIENT}
    if name in COUNTED:
        return [{key: each[key] for key in COUNTED[name]} for each in member]
    return re.sub("[\ud800-\udfff]", "\ufffd", member) if isinstance(member, str) else member


def decode_base64(text):
    """The bytes of the one text that a writer makes of them."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused("bad-tail") from None
    if base64.b64encode(value).decode() != text or len(value) > TAIL_MAX:
        raise Refused("bad-tail")
    return value


def decode_field(kind, text):
    if kind in ("integer", "positive"):
        if not re.fullmatch(r"0|[1-9][0-9]{0,15}", text) or not is_integer(int(text), int(kind == "positive")):
            raise Refused("bad-integer")
        return int(text)
    if kind == "crc":
        if not re.fullmatch(r"[0-9a-f]{8}", text):
            raise Refused("bad-checksum")
        return int(text, 16)
    if kind in ("digest", "start", "incarnation"):
        if not (kind == "digest" and text == "-" or is_hexadecimal(text, 16 if kind == "start" else 32)):
            raise Refused("bad-proof")
        return None if text == "-" else text
    if kind == "holder":
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
            raise Refused("bad-holder")
        return text
    if kind in ("tail", "bytes"):
        return None if kind == "tail" and text == "-" else decode_base64(text).hex()
    if kind and text not in {"nak": NAK_CODES, "err": ERR_CODES, "reason": REASONS}[kind]:
        raise Refused("bad-reason" if kind == "reason" else "bad-code")
    return text


def decode(line):
    """The message on a line, which comes without its LF."""
    if len(line) >= LINE_MAX:
        raise Refused("line-too-long")
    if not line:
        raise Refused("empty-line")
    if re.search(rb"[^ -~]", line):
        raise Refused("not-ascii")
    word, _, rest = line.decode("ascii").partition(" ")
    layout = LAYOUTS.get(word)
    if layout is None:
        raise Refused("unknown-message")
    last = layout[-1][0] if layout else ""
    texts = rest.split(" ", len(layout) - 1 if last in ("text", "object") else -1) if " " in line.decode() else []
    if word == "SKIP" and texts[3:4] == ["before"]:
        layout = [*layout, ("holder", "holder")]
    if last == "text" and len(texts) == len(layout) - 1:
        texts.append("")
    if last == "object" and texts and texts[-1].startswith(" "):
        raise Refused("field-count")
    if last.endswith("?") and len(texts) == len(layout) - 1:
        layout = layout[:-1]
    if len(texts) != len(layout) or any(not text and name != "text" for text, (name, _) in zip(texts, layout)):
        raise Refused("field-count")
    message = {"type": word}
    for text, (name, kind) in zip(texts, layout):
        if name == "object":
            message.update(decode_object(word, text))
        else:
            message[name.rstrip("?")] = decode_field(kind, text)
    size = message.get("raw", message.get("length", 0))
    if message.get("offset", 0) + size > INTEGER_MAX or message.get("lines", 0) > message.get("raw", INTEGER_MAX):
        raise Refused("bad-integer")
    check_proof(message)
    if message.get("skipped", 0) > message.get("offset", INTEGER_MAX):
        raise Refused("bad-integer")
    return message


def check_proof(message):
    """What the number of a proof's bytes and the length of a tail must be at an offset."""
    word, offset = message["type"], message.get("offset", INTEGER_MAX)
    if word in ("AT", "SEALED") and (
            message["count"] > tail_length(offset) or (message["count"] == 0) != (message["digest"] is None)):
        raise Refused("bad-proof")
    if word == "SKIP":
        tail, length = message["tail"], tail_length(offset + message["length"])
        if (tail is None) != (message["reason"] == "truncated") or tail is not None and len(tail) != 2 * length:
            raise Refused("bad-tail")


def tail_length(offset):
    """How many bytes below an offset a proof covers."""
    return min(offset, TAIL_MAX)


def digest(stream, offset, tail):
    """The digest of a proof; nothing for no bytes."""
    if not tail:
        return None
    return hashlib.sha256(f"{stream}\n{offset}\n".encode("ascii") + tail).hexdigest()[:32]


def encode_json(value):
    """JSON in ASCII, where every character but the printable ones is `\\uXXXX`."""
    short = {"\\n": 10, "\\r": 13, "\\t": 9, "\\b": 8, "\\f": 12, "\x7f": 127}
    text = json.dumps(value, separators=(",", ":"))
    return re.sub(r"\\.|\x7f", lambda match: f"\\u{short[match[0]]:04x}" if match[0] in short else match[0], text)


def encode(message):
    """The line of a message, with its LF."""
    word, texts = message["type"], []
    for name, kind in LAYOUTS[word]:
        if name.endswith("?") and not message.get(name[:-1]):
            continue
        name = name.rstrip("?")
        if name == "object":
            names = [member.rstrip("?") for member in MEMBERS[word]]
            texts.append(encode_json({key: message[key] for key in names if message.get(key) is not None}))
        elif name == "text":
            texts.append(re.sub(r"[^ -~]", "?", message[name])[:512])
        elif kind in ("tail", "bytes"):
            texts.append("-" if message[name] is None else base64.b64encode(bytes.fromhex(message[name])).decode())
        elif kind == "crc":
            texts.append(f"{message[name]:08x}")
        else:
            texts.append("-" if message[name] is None else str(message[name]))
    if message.get("holder"):
        texts.append(message["holder"])
    line = " ".join([word, *texts]).encode("ascii") + b"\n"
    if len(line) > LINE_MAX and word == "OPEN":
        return encode({**message, "source": message["source"][-(len(message["source"]) // 2):]})
    return line


def checksum(stream, batch, payload):
    """Section 7."""
    header = f"{stream} {batch['offset']} {batch['raw']} {batch['lines']} {batch['wire']}\n"
    return zlib.crc32(payload, zlib.crc32(header.encode("ascii")))


def line_count(raw):
    return raw.count(b"\n") + (not raw.endswith(b"\n"))


def inflate_batch(stream, batch, payload):
    """What a batch holds, once every check of section 6.3, number 3, holds."""
    if checksum(stream, batch, payload) != batch["crc"]:
        raise Refused("checksum")
    if batch["raw"] > 1032 * batch["wire"] + 1032:
        raise Refused("ratio")
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(payload, batch["raw"] + 1)
    except zlib.error:
        raise Refused("payload-corrupt") from None
    if len(raw) > batch["raw"]:
        raise Refused("payload-too-long")
    if not inflater.eof:
        raise Refused("payload-truncated")
    if len(raw) < batch["raw"]:
        raise Refused("payload-too-short")
    if inflater.unused_data:
        raise Refused("payload-trailing-bytes")
    if line_count(raw) != batch["lines"]:
        raise Refused("line-count")
    return raw


class Closed(Exception):
    """The connection is over; says why, with the code of an ERR where there is one."""


class Connection:
    """Cuts the bytes of a socket into messages and payloads, keeps deadlines, and sends PING into silence."""

    def __init__(self, connected, expected):
        self.socket, self.expected, self.buffer, self.lock = connected, expected, bytearray(), threading.Lock()
        self.ping_seconds = float("inf")  # Until READY.
        self.sent_at = self.received_at = time.monotonic()

    def send(self, word, payload=b"", **fields):
        with self.lock:
            try:
                self.socket.sendall(encode({"type": word, **fields}) + payload)
            except OSError as error:
                raise Closed(str(error)) from None
            self.sent_at = time.monotonic()

    def fill(self, deadline):
        """Reads some bytes, or none when it is time to look at the clock."""
        wake = min(deadline, self.sent_at + self.ping_seconds)
        try:
            if select.select([self.socket], [], [], max(0, wake - time.monotonic()))[0]:
                received = self.socket.recv(1 << 18)
                if not received:
                    raise Closed("the peer closed")
                self.received_at = time.monotonic()
                self.buffer += received
            elif wake < deadline:
                self.send("PING", value=1)
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from None

    def take(self, count):
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def message(self, deadline):
        """The next message, or nothing when the deadline passes first; answers PING."""
        while (end := self.buffer.find(b"\n", 0, LINE_MAX)) < 0:
            if len(self.buffer) >= LINE_MAX:
                raise Closed("limit")
            if time.monotonic() >= deadline:
                return None
            self.fill(deadline)
        try:
            message = decode(self.take(end + 1)[:-1])
        except Refused:
            raise Closed("syntax") from None
        if message["type"] not in self.expected:
            raise Closed("syntax" if message["type"] in IN_JOURNALS else "order")
        if message["type"] == "PING" and self.ping_seconds != float("inf"):
            self.send("PONG", value=message["value"])
        return message

    def payload(self, count):
        deadline = time.monotonic() + 60
        while len(self.buffer) < count:
            if time.monotonic() >= deadline:
                raise Closed("timeout")
            self.fill(deadline)
        return self.take(count)

    def has_input(self):
        return bool(self.buffer or select.select([self.socket], [], [], 0)[0])


def address(text):
    """Host and port of `host:port`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
