#!/usr/bin/env python3
"""Simulates many agents: connections that each ship a stream of prepared frames, or that are idle.

    crowd.py PORT CONNECTIONS PART PARTS [--spool FOLDER]

The spool's segments are distributed over the parts, and within a part over its connections. Each sends HELLO and OPEN;
the program prints a line of JSON, waits for a line on standard input, sends within the receiver's window until
everything is acknowledged, prints another line, and keeps the connections until standard input ends. It is an
independent client written from `Protocol/protocol.md`, with one thread and epoll.
"""
import argparse
import json
import os
import resource
import selectors
import socket
import sys
import time
import zlib

BATCH = 256 << 10


def frames(stream, path, number):
    """The batches of a segment: raw bytes up to the end of each, and its bytes on the wire."""
    with open(path, "rb") as file:
        data = file.read()
    made, offset = [], 0
    while offset < len(data):
        end = len(data) if offset + BATCH >= len(data) else data.rindex(b"\n", offset, offset + BATCH) + 1
        raw = data[offset:end]
        payload = zlib.compress(raw, 1)
        text = b"%d %d %d %d" % (offset, len(raw), raw.count(b"\n"), len(payload))
        crc = zlib.crc32(payload, zlib.crc32(b"%s %s\n" % (stream.encode(), text)))
        made.append((end, b"BATCH %d %s %08x\n%s" % (number, text, crc, payload)))
        offset = end
    return made


class Connection:
    """An agent that ships its streams one after the other, all within one window."""

    def __init__(self, port, name, paths):
        self.name, self.paths = name, paths
        self.streams = []
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.settimeout(60)
        self.buffer = b""
        self.say("HELLO", {"protocol": [1], "agent": name, "instance": f"{os.getpid()}", "accept": ["zlib"]})
        ready = json.loads(self.line("READY")[len("READY "):])
        self.window = ready["window"]
        self.out, self.queue, self.in_flight = memoryview(b""), [], 0
        self.acked = {}
        for number, path in enumerate(paths, 1):
            stream = os.path.basename(path).removesuffix(".ndjson")
            self.queue += [(number, end, bytes_) for end, bytes_ in frames(stream, path, number)]
            self.say(f"OPEN {number}", {
                "stream": stream, "source": "crowd", "env": "prod", "bundle": "com.example.shop", "format": "waybill"})
            if self.line("AT").split()[:3] != ["AT", str(number), "0"]:
                raise SystemExit(f"{name}: the receiver knows this stream")
            self.acked[number] = 0
        # Raw bytes of each batch, for the window; the queue is sent from its end.
        starts = {}
        for index, (number, end, bytes_) in enumerate(self.queue):
            self.queue[index] = (end - starts.get(number, 0), bytes_)
            starts[number] = end
        self.goal = starts
        self.wire_byte_count = sum(len(bytes_) for _, bytes_ in self.queue)
        self.queue.reverse()
        self.socket.setblocking(False)

    def say(self, word, members):
        self.socket.sendall(f"{word} {json.dumps(members)}\n".encode())

    def line(self, word):
        while b"\n" not in self.buffer:
            piece = self.socket.recv(65536)
            if not piece:
                raise SystemExit(f"{self.name}: the receiver hung up: {self.buffer[:200]}")
            self.buffer += piece
        line, _, self.buffer = self.buffer.partition(b"\n")
        text = line.decode()
        if text.startswith("PING "):
            self.socket.sendall(b"PONG" + line[4:] + b"\n")
        if text.startswith(("PING ", "NOTE ")):
            return self.line(word)
        if not text.startswith(word + " "):
            raise SystemExit(f"{self.name}: {word} was expected, not {text[:200]}")
        return text

    @property
    def is_done(self):
        return self.acked == self.goal

    def wants_to_write(self):
        return bool(self.out) or bool(self.queue) and self.has_room()

    def has_room(self):
        return not self.in_flight or self.in_flight + self.queue[-1][0] <= self.window

    def write(self):
        while self.wants_to_write():
            if not self.out:
                size, bytes_ = self.queue.pop()
                self.in_flight += size
                self.out = memoryview(bytes_)
            try:
                self.out = self.out[self.socket.send(self.out):]
            except BlockingIOError:
                return

    def read(self):
        try:
            piece = self.socket.recv(65536)
        except BlockingIOError:
            return
        if not piece:
            raise SystemExit(f"{self.name}: the receiver hung up: {self.buffer[:200]}")
        lines = (self.buffer + piece).split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            words = line.split()
            if words[0] == b"ACK":
                number, offset = int(words[1]), int(words[2])
                self.in_flight -= offset - self.acked[number]
                self.acked[number] = offset
            elif words[0] == b"PING":
                # Between two frames, or after the one being sent.
                self.out = memoryview(bytes(self.out) + b"PONG " + words[1] + b"\n")
            elif words[0] not in (b"PONG", b"NOTE"):
                raise SystemExit(f"{self.name}: {line.decode()[:200]}")


def ship(connections, limit=1800):
    """Sends everything; returns when all of it is acknowledged."""
    end = time.monotonic() + limit
    waiting = [connection for connection in connections if not connection.is_done]
    with selectors.EpollSelector() as selector:
        for connection in waiting:
            selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        left = len(waiting)
        while left:
            if time.monotonic() > end:
                raise SystemExit("not everything is acknowledged in time")
            for key, mask in selector.select(1):
                connection = key.data
                if mask & selectors.EVENT_READ:
                    connection.read()
                    if connection.is_done:
                        selector.unregister(connection.socket)
                        left -= 1
                        continue
                connection.write()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_to_write() else 0)
                if wanted != key.events:
                    selector.modify(connection.socket, wanted, connection)


def hold(connections):
    """Answers probes until standard input ends."""
    with selectors.EpollSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    return
                key.data.read()
                key.data.write()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("connections", type=int)
    parser.add_argument("part", type=int)
    parser.add_argument("parts", type=int)
    parser.add_argument("--spool")
    options = parser.parse_args()
    segments = sorted(os.path.join(options.spool, name) for name in os.listdir(options.spool)) if options.spool else []
    mine = segments[options.part::options.parts]
    connections = [
        Connection(options.port, f"crowd-{options.part}-{number}", mine[number::options.connections])
        for number in range(options.connections)]
    print(json.dumps({"connected": len(connections)}), flush=True)
    if options.spool:
        sys.stdin.buffer.raw.readline()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        ship(connections)
        after = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({
            "wire_bytes": sum(connection.wire_byte_count for connection in connections),
            "cpu_s": round(after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime, 3)}), flush=True)
    hold(connections)


if __name__ == "__main__":
    main()
