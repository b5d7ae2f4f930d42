"""A hand-held session of the line protocol over a raw socket, for saying things that no agent would say."""

import base64
import json
import socket
import time
import zlib

from harness import patience
from peers import proof


class Peer:
    """One connection, with an `ssl` context over TLS, or over what is connected already. Reads are whole lines; `None` is
    the end of the connection."""

    def __init__(self, port=None, timeout=20, tls=None, connected=None):
        self.socket = connected or socket.create_connection(("127.0.0.1", port), patience(timeout))
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.reader = self.socket.makefile("rb")
        self.ready, self.proofs, self.skipped, self.end, self.notes = None, {}, {}, 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def send(self, *pieces):
        for piece in pieces:
            self.socket.sendall(piece if isinstance(piece, bytes) else piece.encode() + b"\n")

    def line(self, seconds=20):
        """The next message that is no `PING` or `NOTE`; `AT`, `ACK` and `SEALED` without proof and end, which are kept aside."""
        deadline = time.monotonic() + patience(seconds)
        while True:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                line = self.reader.readline()
            except ConnectionResetError:
                return None
            except TimeoutError:
                raise AssertionError(f"the receiver said nothing for {patience(seconds)} s") from None
            if not line:
                return None
            text = line.decode().rstrip("\n")
            if text.startswith("NOTE "):
                self.notes += json.loads(text.removeprefix("NOTE "))["quarantined"]
            elif not text.startswith("PING "):
                return self.set_aside(text)

    def set_aside(self, text):
        """Keeps a stream's proof in `proofs` and its skipped bytes in `skipped`, by its number, and the journal's end in
        `end`; returns the rest."""
        words = text.split(" ")
        if words[0] not in ("AT", "ACK", "SEALED"):
            return text
        if words[0] != "ACK":
            has_skips = len(words) > {"AT": 6, "SEALED": 5}[words[0]]
            self.skipped[int(words[1])] = int(words.pop()) if has_skips else 0
        end = int(words.pop())
        assert end >= self.end, f"the journal ended at {self.end} and ends at {end}"
        self.end = end
        if words[0] != "ACK":
            digest, count = words.pop(), int(words.pop())
            self.proofs[int(words[1])] = count, digest
        return " ".join(words)

    def lines_to_the_end(self):
        lines = []
        while (line := self.line()) is not None:
            lines.append(line)
        return lines

    def hello(self, agent="peer", instance="1", **members):
        self.send("HELLO " + json.dumps(
            {"protocol": [1], "agent": agent, "instance": instance, "accept": ["zlib"], **members}))
        answer = self.line()
        if answer and answer.startswith("READY "):
            self.ready = json.loads(answer.removeprefix("READY "))
            self.end = self.ready["end"]
        return answer

    def open(self, stream, number=1, form="waybill", **members):
        """Opens a stream; returns the answer."""
        self.send(f"OPEN {number} " + json.dumps({
            "stream": stream, "source": "/peer", "env": "prod", "bundle": "com.example.web", "format": form, **members}))
        return self.line()

    def assert_proved(self, stream, content, number=1, given_up=0):
        """The last `AT` or `SEALED` of this number proves these bytes, of which some at the beginning were given up."""
        expected = proof(stream, len(content), content[given_up:][-512:])
        given = "%d %s" % self.proofs[number]
        assert given == expected, f"{stream} at {len(content)}: the receiver proves {given}, not {expected}"

    def batch(self, stream, raw, **changes):
        """Sends a batch, by default a good one at 0; returns nothing."""
        self.send(*batch(stream, raw, **changes))


def let_in(test, port, agent="peer", tls=None, **members):
    """A session of an agent that is let in, until the end of a test."""
    peer = Peer(port, tls=tls)
    test.addCleanup(peer.close)
    answer = peer.hello(agent, **members)
    test.assertTrue(answer and answer.startswith("READY "), answer)
    return peer


def skip(offset, length, reason, source=b"", number=1):
    """A line that skips bytes; `source` is what the file holds up to their end, or at least its last 512 bytes."""
    tail = base64.b64encode(source[-512:]).decode() if reason != "truncated" else "-"
    return f"SKIP {number} {offset} {length} {reason} {tail}"


def batch(stream, raw, number=1, offset=0, lines=None, payload=None, raw_count=None, crc=None):
    """A batch's line and payload, with anything in it replaced."""
    payload = zlib.compress(raw, 1) if payload is None else payload
    lines = raw.count(b"\n") + (not raw.endswith(b"\n")) if lines is None else lines
    raw_count = len(raw) if raw_count is None else raw_count
    text = f"{offset} {raw_count} {lines} {len(payload)}"
    if crc is None:
        crc = zlib.crc32(payload, zlib.crc32(f"{stream} {text}\n".encode()))
    return f"BATCH {number} {text} {crc:08x}", payload
