"""A greedy agent next to an honest one: what it takes delays itself, and not the other.

Every test prints what the honest agent saw. The bounds are generous, because other tests may run at the same time;
the printed figures of a quiet machine are the ones that count.
"""

import json
import random
import resource
import socket
import threading
import time
import zlib

from harness import SiteTest, patience, until
from ledger import archived, quarantined, timestamp, utc_now
from scale import amount
from wire import Peer, batch, let_in

LINES_MAX, RAW_MAX = 65_536, 2 << 20


def delayed(seconds):
    return f"{max(seconds):.2f} s at most, {sorted(seconds)[len(seconds) // 2]:.3f} s usually" if seconds else "nothing"


class Honest(threading.Thread):
    """An agent that ships 100 lines a second, and notes when each batch is acknowledged and when it is archived."""

    APP = "com.example.web"

    def __init__(self, site, lines_a_second=100):
        super().__init__(daemon=True)
        self.site, self.pause, self.count = site, 10 / lines_a_second, 10
        self.acknowledged, self.archived, self.problem = [], [], None
        self.offset, self.lines, self.waiting = 0, [], []
        self.is_ending = threading.Event()

    def __enter__(self):
        self.peer = Peer(self.site.port)
        assert self.peer.hello("honest").startswith("READY ")
        begun = time.monotonic()
        assert self.peer.open("honest-1", form="ndjson").split()[:3] == ["AT", "1", "0"]
        self.opened = time.monotonic() - begun
        self.start()
        return self

    def __exit__(self, *_):
        self.is_ending.set()
        self.join()
        self.peer.close()
        if self.problem:
            raise self.problem

    def run(self):
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        try:
            while not self.is_ending.is_set():
                self.ship()
                self.is_ending.wait(self.pause)
        except (AssertionError, OSError) as problem:
            self.problem = problem
        watcher.join()

    def ship(self):
        lines = [json.dumps({"ts": timestamp(utc_now()), "name": "honest", "n": len(self.lines) + n})
                 .encode() + b"\n" for n in range(self.count)]
        raw, begun = b"".join(lines), time.monotonic()
        self.peer.batch("honest-1", raw, offset=self.offset)
        self.offset += len(raw)
        self.waiting.append((self.offset, begun))
        answer = self.peer.line(30).split()
        assert answer[0] == "ACK" and int(answer[2]) == self.offset, answer
        self.acknowledged.append(time.monotonic() - begun)
        self.lines += lines

    def watch(self):
        """Until everything is archived: a line is when its file is as long as all lines up to it."""
        deadline = None
        while True:
            size = sum(path.stat().st_size for path in (self.site.data / "archive").glob(f"env=*/bundle={self.APP}/*/*.ndjson"))
            while self.waiting and self.waiting[0][0] <= size:
                self.archived.append(time.monotonic() - self.waiting.pop(0)[1])
            if self.is_ending.is_set():
                deadline = deadline or time.monotonic() + patience(20)
                if not self.waiting or time.monotonic() > deadline:
                    return
            time.sleep(0.01)

    def report(self, what):
        print(f"fair: {what}: acknowledged after {delayed(self.acknowledged)}; archived after {delayed(self.archived)}")


class Flood(threading.Thread):
    """A peer that sends batches as fast as the receiver takes them."""

    def __init__(self, port, agent, batches):
        super().__init__(daemon=True)
        self.port, self.agent, self.batches, self.sent = port, agent, batches, 0

    def run(self):
        try:
            with Peer(self.port, timeout=60) as peer:
                peer.hello(self.agent)
                peer.open(self.agent)
                offset, flying = 0, 0
                for raw, payload in self.batches:
                    peer.batch(self.agent, raw, offset=offset, payload=payload)
                    offset += len(raw)
                    flying += 1
                    self.sent += 1
                    while flying > 3:
                        answer = peer.line(60)
                        if answer is None:
                            return
                        flying -= 1
                while flying and peer.line(60):
                    flying -= 1
        except (OSError, AssertionError):
            pass  # The receiver has ended.


def repeated(line, count):
    """One batch of as many equal lines as fit, so many times, compressed once."""
    lines = min(LINES_MAX, RAW_MAX // len(line))
    raw = line * lines
    payload = zlib.compress(raw, 9)
    for _ in range(count):
        yield raw, payload


def spread(chance, count, lines=10_000):
    """Batches of events of random days and apps."""
    for _ in range(count):
        raw = b"".join(
            b'{"ts":"20%02d-%02d-%02dT00:00:00.000Z","v":1,"kind":"event","env":"prod","bundle":"app%d","name":"n"}\n' % (
                chance.randrange(0, 26), chance.randrange(1, 13), chance.randrange(1, 29), chance.randrange(10_000))
            for _ in range(lines))
        yield raw, zlib.compress(raw, 1)


class Pings(threading.Thread):
    """A peer that sends the shortest messages there are, as fast as the receiver takes them, and counts the answers: `PONG 1`."""

    def __init__(self, port, agent, count):
        super().__init__(daemon=True)
        self.port, self.agent, self.count, self.answered = port, agent, count, 0

    def run(self):
        try:
            with Peer(self.port, timeout=60) as peer:
                peer.hello(self.agent)
                sender = threading.Thread(target=peer.socket.sendall, args=(b"PING 1\n" * self.count,), daemon=True)
                sender.start()
                while self.answered < self.count and (data := peer.socket.recv(1 << 16)):
                    self.answered += data.count(b"G")
                sender.join()
        except OSError:
            pass  # The receiver has ended.


class FairTest(SiteTest):
    def configured(self, exports="csv", **sections):
        """Starts a receiver with a file of limits."""
        text = f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n"
        for name, value in sections.items():
            text += f"  {name}: {json.dumps(value)}\n"
        text += "  exports:\n    - {provider: csv}\n" if exports == "csv" else "  exports: []\n"
        path = self.site.root / "limits.yaml"
        path.write_text(text)
        receiver = self.site.configured(path)
        self.assertTrue(receiver.is_running, receiver.log()[-800:])
        return receiver

    def peer(self, agent, **members):
        return let_in(self, self.site.port, agent, **members)

    def assert_prompt(self, honest, what, seconds=3):
        honest.report(what)
        self.assertGreater(len(honest.archived), 0)
        self.assertEqual(honest.waiting, [])
        self.assertLess(max(honest.archived), patience(seconds))
        self.assertLess(max(honest.acknowledged), patience(seconds))

    def open_files(self, count):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < count:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


class ArchiveTimeTests(FairTest):
    """Batches that are small on the wire and take long to archive."""

    def flood(self, what, batches):
        """An honest agent, 3 floods for as long as it takes, then SIGTERM into them."""
        receiver = self.configured(stop_seconds=3)
        floods = [Flood(self.site.port, f"greedy-{number}", batches(number)) for number in range(3)]
        with Honest(self.site) as honest:
            time.sleep(0.5)
            for flood in floods:
                flood.start()
            deadline = time.monotonic() + 4
            while time.monotonic() < deadline and any(flood.is_alive() for flood in floods):
                time.sleep(0.05)
        sent = sum(flood.sent for flood in floods)
        self.assert_prompt(honest, f"next to {sent} batches of {what}")
        begun = time.monotonic()
        self.assertEqual(receiver.stop(), 0, receiver.log()[-800:])
        took = time.monotonic() - begun
        print(f"fair: SIGTERM among {what}: ended after {took:.2f} s")
        self.assertLess(took, patience(8))
        for flood in floods:
            flood.join()
        return honest, sent

    def test_d1_d2_line_feeds(self):
        self.flood("line feeds", lambda _: repeated(b"\n", 20))
        # Once more, so that everything is archived: each line feed is counted, and none is stored.
        receiver = self.site.receiver(exports="csv")
        self.assertEqual(receiver.stop(), 0)
        empties = len(quarantined(self.site.data)["empty"])
        self.assertGreater(empties, 0)
        self.assertEqual(empties % LINES_MAX, 0)
        self.assertEqual(sum(path.stat().st_size for path in self.site.data.rglob("empty.ndjson")), 0)
        self.assert_verified()

    def test_d1_d2_d7_random_days_and_apps(self):
        chance = random.Random(7)
        made = [list(spread(chance, 7)) for _ in range(3)]
        honest, _ = self.flood("random days and apps", lambda number: made[number])
        # What was created is bounded, and everything is there once.
        receiver = self.site.receiver(exports="csv")
        self.assertEqual(receiver.stop(), 0)
        folders = len(list((self.site.data / "archive").glob("env=*/bundle=*/date=*")))
        print(f"fair: random days and apps created {folders} folders")
        self.assertLess(folders, 1300)
        own = set(honest.lines)
        self.assertEqual(sum(line in own for line in archived(self.site.data)), len(own))
        self.assert_verified()


class QuotaTests(FairTest):

    def test_d3_a_long_source_is_cut_where_it_is_kept(self):
        receiver = self.configured()
        peer = self.peer("long")
        peer.send('OPEN 1 {"stream":"s","source":"' + "\\u00e4" * 600 + '","env":"prod","bundle":"b","format":"ndjson"}')
        self.assertTrue(peer.line().startswith("AT 1 0"))
        line = b'{"ts":"2026-11-20T09:14:15.926Z","name":"n"}\n'
        peer.batch("s", line)
        self.assertTrue(peer.line().startswith("ACK 1 "))
        self.assertEqual(receiver.stop(), 0)
        sources = next(self.site.data.rglob("part-00001.sources")).read_bytes()
        description = json.loads(sources.split(b"\n")[0].split(b" ", 2)[2])
        self.assertEqual(description["source"], "ä" * 256)

    def test_d4_streams_are_bounded_for_each_agent(self):
        allowed = amount("WAYBILL_STREAMS", 2_000, 20_000)
        receiver = self.configured(limits={"streams": allowed})
        greedy, refused, number = self.peer("greedy"), [], 0
        with Honest(self.site) as honest:
            while number < allowed + 500:
                numbers = range(number + 1, number + 251)
                greedy.send(b"".join(
                    b'OPEN %d {"stream":"s-%d","source":"x","env":"prod","bundle":"b","format":"ndjson"}\n' % (n, n)
                    for n in numbers))
                answers = [greedy.line() for _ in numbers]
                refused += [answer for answer in answers if not answer.startswith("AT ")]
                number += 250
            time.sleep(1)
        self.assertEqual(len(refused), 500)
        self.assertRegex(refused[0], f"^NAK {allowed + 1} 0 retry-after ")
        self.assert_prompt(honest, f"next to {allowed:,} open streams and 500 that were refused")
        print(f"fair: {allowed:,} streams: {receiver.resident_mebibytes():.0f} MiB")
        self.assertEqual(receiver.stop(), 0)

    def test_d7_an_honest_new_app_gets_its_folder(self):
        receiver = self.configured()
        greedy = self.peer("greedy")
        greedy.open("g")
        raw = b"".join(
            b'{"ts":"2026-11-20T09:00:00.000Z","v":1,"kind":"event","env":"prod","bundle":"app%d","name":"n"}\n' % n
            for n in range(1500))
        greedy.batch("g", raw)
        self.assertTrue(greedy.line().startswith("ACK "))
        with Honest(self.site) as honest:
            time.sleep(1)
        self.assert_prompt(honest, "next to 1,500 new apps")
        new = self.peer("new")
        new.open("n")
        new.batch("n", b'{"ts":"2026-11-20T09:00:00.000Z","v":1,"kind":"event","env":"prod","bundle":"quite.new","name":"n"}\n')
        self.assertTrue(new.line().startswith("ACK "))
        self.assertEqual(receiver.stop(), 0)
        folders = {path.name for path in (self.site.data / "archive" / "env=prod").iterdir()}
        print(f"fair: 1,500 new apps: {len(folders)} folders")
        self.assertLessEqual({"bundle=quite.new", "bundle=_overflow", "bundle=com.example.web"}, folders)
        self.assertLess(len(folders), 110)
        self.assertEqual(sum(1 for line in archived(self.site.data) if b'"app' in line), 1500)
        self.assert_verified()


class ConnectionTests(FairTest):
    def silent(self):
        connection = socket.create_connection(("127.0.0.1", self.site.port), patience(20))
        self.addCleanup(connection.close)
        return connection

    def test_d5_silent_connections_leave_room(self):
        count = amount("WAYBILL_SILENT", 1_500, 10_000)
        self.open_files(count + 4096)
        receiver = self.configured(limits={"silent_connections": 200})
        with Honest(self.site) as honest:
            crowd = [self.silent() for _ in range(count)]
            late = self.peer("late")
            self.assertTrue(late.open("late").startswith("AT 1 0"))

            def ended():
                gone = 0
                for connection in crowd:
                    connection.setblocking(False)
                    try:
                        gone += connection.recv(1) == b""
                    except BlockingIOError:
                        pass
                    except ConnectionResetError:
                        gone += 1
                return gone >= count - 300

            until(ended, 20, "the oldest silent connections end")
            time.sleep(1)
        self.assert_prompt(honest, f"next to {count:,} silent connections")
        self.assertEqual(receiver.stop(), 0)

    def test_d12_short_messages_without_end_keep_nobody_waiting(self):
        """Each connection has a turn of so many messages; and each message has its answer."""
        receiver = self.configured()
        with Honest(self.site) as honest:
            crowd = [Pings(self.site.port, f"ping-{number}", amount("WAYBILL_PINGS", 50_000, 500_000)) for number in range(12)]
            for peer in crowd:
                peer.start()
            for peer in crowd:
                peer.join()
        self.assertEqual([peer.answered for peer in crowd], [peer.count for peer in crowd])
        self.assert_prompt(honest, f"next to {len(crowd)} agents that send PING")
        self.assertEqual(receiver.stop(), 0)

    def test_d6_slow_payloads_do_not_hold_the_memory(self):
        self.open_files(1024)
        receiver = self.configured()
        before = receiver.resident_mebibytes()
        crowd = []
        line, payload = batch("", b"", payload=bytes(RAW_MAX), raw_count=RAW_MAX, lines=1)
        for number in range(250):
            peer = self.peer(f"slow-{number}")
            self.assertTrue(peer.open(f"slow-{number}").startswith("AT 1 0"))
            peer.send(line)
            peer.socket.setblocking(False)
            crowd.append(peer)
        peak = 0
        with Honest(self.site) as honest:
            deadline = time.monotonic() + 6
            while time.monotonic() < deadline:
                tick = time.monotonic()
                for peer in crowd:
                    try:
                        peer.socket.send(payload[:16 << 10])
                    except BlockingIOError:
                        pass
                    except (ConnectionResetError, BrokenPipeError):
                        pass
                peak = max(peak, receiver.resident_mebibytes())
                time.sleep(max(0, tick + 0.25 - time.monotonic()))
        print(f"fair: 250 slow payloads of 2 MiB: {peak - before:.0f} MiB more")
        self.assert_prompt(honest, "next to 250 slow payloads")
        self.assertLess(peak - before, 100)
        self.assertEqual(receiver.stop(), 0)
