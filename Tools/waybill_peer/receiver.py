"""The receiver's side: stores the bytes of each stream in a file of its own, and acknowledges what is synced."""
import base64
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import secrets
import socket
import sys
import threading
import time
import zlib

from .wire import (
    ERR_CODES, FROM_AGENT, LIMITS, START_MAX, TAIL_MAX, Closed, Connection, Refused, address, digest, inflate_batch)

WINDOW = 8 << 20


@dataclasses.dataclass
class Stream:
    """Where one stream stands: `durable` on disk, `offset` with what was taken since. `tail`: its last bytes below
    `offset`. `ended`: only `SEAL` may follow. `skipped`: the bytes that it never got, section 8.5."""
    id: str
    durable: int = 0
    offset: int = 0
    file_bytes: int = 0
    sealed: bool = False
    tail: bytes = b""
    ended: bool = False
    pieces: list = dataclasses.field(default_factory=list)
    owner: object = None
    skips: list = dataclasses.field(default_factory=list)
    skipped: int = 0

    def proof(self):
        """Section 8, of a stream of which all is durable."""
        return {"count": len(self.tail), "digest": digest(self.id, self.durable, self.tail), "skipped": self.skipped}


class Store:
    """`<stream>.bytes`: what a stream's batches held. `offsets.log`: where each stream stands; its last line counts.

    A line is `<stream> <offset> <length of the file> <0 or 1: sealed> <the last bytes in base64, or -> <bytes skipped>
    <CRC-32 of the line up to here>`. It is written after the bytes are synced, so bytes beyond the length are of no commit; the next
    start cuts them off. The first line of each start is `<start> <incarnation> <CRC-32>`. The log is this receiver's
    journal: its length is the journal's end.
    """

    def __init__(self, directory):
        self.directory, self.streams = pathlib.Path(directory), {}
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = open(self.directory / "offsets.log", "a+b", buffering=0)
        self.log.seek(0)
        self.end, self.starts, self.incarnation = 0, [], secrets.token_hex(16)
        for line in self.log.read().splitlines(keepends=True):
            text, _, crc = line.rpartition(b" ")
            if crc != b"%08x\n" % zlib.crc32(text):
                break
            self.read(text.decode().split(" "))
            self.end += len(line)
        self.log.truncate(self.end)
        for stream in self.streams.values():
            if stream.file_bytes and self.path(stream).stat().st_size < stream.file_bytes:
                sys.exit(f"waybill.py: {self.path(stream)} is shorter than offsets.log says; move {directory} away")
            if self.path(stream).exists():
                os.truncate(self.path(stream), stream.file_bytes)
        self.starts.append((secrets.token_hex(8), self.end))
        self.append([f"{self.starts[-1][0]} {self.incarnation}"])
        self.sync_names()

    def read(self, words):
        if len(words) == 2:
            self.starts.append((words[0], self.end))
            self.incarnation = words[1]
        else:
            name, offset, file_bytes, sealed, tail, skipped = words
            self.streams[name] = Stream(
                name, int(offset), int(offset), int(file_bytes), sealed == "1",
                b"" if tail == "-" else base64.b64decode(tail), skipped=int(skipped))

    def append(self, texts):
        """Writes lines and syncs them."""
        lines = b"".join(b"%s %08x\n" % (text.encode(), zlib.crc32(text.encode())) for text in texts)
        self.log.write(lines)
        os.fsync(self.log.fileno())
        self.end += len(lines)

    def path(self, stream):
        return self.directory / f"{stream.id}.bytes"

    def commit(self, streams):
        """Makes durable what the streams have taken."""
        texts = []
        for stream in streams:
            file = os.open(self.path(stream), os.O_WRONLY | os.O_CREAT, 0o644)
            os.ftruncate(file, stream.file_bytes)
            with open(file, "wb") as opened:
                opened.seek(stream.file_bytes)
                stream.file_bytes += sum(map(opened.write, stream.pieces))
                opened.flush()
                os.fsync(file)
            stream.pieces = []
            self.note_skips(stream)
            tail = base64.b64encode(stream.tail).decode() or "-"
            texts.append(
                f"{stream.id} {stream.offset} {stream.file_bytes} {int(stream.sealed)} {tail} {stream.skipped}")
        self.sync_names()
        self.append(texts)
        for stream in streams:
            stream.durable = stream.offset

    def note_skips(self, stream):
        """`skips.log`: what agents skipped, for people and tests."""
        if stream.skips:
            with open(self.directory / "skips.log", "a", encoding="ascii") as log:
                log.writelines(f"{stream.id} {start} {end} {reason}\n" for start, end, reason in stream.skips)
        stream.skips = []

    def sync_names(self):
        folder = os.open(self.directory, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class Receiver:
    """What the connections share: the store, and who is connected. Whoever touches it holds the lock."""

    def __init__(self, options):
        self.options, self.store, self.lock, self.agents = options, Store(options.directory), threading.Lock(), {}

    def stored(self):
        """How far the log is in the fleet's store: the starter of this receiver says so in a file."""
        with contextlib.suppress(OSError, ValueError):
            text = pathlib.Path(self.options.stored).read_text(encoding="ascii").strip()
            return self.store.end if text == "all" else int(text)
        return 0

    def run(self):
        listener = socket.create_server(address(self.options.listen))
        print(json.dumps({"listening": "%s:%d" % listener.getsockname()[:2]}), flush=True)
        while True:
            threading.Thread(target=Session(self, listener.accept()[0]).run, daemon=True).start()


class Session:
    """One agent's connection. `numbers`: number → [stream, state], the state one of open, refused, sealed."""

    def __init__(self, receiver, connected):
        self.receiver, self.store = receiver, receiver.store
        self.connection = Connection(connected, FROM_AGENT)
        self.agent = self.instance = None
        self.numbers, self.changed, self.answers, self.pending = {}, {}, [], 0
        # Of a fleet, by number: what OPEN said to be stored, and [end, offset] of the state waited for and the newest.
        self.fleet, self.claims, self.debts = receiver.options.fleet, {}, {}

    def run(self):
        try:
            self.handshake()
            while self.serve():
                pass
        except Closed as error:
            if str(error) in ERR_CODES:
                with contextlib.suppress(Closed):
                    self.connection.send("ERR", code=str(error), text="see Protocol/protocol.md")
        except OSError as error:
            # Nothing of what was not synced is acknowledged; the next start cuts it off.
            print(f"waybill.py: {error}", file=sys.stderr, flush=True)
            os._exit(74)
        finally:
            with self.receiver.lock:
                if self.receiver.agents.get(self.agent) is self:
                    del self.receiver.agents[self.agent]
                for stream, _ in self.numbers.values():
                    stream.owner = None if stream.owner is self else stream.owner
            self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)

    def handshake(self):
        hello = self.connection.message(time.monotonic() + 10) or {"type": "timeout"}
        if hello["type"] != "HELLO":
            raise Closed("timeout" if hello["type"] == "timeout" else "order")
        if 1 not in hello["protocol"] or "zlib" not in hello["accept"]:
            raise Closed("version")
        token = self.receiver.options.token
        if token and not secrets.compare_digest(hello.get("token", "").encode(), token.encode()):
            raise Closed("token")
        with self.receiver.lock:
            old = self.receiver.agents.get(hello["agent"])
            if old and old.instance != hello["instance"]:
                raise Closed("agent-in-use")
            self.agent, self.instance = hello["agent"], hello["instance"]
            self.receiver.agents[self.agent] = self
        if old:
            with contextlib.suppress(Closed):
                old.connection.send("ERR", code="agent-in-use", text="the same process has connected again")
            old.close()
        if self.connection.buffer:
            raise Closed("order")
        self.connection.ping_seconds = LIMITS["idle_ms"] / 3000
        starts = self.store.starts[-START_MAX:]
        with self.receiver.lock:
            end = self.store.end
        name = self.receiver.options.name
        fleet = {"fleet": self.fleet, "level": "stored"} if self.fleet else {"level": "durable"}
        self.connection.send(
            "READY", protocol=1, receiver=name, incarnation=self.store.incarnation, start=starts[-1][0], end=end,
            starts=starts, id=f"{name}~{self.store.incarnation}", **fleet, limits=LIMITS, window=WINDOW,
            time=int(time.time() * 1000))

    def serve(self):
        """Takes one message; makes what was taken durable and answers when nothing more has come."""
        message, idle = None, time.monotonic() + LIMITS["idle_ms"] / 1000
        while message is None and time.monotonic() < idle:
            message = self.connection.message(min(idle, time.monotonic() + 0.05) if self.fleet else idle)
            if message is None:
                self.pay_debts()
        if message is None:
            raise Closed("timeout")
        word = message["type"]
        if word == "HELLO":
            raise Closed("order")
        if word in ("BATCH", "SKIP", "SEAL") and message["number"] not in self.numbers:
            raise Closed("order")
        payload = b""
        if word == "BATCH":
            if any(message[name] > LIMITS[name] for name in ("raw", "wire", "lines")):
                raise Closed("limit")
            payload = self.connection.payload(message["wire"])
        with self.receiver.lock:
            if word == "OPEN":
                self.open(message)
            elif word in ("BATCH", "SKIP", "SEAL"):
                self.take(message, payload)
            if word == "BYE" or self.pending > WINDOW // 2 or not self.connection.has_input():
                self.commit()
        answers, self.answers = self.answers, []
        for word_back, fields in answers:
            self.connection.send(word_back, **fields)
        self.pay_debts()
        if word == "BYE":
            self.connection.send("BYE")
        return word != "BYE"

    def answer(self, word, **fields):
        self.answers.append((word, fields))

    def owe(self, number, offset):
        """Section 20.1: two states of each stream, the one that is waited for and the newest."""
        if self.fleet:
            self.debts[number] = self.debts.get(number, [])[:1] + [(self.store.end, offset)]

    def pay_debts(self):
        """Says what the store has by now: `SEALED` of a sealed stream, `STORED` of another."""
        if not self.fleet:
            return
        with self.receiver.lock:
            stored, due = self.receiver.stored(), []
            for number, states in list(self.debts.items()):
                told = [state for state in states if state[0] <= stored]
                self.debts[number] = states[len(told):]
                if not self.debts[number]:
                    del self.debts[number]
                stream, state = self.numbers[number]
                if told and state in ("ended", "sealing") and not self.debts.get(number):
                    self.numbers[number][1] = "sealed"
                    due.append(("SEALED", {"number": number, "end": self.store.end, **stream.proof()}))
                elif told and state == "open":
                    due.append(("STORED", {"number": number, "offset": told[-1][1]}))
        for word, fields in due:
            self.connection.send(word, **fields)

    def commit(self):
        """Makes durable what was taken, then acknowledges it."""
        mine = {number: stream for number, stream in self.changed.items() if stream.owner is self}
        if mine:
            self.store.commit(mine.values())
        for number, stream in mine.items():
            self.answer("ACK", number=number, offset=stream.durable, end=self.store.end)
            self.owe(number, stream.durable)
            if stream.sealed and self.fleet:
                self.numbers[number][1], stream.owner = "sealing", None
            elif stream.sealed:
                self.answer("SEALED", number=number, end=self.store.end, **stream.proof())
                self.numbers[number][1], stream.owner = "sealed", None
        self.changed, self.pending = {}, 0

    def refuse(self, number, offset, code, text):
        self.commit()
        self.numbers[number][1] = "refused"
        self.answer("NAK", number=number, offset=offset, code=code, text=text)

    def open(self, message):
        number, name = message["number"], message["stream"]
        self.commit()
        if number in self.numbers and self.numbers[number][0].id != name:
            raise Closed("order")
        if sum(state != "sealed" for _, state in self.numbers.values()) >= LIMITS["streams"]:
            raise Closed("limit")
        stream = self.store.streams.setdefault(name, Stream(name))
        self.numbers[number] = [stream, "open"]
        self.debts.pop(number, None)
        self.claims[number] = (message.get("from"), message.get("proof"))
        if stream.owner and stream.owner.agent != self.agent:
            return self.refuse(number, stream.durable, "in-use", "another agent ships this stream")
        if stream.offset != stream.durable or stream.pieces:
            self.store.commit([stream])
        self.answer("AT", number=number, offset=stream.durable, end=self.store.end, **stream.proof())
        if stream.durable or stream.sealed:
            self.owe(number, stream.durable)
        if stream.sealed and self.fleet:
            self.numbers[number][1] = "ended"
        elif stream.sealed:
            self.numbers[number][1] = "sealed"
            self.answer("SEALED", number=number, end=self.store.end, **stream.proof())
        else:
            stream.owner = self

    def is_claimed(self, stream, message):
        """Section 5.8: what the fleet has ends where `OPEN` said; what is before the fleet may end earlier."""
        end = message["offset"] + message["length"]
        claimed, proof = self.claims[message["number"]]
        if self.fleet is None or claimed is None:
            return False
        if message["reason"] == "before" and end < claimed:
            return True
        return (claimed, proof) == (end, digest(stream.id, end, bytes.fromhex(message["tail"])))

    def take(self, message, payload):
        number, word = message["number"], message["type"]
        stream, state = self.numbers[number]
        offset = message["offset"]
        if state == "ended" and word != "SEAL":
            return self.refuse(number, offset, "sealed", "the stream was sealed here")
        if state != "open":
            return
        if word == "SKIP" and message["reason"] == "hole" and any(bytes.fromhex(message["tail"])):
            return self.refuse(number, offset, "not-allowed", "the tail of a hole has a byte that is not NUL")
        if word == "SKIP" and message["reason"] in ("elsewhere", "before") and not self.is_claimed(stream, message):
            return self.refuse(number, offset, "not-allowed", "OPEN did not say that the fleet has these bytes")
        if stream.owner is not self:
            return self.refuse(number, offset, "in-use", "another connection ships this stream")
        raw = b""
        if word == "BATCH":
            try:
                raw = inflate_batch(stream.id, message, payload)
            except Refused as reason:
                return self.refuse(number, offset, "corrupt", str(reason))
            if any(len(line[0]) > LIMITS["line"] for line in re.finditer(rb"[^\n]+\n?|\n", raw)):
                return self.refuse(number, offset, "too-large", "a line is longer than limits.line")
        if stream.ended and word != "SEAL":
            return self.refuse(number, stream.offset, "sealed", "only SEAL may follow the end of the last line")
        end = offset + message.get("raw", 0) + message.get("length", 0)
        if stream.sealed and end > stream.offset:
            code = "gap" if word == "SEAL" else "sealed"
            return self.refuse(number, stream.offset, code, "the stream was sealed here")
        if offset == stream.offset:
            stream.pieces.append(raw)
            stream.offset, stream.sealed = end, word == "SEAL"
            stream.ended = message.get("reason") == "torn-tail" or not raw.endswith(b"\n") and word == "BATCH"
            if word == "SKIP":
                stream.skips.append((offset, end, message["reason"]))
                stream.tail = bytes.fromhex(message["tail"] or "")
                stream.skipped += message["length"] if message["reason"] != "elsewhere" else 0
            stream.tail = (stream.tail + raw)[-TAIL_MAX:]
        elif word == "SEAL" or end > stream.offset:
            return self.refuse(number, stream.offset, "gap", "the stream stands at another offset")
        self.changed[number] = stream
        self.pending += len(raw)
