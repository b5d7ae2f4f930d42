"""The agent's side: ships one whole file, from wherever the receiver stands to its end, and seals it."""
import json
import os
import random
import re
import secrets
import socket
import time
import zlib

from .wire import FROM_RECEIVER, Closed, Connection, address, checksum, line_count

BATCH_BYTES = 256 << 10


class GaveUp(Exception):
    """Nothing that another connection would change."""


class Sender:
    """Ships one whole file, from wherever the receiver stands to the end, and seals it."""

    def __init__(self, options):
        self.options, self.file = options, open(options.file, "rb")
        self.size, self.instance = os.fstat(self.file.fileno()).st_size, secrets.token_hex(8)
        self.targets, self.acked, self.refusals, self.paused_until = [options.to], 0, 0, 0
        self.summary = {
            "stream": options.stream, "size": self.size, "first_at": None, "acked": 0, "sealed": False, "bytes": 0,
            "lines": 0, "batches": 0, "wire_bytes": 0, "skipped_bytes": 0, "connections": 0}

    def run(self):
        """Connects until the stream is sealed or patience is over; returns the exit code."""
        started = moved = time.monotonic()
        bound, attempt, code, reason = 0.5, 0, 69, None
        while code == 69 and time.monotonic() < moved + self.options.patience:
            acked = self.acked
            try:
                self.session(self.targets[attempt % len(self.targets)])
                code, reason = 0, None
            except GaveUp as error:
                code, reason = 65, str(error)
            except (OSError, Closed) as error:
                reason, attempt = str(error), attempt + 1
                if self.acked > acked:
                    moved, bound = time.monotonic(), 0.5
                time.sleep(random.uniform(0.01, bound))
                bound = min(bound * 2, 60)
        seconds = round(time.monotonic() - started, 3)
        self.summary.update(acked=self.acked, sealed=code == 0, seconds=seconds, error=reason)
        print(json.dumps(self.summary))
        return code

    def session(self, target):
        begun, options = time.monotonic(), self.options
        with socket.create_connection(address(target), 20) as connected:
            connected.settimeout(None)
            self.connection = Connection(connected, FROM_RECEIVER)
            self.connection.send("HELLO", protocol=[1], agent=options.agent or f"py-{options.stream}"[:128],
                                 instance=self.instance, token=options.token, accept=["zlib"])
            ready = self.connection.message(begun + 20) or {"type": None}
            self.about_connection(ready)
            if ready["type"] != "READY" or ready["protocol"] != 1:
                raise Closed("no READY of version 1")
            self.limits, self.window = ready["limits"], ready["window"]
            self.connection.ping_seconds = self.limits["idle_ms"] / 3000
            self.summary["connections"] += 1
            self.open()
            while self.state != "sealed":
                if self.state == "refused" and time.monotonic() >= self.paused_until:
                    self.open()
                elif self.state == "open" and self.has_room() and not self.connection.has_input():
                    self.send_next()
                else:
                    self.receive()
            self.connection.send("BYE")

    def open(self):
        self.state, self.in_flight, options = "opening", [], self.options
        self.connection.send(
            "OPEN", number=1, stream=options.stream, source=options.source or os.path.abspath(options.file),
            env=options.env, bundle=options.bundle, format=options.format, time=options.time_member,
            name=options.name_member)

    def has_room(self):
        in_flight = sum(raw for _, raw in self.in_flight)
        return time.monotonic() >= self.paused_until and (not in_flight or in_flight + self.batch_max() <= self.window)

    def batch_max(self):
        """Raw bytes of a batch: at most what fits the wire even if it does not compress at all."""
        wire = self.limits["wire"] - self.limits["wire"] // 1000 - 64
        return min(max(BATCH_BYTES, self.limits["line"]), self.limits["raw"], max(1, wire))

    def send_next(self):
        if self.sent == self.size:
            self.state = "sealing"
            return self.connection.send("SEAL", number=1, length=self.size)
        raw = os.pread(self.file.fileno(), self.batch_max(), self.sent)
        if self.sent + len(raw) < self.size:
            raw = raw[:raw.rfind(b"\n") + 1]
        for line in re.finditer(rb"[^\n]+\n?|\n", raw):
            if len(line[0]) > self.limits["line"]:
                raw = raw[:line.start()]
                break
        if not raw:
            return self.skip_line()
        payload = zlib.compress(raw, 6)
        batch = {"offset": self.sent, "raw": len(raw), "lines": line_count(raw), "wire": len(payload)}
        crc = checksum(self.options.stream, batch, payload)
        self.connection.send("BATCH", payload, number=1, crc=crc, **batch)
        self.sent += len(raw)
        self.in_flight.append((self.sent, len(raw)))
        for name, count in ("bytes", len(raw)), ("lines", batch["lines"]), ("wire_bytes", len(payload)), ("batches", 1):
            self.summary[name] += count

    def skip_line(self):
        """Gives up a line beyond the limit; its bytes stay in the file."""
        self.file.seek(self.sent)
        length = len(self.file.readline())
        self.connection.send("SKIP", number=1, offset=self.sent, length=length, reason="too-long")
        self.sent += length
        self.summary["skipped_bytes"] += length

    def receive(self):
        idle = self.connection.received_at + self.limits["idle_ms"] / 1000
        now = time.monotonic()
        message = self.connection.message(min(idle, self.paused_until) if self.paused_until > now else idle)
        if message is None:
            if time.monotonic() >= idle:
                raise Closed("no bytes for idle_ms")
            return
        if self.about_connection(message):
            return
        word, offset = message["type"], message.get("offset")
        if message.get("number") == 1 and word == "NAK":
            self.refuse(f"{message['code']}: {message['text']}", message["code"] not in ("in-use", "retry-after"))
        elif message.get("number") == 1 and word == "AT" and self.state == "opening":
            self.moved_to(offset)
        elif message.get("number") == 1 and word == "ACK" and self.state in ("opening", "refused"):
            pass  # Of what was sent before a refusal.
        elif message.get("number") == 1 and word == "ACK" and self.acked <= offset <= self.sent:
            self.acked = offset
            self.in_flight = [batch for batch in self.in_flight if batch[0] > offset]
        elif message.get("number") == 1 and word == "SEALED" and self.state in ("open", "sealing"):
            if self.state == "open" and self.opened_at != self.size:
                raise GaveUp(f"the stream was sealed at {self.opened_at}")
            self.state, self.acked = "sealed", self.size
        else:
            raise Closed(f"{word} out of place")

    def moved_to(self, offset):
        if offset > self.size:
            raise GaveUp(f"the receiver holds {offset} bytes of another file under this id")
        if self.summary["first_at"] is None:
            self.summary["first_at"] = offset
        self.refusals = 0 if offset > self.acked else self.refusals
        self.state, self.sent, self.acked, self.opened_at = "open", offset, offset, offset

    def refuse(self, reason, at_once):
        """Section 6.4: opens again, at once the first time, then with growing delay."""
        self.state, self.in_flight, self.refusals = "refused", [], self.refusals + 1
        if self.refusals > 8:
            raise GaveUp(f"refused again and again: {reason}")
        delay = 0 if at_once and self.refusals == 1 else min(60, 5 * 2 ** max(0, self.refusals - 2))
        self.paused_until = max(self.paused_until, time.monotonic() + delay)

    def about_connection(self, message):
        """Acts on what concerns no stream; returns whether it was that."""
        word = message["type"]
        if word == "WAIT":
            self.paused_until = time.monotonic() + min(message["value"], 600000) / 1000
        elif word == "MOVE":
            self.targets = [*message["receivers"], self.options.to]
            raise Closed("moved")
        elif word == "ERR" and message["code"] in ("version", "token"):
            raise GaveUp(f"{message['code']}: {message['text']}")
        elif word in ("ERR", "BYE"):
            raise Closed(f"{message.get('code', 'bye')}: {message.get('text', '')}")
        return word in ("WAIT", "PING", "PONG")
