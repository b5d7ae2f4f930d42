#!/usr/bin/env python3
"""A second implementation of the Waybill line protocol, made from Protocol/protocol.md alone: it ships, receives, inspects.

    waybill.py send --to 127.0.0.1:4390 --stream web-01-a --env prod --bundle com.example.shop --format ndjson web.ndjson
    waybill.py receive --listen 127.0.0.1:4390 --directory received
    waybill.py inspect-journal data/journal/00000000000000000000.journal

It is small so that it can be read; it checks what real peers do, and is none for production: one thread per connection,
a log of offsets that only grows, and a full disk ends it.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import secrets
import select
import signal
import socket
import sys
import threading
import time
import zlib

INTEGER_MAX = 2**53 - 1
LINE_MAX = 4096
LIMITS = {"line": 1 << 20, "raw": 2 << 20, "wire": 2162688, "streams": 262144, "idle_ms": 90000}
WINDOW = 8 << 20
BATCH_BYTES = 256 << 10

# ---- Section 3: grammar ------------------------------------------------------------------------------------------------

NAK_CODES = ("gap", "corrupt", "too-large", "retry-after", "sealed", "in-use")
ERR_CODES = ("syntax", "order", "version", "token", "limit", "timeout", "agent-in-use", "unavailable")
REASONS = ("too-long", "torn-tail", "truncated")
LAYOUTS = {
    "HELLO": "object", "READY": "object", "OPEN": "number:positive object", "AT": "number:positive offset:integer",
    "BATCH": "number:positive offset:integer raw:positive lines:positive wire:positive crc:crc",
    "ACK": "number:positive offset:integer", "NAK": "number:positive offset:integer code:nak text",
    "SKIP": "number:positive offset:integer length:positive reason:reason", "SEAL": "number:positive length:integer",
    "SEALED": "number:positive", "PING": "value:integer", "PONG": "value:integer", "WAIT": "value:integer",
    "MOVE": "object", "ERR": "code:err text", "BYE": "", "MARK": "position:integer value:integer crc:crc"}
LAYOUTS = {word: [field.partition(":")[::2] for field in layout.split()] for word, layout in LAYOUTS.items()}
FROM_AGENT = {"HELLO", "OPEN", "BATCH", "SKIP", "SEAL", "PING", "PONG", "BYE"}
FROM_RECEIVER = {"READY", "AT", "ACK", "NAK", "SEALED", "PING", "PONG", "WAIT", "MOVE", "ERR", "BYE"}


def is_integer(value, least=0):
    return type(value) is int and least <= value <= INTEGER_MAX


def is_name(longest):
    return lambda value: isinstance(value, str) and 1 <= len(value.encode("utf-8", "surrogatepass")) <= longest


def is_string(value):
    return isinstance(value, str)


def is_list(is_good):
    return lambda value: isinstance(value, list) and all(map(is_good, value))


def is_limits(value):
    return isinstance(value, dict) and all(is_integer(value.get(name), 1) for name in LIMITS)


# Word → its members in order, with what holds for the value; a `?` marks an optional one.
MEMBERS = {
    "HELLO": {"protocol": is_list(is_integer), "agent": is_name(128), "instance": is_name(64), "token?": is_string,
              "accept": is_list(is_string)},
    "READY": {"protocol": is_integer, "receiver": is_string, "limits": is_limits,
              "window": lambda value: is_integer(value, 1), "time": is_integer},
    "OPEN": {"stream": is_string, "source": is_string, "env": lambda value: value in ("dev", "internal", "prod"),
             "bundle": is_name(255), "format": lambda value: value in ("waybill", "ndjson"), "time?": is_string,
             "name?": is_string},
    "MOVE": {"receivers": is_list(is_string)}}


class Refused(Exception):
    """A line or a batch that is not to be taken; the word says why."""


def first_of_two(pairs):
    return dict(reversed(pairs))


def refuse_constant(_):
    raise ValueError


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def decode_object(word, text):
    try:
        value = json.loads(text, object_pairs_hook=first_of_two, parse_constant=refuse_constant)
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
        message[name.rstrip("?")] = {key: member[key] for key in LIMITS} if name == "limits" else member
    if word == "OPEN" and not re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", message["stream"]):
        raise Refused("bad-stream-id")
    return message


def decode_field(kind, text):
    if kind in ("integer", "positive"):
        if not re.fullmatch(r"0|[1-9][0-9]{0,15}", text) or not (kind == "integer") <= int(text) + (kind == "integer"):
            raise Refused("bad-integer")
        if int(text) > INTEGER_MAX or (kind == "positive" and text == "0"):
            raise Refused("bad-integer")
        return int(text)
    if kind == "crc":
        if not re.fullmatch(r"[0-9a-f]{8}", text):
            raise Refused("bad-checksum")
        return int(text, 16)
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
    if last == "text" and len(texts) == len(layout) - 1:
        texts.append("")
    if len(texts) != len(layout) or any(not text and name != "text" for text, (name, _) in zip(texts, layout)):
        raise Refused("field-count")
    message = {"type": word}
    for text, (name, kind) in zip(texts, layout):
        if name == "object":
            message.update(decode_object(word, text))
        else:
            message[name] = decode_field(kind, text)
    size = message.get("raw", message.get("length", 0))
    if message.get("offset", 0) + size > INTEGER_MAX or message.get("lines", 0) > message.get("raw", INTEGER_MAX):
        raise Refused("bad-integer")
    return message


def encode_json(value):
    text = json.dumps(value, separators=(",", ":"))
    short = {"\\n": "\\u000a", "\\r": "\\u000d", "\\t": "\\u0009", "\\b": "\\u0008", "\\f": "\\u000c", "\x7f": "\\u007f"}
    return re.sub(r"\\.|\x7f", lambda match: short.get(match[0], match[0]), text)


def encode(message):
    """The line of a message, with its LF."""
    word, texts = message["type"], []
    for name, kind in LAYOUTS[word]:
        if name == "object":
            names = [member.rstrip("?") for member in MEMBERS[word]]
            texts.append(encode_json({key: message[key] for key in names if message.get(key) is not None}))
        else:
            texts.append(f"{message[name]:08x}" if kind == "crc" else str(message[name]))
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


# ---- Sections 2 and 8: the connection ----------------------------------------------------------------------------------


class Closed(Exception):
    """The connection is over; the word is an ERR code, or says what happened."""


class Connection:
    """Cuts the bytes of a socket into messages and payloads, keeps deadlines, and sends PING into silence."""

    def __init__(self, connected, expected):
        self.socket, self.expected = connected, expected
        self.buffer, self.lock = bytearray(), threading.Lock()
        self.ping_seconds = float("inf")  # Until READY.
        self.sent_at = self.received_at = time.monotonic()

    def send(self, message, payload=b""):
        with self.lock:
            try:
                self.socket.sendall(encode(message) + payload)
            except OSError as error:
                raise Closed(str(error)) from None
            self.sent_at = time.monotonic()

    def fill(self, deadline):
        now = time.monotonic()
        if now >= deadline:
            raise Closed("timeout")
        wake = min(deadline, self.sent_at + self.ping_seconds)
        try:
            if select.select([self.socket], [], [], max(0, wake - now))[0]:
                received = self.socket.recv(1 << 18)
                if not received:
                    raise Closed("the peer closed")
                self.received_at = time.monotonic()
                self.buffer += received
            elif wake < deadline:
                self.send({"type": "PING", "value": 1})
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from None

    def take(self, count):
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def message(self, deadline):
        while (end := self.buffer.find(b"\n", 0, LINE_MAX)) < 0:
            if len(self.buffer) >= LINE_MAX:
                raise Closed("limit")
            self.fill(deadline)
        try:
            message = decode(self.take(end + 1)[:-1])
        except Refused:
            raise Closed("syntax") from None
        if message["type"] not in self.expected:
            raise Closed("order")
        if message["type"] == "PING":
            self.send({"type": "PONG", "value": message["value"]})
        return message

    def payload(self, count):
        deadline = time.monotonic() + 60
        while len(self.buffer) < count:
            self.fill(deadline)
        return self.take(count)

    def has_input(self):
        return bool(self.buffer or select.select([self.socket], [], [], 0)[0])

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def address(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


# ---- The agent's side --------------------------------------------------------------------------------------------------


class GaveUp(Exception):
    """Nothing that another connection would change."""


class Sender:
    """Ships one whole file, from wherever the receiver stands to the end, and seals it."""

    def __init__(self, options):
        self.options, self.file = options, open(options.file, "rb")
        self.size = os.fstat(self.file.fileno()).st_size
        self.instance, self.targets = secrets.token_hex(8), [options.to]
        self.progress, self.refusals, self.paused_until = False, 0, 0
        self.summary = {"stream": options.stream, "size": self.size, "first_at": None, "acked": 0, "bytes": 0, "lines": 0,
                        "batches": 0, "wire_bytes": 0, "skipped_bytes": 0, "connections": 0, "sealed": False}

    def run(self):
        """Connects until the stream is sealed or patience is over; returns the exit code."""
        started, bound, attempt = time.monotonic(), 0.5, 0
        while time.monotonic() < started + self.options.patience:
            try:
                self.session(self.targets[attempt % len(self.targets)])
                self.summary["sealed"] = True
                return self.finish(0, started)
            except GaveUp as error:
                return self.finish(65, started, str(error))
            except (OSError, Closed) as error:
                self.summary["error"] = str(error)
            if self.progress:
                started, bound, attempt, self.progress = time.monotonic(), 0.5, 0, False
            attempt += 1
            time.sleep(random.uniform(0.01, bound))
            bound = min(bound * 2, 60)
        return self.finish(69, started, self.summary.get("error"))

    def finish(self, code, started, error=None):
        self.summary.pop("error", None)
        if error:
            self.summary["error"] = error
        print(json.dumps(self.summary | {"seconds": round(time.monotonic() - started, 3)}))
        return code

    def session(self, target):
        begun = time.monotonic()
        with socket.create_connection(address(target), 20) as connected:
            connected.settimeout(None)
            self.connection = Connection(connected, FROM_RECEIVER)
            self.send("HELLO", protocol=[1], agent=self.options.agent or f"py-{self.options.stream}"[:128],
                      instance=self.instance, token=self.options.token, accept=["zlib"])
            ready = self.connection.message(begun + 20)
            self.handle_connection_message(ready)
            if ready["type"] != "READY" or ready["protocol"] != 1:
                raise Closed("no READY of version 1")
            self.limits, self.window = ready["limits"], ready["window"]
            self.connection.ping_seconds = self.limits["idle_ms"] / 3000
            self.summary["connections"] += 1
            self.open()
            while not self.sealed:
                while self.may_send():
                    self.send_next()
                if not self.sealed:
                    self.receive()
            self.send("BYE")

    def send(self, word, payload=b"", **fields):
        self.connection.send({"type": word, **fields}, payload)

    def open(self):
        self.state, self.sealed, self.in_flight = "opening", False, []
        options = self.options
        self.send("OPEN", number=1, stream=options.stream, source=options.source or os.path.abspath(options.file),
                  env=options.env, bundle=options.bundle, format=options.format, time=options.time_member,
                  name=options.name_member)

    def may_send(self):
        if self.state != "open" or time.monotonic() < self.paused_until or self.connection.has_input():
            return False
        in_flight = sum(raw for _, raw in self.in_flight)
        return not in_flight or in_flight + self.batch_bytes() <= self.window

    def batch_bytes(self):
        return min(self.limits["raw"], max(self.limits["line"], BATCH_BYTES), max(BATCH_BYTES, self.window // 4))

    def send_next(self):
        if self.sent == self.size:
            self.state = "sealing"
            return self.send("SEAL", number=1, length=self.size)
        raw = os.pread(self.file.fileno(), min(self.batch_bytes(), self.size - self.sent), self.sent)
        if self.sent + len(raw) < self.size:
            raw = raw[:raw.rfind(b"\n") + 1]
        first_end = raw.find(b"\n") + 1 or len(raw)
        if not raw or first_end > self.limits["line"]:
            return self.skip_line()
        too_long = re.search(rb"(?:^|\n)[^\n]{%d}" % self.limits["line"], raw)
        if too_long:
            raw = raw[:too_long.start() + 1]
        payload = zlib.compress(raw, 6)
        while len(payload) > self.limits["wire"] and line_count(raw) > 1:
            raw = raw[:raw.rfind(b"\n", 0, len(raw) // 2) + 1 or raw.find(b"\n") + 1]
            payload = zlib.compress(raw, 6)
        batch = {"offset": self.sent, "raw": len(raw), "lines": line_count(raw), "wire": len(payload)}
        self.send("BATCH", payload, number=1, crc=checksum(self.options.stream, batch, payload), **batch)
        self.sent += len(raw)
        self.in_flight.append((self.sent, len(raw)))
        for name, count in ("bytes", len(raw)), ("lines", batch["lines"]), ("wire_bytes", len(payload)), ("batches", 1):
            self.summary[name] += count

    def skip_line(self):
        """Gives up a line beyond the limit; its bytes stay in the file."""
        self.file.seek(self.sent)
        length = 0
        while part := self.file.readline(1 << 20):
            length += len(part)
            if part.endswith(b"\n"):
                break
        self.send("SKIP", number=1, offset=self.sent, length=length, reason="too-long")
        self.sent += length
        self.summary["skipped_bytes"] += length

    def receive(self):
        idle = self.connection.received_at + self.limits["idle_ms"] / 1000
        pause = self.paused_until if self.paused_until > time.monotonic() else idle
        while not self.connection.has_input() and pause < idle:
            if select.select([self.connection.socket], [], [], max(0, pause - time.monotonic()))[0]:
                break
            return self.open() if self.state == "refused" else None
        message = self.connection.message(idle)
        word = message["type"]
        if self.handle_connection_message(message):
            return
        if message.get("number") != 1:
            raise Closed(f"{word} out of place")
        if word == "AT" and self.state == "opening":
            self.moved_to(message["offset"])
        elif word == "ACK" and self.state in ("open", "sealing"):
            if not self.summary["acked"] <= message["offset"] <= self.sent:
                raise Closed("an ACK out of range")
            self.progress |= message["offset"] > self.summary["acked"]
            self.summary["acked"] = message["offset"]
            self.in_flight = [batch for batch in self.in_flight if batch[0] > message["offset"]]
        elif word == "SEALED" and self.state in ("open", "sealing"):
            if self.state == "open" and self.summary["acked"] != self.size:
                raise GaveUp(f"the stream was sealed at {self.summary['acked']}")
            self.sealed, self.summary["acked"] = True, self.size
        elif word == "NAK":
            self.refused(message)
        elif word != "ACK":
            raise Closed(f"{word} out of place")

    def moved_to(self, offset):
        if offset > self.size:
            raise GaveUp(f"the receiver holds {offset} bytes of another file under this id")
        if offset > self.summary["acked"]:
            self.refusals = 0
        if self.summary["first_at"] is None:
            self.summary["first_at"] = offset
        self.state, self.sent, self.summary["acked"] = "open", offset, offset

    def refused(self, message):
        """Section 6.4: at once the first time, then with growing delay."""
        self.state, self.refusals = "refused", self.refusals + 1
        self.summary["error"] = f"{message['code']}: {message['text']}"
        if self.refusals > 8:
            raise GaveUp(f"refused again and again: {self.summary['error']}")
        if self.refusals == 1 and message["code"] not in ("in-use", "retry-after"):
            return self.open()
        self.paused_until = time.monotonic() + min(60, 5 * 2 ** max(0, self.refusals - 2))

    def handle_connection_message(self, message):
        """What concerns no stream; returns whether it was that."""
        word = message["type"]
        if word == "WAIT":
            self.paused_until = time.monotonic() + min(message["value"], 600000) / 1000
        elif word == "MOVE":
            self.targets = [*message["receivers"], self.options.to]
            raise Closed("moved")
        elif word == "ERR" and message["code"] in ("version", "token"):
            raise GaveUp(f"{message['code']}: {message['text']}")
        elif word in ("ERR", "BYE"):
            raise Closed(message.get("code", "bye") + ": " + message.get("text", ""))
        return word in ("WAIT", "PING", "PONG")
