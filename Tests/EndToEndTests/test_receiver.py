"""What a receiver does with bad lines, bad peers, and disks that refuse."""

import json
import os
import select
import subprocess
import time
import zlib

from harness import fill_up, free_port, patience, run, until
from ledger import LedgerTest, archived, quarantined
from wire import Peer, batch, let_in, skip

MEMORY_MEBIBYTES = 150


class BadLineTests(LedgerTest):
    """Lines that are no events."""

    def test_each_bad_line_is_quarantined_with_its_reason(self):
        """Whatever is no event lies in the quarantine, byte for byte, in a file named by the reason."""
        event = self.maker.event(self.maker.writer(), 1).decode()
        ts = json.loads(event)["ts"]
        bad = {
            "not-json": [b"hello\n", b'{"v":1,\n', event.encode()[:-2] + b"\n", event.encode()[:-1] + b"}\n"],
            "not-object": [b"[1]\n", b"12\n", b'"text"\n', b"null\n"],
            "nul": [event.replace("토스터", "\0").encode(), b"\0\n"],
            "bad-utf8": [event.encode().replace("토".encode(), b"\xed\x86"), b'{"x":"\xff"}\n'],
            "empty": [b"\n"],
            "no-time": [event.replace('"ts":', '"tz_":').encode()],
            "bad-time": [event.replace(ts, "yesterday").encode(), event.replace(f'"{ts}"', "12").encode()],
            "time-out-of-range": [
                event.replace(ts, "1970-01-01T00:00:00.000Z").encode(),
                event.replace(ts, "2100-01-01T00:00:00.000Z").encode()],
            "no-name": [event.replace('"name":', '"nome":').encode()],
            "no-env": [event.replace('"env":', '"enw":').encode()],
            "bad-env": [event.replace('"env":"', '"env":"x').encode()],
            "no-bundle": [event.replace('"bundle":', '"bindle":').encode()],
            "bad-version": [event.replace('"v":1,', '"v":2,').encode()],
        }
        receiver = self.site.receiver(exports="ga4,mixpanel,csv")
        lines = [event.encode()]
        for number in range(4):
            lines += [of_reason[number] for of_reason in bad.values() if number < len(of_reason)]
        lines += self.maker.lines(1)
        self.ledger.add(lines)
        self.maker.segment(self.site.spool, lines)
        self.site.once()
        self.assertEqual(list(self.site.spool.iterdir()), [])
        self.assert_stored(receiver)
        self.assertEqual(quarantined(self.site.data), bad)
        self.assertEqual(sorted(archived(self.site.data)), sorted([lines[0], lines[-1]]))

    def test_field_values_shape_no_path(self):
        """Apps named `../`, `/`, or by 300 characters stay below the archive's folder."""
        receiver = self.site.receiver(exports="csv")
        names = ["../../../tmp/x", "/etc", "..", ".", "a/b", "x" * 300, "앱", "a\\u0000b", " ", "_other", "a=b", "%2e%2e"]
        lines = [self.maker.event(self.maker.writer(), 1, bundle=name) for name in names]
        self.ledger.add(lines)
        self.maker.segment(self.site.spool, lines)
        self.site.once()
        self.assert_stored(receiver)
        for path in (self.site.data / "archive").rglob("*.ndjson"):
            self.assertEqual(len(path.relative_to(self.site.data / "archive").parts), 4, path)
        self.assertEqual(sorted(p.name for p in self.site.root.iterdir()), ["agent", "data", "logs", "spool"])

    def test_many_partitions_stay_bounded(self):
        """3,000 apps on five days are archived once, without running out of files."""
        receiver = self.site.receiver(exports="none")
        times = [f"2026-10-{day:02d}T12:00:00.000Z" for day in range(1, 6)]
        lines = [
            self.maker.event("0195505e-0001-7000-8000-000000000001", number + 1, bundle=f"app.{number % 3000}",
                             ts=times[number % 5], env="prod") for number in range(15_000)]
        self.ledger.add(lines)
        for start in range(0, len(lines), 2000):
            self.maker.segment(self.site.spool, lines[start:start + 2000], "0195505e-0001-7000-8000-000000000001", start + 1)
        self.site.once()
        self.assertLess(len(os.listdir(f"/proc/{receiver.child.pid}/fd")), 1024)
        self.assertLess(receiver.resident_mebibytes(), MEMORY_MEBIBYTES)
        self.assert_stored(receiver)


class BadPeerTests(LedgerTest):
    """Everything a peer can do wrong; a good stream continues beside it, and memory stays bounded."""

    def setUp(self):
        super().setUp()
        self.receiver = self.site.receiver()
        self.good = let_in(self, self.site.port, "good")
        self.assertEqual(self.good.open("good-stream"), "AT 1 0")
        self.good_offset = 0

    def ship_good(self):
        """One batch on the good stream, and its acknowledgement."""
        raw = b"".join(self.made(3))
        self.good.batch("good-stream", raw, offset=self.good_offset)
        self.good_offset += len(raw)
        self.assertEqual(self.good.line(), f"ACK 1 {self.good_offset}")

    def finish(self):
        """The receiver is up and small, the good stream continues, and exactly the good lines are stored."""
        self.ship_good()
        self.assertLess(self.receiver.resident_mebibytes(), MEMORY_MEBIBYTES)
        self.assert_stored(self.receiver)

    def peer(self, agent="peer", stream="stream"):
        """A connection with one stream open, which knows nothing yet."""
        if agent:
            peer = let_in(self, self.site.port, agent)
            self.assertEqual(peer.open(stream), "AT 1 0")
        else:
            peer = Peer(self.site.port)
            self.addCleanup(peer.close)
        return peer

    def assert_closed(self, peer, code):
        lines = peer.lines_to_the_end()
        self.assertTrue(lines and lines[-1].startswith(f"ERR {code}"), lines)

    def assert_refused(self, code, raw=b'{"a":1}\n', **changes):
        """A batch is answered with `NAK`, the connection stays, and the stream can be opened again."""
        peer = self.peer()
        peer.batch("stream", raw, **changes)
        answer = peer.line()
        self.assertRegex(answer, f"^NAK 1 {changes.get('offset', 0)} {code}( |$)|^NAK 1 0 {code}( |$)")
        peer.send("PING 5")
        self.assertEqual(peer.line(), "PONG 5")
        self.assertEqual(peer.open("stream"), "AT 1 0")
        peer.close()

    def test_garbage_instead_of_a_handshake(self):
        """Bytes that are no message, another protocol, or another message first are named and closed."""
        for opening, code in (
                (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "syntax"),
                (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", "syntax"),
                (os.urandom(64).replace(b"\n", b"") + b"\n", "syntax"),
                (b"HELLO {}\n", "syntax"),
                (b"\n", "syntax"),
                (b"x" * 5000, "limit"),
                (b'PING 1\n', "order"),
                (b'HELLO {"protocol":[1],"agent":"a","instance":"1","accept":["zlib"]}\n'
                 b'OPEN 1 {"stream":"s","source":"/x","env":"prod","bundle":"b","format":"waybill"}\n', "order"),
                (b'HELLO  {"protocol":[1],"agent":"a","instance":"1","accept":["zlib"]}\n', "syntax"),
                (b'HELLO {"protocol":[1],"agent":"a\\u0000","instance":"1","accept":["zlib"]}\n', "syntax"),
                (b'HELLO {"protocol":[1],"agent":"a","instance":"\\ud800","accept":["zlib"]}\n', "syntax"),
                (b'HELLO {"protocol":[99],"agent":"a","instance":"1","accept":["zlib"]}\n', "version"),
                (b'HELLO {"protocol":[1],"agent":"a","instance":"1","accept":["brotli"]}\n', "version")):
            peer = self.peer(agent=None)
            peer.send(opening)
            self.assert_closed(peer, code)
        self.finish()

    def test_silence_and_trickling_are_closed_in_time(self):
        """A peer that says nothing, or one byte a second, is closed about 10 s after it came; others are not held up."""
        started = time.monotonic()
        silent, trickling = self.peer(agent=None), self.peer(agent=None)
        crowd = [self.peer(agent=None) for _ in range(200)]
        trickling.socket.settimeout(1)
        text, closed_after = b"HELLO " + b"x" * 100, None
        for byte in text:
            try:
                trickling.send(bytes([byte]))
                if trickling.socket.recv(1000).startswith(b"ERR timeout"):
                    closed_after = time.monotonic() - started
                    break
            except TimeoutError:
                self.ship_good()
            except OSError:
                closed_after = time.monotonic() - started
                break
            if time.monotonic() - started > patience(20):
                break
        self.assertIsNotNone(closed_after, "one byte a second keeps a connection")
        self.assertTrue(8 < closed_after < patience(15), closed_after)
        for peer in [silent, *crowd]:
            self.assert_closed(peer, "timeout")
        self.assertLess(time.monotonic() - started, patience(20))
        self.finish()

    def test_bombs(self):
        """Payloads that inflate to far more than they say, or say more than they can hold, cost no memory."""
        bomb = zlib.compress(bytes(200 << 20), 9)
        self.assert_refused("corrupt", payload=bomb, raw_count=2_000_000, lines=1)
        self.assert_refused("corrupt", payload=bomb, raw_count=100, lines=1)
        self.assert_refused("corrupt", payload=zlib.compress(b"x\n"), raw_count=2_000_000, lines=1)
        self.assert_refused("corrupt", payload=zlib.compress(bomb, 0), raw_count=len(bomb), lines=5)
        self.finish()

    def test_a_line_beyond_the_limit(self):
        """A batch with a line of more than 1 MiB is `too-large`."""
        self.assert_refused("too-large", b"x" * (1 << 20) + b"\n")
        self.finish()

    def test_nothing_but_a_seal_follows_the_end_of_the_last_line(self):
        """A last line without LF, and a torn end that was skipped: another batch or skip is refused, a seal is taken."""
        for is_skipped in (False, True):
            stream = f"end-{is_skipped}"
            peer, whole = self.peer(stream, stream), self.made(1)[0]
            source = whole + b'{"torn'
            peer.batch(stream, whole if is_skipped else source)
            if is_skipped:
                self.assertEqual(peer.line(), f"ACK 1 {len(whole)}")
                peer.send(skip(len(whole), len(source) - len(whole), "torn-tail", source))
            else:
                self.ledger.add([b'{"torn\n'])
            self.assertEqual(peer.line(), f"ACK 1 {len(source)}")
            for more in (batch(stream, b'":2}\n', offset=len(source)), [skip(len(source), 5, "truncated")]):
                peer.send(*more)
                self.assertRegex(peer.line(), f"^NAK 1 {len(source)} sealed")
                self.assertEqual(peer.open(stream), f"AT 1 {len(source)}")
            peer.send(f"SEAL 1 {len(source)}")
            self.assertEqual(peer.line(), "SEALED 1")
            peer.assert_proved(stream, source)
        self.finish()

    def test_two_agents_with_one_name(self):
        """A second process with a connected agent's name is kept out; the same process coming back replaces itself."""
        peer = self.peer("twin")
        other = self.peer(agent=None)
        self.assertTrue(other.hello("twin", "2").startswith("ERR agent-in-use"))
        self.assertEqual(other.lines_to_the_end(), [])
        back = self.peer(agent=None)
        self.assertTrue(back.hello("twin", "1").startswith("READY "))
        self.assertTrue(peer.line().startswith("ERR agent-in-use"))
        self.assertEqual(back.open("stream"), "AT 1 0")
        peer.close()
        back.send("PING 1")
        self.assertEqual(back.line(), "PONG 1")
        self.finish()

    def test_a_peer_that_never_reads(self):
        """Answers that no one takes pile up at the peer, not in the receiver."""
        deaf = self.peer("deaf")
        deaf.socket.setblocking(False)
        pings = b"".join(f"PING {number}\n".encode() for number in range(10_000, 20_000))
        sent = 0
        deadline = time.monotonic() + 5
        while sent < 100 << 20 and time.monotonic() < deadline:
            try:
                sent += deaf.socket.send(pings[sent % len(pings):])
            except BlockingIOError:
                if self.is_stuck(deaf):
                    break
        self.assertLess(sent, 100 << 20, "the receiver reads on though no one takes its answers")
        self.finish()

    def is_stuck(self, peer):
        """Whether the peer's socket takes nothing for half a second."""
        return not select.select([], [peer.socket], [], 0.5)[1]


class DataDirectoryTests(LedgerTest):
    """Data directories that cannot be used."""

    def refused(self, data, *arguments):
        result = run("receiver", "--data", data, "--listen", f"127.0.0.1:{free_port()}", *arguments, timeout=30)
        return result.returncode, (result.stderr + result.stdout).decode()

    def test_a_locked_directory_is_refused_with_the_owner(self):
        """A second receiver on one data directory ends with 75 and names the process that has it."""
        first = self.site.receiver()
        code, text = self.refused(self.site.data)
        self.assertEqual(code, 75, text)
        self.assertIn(str(first.child.pid), text)
        self.assertTrue(first.is_running)
        first.kill()
        again = self.site.receiver()
        self.assertEqual(again.stop(), 0)

    def test_a_start_after_a_kill_says_what_it_wrote_again(self):
        """The journal's last group is made durable anew before anything is answered, and the log says of how many bytes."""
        receiver = self.site.receiver(exports="none")
        self.assertNotIn("its last group", receiver.log())
        with Peer(self.site.port) as peer:
            peer.hello()
            peer.open("s")
            peer.batch("s", b"{}\n")
            self.assertEqual(peer.line(), "ACK 1 3")
            receiver.kill()
        receiver = self.site.receiver(exports="none")
        receiver.until_logged("the last group was written")
        told = next(json.loads(line) for line in receiver.log().splitlines() if "the last group was written" in line)
        self.assertGreater(told["bytes"], 0)
        self.assertEqual(receiver.stop(), 0)

    def test_a_path_that_is_a_file(self):
        """A data directory that is a file ends the start with a reason, and the file is untouched."""
        path = self.site.root / "file"
        path.write_text("mine")
        code, text = self.refused(path)
        self.assertIn(code, (74, 78), text)
        self.assertIn(str(path), text)
        self.assertEqual(path.read_text(), "mine")

    def test_a_directory_that_is_read_only(self):
        """A read-only file system ends the start with a reason."""
        path = self.site.mount("read-only", "4m")
        subprocess.run(["mount", "-o", "remount,ro", path], check=True)
        code, text = self.refused(path / "data")
        self.assertIn(code, (74, 78), text)
        self.assertIn("read-only", text.lower())

    def test_usage_and_configuration_errors(self):
        """Unknown exports, zones and addresses are usage; a bad file is configuration."""
        for arguments in (["--exports", "fax"], ["--zone", "Mars/Phobos"], ["--listen", "nowhere"]):
            self.assertEqual(run("receiver", "--data", self.site.data, *arguments).returncode, 64, arguments)
        self.assertEqual(run("receiver").returncode, 64)
        self.assertEqual(run("receiver", "--config", "/nowhere.yaml").returncode, 78)


class FullDiskTests(LedgerTest):
    """A disk that fills up under the receiver and is freed again."""

    def test_kills_on_a_full_disk_lose_nothing(self):
        """A receiver that is killed while its disk is full starts again when there is room, with every acknowledged line."""
        disk = self.site.mount("disk", "48m")
        receiver = self.site.receiver(exports="csv", data=disk / "data")
        self.maker.spool(self.site.spool, self.ledger, 3_000_000)
        self.site.once()
        ballast = fill_up(disk)
        self.maker.spool(self.site.spool, self.ledger, 3_000_000)
        agent = self.site.agent()
        receiver.until_logged("could not", 60)
        receiver.kill()
        full = self.site.start(
            "receiver", "--data", disk / "data", "--listen", self.site.address, "--exports", "csv", log="full.log")
        until(lambda: not full.is_running or self.site.is_listening(), 30, "it starts or says why not")
        if full.is_running:
            full.kill()
        ballast.unlink()
        receiver = self.site.receiver(exports="csv", data=disk / "data")
        until(lambda: not any(self.site.spool.iterdir()), 90, "the agent continues by itself")
        self.stop_all(agent)
        self.assert_stored(receiver, data=disk / "data")
