"""The agent's side: ships one whole file, from wherever the receiver stands to its end, and seals it.

What the receiver says counts where its proof agrees with the file (protocol.md, section 8). The file is never changed.
"""
import dataclasses
import hashlib
import json
import os
import random
import re
import secrets
import socket
import time
import zlib

from .wire import FROM_RECEIVER, Closed, Connection, address, checksum, digest, line_count, tail_length

BATCH_BYTES = 256 << 10


class GaveUp(Exception):
    """Nothing that another connection would change."""


@dataclasses.dataclass
class Stream:
    """A stream as it stands on this connection; its state is one of opening, open, sealing, refused, sealed."""
    number: int
    id: str
    state: str = "opening"
    opened_at: int = 0
    agrees: bool = True
    sealed_before: bool = False
    refusal: str = ""
    refused_at: int = 0

    @property
    def is_unknown(self):
        return self.agrees and self.opened_at == 0 and not self.sealed_before


class Sender:
    """Ships one whole file, from wherever the receiver stands to the end, and seals it."""

    def __init__(self, options):
        self.options, self.file = options, open(options.file, "rb")
        self.size, self.instance = os.fstat(self.file.fileno()).st_size, secrets.token_hex(8)
        self.targets, self.acked, self.refusals, self.paused_until = [options.to], 0, 0, 0
        self.summary = {
            "stream": self.id(0), "size": self.size, "first_at": None, "acked": 0, "sealed": False, "bytes": 0,
            "lines": 0, "batches": 0, "wire_bytes": 0, "skipped_bytes": 0, "connections": 0, "stored": 0, "elsewhere_bytes": 0, "quarantined": {}}

    def id(self, incarnation):
        """The id of one incarnation of the file; a client's segment has one."""
        if self.options.reship:
            self.file.seek(0)
            return f"{self.options.stream}:{hashlib.file_digest(self.file, 'sha256').hexdigest()[:16]}"
        return f"{self.options.stream}-{incarnation}" if self.options.walk else self.options.stream

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
                                 instance=self.instance, token=options.token, accept=["zlib"],
                                 software="waybill-peer/1", time=time.time_ns() // 1_000_000)
            ready = self.connection.message(begun + 20) or {"type": None}
            self.streams, self.pongs = {}, 0
            self.about_connection(ready)
            if ready["type"] != "READY" or ready["protocol"] != 1:
                raise Closed("no READY of version 1")
            self.limits, self.window, self.fleet = ready["limits"], ready["window"], ready.get("fleet")
            self.connection.ping_seconds = self.limits["idle_ms"] / 3000
            self.summary["connections"] += 1
            self.choose()
            while self.stream.state != "sealed":
                if self.stream.state == "refused":
                    self.go_on(self.ask(self.stream.number, self.stream.id))
                elif self.stream.state == "open" and self.has_room() and not self.connection.has_input():
                    self.send_next()
                else:
                    self.receive()
            self.connection.send("BYE")

    # Where to continue.

    def choose(self):
        """Section 9: a segment has one stream. Of a file, the incarnations are asked for up to the first unknown one.
        It continues in the one that agrees furthest; if that one is sealed and the file longer, in the unknown one."""
        best = free = None
        while free is None and (self.options.walk or not self.streams):
            number = len(self.streams) + 1
            stream = self.ask(number, self.id(number - 1))
            if stream.agrees and (best is None or stream.opened_at > best.opened_at):
                best = stream
            free = stream if stream.is_unknown else None
        if best and self.options.walk and best.sealed_before and best.opened_at < self.size:
            self.go_on(free)
            if best.opened_at:
                self.skip(best.opened_at, "held")
        else:
            self.go_on(best or stream)
        if self.may_claim() and self.sent < self.options.stored:
            # Section 20.2: the fleet has these bytes, this receiver has not.
            self.summary["elsewhere_bytes"] += self.options.stored - self.sent
            self.skip(self.options.stored - self.sent, "elsewhere")

    def ask(self, number, name):
        """Opens a stream, as often as it takes; returns it once the receiver has said where it stands."""
        while True:
            while time.monotonic() < self.paused_until:
                self.receive()
            stream = self.streams[number] = Stream(number, name)
            self.open(stream, **self.stored_claim(stream))
            if stream.refusal == "prove":
                # Its owner is who has its bytes; no one else learns more than its offset.
                self.open(stream, **self.claim(stream))
            if stream.refusal == "prove":
                self.open(stream, **{"from": 0})
            if stream.state != "refused":
                return stream

    def open(self, stream, **claim):
        options = self.options
        stream.state, stream.refusal = "opening", ""
        self.connection.send(
            "OPEN", number=stream.number, stream=stream.id, source=options.source or os.path.abspath(options.file),
            env=options.env, bundle=options.bundle, format=options.format, time=options.time_member,
            name=options.name_member, user=options.user_member, anonymous=options.anonymous_member, **claim)
        while stream.state == "opening":
            self.receive()
        # A `SEALED` comes directly after its `AT`, hence before the answer to what is sent now.
        pongs = self.pongs
        self.connection.send("PING", value=0)
        while self.pongs == pongs:
            self.receive()

    def claim(self, stream):
        offset = stream.refused_at
        return {"from": offset, "proof": self.digest(stream.id, offset)} if 0 < offset <= self.size else {"from": 0}

    def may_claim(self):
        return self.options.fleet is not None and self.fleet == self.options.fleet

    def stored_claim(self, stream):
        """What a former run heard of this fleet; a lie about the bytes is the operator's."""
        offset = self.options.stored
        if not self.may_claim() or not 0 < offset <= self.size:
            return {}
        return {"from": offset, "by": self.options.stored_by, "proof": self.digest(stream.id, offset)}

    def go_on(self, stream):
        if not stream.agrees or stream.sealed_before and stream.opened_at != self.size:
            raise GaveUp("the receiver holds other bytes than this file's under this id; --reship gives it another id")
        self.stream, self.in_flight, offset = stream, [], stream.opened_at
        if self.summary["first_at"] is None:
            self.summary.update(first_at=offset, stream=stream.id)
        self.refusals = 0 if offset > self.acked else self.refusals
        self.sent = self.acked = offset
        if stream.sealed_before:
            stream.state = "sealed"

    # Proofs.

    def tail(self, offset):
        """The bytes of the file that a proof at this offset covers."""
        count = tail_length(offset)
        return os.pread(self.file.fileno(), count, offset - count)

    def digest(self, name, offset):
        return digest(name, offset, self.tail(offset))

    def agrees(self, name, offset, message):
        """The proof is of this file's bytes, and of as many as there must be: nothing was given up here. What was skipped of
        a segment, this agent has skipped (section 8.5)."""
        return (offset <= self.size and message["count"] == tail_length(offset)
                and message["digest"] == self.digest(name, offset)
                and (self.options.walk or message.get("skipped", 0) <= self.own_skips(offset, message)))

    def own_skips(self, offset, message):
        """The bytes below an offset that this agent skips: lines beyond the limit."""
        own = position = 0
        self.file.seek(0)
        for line in self.file if message.get("skipped") else ():
            position += len(line)
            own += len(line) if position <= offset and len(line) > self.limits["line"] else 0
        return own

    # Sending.

    def has_room(self):
        in_flight = sum(raw for _, raw in self.in_flight)
        return time.monotonic() >= self.paused_until and (not in_flight or in_flight + self.batch_max() <= self.window)

    def batch_max(self):
        """Raw bytes of a batch: at most what fits the wire even if it does not compress at all."""
        wire = self.limits["wire"] - self.limits["wire"] // 1000 - 64
        return min(max(BATCH_BYTES, self.limits["line"]), self.limits["raw"], max(1, wire))

    def send_next(self):
        if self.sent == self.size:
            self.stream.state = "sealing"
            return self.connection.send("SEAL", number=self.stream.number, offset=self.size)
        raw = os.pread(self.file.fileno(), self.batch_max(), self.sent)
        if self.sent + len(raw) < self.size:
            raw = raw[:raw.rfind(b"\n") + 1]
        for index, line in enumerate(re.finditer(rb"[^\n]+\n?|\n", raw)):
            if len(line[0]) > self.limits["line"] or index == self.limits["lines"]:
                raw = raw[:line.start()]
                break
        if not raw:
            return self.skip_line()
        payload = zlib.compress(raw, 6)
        batch = {"offset": self.sent, "raw": len(raw), "lines": line_count(raw), "wire": len(payload)}
        crc = checksum(self.stream.id, batch, payload)
        self.connection.send("BATCH", payload, number=self.stream.number, crc=crc, **batch)
        self.sent += len(raw)
        self.in_flight.append((self.sent, len(raw)))
        for name, count in ("bytes", len(raw)), ("lines", batch["lines"]), ("wire_bytes", len(payload)), ("batches", 1):
            self.summary[name] += count

    def skip_line(self):
        """Gives up a line beyond the limit; its bytes stay in the file."""
        self.file.seek(self.sent)
        length = len(self.file.readline())
        self.skip(length, "too-long")
        self.summary["skipped_bytes"] += length

    def skip(self, length, reason):
        end = self.sent + length
        self.connection.send("SKIP", number=self.stream.number, offset=self.sent, length=length, reason=reason,
                             tail=self.tail(end).hex())
        self.sent = end

    # Receiving.

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
        word, stream = message["type"], self.streams.get(message.get("number"))
        if stream is None:
            raise Closed(f"{word} of an unknown stream")
        if word == "NAK":
            self.refuse(stream, message)
        elif word == "AT" and stream.state == "opening":
            stream.state, stream.opened_at = "open", message["offset"]
            stream.agrees = self.agrees(stream.id, message["offset"], message)
        elif word == "ACK" and stream.state in ("opening", "refused"):
            pass  # Of what was sent before a refusal.
        elif word == "ACK" and self.acked <= message["offset"] <= self.sent:
            self.acked = message["offset"]
            self.in_flight = [batch for batch in self.in_flight if batch[0] > self.acked]
        elif word == "SEALED" and stream.state == "open":
            stream.sealed_before = True
            stream.agrees = stream.agrees and self.agrees(stream.id, stream.opened_at, message)
        elif word == "SEALED" and stream.state == "sealing":
            if not self.agrees(stream.id, self.size, message):
                raise GaveUp("the receiver sealed other bytes than this file's under this id")
            stream.state, self.acked = "sealed", self.size
        elif word == "STORED":
            if stream.state in ("open", "sealing"):
                if message["offset"] > max(self.acked, stream.opened_at):
                    raise Closed("STORED beyond what was acknowledged")
                self.summary["stored"] = message["offset"]
        else:
            raise Closed(f"{word} out of place")

    def refuse(self, stream, message):
        """Section 6.4: opens again, at once the first time, then with growing delay."""
        if stream.state == "refused":
            return
        stream.state, stream.refusal, stream.refused_at = "refused", message["code"], message["offset"]
        if message["code"] == "prove":
            return
        if message["code"] == "not-allowed":
            raise GaveUp(f"not-allowed: {message['text']}")
        self.in_flight, self.refusals = [], self.refusals + 1
        if self.refusals > 8:
            raise GaveUp(f"refused again and again: {message['code']}: {message['text']}")
        at_once = message["code"] not in ("in-use", "retry-after") and self.refusals == 1
        delay = 0 if at_once else min(60, 5 * 2 ** max(0, self.refusals - 2))
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
        elif word == "PONG":
            self.pongs += 1
        elif word == "NOTE":
            counts = self.summary["quarantined"]
            for entry in message["quarantined"]:
                counts[entry["reason"]] = counts.get(entry["reason"], 0) + entry["count"]
        return word in ("WAIT", "PING", "PONG", "NOTE")
