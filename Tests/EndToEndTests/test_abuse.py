"""Input that is meant to break something: payloads, names, times, and lines that cannot be stored; and the counts that
must come out even behind all of it.

Shows T6, T31, T33, T35, T40 and T41. WAYBILL_THOROUGH=1 makes more of everything, and takes each payload to its deadline.
"""

import contextlib
import datetime
import json
import os
import random
import re
import socket
import struct
import threading
import time
import unittest
import zlib
import zoneinfo

from harness import until
from ledger import LedgerTest, archived, lines_of, quarantined, timestamp
from scale import SEED, THOROUGH
from wire import batch, let_in

WIRE_MAX, RAW_MAX = 2162688, 2 << 20


class AbuseTest(LedgerTest):
    LINES = SEED

    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)

    def peer(self, agent="abuse"):
        return let_in(self, self.site.port, agent)


def zeros(byte_count):
    """A whole zlib stream of so many zeros (whole MiB), made without making them: one block repeated, and the Adler-32
    of zeros, which is known."""
    squeezer = zlib.compressobj(9)
    block = squeezer.compress(bytes(1 << 20)) + squeezer.flush(zlib.Z_FULL_FLUSH)
    head, block = block[:2], block[2:]
    adler = (byte_count % 65521) << 16 | 1
    return head + block * (byte_count >> 20) + b"\x03\x00" + struct.pack(">I", adler)


class PayloadTests(AbuseTest):
    """Payloads by other means than an agent's."""

    def test_bombs_leave_the_memory_where_it_was(self):
        """From 10 KB to as much as a batch may carry, which is gigabytes of zeros; nested, cut, with more behind: refused,
        the stream continues, the peak of memory does not move (T31)."""
        self.assertEqual(zlib.decompress(zeros(4 << 20)), bytes(4 << 20))
        receiver, peer = self.site.receiver(exports="none"), self.peer()
        self.assertEqual(peer.open("s"), "AT 1 0")
        raw = b"".join(self.made(3000))
        peer.batch("s", raw)
        self.assertEqual(peer.line(), f"ACK 1 {len(raw)}")
        offset = len(raw)
        until(lambda: sum(1 for _ in archived(self.site.data)) == 3000, 20)
        before = receiver.peak_mebibytes()
        largest = zeros((WIRE_MAX // len(zeros(64 << 20)) * 64) << 20)
        good = zlib.compress(raw)
        for payload, raw_count in (
                (zeros(10 << 20), 100), (zeros(10 << 20), RAW_MAX), (largest, 1), (largest, RAW_MAX),
                (zlib.compress(zlib.compress(zlib.compress(largest, 9), 9), 9), RAW_MAX),
                (zlib.compress(good), len(good)), (good[:-5], len(raw)), (good + b"x", len(raw)), (good + good, len(raw)),
                (b"\0" * WIRE_MAX, RAW_MAX), (self.chance.randbytes(WIRE_MAX), RAW_MAX), (b"\x78\x9c", 1), (b"x", 1)):
            for _ in range(4):
                peer.batch("s", b"", offset=offset, payload=payload, raw_count=raw_count, lines=1)
                self.assertRegex(peer.line(), f"^NAK 1 {offset} corrupt ")
                self.assertEqual(peer.open("s"), f"AT 1 {offset}")
        grown = receiver.peak_mebibytes() - before
        # What one batch may hold, compressed and inflated, for each of the threads that check.
        self.assertLess(grown, 32)
        more = self.made(3)
        peer.batch("s", b"".join(more), offset=offset)
        self.assertEqual(peer.line(), f"ACK 1 {offset + len(b''.join(more))}")
        self.assert_stored(receiver)
        print(f"abuse: bombs of up to {len(largest) >> 10} KiB for {len(largest) * 1000 >> 30} GiB: "
              f"{grown:.0f} MiB more at the peak")

    def test_every_kind_of_zlib_stream_is_taken(self):
        """All levels, strategies, windows and memory levels of zlib, with and without flushes in between (T33)."""
        receiver, peer, offset = self.site.receiver(exports="none"), self.peer(), 0
        self.assertEqual(peer.open("s"), "AT 1 0")
        strategies = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED)
        kinds = [(level, strategy, window, memory) for level in range(10) for strategy in strategies
                 for window, memory in ((9, 1), (12, 5), (15, 8), (15, 9))]
        for number, (level, strategy, window, memory) in enumerate(kinds):
            raw = b"".join(self.made(40))
            squeezer = zlib.compressobj(level, zlib.DEFLATED, window, memory, strategy)
            payload = b""
            for start in range(0, len(raw), 5000):
                payload += squeezer.compress(raw[start:start + 5000])
                if number % 3 == 0:
                    payload += squeezer.flush((zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH)[number % 2])
            peer.socket.sendall(self.whole("s", raw, offset, payload + squeezer.flush()))
            offset += len(raw)
        while (line := peer.line()) != f"ACK 1 {offset}":
            self.assertRegex(line, "^ACK 1 ")
        self.assert_stored(receiver)

    @staticmethod
    def whole(stream, raw, offset, payload):
        line, payload = batch(stream, raw, offset=offset, payload=payload)
        return line.encode() + b"\n" + payload

    @unittest.skipUnless(THOROUGH, "takes the minute that a payload may take")
    def test_a_payload_that_trickles_ends_at_its_deadline(self):
        """One byte a second of a payload, and of a message behind the handshake: closed after 60 s, after 90 s (T32)."""
        self.site.receiver(exports="none")
        trickling, slow = self.peer("payload"), self.peer("message")
        self.assertEqual(trickling.open("s"), "AT 1 0")
        trickling.send("BATCH 1 0 1000 1 1000 00000000")
        started, ended = time.monotonic(), {}
        while len(ended) < 2 and time.monotonic() - started < 120:
            for name, peer in (("payload", trickling), ("message", slow)):
                if name in ended:
                    continue
                try:
                    peer.socket.sendall(b"x")
                    peer.socket.settimeout(0.01)
                    if b"ERR timeout" in (peer.socket.recv(1000) or b"ERR timeout"):
                        ended[name] = time.monotonic() - started
                except TimeoutError:
                    pass
                except OSError:
                    ended[name] = time.monotonic() - started
            time.sleep(1)
        self.assertTrue(55 < ended["payload"] < 75 and 80 < ended["message"] < 110, ended)


class GreedyPeerTests(AbuseTest):
    """Peers that are let in and ask for more than their share (promise 7: memory is bounded, whatever a peer sends)."""

    MEMORY_MEBIBYTES = 200
    NEWLINE = zlib.compress(b"\n")

    def flood(self, peer, pieces):
        """Sends these and throws the answers away, but for the last."""
        def read():
            with contextlib.suppress(OSError):
                while data := peer.socket.recv(1 << 16):
                    peer.last = (peer.last + data)[-200:]

        peer.last = b""
        peer.socket.settimeout(60)
        threading.Thread(target=read, daemon=True).start()
        with contextlib.suppress(OSError):
            for piece in pieces:
                peer.socket.sendall(piece)

    def test_messages_that_wait_for_the_disk_are_bounded(self):
        """A million SKIPs of one byte each: the queue to the disk holds the peer back (T31)."""
        receiver, peer = self.site.receiver(exports="none"), self.peer()
        self.assertEqual(peer.open("s"), "AT 1 0")
        self.flood(peer, (b"".join(b"SKIP 1 %d 1 truncated -\n" % offset for offset in range(start, start + 5000))
                          for start in range(0, 1_000_000, 5000)))
        until(lambda: re.search(rb"ACK 1 1000000 \d+\n", peer.last), 60, "the last ACK")
        self.assertLess(receiver.peak_mebibytes(), self.MEMORY_MEBIBYTES)
        peer.socket.shutdown(socket.SHUT_RDWR)
        receiver.until_logged("an agent skipped more bytes")
        logged = [entry for entry in receiver.entries() if "an agent skipped" in entry["message"]]
        self.assertEqual(len(logged), 11, "ten SKIPs, and the sum of the others")
        self.assertEqual((logged[-1]["skips"], logged[-1]["bytes"]), (999990, 999990))
        self.assertEqual(receiver.stop(), 0)
        self.assertIn('"skipped_bytes":1000000', receiver.log())

    def test_batches_of_one_byte_are_bounded(self):
        """Three hundred thousand batches of one byte each: what surrounds a payload counts as well (T31)."""
        receiver, peer, count = self.site.receiver(exports="none"), self.peer(), 300_000
        self.assertEqual(peer.open("s"), "AT 1 0")
        self.flood(peer, (b"".join(PayloadTests.whole("s", b"\n", offset, self.NEWLINE) for offset in range(start, start + 5000))
                          for start in range(0, count, 5000)))
        until(lambda: re.search(rb"ACK 1 %d \d+\n" % count, peer.last), 60, "the last ACK")
        self.assertLess(receiver.peak_mebibytes(), self.MEMORY_MEBIBYTES)

    def small_receiver(self):
        """A receiver that has 8 MiB for descriptions."""
        path = self.site.root / "small.yaml"
        path.write_text(f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n"
                        "  memory: {descriptions_mib: 8}\n")
        return self.site.configured(path, "--exports", "none")

    def opens(self, number, numbers):
        return b"".join(
            b'OPEN %d {"stream":"g%d-%d","source":"%s","env":"prod","bundle":"b","format":"ndjson"}\n' % (
                stream, number, stream, b"x" * 3900) for stream in numbers)

    def test_descriptions_of_all_connections_together_are_bounded(self):
        """Ten connections that each open thousands of streams with long names share one bound: those that have most are
        told and end, and one that comes later has room (T31)."""
        receiver, greedy = self.small_receiver(), []
        for number in range(10):
            greedy.append(self.peer(f"greedy-{number}"))
            self.flood(greedy[-1], (self.opens(number, range(start, start + 100)) for start in range(1, 10_000, 100)))
        self.assertLess(receiver.peak_mebibytes(), self.MEMORY_MEBIBYTES)
        late = self.peer("late")
        late.send(self.opens(99, [1]))
        self.assertTrue(late.line().startswith("AT 1 0"))
        ended = [peer for peer in greedy if b"ERR limit the streams of all connections have more than " in peer.last]
        self.assertGreater(len(ended), 5)

    def test_opening_again_with_longer_names_counts(self):
        """Streams that are opened with short names, and then again with long ones, count as long (T31)."""
        self.small_receiver()
        peer, answers = self.peer(), []
        for start in range(1, 40_000, 50):
            numbers = range(start, start + 50)
            for opens in (self.opens(0, numbers).replace(b"x" * 3900, b"x"), self.opens(0, numbers)):
                peer.socket.sendall(opens)
                answers = [peer.line() for _ in numbers]
                if answers[-1] != f"AT {numbers[-1]} 0":
                    text = next(answer for answer in answers if not answer.startswith("AT "))
                    return self.assertRegex(text, "^ERR limit the streams of all connections have more than ")
        self.fail("all were taken")

    def test_streams_that_are_sealed_already_count(self):
        """Opening sealed streams again and again, each with a long name: the connection remembers them, and counts (T31)."""
        self.small_receiver()
        first, second, answers = self.peer("first"), self.peer("second"), []
        for start in range(1, 40_000, 500):
            numbers = range(start, start + 500)
            first.socket.sendall(self.opens(0, numbers).replace(b"x" * 3900, b"x"))
            self.assertEqual([first.line() for _ in numbers], [f"AT {number} 0" for number in numbers])
            first.socket.sendall(b"".join(b"SEAL %d 0\n" % number for number in numbers))
            self.assertEqual([first.line() for _ in numbers], [f"SEALED {number}" for number in numbers])
            second.socket.sendall(self.opens(0, numbers))
            answers = [second.line() for _ in range(2 * len(numbers))]
            if answers[-1] != f"SEALED {numbers[-1]}":
                text = next(answer for answer in answers if not answer.startswith(("AT ", "SEALED ")))
                return self.assertRegex(text, "^ERR limit the streams of all connections have more than ")
        self.fail("all were taken")


class UnstorableTests(AbuseTest):
    """Lines that are no events."""

    BAD = (b"no json\n", b"[1]\n", b"\n", b'{"x":"\xff"}\n', b'{"x":"\0"}\n', b'{"v":1}\n', b'{"ts":"never","name":"x"}\n',
           b'{"ts":"2026-11-20T00:00:00.000Z","name":"x","env":"moon"}\n', b"x" * 40_000 + b"\n")

    def test_what_cannot_be_stored_is_kept_before_it_is_acknowledged(self):
        """SIGKILL right behind the ACK: what was acknowledged is in the archive or in the quarantine, all of it (T6)."""
        for turn in range(40 if THOROUGH else 5):
            receiver, peer = self.site.receiver(exports="csv"), self.peer()
            self.assertEqual(peer.open(f"s-{turn}"), "AT 1 0")
            lines = [self.maker.lines(1)[0] if self.chance.random() < 0.5 else self.chance.choice(self.BAD) for _ in range(50)]
            self.ledger.add(lines)
            peer.batch(f"s-{turn}", b"".join(lines))
            self.assertRegex(peer.line(), "^ACK 1 ")
            receiver.kill()
            peer.close()
        receiver = self.site.receiver(exports="csv")
        self.assert_stored(receiver)
        refused = sum(map(len, quarantined(self.site.data).values()))
        self.assertGreater(refused, 50)
        self.assertEqual(refused + sum(1 for _ in archived(self.site.data)), self.ledger.line_count)


class CountTests(AbuseTest):
    """Every byte that was read is somewhere, and the numbers that both sides print say where."""

    def test_the_counts_come_out_even(self):
        """Agent: files = sent + skipped + held. Receiver: bytes taken = bytes sent; archive and quarantine, and each
        export's records, refused, held and skipped, add up to the lines (T40)."""
        receiver = self.site.receiver(exports="ga4,mixpanel,csv")
        self.maker.spool(self.site.spool, self.ledger, 600_000)
        self.maker.segment(self.site.spool, [*self.made(5), b'{"torn":'])
        web = self.site.root / "web.json"
        lines = [*self.maker.foreign(200), *UnstorableTests.BAD]
        self.ledger.add(lines)
        long = b'{"x":"' + b"y" * (1 << 20) + b'"}\n'
        web.write_bytes(b"".join(lines[:100]) + long + b"".join(lines[100:]) + b'{"held":')
        size = sum(path.stat().st_size for path in [*self.site.spool.glob("*.ndjson"), web])
        summary = self.site.once("--spool", self.site.spool, "--glob", web, "--env", "prod", "--bundle", "com.example.web")
        self.assertEqual(summary["bytes"] + summary["skipped_bytes"] + summary["held_bytes"], size)
        self.assertEqual((summary["skipped_bytes"], summary["held_bytes"]), (len(long) + 8, 8))
        self.assertEqual(summary["lines"], self.ledger.line_count)
        self.assert_stored(receiver)
        counted = {}
        for entry in receiver.entries():
            if entry["message"] == "projection stopped":
                counted[entry["projection"]] = {
                    word: int(count) for word, count in (part.split() for part in entry["report"].split(", "))}
            elif entry["message"] == "receiver stopped":
                self.assertEqual(entry["raw_bytes"], summary["bytes"])
                self.assertEqual(entry["batches"], summary["batches"])
        archive = counted.pop("archive")
        self.assertEqual(archive["archived"], sum(1 for _ in archived(self.site.data)))
        self.assertEqual(archive["quarantined"], sum(map(len, quarantined(self.site.data).values())))
        self.assertEqual(sum(archive.values()), self.ledger.line_count)
        self.assertEqual(set(counted), {"ga4", "mixpanel", "csv"})
        for name, parts in counted.items():
            self.assertEqual(sum(parts.values()), self.ledger.line_count, f"{name}: {parts}")


class DayTests(AbuseTest):
    """Which day an event belongs to."""

    ZONES = ("Asia/Seoul", "Australia/Lord_Howe") + (
        ("America/New_York", "Europe/London", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "UTC") if THOROUGH else ())
    UTC = datetime.timezone.utc

    def days(self, zone):
        """Local days that are odd: where the clock changes, leap days, ends of years, and ordinary ones."""
        days = [datetime.date(year, month, day) for year, month, day in
                ((2024, 2, 28), (2024, 2, 29), (2025, 12, 31), (2026, 1, 1), (2026, 6, 15))]
        before = None
        for number in range(365 * 4):
            moment = datetime.datetime(2023, 1, 1, 12, tzinfo=self.UTC) + datetime.timedelta(days=number)
            offset = moment.astimezone(zone).utcoffset()
            if before not in (None, offset):
                days += [(moment - datetime.timedelta(days=back)).astimezone(zone).date() for back in (0, 1)]
            before = offset
        return days

    def moments(self, zone):
        """Instants around the bounds and through the hours of those days, in no order."""
        moments = set()
        for day in self.days(zone):
            midnight = datetime.datetime.combine(day, datetime.time(), zone).astimezone(self.UTC)
            moments.update(midnight + datetime.timedelta(milliseconds=shift) for shift in (-1, 0, 1, 86_399_999, 86_400_000))
            moments.update(midnight + datetime.timedelta(minutes=30 * half) for half in range(-4, 54))
        moments = sorted(moment for moment in moments if moment < datetime.datetime.now(self.UTC))
        self.chance.shuffle(moments)
        return moments

    def test_each_event_is_in_the_day_of_its_own_time(self):
        """Clock changes, leap days, ends of years; events late by minutes and by years, in an order of their own; two
        runs of the receiver: each line is in the folder of its day and zone, once (T35)."""
        for name in self.ZONES:
            zone = zoneinfo.ZoneInfo(name)
            with self.subTest(zone=name):
                self.ship_days(name, zone)

    def ship_days(self, name, zone):
        data, spool = self.site.root / f"data-{name.replace('/', '-')}", self.site.root / "days"
        configuration = self.site.root / "zone.yaml"
        configuration.write_text(
            f"receiver:\n  data: {data}\n  listen: {self.site.address}\n  archive: {{zone: {name}}}\n"
            f"  exports:\n    - {{provider: csv, zone: {name}}}\n")
        spool.mkdir(exist_ok=True)
        days, day_of_id = {}, {}
        moments = self.moments(zone)
        for half in (moments[::2], moments[1::2]):
            receiver = self.site.configured(configuration)
            lines = [self.maker.event("0195505e-0001-7000-8000-000000000001", 1, ts=timestamp(moment), env="prod",
                                      bundle="com.example.shop") for moment in half]
            for line, moment in zip(lines, half):
                days[line] = day_of_id[json.loads(line)["id"]] = str(moment.astimezone(zone).date())
            self.maker.segment(spool, lines)
            self.site.once("--spool", spool)
            self.assertEqual(receiver.stop(), 0)
        found = {}
        for path in (data / "archive").rglob("part-*.ndjson"):
            for line in lines_of(path):
                self.assertNotIn(line, found)
                found[line] = path.parent.name.removeprefix("date=")
        self.assertEqual({line: (day, found.get(line)) for line, day in days.items() if found.get(line) != day}, {})
        self.assertEqual(len(found), len(days))
        exported = {}
        for path in (data / "exports" / "csv").rglob("part-*.ids"):
            for line in lines_of(path):
                self.assertNotIn(line, exported)
                exported[line.decode().rstrip()] = path.parent.name.removeprefix("date=")
        self.assertEqual(exported, day_of_id)


class NameTests(AbuseTest):
    """Names that apps, agents and streams give themselves."""

    ODD = ("../", "/", "..", "a/../../b", "\\u0000", "x" * 300, "%2e%2e%2f", "con", "~root", "a\\nb", "\\ud800", "$(id)", "*",
           "-rf")

    def test_ten_thousand_distinct_values_stay_below_their_folder(self):
        """Apps, names, providers and overrides without end: few folders, few descriptors, little memory, each line once
        (T41)."""
        # By default few apps and one day: 3,000 apps are the matter of test_receiver.py, and each folder costs two syncs.
        count, apps = (100_000, 100_000) if THOROUGH else (10_000, len(self.ODD))
        self.maker.times = self.maker.times[:1]
        receiver = self.site.receiver(exports="ga4,mixpanel,csv")
        writer, peak = self.maker.writer(), 0
        for start in range(0, count, 1000):
            lines = []
            for number in range(start, start + 1000):
                odd = self.ODD[number % apps % len(self.ODD)]
                line = self.maker.event(
                    writer, number + 1, env="prod", bundle=f"{odd}{number % apps}"[-250:], name=f"n{number}{odd}")
                more = f'"providers":["ga4","csv","mixpanel","{odd}"],"overrides":{{"{odd}":{{"name":"y"}}}},"data":'
                lines.append(line.replace(b'"data":', more.encode(), 1))
            self.ledger.add(lines)
            self.maker.segment(self.site.spool, lines, writer, start + 1)
            if start % 5000 == 0:
                self.site.once()
            peak = max(peak, len(os.listdir(f"/proc/{receiver.child.pid}/fd")))
        self.site.once()
        memory = receiver.peak_mebibytes()
        self.assert_stored(receiver)
        self.assertLess(peak, 1024)
        self.assertLess(memory, 200)
        self.assertEqual(sorted(path.name for path in self.site.root.iterdir()), ["agent", "data", "logs", "spool"])
        self.assertLessEqual({path.name for path in self.site.data.iterdir()},
                             {"archive", "exports", "journal", "quarantine", "state", "lock"})
        folders = [path.name for path in (self.site.data / "archive" / "env=prod").iterdir()]
        self.assertLessEqual(len(folders), 1001)
        self.assertEqual("bundle=_overflow" in folders, apps > 100)
        self.assertEqual([name for name in folders if not name.startswith("bundle=") or "/" in name or len(name) > 150], [])
        print(f"abuse: {count} names, {len(folders)} folders, {peak} descriptors, {memory:.0f} MiB")
