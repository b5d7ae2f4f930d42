"""Holds the program and an independent implementation against each other: codec, and both directions, interrupted."""

import collections
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time
import unittest
import zlib

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "Tools"), str(REPOSITORY / "Tests" / "EndToEndTests")]

from harness import SiteTest, until  # noqa: E402
from ledger import EventMaker, Ledger, archived, quarantined  # noqa: E402
from peers import Listener, Proxy, Session, Streams, proof  # noqa: E402
from waybill_peer import wire  # noqa: E402

PEER = REPOSITORY / "Tools" / "waybill.py"


def vectors(name):
    with open(REPOSITORY / "Protocol" / "vectors" / "protocol" / name, encoding="ascii") as file:
        return [json.loads(line) for line in file]


def foreign_lines(count, seed=5):
    """Lines that hardly compress, so that they come in many reads; some are no events."""
    made = random.Random(seed)
    lines = []
    for number in range(count):
        text, ts = made.randbytes(made.randrange(20, 400)).hex(), f"2026-11-20T09:15:00.{number % 1000:03d}Z"
        lines.append(f'{{"ts":"{ts}","name":"n","line":{number},"x":"{text}"}}\n'.encode())
        if number % 500 == 250:
            lines[-1] = b"not JSON %d %s\n" % (number, text.encode())
    return lines


class Liar(Listener):
    """A false receiver: `lie(session, words)` gives the lines that answer a message; counts what it is asked for."""

    def __init__(self, lie, **ready):
        self.lie, self.ready, self.opens = lie, ready, collections.Counter()
        super().__init__(self.meet)

    def meet(self, connected):
        session = Session(connected)
        session.handshake(**self.ready)
        while words := session.message():
            if words[0] == "OPEN":
                self.opens[session.names[words[1]]] += 1
            session.send(*self.lie(session, words))


def lies(path):
    """Name → how a receiver that was not sent the file answers, so that it would be deleted or moved on."""
    content, stream = path.read_bytes(), path.stem
    size = len(content)

    def opened(at, sealed=None, offset=size):
        """Answers each `OPEN` with this proof for this offset, and with `SEALED` at once."""
        def lie(_session, words):
            if words[0] != "OPEN":
                return []
            return [f"AT {words[1]} {offset} {at} 0", *([f"SEALED {words[1]} {sealed} 0"] if sealed else [])]
        return lie

    def taken(sealed):
        """Takes and acknowledges everything like an honest one, and seals with this proof."""
        streams = Streams()

        def lie(session, words):
            if words[0] not in ("OPEN", "BATCH", "SKIP", "SEAL"):
                return []
            answers = streams.answers(session, words)
            return [f"SEALED {words[1]} {sealed} 0"] if words[0] == "SEAL" else answers
        return lie

    digest, line_ends = "5eed" * 8, b"\n" * 512
    whole = proof(stream, size, content[-512:])
    return {
        "beyond its end": opened(f"512 {digest}", f"512 {digest}", 99_999_999),
        "at its end, with a proof of nothing": opened("0 -", "0 -"),
        "at its end, with a digest at random": opened(f"512 {digest}", f"512 {digest}"),
        "at its end, with a proof of its last byte": opened(
            proof(stream, size, b"\n"), proof(stream, size, b"\n")),
        "at its end, with a proof of line ends": opened(
            proof(stream, size, line_ends), proof(stream, size, line_ends)),
        "at its end, with a proof of another id": opened(
            proof("b", size, content[-512:]), proof("b", size, content[-512:])),
        "at its beginning, sealed": opened("0 -", "0 -", 0),
        "at its beginning, sealed with a digest": opened("0 -", f"512 {digest}", 0),
        "in its middle, with the proof of its end": opened(whole, whole, size // 2),
        "acknowledged, and sealed with a proof of nothing": taken("0 -"),
        "acknowledged, and sealed with a digest at random": taken(f"512 {digest}"),
        "acknowledged, and sealed with a proof of its last byte": taken(proof(stream, size, b"\n")),
    }


class VectorTests(unittest.TestCase):
    """Protocol/vectors/protocol, against the Python codec."""

    def test_good_lines_are_read_and_written(self):
        """Each good line gives its message, and the message gives the line."""
        for row in vectors("good.ndjson") + [row for row in vectors("journal.ndjson") if "message" in row]:
            with self.subTest(row["name"]):
                self.assertEqual(wire.decode(row["line"].encode("ascii")), row["message"])
                self.assertEqual(wire.encode(row["message"]).decode("ascii"), row.get("encoded", row["line"]) + "\n")

    def test_bad_lines_are_refused(self):
        """Each bad line is refused, for the reason that the vector names."""
        for row in vectors("bad.ndjson") + [row for row in vectors("journal.ndjson") if "error" in row]:
            with self.subTest(row["name"]):
                line = row["line"].encode("ascii") if "line" in row else bytes.fromhex(row["hex"])
                with self.assertRaises(wire.Refused) as refused:
                    wire.decode(line)
                self.assertEqual(str(refused.exception), row["error"])

    def test_each_row_has_a_name_of_its_own(self):
        for file in ("good", "bad", "journal", "proofs", "batches"):
            names = [row["name"] for row in vectors(f"{file}.ndjson")]
            self.assertEqual(len(set(names)), len(names), file)

    def test_proofs_are_of_the_bytes_below_an_offset(self):
        """Each row's digest is that of its id, its offset and its bytes."""
        for row in vectors("proofs.ndjson"):
            with self.subTest(row["name"]):
                tail = bytes.fromhex(row["tail"])
                self.assertEqual(wire.digest(row["stream"], row["offset"], tail), row["digest"])
                self.assertLessEqual(len(tail), wire.tail_length(row["offset"]))

    def test_batches_are_checked_whole(self):
        """Each batch gets its verdict, and a good one gives its bytes."""
        for row in vectors("batches.ndjson"):
            with self.subTest(row["name"]):
                raw, verdict = None, "ok"
                try:
                    batch = wire.decode(row["line"].encode("ascii"))
                    raw = wire.inflate_batch(row["id"], batch, bytes.fromhex(row["payload"])).hex()
                except wire.Refused as refused:
                    verdict = str(refused)
                self.assertEqual((verdict, raw), (row["verdict"], row.get("raw")))


class Relay(Proxy):
    """A proxy that interrupts: connection i carries `allowances[i]` bytes towards the receiver, then `interrupt` is called and
    the connection cut; connections beyond the list are left alone."""

    def __init__(self, target, allowances, interrupt=lambda: None):
        self.allowances, self.interrupt, self.cuts = list(allowances), interrupt, 0
        super().__init__(port_of(target), self.limit)

    def limit(self, passage, direction, _words, data):
        if direction == "<" or passage.index >= len(self.allowances):
            return data
        self.allowances[passage.index] -= len(data)
        if self.allowances[passage.index] > 0:
            return data
        passage.receiver.sendall(data[:self.allowances[passage.index] or None])
        self.interrupt()
        self.cuts += 1
        return None


def port_of(address):
    return int(address.rpartition(":")[2])


class PeerTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.children = []
        self.addCleanup(lambda: [self.end(child) for child in self.children])

    @staticmethod
    def end(child):
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()

    def peer(self, *arguments):
        child = subprocess.Popen([sys.executable, "-B", PEER, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def relay(self, *arguments):
        relay = Relay(*arguments)
        self.addCleanup(relay.close)
        return relay


class SendTests(PeerTest):
    """The Python client against the real receiver."""

    def setUp(self):
        super().setUp()
        self.lines = foreign_lines(12_000)
        self.file = self.site.root / "web.ndjson"
        self.file.write_bytes(b"".join(self.lines))

    def sending(self, to, *options):
        return self.peer(
            "send", "--to", to, "--stream", "web-01-a", "--env", "prod", "--bundle", "com.example.web", "--format",
            "ndjson", "--time-member", "ts", "--name-member", "name", "--user-member", "login", "--anonymous-member",
            "cookie", *options, self.file)

    def summary(self, child):
        """What a client printed; it must have ended well."""
        output, _ = child.communicate(timeout=50)
        self.assertEqual(child.returncode, 0, output)
        return json.loads(output)

    def assert_stored(self, receiver, lines):
        """One partition and one day of quarantine hold the lines, byte for byte and in order."""
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(list(archived(self.site.data)), [line for line in lines if line.startswith(b"{")])
        self.assertEqual(quarantined(self.site.data), {"not-json": [line for line in lines if line.startswith(b"not")]})
        for sources in self.site.data.rglob("*.sources"):
            described = json.loads(sources.read_bytes().split(b"\n", 1)[0].split(b" ", 2)[2])
            self.assertEqual([described[key] for key in ("time", "name", "user", "anonymous")],
                             ["ts", "name", "login", "cookie"])

    def test_a_file_arrives_over_connections_that_break(self):
        """Cut in the handshake and twice in batches, the client continues where the receiver stands."""
        receiver = self.site.receiver(exports="none")
        relay = self.relay(self.site.address, (50, 700_000, 1_100_000))
        summary = self.summary(self.sending(relay.address))
        self.assertEqual(relay.cuts, 3)
        # The connection that broke in the handshake does not count.
        self.assertEqual((summary["connections"], summary["sealed"]), (3, True))
        self.assertEqual(summary["acked"], self.file.stat().st_size)
        self.assert_stored(receiver, self.lines)

    def test_a_killed_client_resumes(self):
        """SIGKILL in the middle of a batch; the next run begins behind what is held, and a third ships nothing."""
        receiver = self.site.receiver(exports="none")
        relay = self.relay(self.site.address, (1_500_000,), lambda: self.end(child))
        child = self.sending(relay.address)
        until(lambda: relay.cuts == 1, 20, "the client is killed")
        size = self.file.stat().st_size
        summary = self.summary(self.sending(self.site.address))
        self.assertTrue(0 < summary["first_at"] < size, summary)
        self.assertEqual(summary["first_at"] + summary["bytes"], size)
        again = self.summary(self.sending(self.site.address))
        self.assertEqual((again["first_at"], again["bytes"], again["sealed"]), (size, 0, True))
        self.assert_stored(receiver, self.lines)

    def test_a_file_of_other_bytes_under_the_same_id(self):
        """The proof does not agree: nothing is sent and nothing deleted, until the file is shipped under its own id."""
        receiver = self.site.receiver(exports="none")
        self.summary(self.sending(self.site.address))
        others = foreign_lines(50, seed=6)
        self.file.write_bytes(b"".join(others))
        refused = self.sending(self.site.address)
        output, _ = refused.communicate(timeout=50)
        self.assertEqual((refused.returncode, json.loads(output)["bytes"]), (65, 0), output)
        for count in (len(b"".join(others)), 0):
            summary = self.summary(self.sending(self.site.address, "--reship"))
            self.assertEqual((summary["bytes"], summary["sealed"]), (count, True))
            self.assertRegex(summary["stream"], "^web-01-a:[0-9a-f]{16}$")
        self.assert_stored(receiver, self.lines + others)

    def test_a_file_that_is_rewritten_goes_on_in_another_stream(self):
        """From the first incarnation to the first unknown one: what agrees furthest continues, and nothing comes twice."""
        receiver, others = self.site.receiver(exports="none"), foreign_lines(50, seed=6)
        for lines, stream, first_at in (
                (self.lines[:9_000], "web-01-a-0", 0), (self.lines[:9_000], "web-01-a-0", None), (others, "web-01-a-1", 0),
                # Sealed, and yet there is more of it: what the first stream holds is not sent again.
                (self.lines, "web-01-a-2", 0), (others, "web-01-a-1", None), (self.lines, "web-01-a-2", None)):
            raw = b"".join(lines)
            self.file.write_bytes(raw)
            summary = self.summary(self.sending(self.site.address, "--walk"))
            self.assertEqual((summary["stream"], summary["sealed"]), (stream, True))
            self.assertEqual(summary["first_at"], len(raw) if first_at is None else first_at)
        stored = [*self.lines[:9_000], *others, *self.lines[9_000:]]
        self.assert_stored(receiver, stored)

    def test_a_last_line_without_its_end_and_a_long_line(self):
        """The last line gets its LF in the archive; a line beyond the limit is given up and the others arrive."""
        last = b'{"ts":"2026-11-20T09:15:00.000Z","name":"last"}'
        long = b'{"ts":"2026-11-20T09:15:00.000Z","name":"%s"}\n' % (b"x" * (1 << 20))
        self.file.write_bytes(b"".join(self.lines[:9]) + long + b"".join(self.lines[9:99]) + last)
        receiver = self.site.receiver(exports="none")
        summary = self.summary(self.sending(self.site.address))
        self.assertEqual(summary["skipped_bytes"], len(long))
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(list(archived(self.site.data)), [*self.lines[:99], last + b"\n"])

    def test_the_journal_can_be_inspected(self):
        """Every frame of the receiver's journal verifies; with one bit turned all others still do."""
        receiver = self.site.receiver(exports="none")
        self.summary(self.sending(self.site.address))
        self.assertEqual(receiver.stop(), 0)
        segment = sorted((self.site.data / "journal").glob("*.journal"))[-1]
        inspect = self.peer("inspect-journal", segment)
        output, _ = inspect.communicate(timeout=20)
        batches = sum(" BATCH " in line for line in output.splitlines())
        self.assertEqual(inspect.returncode, 0, output)
        self.assertTrue(output.endswith(" frames, 1 streams, 0 damaged bytes\n"), output)
        self.assertGreater(batches, 2)
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        damaged = self.site.root / segment.name
        damaged.write_bytes(content)
        inspect = self.peer("inspect-journal", damaged)
        output, _ = inspect.communicate(timeout=20)
        self.assertEqual((inspect.returncode, output.count("DAMAGED")), (1, 1), output)
        self.assertEqual(sum(" BATCH " in line for line in output.splitlines()), batches - 1)


class LieTests(PeerTest):
    """The Python client and receivers that hold nothing of what they say (protocol.md, sections 8 and 9)."""

    def test_the_client_believes_no_lie(self):
        """A proof of too few bytes, of other bytes, of another id, or none: it gives up, and the file stays as it was."""
        path = self.site.root / "8f14e45fceea167a-00000000000000000001.ndjson"
        content = b"".join(foreign_lines(200))
        path.write_bytes(content)
        for name, lie in lies(path).items():
            with self.subTest(name):
                liar = Liar(lie)
                self.addCleanup(liar.close)
                child = self.peer(
                    "send", "--to", liar.address, "--stream", path.stem, "--env", "prod", "--bundle", "com.example.web",
                    path)
                output, _ = child.communicate(timeout=50)
                self.assertEqual((child.returncode, path.read_bytes() == content), (65, True), output)
                self.assertIn("other bytes", json.loads(output)["error"])


class SealedTests(PeerTest):
    """A stream sealed in an earlier session (protocol.md, section 6.2): what the agent had sent by then is ignored."""

    def session(self, agent):
        """A connection behind its handshake."""
        connected = socket.create_connection(wire.address(self.site.address), 5)
        self.addCleanup(connected.close)
        connection = wire.Connection(connected, wire.FROM_RECEIVER)
        connection.send("HELLO", protocol=[1], agent=agent, instance=agent, accept=["zlib"])
        self.assertEqual(self.next_message(connection)["type"], "READY")
        return connection

    def next_message(self, connection):
        return connection.message(time.monotonic() + 10)

    def exchange(self, connection, *messages):
        """Sends messages and a PING behind them; returns the words of the answers up to its PONG."""
        answers = []
        try:
            for word, payload, fields in [*messages, ("PING", b"", {"value": 7})]:
                connection.send(word, payload, **fields)
            while not answers or answers[-1] != "PONG":
                answers.append((self.next_message(connection) or {"type": "silence"})["type"])
        except wire.Closed:
            return [*answers, "closed"]
        return answers[:-1]

    def test_what_was_in_flight_is_ignored(self):
        """BATCH, SKIP and SEAL behind `AT` and `SEALED` get no answer, and the connection lives."""
        self.site.receiver(exports="none")
        identity = {"stream": "a", "source": "a", "env": "prod", "bundle": "com.example.web", "format": "ndjson"}
        opening = ("OPEN", b"", {"number": 1, **identity})
        seal = ("SEAL", b"", {"number": 1, "offset": 0})
        first = self.session("first")
        self.assertEqual(self.exchange(first, opening)[0], "AT")
        first.send("SEAL", number=1, offset=0)
        self.assertEqual(self.next_message(first)["type"], "SEALED")

        second = self.session("second")
        self.assertEqual(self.exchange(second, opening), ["AT", "SEALED"])
        payload = zlib.compress(b"{}\n")
        batch = {"offset": 0, "raw": 3, "lines": 1, "wire": len(payload)}
        crc = wire.checksum("a", batch, payload)
        skip = ("SKIP", b"", {"number": 1, "offset": 0, "length": 9, "reason": "truncated", "tail": None})
        late = [("BATCH", payload, {"number": 1, "crc": crc, **batch}), skip, seal]
        self.assertEqual(self.exchange(second, *late), [])

    def test_the_tail_of_a_hole_is_nul(self):
        self.site.receiver(exports="none")
        identity = {"stream": "a", "source": "a", "env": "prod", "bundle": "com.example.web", "format": "ndjson"}
        opening = ("OPEN", b"", {"number": 1, **identity})
        hole = {"number": 1, "offset": 0, "length": 600, "reason": "hole"}
        session = self.session("hole")
        self.assertEqual(self.exchange(session, opening)[0], "AT")
        for place in (0, 511):
            tail = bytes(place) + b"x" + bytes(511 - place)
            session.send("SKIP", **hole, tail=tail.hex())
            self.assertEqual(self.next_message(session)["code"], "not-allowed")
            self.assertEqual(self.exchange(session, opening)[0], "AT")
        session.send("SKIP", **hole, tail=bytes(512).hex())
        self.assertEqual(self.next_message(session)["type"], "ACK")


class ReceiveTests(PeerTest):
    """The real agent against the Python receiver."""

    def setUp(self):
        super().setUp()
        self.maker = EventMaker(11)
        self.folder = self.site.root / "log"
        self.folder.mkdir()
        for number in range(3):
            (self.folder / f"{number}.json").write_bytes(b"".join(foreign_lines(3_000, number)))
        for _ in range(3):
            self.maker.spool(self.site.spool, Ledger(), 1_500_000, 400_000)
        self.segments = {path.stem: path.read_bytes() for path in self.site.spool.glob("*.ndjson")}
        self.files = sorted(path.read_bytes() for path in self.folder.iterdir())
        self.directory = self.site.root / "received"

    def receiving(self):
        """Starts a receiver; returns it with its address."""
        child = self.peer("receive", "--listen", "127.0.0.1:0", "--directory", self.directory)
        return child, json.loads(child.stdout.readline())["listening"]

    def ship(self, to):
        """One round of the agent; returns its summary."""
        process = self.site.start(
            "agent", "--once", "--state", self.site.state, "--to", to, "--spool", self.site.spool, "--glob",
            self.folder / "*.json", "--env", "prod", "--bundle", "com.example.web", log="agent.log")
        self.assertEqual(process.wait(50), 0, process.log()[-1500:])

    def assert_received(self):
        """Each stream's file is its source, byte for byte, and every acknowledged segment was deleted."""
        received = {path.name.removesuffix(".bytes"): path.read_bytes() for path in self.directory.glob("*.bytes")}
        segments = {name: received.pop(name, None) for name in self.segments}
        self.assertEqual({name for name in segments if segments[name] != self.segments[name]}, set())
        self.assertTrue(sorted(received.values()) == self.files, {name: len(held) for name, held in received.items()})
        self.assertEqual(list(self.site.spool.glob("*.ndjson")), [])

    def test_spool_and_files_arrive(self):
        """Every segment and every file is there, byte for byte; a second round sends nothing more."""
        _, to = self.receiving()
        self.ship(to)
        self.assert_received()
        log = (self.directory / "offsets.log").read_bytes()
        self.ship(to)
        self.assert_received()
        self.assertEqual((self.directory / "offsets.log").read_bytes(), log)

    def test_a_receiver_that_is_killed_gets_nothing_twice(self):
        """SIGKILL three times in the middle, then a lost registry: no byte is missing and none is there twice."""
        def replace():
            self.end(self.current)
            self.current, to = self.receiving()
            relay.target = port_of(to)

        self.current, to = self.receiving()
        relay = self.relay(to, (300_000, 500_000, 200_000), replace)
        self.ship(relay.address)
        self.assertEqual(relay.cuts, 3)
        self.assert_received()
        os.rename(self.site.state, self.site.root / "lost")
        self.ship(relay.address)
        self.assert_received()
