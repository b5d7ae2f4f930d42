"""Tunnels of the door that break rules, end, or cost as much as they can, and others beside them."""

import contextlib
import itertools
import random
import re
import signal
import socket
import struct
import threading
import time

from harness import patience, until
from peers import Listener
from scale import SEED
from test_ingest_line import AWAY, NORMAL, LineDoor, LineTest
from tunnels import BINARY, CLOSE, FRAME_MAX, PING, PONG, TEXT, Tunnel, frame
from wire import Peer, batch

PROTOCOL, UNACCEPTABLE, POLICY, TOO_BIG = 1002, 1003, 1008, 1009


def fill(tunnel, data, bytes_max=64 << 20):
    """Sends the same again and again until nothing is taken for a while; returns how many bytes were, and the rest of the
    frame that was begun."""
    tunnel.socket.settimeout(patience(0.5))
    sent = 0
    for _ in range(bytes_max // len(data)):
        view = memoryview(frame(BINARY, data))
        while view:
            try:
                count = tunnel.socket.send(view)
            except TimeoutError:
                return sent, bytes(view)
            sent += count
            view = view[count:]
    raise AssertionError(f"{sent} bytes were taken, and nothing is read")


class HonestTest(LineTest):
    """An honest agent beside others."""

    def setUp(self):
        super().setUp()
        self.site_of()
        self.honest, self.offset = self.through(agent="honest"), 0
        self.assertEqual(self.honest.open("honest"), "AT 1 0")

    def ship_honest(self, count=3):
        self.offset = self.ship(self.honest, self.made(count), "honest", self.offset)


class FrameTests(HonestTest):
    """Frames that break the rules end their tunnel with a code, and no other."""

    def test_violations_and_their_codes(self):
        cases = (
            (UNACCEPTABLE, frame(TEXT, b"PING 1\n")),
            (PROTOCOL, frame(BINARY, b"PING 1\n", is_masked=False)),
            (PROTOCOL, frame(PING, b"x", is_masked=False)),
            (PROTOCOL, frame(BINARY, b"PING 1\n", reserved=4)),
            (PROTOCOL, frame(BINARY, b"PING 1\n", reserved=2)),
            (PROTOCOL, frame(BINARY, b"PING 1\n", reserved=1)),
            (PROTOCOL, frame(0x3, b"PING 1\n")),
            (PROTOCOL, frame(0xB, b"PING 1\n")),
            (PROTOCOL, frame(PING, b"x" * 126)),
            (PROTOCOL, frame(PING, b"x", is_last=False)),
            (TOO_BIG, frame(BINARY, b"\n" * (FRAME_MAX + 1))),
            (TOO_BIG, frame(BINARY, b"x", length=1 << 20)),
            (TOO_BIG, frame(BINARY, b"x", length=1 << 40)),
            (TOO_BIG, frame(BINARY, b"x", length=(1 << 63) - 1)))
        tunnels = [self.through(agent=f"bad-{number}").socket for number in range(len(cases))]
        for tunnel, (_, data) in zip(tunnels, cases):
            tunnel.socket.sendall(data + frame(BINARY, b"PING 9\n"))
        self.ship_honest()
        for tunnel, (code, data) in zip(tunnels, cases):
            with self.subTest(head=data[:10].hex()):
                self.assertEqual(tunnel.end(), (b"", code))
        self.ship_honest()
        self.assert_ended(len(cases), reason="frames")
        until(lambda: len(self.entries("disconnected")) == len(cases), 20, "the receiver's connections ended")
        self.assert_stored(self.process)

    def test_a_length_of_64_bits_with_the_highest_one_set(self):
        tunnel = self.through(agent="bad").socket
        tunnel.socket.sendall(frame(BINARY, b"x", length=1 << 63))
        self.assertIn(tunnel.end()[1], (PROTOCOL, TOO_BIG))
        self.assertTrue(self.door.process.is_running)
        self.ship_honest()

    def test_some_pings_are_answered_and_a_flood_of_them_ends_its_tunnel(self):
        peer = self.through()
        tunnel, sent = peer.socket, [b"", *(b"%d" % number for number in range(9)), b"x" * 125]
        for payload in sent:
            tunnel.send_frame(PING, payload)
        peer.send("PING 5")
        self.assertEqual(peer.line(), "PONG 5")
        until(lambda: tunnel.pongs == sent or peer.send("PING 6") or not peer.line(), 10, "each has its pong")
        for opcode in (PING, PONG):
            flooding = self.through(agent=f"flood-{opcode}").socket
            flooding.socket.sendall(frame(opcode, b"x") * 2000)
            self.assertEqual(flooding.end()[1], POLICY)
            self.assertLessEqual(len(flooding.pongs), 16)
        self.assert_ended(2, reason="frames")
        self.ship_honest()

    def test_a_frame_that_is_never_whole(self):
        """Frames are passed on as they come or once they are whole; a cut one stores nothing of itself."""
        peer = self.through()
        self.assertEqual(peer.open("s-1"), "AT 1 0")
        data = b"\n".join(piece if isinstance(piece, bytes) else piece.encode() for piece in batch("s-1", b'{"cut":1}\n' * 50))
        peer.socket.socket.sendall(frame(BINARY, data)[:len(data) // 2])
        peer.close()
        self.assert_ended(1, reason="agent")
        self.ship_honest()
        self.assert_stored(self.process)

    def test_random_bytes_after_the_handshake(self):
        chance = random.Random(SEED)
        for number in range(40):
            tunnel = self.tunnel()
            with contextlib.suppress(OSError):
                tunnel.socket.sendall(chance.randbytes(chance.randrange(1, 4000)))
                tunnel.socket.shutdown(socket.SHUT_WR)
            tunnel.end()
            if number % 10 == 0:
                self.ship_honest()
        self.assertTrue(self.door.process.is_running)
        until(lambda: self.door.metric("s") == 1, 20, "all others ended")
        self.assert_stored(self.process)


class EndTests(LineTest):
    """Each end of a tunnel ends the other one, and what was said last is heard."""

    def end_of(self, peer):
        """The last lines, the code of Close, and after how long the connection ended."""
        start = time.monotonic()
        lines = peer.lines_to_the_end()
        self.assertIsNone(peer.socket.frame())
        return lines, peer.socket.code, time.monotonic() - start

    def test_what_the_receiver_said_last_comes_before_close(self):
        self.site_of()
        early = self.stranger()
        early.send('OPEN 1 {"stream":"s-1","source":"/x","env":"prod","bundle":"b","format":"waybill"}')
        lines, code, _ = self.end_of(early)
        self.assertRegex(lines[-1], "^ERR order ")
        self.assertEqual((len(lines), code), (1, NORMAL))
        peer = self.through()
        peer.send("OPEN nonsense")
        lines, code, _ = self.end_of(peer)
        self.assertRegex(lines[-1], "^ERR syntax ")
        self.assertEqual(code, NORMAL)
        self.assert_ended(2, reason="receiver")
        # Whatever was under way.
        peer, offset = self.through(), 0
        self.assertEqual(peer.open("s-1"), "AT 1 0")
        for _ in range(20):
            raw = self.made(200)
            peer.batch("s-1", raw, offset=offset)
            offset += len(raw)
        self.assertRegex(peer.line(), "^ACK 1 ")
        while peer.line() != f"ACK 1 {offset}":
            pass
        peer.send("BYE")
        self.assertEqual(self.end_of(peer)[:2], (["BYE"], NORMAL))
        peer = self.through()
        self.assertEqual(self.process.stop(), 0)
        self.assertEqual(self.end_of(peer)[:2], (["BYE"], NORMAL))
        self.assert_each_once()

    def test_a_receiver_that_is_killed_ends_the_tunnel(self):
        self.site_of()
        peers = [self.through(), self.stranger()]
        self.process.kill()
        for peer in peers:
            lines, code, seconds = self.end_of(peer)
            self.assertEqual((lines, code), ([], NORMAL))
            self.assertLess(seconds, patience(5))
        self.assert_ended(2, reason="receiver")
        self.assertEqual(self.door.metric("s"), 0)

    def test_an_agent_that_leaves_ends_the_receivers_connection(self):
        self.site_of()
        for number, leave in enumerate((
                lambda tunnel: tunnel.close(), lambda tunnel: tunnel.say_close(), lambda tunnel: tunnel.send_frame(CLOSE),
                lambda tunnel: tunnel.socket.shutdown(socket.SHUT_WR))):
            peer, start = self.through(agent=f"app-{number}"), time.monotonic()
            leave(peer.socket)
            until(lambda: len(self.entries("disconnected")) == number + 1, 5, "the receiver knows it")
            self.assertLess(time.monotonic() - start, patience(5))
            if number in (1, 2):
                self.assertEqual(peer.socket.end(), (b"", NORMAL))
            self.assert_ended(number + 1, reason="agent")

    def test_a_side_that_takes_nothing_ends_with_the_other(self):
        """An agent that reads nothing, of which the receiver is killed; and a receiver that stands still, of which the
        agents leave."""
        self.site_of()
        deaf = [self.through(agent=f"deaf-{number}", options={"room": 4096}) for number in range(3)]
        for peer in deaf:
            fill(peer.socket, b"PING 123456789\n" * 4000)
        files = len(self.sockets())
        self.process.kill()
        until(lambda: len(self.sockets()) <= files - 6, 5, "both sides are closed")
        self.assertEqual(self.door.metric("s"), 0)
        self.restart()
        peers = [self.through(agent=f"app-{number}") for number in range(3)]
        self.process.child.send_signal(signal.SIGSTOP)
        try:
            for peer in peers:
                fill(peer.socket, b"PING 1\n" * 9000)
            files = len(self.sockets())
            for peer in peers:
                # With a reset: an end that is in order would come behind what the door cannot take.
                peer.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
            until(lambda: len(self.sockets()) <= files - 6, 5, "both sides are closed")
            self.assertEqual(self.door.metric("s"), 0)
        finally:
            self.process.child.send_signal(signal.SIGCONT)
        until(lambda: len(self.entries("disconnected")) == 3, 20, "the receiver knows it")

    def sockets(self):
        return [name for name in self.door.process.open_files() if name.startswith("socket:")]

    def test_what_was_sent_before_close_arrives_whole(self):
        received = []

        def collect(connected):
            with connected.makefile("rb") as reader:
                received.append(reader.read())

        listener = Listener(collect)
        self.addCleanup(listener.close)
        self.door = LineDoor(self.site, listener.address).start()
        sent = random.Random(SEED).randbytes(900_000)
        for number, leave in enumerate((Tunnel.say_close, Tunnel.close)):
            tunnel = self.tunnel()
            tunnel.sendall(sent)
            leave(tunnel)
            until(lambda: len(received) == number + 1, 20, "the receiver's connection ended")
            self.assertTrue(received[number][35:] == sent, f"{len(received[number])} bytes arrived")

    def test_a_door_that_stops_says_so(self):
        self.site_of()
        peer, start = self.through(), time.monotonic()
        self.door.process.terminate()
        lines, code, _ = self.end_of(peer)
        self.assertEqual((lines, code), ([], AWAY))
        self.assertEqual(self.door.process.wait(), 0)
        self.assertLess(time.monotonic() - start, patience(10))
        until(lambda: self.entries("disconnected"), 20, "the receiver knows it")

    def test_no_ready_in_time_ends_the_tunnel(self):
        """A receiver that accepts and says nothing, and one that says anything else."""
        def answer(connected):
            with connected.makefile("rb") as reader:
                reader.read(35)
                connected.sendall(b"PING 0\n" if listener.sockets.index(connected) else b"")
                reader.read()

        listener = Listener(answer)
        self.addCleanup(listener.close)
        self.door = LineDoor(self.site, listener.address).start()
        start, tunnels = time.monotonic(), [self.tunnel() for _ in range(2)]
        for tunnel, said in zip(tunnels, (b"", b"PING 0\n")):
            self.assertEqual(tunnel.end(30), (said, AWAY))
        self.assertTrue(14.5 < time.monotonic() - start < 15 + patience(5))
        self.assert_ended(2, reason="handshake")


class HostileTests(HonestTest):
    """Tunnels that cost as much as they can beside an honest one: bounded, counted, and the honest one is unaffected."""

    MEBIBYTES = 8

    def test_an_agent_that_reads_nothing_does_not_grow_the_door(self):
        """It is not read from either, once its answers have no place."""
        pings = b"PING 123456789\n" * 4000
        greedy = [self.through(agent=f"greedy-{number}", options={"room": 4096}) for number in range(4)]
        self.ship_honest()
        before = self.door.process.resident_mebibytes()
        rests = []
        for peer in greedy:
            sent, rest = fill(peer.socket, pings)
            rests.append((peer, sent + len(rest), rest))
            self.ship_honest()
        grown = self.door.process.resident_mebibytes() - before
        print(f"tunnels: 4 that read nothing took {sum(sent for _, sent, _ in rests) >> 20} MiB; the door grew by {grown:.1f} MiB")
        self.assertLess(grown, self.MEBIBYTES)
        # One that reads again gets each answer.
        peer, sent, rest = rests[0]
        count = sent // len(frame(BINARY, pings)) * 4000
        peer.socket.settimeout(patience(30))
        threading.Thread(target=peer.socket.socket.sendall, args=[rest], daemon=True).start()
        for _ in range(count):
            self.assertEqual(peer.line(), "PONG 123456789")
        self.ship_honest()
        self.assert_stored(self.process)

    def test_a_receiver_that_reads_nothing_does_not_grow_the_door(self):
        greedy = [self.through(agent=f"greedy-{number}") for number in range(4)]
        self.ship_honest()
        before = self.door.process.resident_mebibytes()
        self.process.child.send_signal(signal.SIGSTOP)
        try:
            counts = [fill(peer.socket, b"PING 1\n" * 9000)[0] for peer in greedy]
            grown = self.door.process.resident_mebibytes() - before
        finally:
            self.process.child.send_signal(signal.SIGCONT)
        print(f"tunnels: {sum(counts) >> 20} MiB to a receiver that stands still; the door grew by {grown:.1f} MiB")
        self.assertLess(grown, self.MEBIBYTES)
        self.ship_honest()
        self.assert_stored(self.process)

    def test_tunnels_without_hello_beside_an_honest_one(self):
        silent = [self.tunnel(source="127.0.0.2") for _ in range(150)]
        for tunnel in silent[::2]:
            tunnel.sendall(b"HELLO {")
        for _ in range(20):
            self.ship_honest()
        self.through("rival", "newcomer").close()
        for tunnel in silent:
            said, code = tunnel.end(30)
            self.assertRegex(said, b"^ERR timeout ")
            self.assertEqual(code, NORMAL)
        until(lambda: self.door.metric("s") == 1, 20, "the honest one is left")
        self.assert_stored(self.process)

    def test_floods_of_handshakes_and_of_bad_batches_hold_up_nobody(self):
        ends, bad, problems = threading.Event(), batch("s", b"{}\n" * 60_000, crc=1), []

        def repeat(attack):
            for turn in itertools.count():
                if ends.is_set():
                    return
                try:
                    attack(turn)
                except OSError:
                    pass
                except BaseException as problem:
                    problems.append(problem)
                    return

        def come_and_go(turn):
            headers = ({}, {"Origin": "x"}, {"Upgrade": None})[turn % 3]
            self.door.tunnel(source="127.0.0.2", headers=headers).close()

        def corrupt(turn):
            with Peer(connected=self.door.tunnel(source="127.0.0.2")) as peer:
                name = f"bad-{turn}-{threading.get_ident()}"
                if (peer.hello(name, token=self.TOKENS["rival"]) or "").startswith("READY ") and peer.open(name):
                    peer.send(*bad)
                    if not re.match("NAK 1 0 (corrupt|retry-after) ", answer := peer.line() or ""):
                        raise AssertionError(answer)

        def trickle(_):
            tunnel = self.door.tunnel(source="127.0.0.2")
            with contextlib.closing(tunnel):
                for byte in frame(BINARY, b"HELLO {")[:-1]:
                    tunnel.socket.sendall(bytes([byte]))
                    ends.wait(0.1)

        threads = [
            threading.Thread(target=repeat, args=[attack], daemon=True)
            for attack in (come_and_go, corrupt, trickle) for _ in range(5)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(30):
                self.ship_honest(20)
        finally:
            ends.set()
            for thread in threads:
                thread.join(patience(60))
        self.assertEqual(problems, [])
        self.assertGreater(self.door.metric("s_refused_total", reason="origin"), 0)
        until(lambda: self.door.metric("s") == 1, 20, "the honest one is left")
        self.honest.send(f"SEAL 1 {self.offset}")
        self.assertEqual(self.honest.line(), "SEALED 1")
        self.assert_stored(self.process)
