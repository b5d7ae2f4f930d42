"""Tunnels in operation: TLS, sockets, what is killed, what is away, and what a check says."""

import random
import socket
import ssl
import time

from certificates import Authority
from harness import ended, free_port, patience, run, succeed, until
from peers import Listener
from scale import SEED, amount
from health import ready
from test_ingest import track
from test_ingest_line import LineDoor, LineTest
from test_load import Witness, assert_kept
from tunnels import Tunnel
from wire import Peer


class TLSTests(LineTest):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.site.root / "ca")
        self.pair = "{certificate: %s, key: %s}" % self.authority.issue("receiver")

    def test_both_ways_are_encrypted_and_verified(self):
        self.site_of(
            more=f"    ca: {self.authority.certificate}\n", extra=f"  tls: {self.pair}\n", receiver=f"  tls: {self.pair}\n",
            proxied=", tls: on")
        self.door.tls = ssl.create_default_context(cafile=self.authority.certificate)
        peer, offset = self.through(), 0
        self.assertEqual(peer.open("s-1"), "AT 1 0")
        raws = [self.made(count) for count in (2500, 3)]
        for raw in raws:
            offset = self.ship(peer, raw, offset=offset)
        peer.send(f"SEAL 1 {offset}")
        self.assertEqual(peer.line(), "SEALED 1")
        peer.assert_proved("s-1", b"".join(raws))
        [line] = self.entries("connected")
        self.assertEqual((line["peer"], line["via"]), (peer.socket.place, "door"))
        with self.assertRaises(OSError):
            Tunnel(self.door.port)
        self.assert_stored(self.process)

    def test_a_receiver_that_is_not_the_one(self):
        """Of another authority, of another name, and without TLS: no agent's token goes there."""
        self.site_of(receiver=f"  tls: {self.pair}\n", proxied=", tls: on")
        other = Authority(self.site.root / "other")
        named = "{certificate: %s, key: %s}" % self.authority.issue("named", "DNS:other.example.com")
        plain = Listener(lambda connected: connected.recv(1 << 16) and connected.sendall(b"READY {}\n"))
        self.addCleanup(plain.close)
        for place, authority, reason in (
                (self.place, other, "tls-untrusted"), (plain.address, self.authority, "tls-plaintext")):
            door = LineDoor(self.site, place, f"    ca: {authority.certificate}\n").start()
            refused = door.refusal()
            self.assertEqual((refused.status, refused.told["code"]), (503, "unavailable"))
            self.assertIn("Retry-After", refused.headers)
            line = door.status()["line"]
            self.assertIn(reason, line["away_reason"])
            self.assertIn("WB1503", door.process.log())
            self.assertEqual(door.metric("s_refused_total", reason="unreachable"), 1)
            door.process.stop()
        self.process.stop()
        self.site_of(receiver=f"  tls: {named}\n", proxied=", tls: on", more=f"    ca: {self.authority.certificate}\n")
        self.assertEqual(self.door.refusal().status, 503)
        self.assertIn("tls-wrong-host", self.door.status()["line"]["away_reason"])

    def test_a_receiver_that_never_shakes_hands(self):
        """Its agents are told to come back, and those that leave meanwhile leave no trace."""
        silent = Listener(lambda connected: connected.recv(1 << 16) and time.sleep(patience(60)))
        self.addCleanup(silent.close)
        self.door = LineDoor(
            self.site, silent.address, f"    ca: {self.authority.certificate}\n    connections: 2\n").start()
        for number in range(2):
            with socket.create_connection(("127.0.0.1", self.door.port)) as connection:
                connection.sendall(
                    b"GET /v1/line HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
                until(lambda: len(silent.sockets) == number + 1, 20)
        refused = until(lambda: (answer := self.door.refusal()).told["cause"].startswith("the receiver") and answer, 30)
        self.assertEqual((refused.status, refused.told["code"]), (503, "unavailable"))
        self.assertTrue(self.door.status()["line"]["away_reason"])


class SocketTests(LineTest):
    def test_a_sockets_path_as_the_receivers_place(self):
        path = str(self.site.root / "proxied.sock")
        self.site_of(place=path)
        self.assertEqual(self.door.status()["line"]["receiver"], path)
        peer, offset = self.through(), 0
        self.assertEqual(peer.open("s-1"), "AT 1 0")
        raws = [self.made(count) for count in (3, 2000)]
        offset = self.ship(peer, raws[0])
        [line] = self.entries("connected")
        self.assertEqual((line["peer"], line["via"]), (peer.socket.place, "door"))
        self.process.kill()
        self.assertIsNone(peer.line())
        self.assertEqual(self.door.refusal().status, 503)
        self.restart()
        until(self.door.is_open, 20, "the receiver is back")
        peer = self.through()
        self.assertEqual(peer.open("s-1"), f"AT 1 {offset}")
        self.ship(peer, raws[1], offset=offset)
        self.assert_stored(self.process)


class DeathTests(LineTest):
    def test_the_receiver_and_the_door_are_killed_between_batch_and_acknowledgement(self):
        self.site_of()
        token = self.TOKENS["web"]
        witnesses = [
            Witness(lambda: Peer(connected=self.door.tunnel()), number, random.Random(SEED + number), 10, token=token)
            for number in range(4)]
        for witness in witnesses:
            witness.start()
        deaths = amount("WAYBILL_DOOR_DEATHS", 12, 1000)
        for death in range(deaths):
            time.sleep(random.Random(SEED + death).uniform(0.05, 0.4))
            if death % 2:
                self.door.process.kill()
                self.door.start()
            else:
                self.process.kill()
                self.restart()
        counts = [witness.acked for witness in witnesses]
        until(lambda: all(witness.acked > count for witness, count in zip(witnesses, counts)), 60, "each continues")
        count = assert_kept(self, witnesses, self.process)
        print(f"deaths: {deaths} of door and receiver, {count} lines acknowledged through tunnels")

    def test_without_the_receiver_agents_are_asked_to_wait(self):
        self.site_of()
        self.through().close()
        self.process.kill()
        for _ in range(5):
            refused = self.door.refusal()
            self.assertEqual((refused.status, refused.told["code"]), (503, "unavailable"))
            self.assertGreaterEqual(int(refused.headers["Retry-After"]), 1)
        self.assertEqual(self.door.metric("s_refused_total", reason="unreachable"), 5)
        self.door.process.until_logged("WB1503")
        self.assertEqual(self.door.process.log().count("WB1503"), 1)
        document = self.door.status()
        line = document["line"]
        self.assertEqual((document["health"], line["tunnels"]), ("degraded", 0))
        self.assertEqual(document["problems"], ["no tunnel reaches the receiver; agents try again"])
        self.assertTrue(line["away_reason"])
        self.assertTrue(document["started"] <= line["away_since"] <= document["time"])
        # Ready, or no balancer would send it the events of SDKs.
        self.assertEqual(ready(self.door.metrics), (200, ["ready", *document["problems"]]))
        shown = ended(1, "status", f"127.0.0.1:{self.door.metrics}")
        self.assertIn(self.place, shown.stdout.decode())
        self.assertEqual(self.door.batch([track(1)])[0], 200)
        self.restart()
        peer = until(lambda: self.door.is_open() and self.through(), 20, "the receiver is back")
        peer.open("s-1")
        self.ship(peer, self.made(2))
        self.door.process.until_logged("tunnels reach the receiver again")
        document = self.door.status()
        self.assertEqual((document["health"], document["problems"]), ("ok", []))
        self.assertEqual(document["line"], {"receiver": self.place, "tunnels": 1, "away_since": None, "away_reason": None})
        succeed("status", f"127.0.0.1:{self.door.metrics}")
        self.assert_stored(self.process, self.door.process)


class CheckTests(LineTest):
    def check(self, *arguments):
        result = run("check", *arguments)
        return result.returncode, result.stderr.decode()

    def test_a_probe_tries_to_reach_the_receiver(self):
        self.site_of()
        self.assertEqual(self.check("--probe", LineDoor(self.site, self.place).config), (0, ""))
        for place in (f"127.0.0.1:{free_port()}", str(self.site.root / "nothing.sock")):
            code, said = self.check("--probe", LineDoor(self.site, place).config)
            self.assertEqual(code, 78, said)
            self.assertIn(f"ingest.line.receiver: {place}", said)
