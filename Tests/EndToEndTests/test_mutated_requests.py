"""Door, receiver and live page take mutated requests and messages side by side: none ends, stalls or grows without bound.

WAYBILL_REQUESTS says how many in all; a nightly run sends 10,000,000. WAYBILL names programs that were built with a
sanitizer; WAYBILL_MEBIBYTES is what each may have resident then.
"""

import base64
import collections
import gzip
import json
import random
import socket
import threading
import urllib.request

from harness import SiteTest, metric, patience
from ledger import EventMaker
from live_site import LiveSite, event
from scale import SEED, amount
from test_ingest import KEY, Door, track
from wire import batch

REQUESTS = amount("WAYBILL_REQUESTS", 12_000, 10_000_000)
MEBIBYTES = amount("WAYBILL_MEBIBYTES", 400, 400)
# Where memory grows, and where limits are: levels, events of a request, bytes of a head.
COUNTS = sorted({number + more for number in (
    *(1 << power for power in range(15)), 16, 62, 64, 228, 500, 1000, 4096, 8000, 20_000) for more in (-1, 0, 1)} - {0})
WORDS = [
    b'"', b"\\u0000", b"\\ud800", b"\\", b"{", b"}", b"[", b"]", b":", b",", b"null", b"-0", b"1e400", b"0.", b"65536",
    b"9007199254740992", b"-9223372036854775808", b"18446744073709551616", b"\xff\xff\xff\xff", b"\0\0\0\0",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"%00", b"%", b"+", b"=", b"&data=", b"?", b"/", b"..", b" ", b"\t", b"\n", b"\r\n"]
WRAPPERS = [(b"[", b"]"), (b'{"a":', b"}"), (b'"', b'"'), (b"/", b""), (b"%25", b"")]
JOINTS = [b",", b"&", b"\n", b""]


class Mutator:
    """Changes bytes, repeats pieces of them, and puts them inside each other; a piece may stay open."""

    def __init__(self, chance):
        self.chance = chance

    def mutate(self, content, byte_count_max=20_000):
        if self.chance.random() < 0.001:
            byte_count_max = 1 << 20
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            content = self.change(content, byte_count_max)[:byte_count_max]
        return content

    def count(self, limit):
        return self.chance.choice([count for count in COUNTS if count <= limit] or [0])

    def change(self, content, byte_count_max):
        start = self.chance.randrange(len(content) + 1)
        end = min(len(content), start + self.chance.choice((1, 2, 4, 8, 16, 64)))
        before, piece, behind = content[:start], content[start:end], content[end:]
        room = max(0, byte_count_max - len(content))
        kind = self.chance.randrange(8)
        if kind == 0 and piece:
            return before + bytes([piece[0] ^ 1 << self.chance.randrange(8)]) + piece[1:] + behind
        if kind == 1:
            return before + self.chance.choice(WORDS) + piece + behind
        if kind == 2:
            return before + self.chance.choice(WORDS) + behind
        if kind == 3:
            return before + behind
        if kind == 4:
            return before
        if kind == 5:
            opening, closing = self.chance.choice(WRAPPERS)
            count = self.count(room // (len(opening) + len(closing)))
            return before + opening * count + piece + closing * self.chance.choice((0, count)) + behind
        unit = self.chance.choice(JOINTS) + piece if kind == 6 else bytes([self.chance.choice(b'a0 "\\[{<&%\xff')])
        return before + piece + unit * (self.count(room // len(unit)) if unit else 0) + behind


def framed(method, path, headers, body):
    """A request that a server can tell from the next one, whatever was put into its parts."""
    plain = [path, *(part for header in headers for part in header)]
    path, *parts = (part.translate(None, b"\r\n\0") for part in plain)
    lines = [method + b" " + (b"/" + path).replace(b" ", b"%20").replace(b"//", b"/", 1) + b" HTTP/1.1", b"Host: 127.0.0.1"]
    lines += [name + b": " + value for name, value in zip(parts[::2], parts[1::2])]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body


class Sender:
    """Sends a share of the requests to one port, from many addresses of this machine, and counts what comes back."""

    def __init__(self, port, count, seed):
        self.port, self.left = port, count
        self.chance = random.Random(seed)
        self.mutator = Mutator(self.chance)
        self.tally, self.problem = collections.Counter(), None
        self.thread = threading.Thread(target=self.run_all)

    def run_all(self):
        try:
            self.run()
        except Exception as problem:  # The test shows it.
            self.problem = problem

    def connect(self):
        """From any address: what one of them is refused says nothing about the programs."""
        source = f"127.{self.chance.randrange(1, 255)}.{self.chance.randrange(255)}.{self.chance.randrange(1, 255)}"
        connection = socket.create_connection(("127.0.0.1", self.port), patience(60), (source, 0))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def end(self, connection, content):
        """Sends bytes that may have no end, ends there, and does not wait for an answer that may never come."""
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(0.05)
            words = connection.recv(4096).removeprefix(b"HTTP/1.1 ").split(maxsplit=2)
            self.count_answer(b" ".join(words[:1 if words[0].isdigit() else 2])[:12].decode("ascii", "replace"))
        except TimeoutError:
            self.count_answer("open")
        except (OSError, IndexError):
            self.count_answer("end")

    def count_answer(self, answer):
        """What was sent behind a request that ended its connection does not count."""
        self.tally[answer] += 1
        self.left -= 1


class RequestSender(Sender):
    """Sends mutated HTTP requests: most of them one after the other on a connection, a tenth broken anywhere."""

    def __init__(self, port, count, seed, requests):
        super().__init__(port, count, seed)
        self.requests = requests

    def run(self):
        connection = reader = None
        while self.left > 0:
            if self.chance.random() < 0.1:
                with self.connect() as alone:
                    self.end(alone, self.mutator.mutate(framed(*self.chance.choice(self.requests))))
                continue
            if connection is None:
                connection = self.connect()
                reader = connection.makefile("rb")
            group = [self.mutated() for _ in range(min(self.left, self.chance.choice((1, 4, 16))))]
            try:
                connection.sendall(b"".join(group))
                is_open = all(self.take_answer(reader) for _ in group)
            except ConnectionError:
                self.count_answer("end")
                is_open = False
            if not is_open:
                reader.close()
                connection.close()
                connection = None

    def mutated(self):
        method, path, headers, body = self.chance.choice(self.requests)
        kind = self.chance.randrange(10)
        if kind == 0:
            path = self.mutator.mutate(path, 4000)
        elif kind == 1:
            name, value = self.chance.choice(headers or [(b"X-Forwarded-For", b"192.0.2.1")])
            headers = [*headers, (name, self.mutator.mutate(value, 4000))]
        elif kind == 2:
            return framed(method, path, [*headers, (b"Content-Encoding", b"gzip")], gzip.compress(self.mutator.mutate(body), 1))
        else:
            body = self.mutator.mutate(body)
        return framed(method, path, headers, body)

    def take_answer(self, reader):
        """Reads one answer; returns whether another may follow. No answer in time is an error: the program stalls."""
        status, length, is_last = b"", 0, False
        while True:
            line = reader.readline(65_536)
            if not line:
                self.count_answer("end")
                return False
            line = line.rstrip(b"\r\n").lower()
            if line.startswith(b"http/"):
                status = line.split(b" ")[1]
            elif line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif line == b"connection: close":
                is_last = True
            elif not line and status[:1] != b"1":
                break
        reader.read(length)
        self.count_answer(status.decode())
        return not is_last


class MessageSender(Sender):
    """Sends sessions of the line protocol in which one message is mutated, and which end with it."""

    def run(self):
        maker = EventMaker(self.chance.randrange(1 << 30))
        while self.left > 0:
            stream, last = f"mutated-{self.chance.randrange(40)}", self.chance.randrange(5)
            hello = {"protocol": [1], "agent": "mutant", "instance": str(self.chance.randrange(9)), "accept": ["zlib"]}
            opening = {
                "stream": stream, "source": "/x", "env": "prod", "bundle": "com.example.shop", "format": "waybill"}
            with self.connect() as connection:
                reader = connection.makefile("rb")
                content = f"HELLO {json.dumps(hello)}\n".encode()
                if last > 0 and self.ask(connection, reader, content):
                    content = f"OPEN 1 {json.dumps(opening)}\n".encode()
                    at = self.ask(connection, reader, content) if last > 1 else b""
                    if at.startswith(b"AT 1 "):
                        content = self.next(last, stream, int(at.split()[2]), maker)
                self.end(connection, self.mutator.mutate(content))
                reader.close()

    def next(self, last, stream, offset, maker):
        """A message for an open stream, or several that follow each other."""
        raw = b"".join(maker.lines(self.chance.choice((1, 3))))
        line, payload = batch(stream, raw, offset=offset)
        content = line.encode() + b"\n" + payload
        end = offset + len(raw)
        return content + (b"", b"PING 7\n", b"SKIP 1 %d 5 truncated\n" % end)[last - 2]

    @staticmethod
    def ask(connection, reader, content):
        """Sends a good message; returns its answer, or nothing at the connection's end."""
        try:
            connection.sendall(content)
            return reader.readline()
        except ConnectionError:
            return b""


def door_requests():
    segment = json.dumps({"writeKey": KEY, "batch": [track(1), track(2, timestamp="2026-11-20T10:00:00Z")]}).encode()
    posthog = json.dumps({"api_key": KEY, "batch": [{
        "event": "e", "distinct_id": "u", "uuid": "01939a3e-0000-7000-8000-000000000001", "properties": {"$set": {"a": 1}}}]})
    amplitude = json.dumps({"api_key": KEY, "events": [{"event_type": "a", "user_id": "user-1", "insert_id": "i"}]})
    basic = (b"Authorization", b"Basic " + base64.b64encode(f"{KEY}:".encode()))
    query = base64.b64encode(posthog.encode())
    return [
        (b"POST", b"/v1/b", [(b"Content-Type", b"text/plain")], segment),
        (b"POST", b"/v1/batch", [basic, (b"Origin", b"https://shop.example.com")], segment),
        (b"POST", b"/v1/t", [basic], json.dumps(track(3)).encode()),
        (b"POST", b"/v1/identify", [basic], b'{"type":"identify","userId":"u","traits":{"plan":"free"}}'),
        (b"POST", b"/batch/", [], posthog.encode()), (b"POST", b"/e/", [], b"data=" + query),
        (b"GET", b"/e/?data=" + query, [], b""), (b"POST", b"/2/httpapi", [], amplitude.encode()),
        (b"POST", b"/v1/events", [(b"Authorization", b"Bearer " + KEY.encode())], event("native").strip()),
        (b"GET", b"/v1/pixel.gif?key=" + KEY.encode() + b"&event=opened&id=1", [], b""),
        (b"GET", b"/v1/projects/" + KEY.encode() + b"/settings", [], b""), (b"POST", b"/flags?v=2", [], b"{}"),
        (b"OPTIONS", b"/v1/b", [(b"Origin", b"https://a.example.com"), (b"Access-Control-Request-Method", b"POST")], b""),
        (b"GET", b"/waybill.js", [(b"Accept-Encoding", b"gzip")], b""),
    ]


def live_requests(token):
    known = [(b"Authorization", b"Bearer " + token.encode())]
    return [
        (b"GET", b"/", [], b""), (b"POST", b"/api/session", [], json.dumps({"token": token}).encode()),
        (b"GET", b"/api/status", known, b""), (b"GET", b"/api/events?filter=name%3Dtap&limit=10", known, b""),
        (b"GET", b"/api/event?id=1", known, b""), (b"GET", b"/api/person?user=u-1", known, b""),
        (b"GET", b"/api/names", [(b"Cookie", b"waybill=" + token.encode())], b""), (b"GET", b"/live.js", [], b""),
    ]


class MutatedRequestsTests(SiteTest):
    """Each program at once; honest requests are taken afterwards."""

    def setUp(self):
        super().setUp()
        self.site = LiveSite()
        self.addCleanup(self.site.close)

    def test_no_program_ends_stalls_or_grows(self):
        door = Door(self.site)
        door.configure(keys=[f"{{key: {KEY}, bundle: com.example.shop, env: prod, events_second: 1000000}}"])
        door.start()
        receiver = self.site.start_receiver()
        live, _ = self.site.start_live()
        senders = {
            "door": RequestSender(door.port, REQUESTS * 7 // 10, SEED, door_requests()),
            "receiver": MessageSender(self.site.port, REQUESTS // 10, SEED + 1),
            "live": RequestSender(
                self.site.live_port, REQUESTS * 2 // 10, SEED + 2, live_requests("a-token-of-the-tests-0123456789"))}
        for sender in senders.values():
            sender.thread.start()
        # A line a minute: a long run is ended when it makes no progress, not for its length.
        while any(sender.thread.is_alive() for sender in senders.values()):
            next(sender for sender in senders.values() if sender.thread.is_alive()).thread.join(60)
            print("left:", {name: sender.left for name, sender in senders.items()}, flush=True)
        processes = {"door": door.process, "receiver": receiver, "live": live}
        peaks = {name: process.peak_mebibytes() for name, process in processes.items() if process.is_running}
        for name, sender in senders.items():
            print(f"seed {SEED}: {name}: {dict(sender.tally.most_common())}, peak {peaks.get(name, 0):.0f} MiB")
        for name, process in processes.items():
            with self.subTest(name):
                self.assertTrue(process.is_running, process.log()[-2000:])
                self.assertIsNone(senders[name].problem)
                self.assertLess(peaks[name], MEBIBYTES)
        self.assert_honest_requests_are_taken(door)
        self.assert_lines_are_whole(door)
        for name, process in processes.items():
            self.assertEqual(process.stop(), 0, f"{name}: {process.log()[-2000:]}")

    def assert_honest_requests_are_taken(self, door):
        status, answer = door.batch([track(1_000_001)])
        self.assertEqual(status, 200, answer)
        raw = event("honest")
        self.site.connect()
        self.assertEqual(self.site.peer.open("honest"), "AT 1 0")
        self.site.peer.send(*batch("honest", raw))
        self.assertEqual(self.site.peer.line(), f"ACK 1 {len(raw)}")
        address = f"http://127.0.0.1:{self.site.live_port}/live.js"
        with urllib.request.urlopen(address, timeout=patience(60)) as page:
            self.assertEqual(page.status, 200)
        self.assertIsNotNone(metric(f"127.0.0.1:{self.site.metrics}", "waybill_receiver_lines_total"))

    def assert_lines_are_whole(self, door):
        """What is in the spools is a line of the key's app, with its name and its time."""
        count = 0
        for path in sorted(door.spool.glob("*/*.ndjson")):
            for line in path.read_bytes().splitlines():
                read = json.loads(line)
                self.assertEqual((read["bundle"], read["env"]), ("com.example.shop", "prod"), line)
                self.assertTrue(read["name"] and read["ts"] and read["id"], line)
                count += 1
        self.assertGreater(count, 0)
