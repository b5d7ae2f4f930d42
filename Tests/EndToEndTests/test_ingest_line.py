"""The door's tunnels: the line protocol over a WebSocket, and requests that get none."""

import contextlib
import json
import random
import re
import socket
import struct
import time

from harness import check_described, free_port, page, until
from peers import Listener
from scale import SEED
from test_hostile_principals import PrincipalsTest, device
from test_ingest import Door
from tunnels import BINARY, CONTINUED, FRAME_MAX, PING, PONG, TEXT, Refused, Tunnel, frame
from wire import Peer, batch

WRONG = "ERR token the token is missing or wrong"
HELLO = b'HELLO {"protocol":[1],"agent":"%s","instance":"1","accept":["zlib"]%s}\n'
NORMAL, AWAY = 1000, 1001


class LineDoor(Door):
    """A door with tunnels to the receiver's place for proxies; `more` are keys of `ingest.line`, `extra` of `ingest`."""

    def __init__(self, site, receiver, more="", extra="", tls=None):
        super().__init__(site, limits=extra, line=f"  line:\n    receiver: {receiver}\n{more}")
        self.tls = tls

    def tunnel(self, **options):
        return Tunnel(self.port, tls=self.tls, **options)

    def refusal(self, **options):
        """The answer to a request that gets no tunnel."""
        try:
            self.tunnel(**options).close()
        except Refused as refused:
            return refused
        raise AssertionError(f"a tunnel is open: {options}")

    def is_open(self):
        try:
            self.tunnel().close()
            return True
        except OSError:
            return False

    def status(self):
        return json.loads(page(f"127.0.0.1:{self.metrics}", "/status"))

    def metric(self, name, **labels):
        return self.sample(f"waybill_ingest_tunnel{name}", **labels)


class LineTest(PrincipalsTest):
    def site_of(self, *entries, place=None, more="", extra="", receiver="", proxied=""):
        """Starts a receiver with these principals and a place for proxies, and a door to it."""
        self.place = place or f"127.0.0.1:{free_port()}"
        entries = entries or (self.entry("web"), self.entry("rival"), self.entry("phones", "devices: true"))
        listed = "" if place else ", from: [127.0.0.1]"
        self.process = self.receiver(
            *entries, extra=f"  proxied: {{listen: \"{self.place}\"{listed}{proxied}}}\n{receiver}")
        self.door = LineDoor(self.site, self.place, more, extra).start()

    def restart(self):
        self.process = self.site.receiver("--config", self.site.root / "waybill.yaml", exports="none")

    def tunnel(self, door=None, **options):
        tunnel = (door or self.door).tunnel(**options)
        self.addCleanup(tunnel.close)
        return tunnel

    def stranger(self, **options):
        """A session through a tunnel that has said nothing yet."""
        peer = Peer(connected=self.tunnel(**options))
        self.addCleanup(peer.close)
        return peer

    def through(self, principal="web", agent="app-1", options=None, **members):
        """A session through a tunnel, of an agent that is let in."""
        peer = self.stranger(**(options or {}))
        answer = peer.hello(agent, token=self.TOKENS[principal], **members)
        self.assertTrue(answer and answer.startswith("READY "), answer)
        return peer

    def assert_ended(self, count=1, **labels):
        until(lambda: self.door.metric("s_ended_total", **labels) == count, 20, f"{count} tunnels ended {labels}")


class StreamTests(LineTest):
    def setUp(self):
        super().setUp()
        self.site_of()

    def test_a_stream_from_its_first_byte_to_its_seal(self):
        peer = self.through(options={"source": "127.0.0.2"})
        tunnel = peer.socket
        self.assertEqual(peer.open("s-1"), "AT 1 0")
        raws, offset = [self.made(count) for count in (1, 2000, 3, 1500)], 0
        self.assertGreater(len(batch("s-1", raws[1])[1]), FRAME_MAX)
        for raw in raws:
            peer.batch("s-1", raw, offset=offset)
            offset += len(raw)
        while (line := peer.line()) != f"ACK 1 {offset}":
            self.assertRegex(line, "^ACK 1 ")
        peer.send(f"SEAL 1 {offset}")
        self.assertEqual(peer.line(), "SEALED 1")
        peer.assert_proved("s-1", b"".join(raws))
        self.assertEqual(self.door.metric("s"), 1)
        self.assertEqual(self.door.status()["line"], {
            "receiver": self.place, "tunnels": 1, "away_since": None, "away_reason": None})
        peer.send("BYE")
        self.assertEqual((peer.lines_to_the_end(), tunnel.code), (["BYE"], NORMAL))
        until(lambda: self.door.metric("s") == 0, 20, "the tunnel ended")
        self.assertEqual(self.door.metric("s_opened_total"), 1)
        self.assertEqual(self.door.metric("_bytes_total", to="receiver"), tunnel.sent)
        self.assertEqual(self.door.metric("_bytes_total", to="agent"), tunnel.received)
        check_described(self, f"127.0.0.1:{self.door.metrics}")
        self.assert_stored(self.process)
        self.assertEqual(self.entries("sealed")[0]["length"], str(offset))
        for event in ("connected", "opened", "sealed", "disconnected"):
            [line] = self.entries(event)
            self.assertEqual((line["principal"], line["by"], line["via"], line["peer"]), ("web", "token", "door", tunnel.place))
        self.assertNotIn(self.TOKENS["web"], self.door.process.log())

    def test_an_agent_continues_by_either_way(self):
        peer, raws = self.through(), [self.made(3) for _ in range(3)]
        peer.open("s-1")
        offset = self.ship(peer, raws[0])
        direct = self.peer("web", "app-1")
        self.assertRegex(peer.line(), "^ERR agent-in-use ")
        self.assertEqual(direct.open("s-1"), f"AT 1 {offset}")
        offset = self.ship(direct, raws[1], offset=offset)
        self.assertEqual(self.door.refusal(path="/v1/lines").status, 404)
        peer = self.through()
        self.assertRegex(direct.line(), "^ERR agent-in-use ")
        self.assertEqual(peer.open("s-1"), f"AT 1 {offset}")
        peer.assert_proved("s-1", b"".join(raws[:2]))
        self.ship(peer, raws[2], offset=offset)
        self.assert_stored(self.process)
        self.assertEqual([line.get("via") for line in self.entries("connected")], ["door", None, "door"])

    def test_bytes_are_cut_into_frames_anyhow(self):
        """One byte a frame, empty frames, messages of several frames with control frames in between, and the longest frame."""
        hello = HELLO % (b"app-1", b',"token":"%s"' % self.TOKENS["web"].encode())
        peer = self.stranger()
        tunnel = peer.socket
        for byte in hello[:-1]:
            tunnel.send_frame(BINARY, bytes([byte]))
        tunnel.send_frame(BINARY)
        tunnel.send_frame(BINARY, hello[-1:])
        self.assertTrue(peer.line().startswith("READY "))
        peer.send(b'OPEN 1 {"stream":"s-1","source":"/x","env":"prod",', b'"bundle":"com.example.web","format":"waybill"}\n')
        self.assertEqual(peer.line(), "AT 1 0")
        raw = self.made(2000)
        line, payload = batch("s-1", raw)
        data = line.encode() + b"\n" + payload
        self.assertGreater(len(data), FRAME_MAX)
        tunnel.send_frame(BINARY, data[:1], is_last=False)
        tunnel.send_frame(PING, b"between")
        tunnel.send_frame(CONTINUED, data[1:700], is_last=False)
        tunnel.send_frame(PONG, b"unasked")
        tunnel.send_frame(CONTINUED, is_last=False)
        tunnel.send_frame(CONTINUED, data[700:1000])
        tunnel.send_frame(BINARY, data[1000:1000 + FRAME_MAX])
        tunnel.send_frame(BINARY, data[1000 + FRAME_MAX:])
        self.assertEqual(peer.line(), f"ACK 1 {len(raw)}")
        self.assertEqual(tunnel.pongs, [b"between"])
        more = self.made(2)
        line, payload = batch("s-1", more, offset=len(raw))
        # Several messages in one frame.
        peer.send(b"PING 7\n" + line.encode() + b"\n" + payload + b"PING 8\n")
        self.assertEqual({peer.line() for _ in range(3)}, {"PONG 7", f"ACK 1 {len(raw + more)}", "PONG 8"})
        self.assert_stored(self.process)

    def test_a_session_that_begins_before_the_answer_to_its_handshake(self):
        hello = HELLO % (b"app-1", b',"token":"%s"' % self.TOKENS["web"].encode())
        self.assertTrue(self.stranger(first=frame(BINARY, hello)).line().startswith("READY "))
        peer = self.stranger(first=frame(BINARY, hello[:9]))
        peer.socket.sendall(hello[9:])
        self.assertTrue(peer.line().startswith("READY "))

    def test_a_token_that_is_removed_is_refused_soon(self):
        peer, rival = self.through(), self.through("rival", "other")
        self.write_agents(self.entry("rival"))
        self.assertEqual((peer.line(), peer.line(), peer.socket.code), (WRONG, None, NORMAL))
        rival.send("PING 3")
        self.assertEqual(rival.line(), "PONG 3", "others stay")
        self.assertEqual(self.stranger().hello("app-1", token=self.TOKENS["web"]), WRONG)


class EntryTests(LineTest):
    """Who is let in is the receiver's decision alone, by the address that the door names."""

    def test_who_is_let_in(self):
        self.site_of()
        (key, name), (other_key, other_name) = device(), device()
        wrong = self.stranger()
        self.assertEqual(wrong.hello(token="wrong-0123456789abcdef"), WRONG)
        self.assertEqual((wrong.line(), wrong.socket.code), (None, NORMAL))
        self.assertEqual(self.stranger().hello(), WRONG)
        phone = self.through("phones", name, key=key)
        for agent, members in ((name, {}), (name, {"key": other_key}), ("app", {"key": key}), (other_name, {"key": key})):
            answer = self.stranger().hello(agent, token=self.TOKENS["phones"], **members)
            self.assertRegex(answer, "^ERR token the agent's name does not follow from its key")
        # The same id is a stream of each device.
        self.assertEqual(phone.open("s-1"), "AT 1 0")
        self.ship(phone, self.made(4))
        other = self.through("phones", other_name, key=other_key)
        self.assertEqual(other.open("s-1"), "AT 1 0")
        self.ship(other, self.made(2))
        self.assert_stored(self.process)
        self.assertEqual(len(self.entries("refused")), 6)
        for text in (self.door.process.log(), self.process.log(), self.audit.read_text()):
            for secret in (*self.TOKENS.values(), key, other_key, "wrong-0123456789abcdef"):
                self.assertNotIn(secret, text)

    def test_wrong_tokens_are_slowed_by_the_address_behind_the_door(self):
        self.site_of(extra="  trusted_proxies: [127.0.0.1]\n")

        def guess(address, number):
            peer = self.stranger(headers={"X-Forwarded-For": address})
            peer.send(HELLO.decode().rstrip("\n") % ("a", f',"token":"guess-{number}-0123456789"'))
            return peer

        start = time.monotonic()
        for number in range(8):
            self.assertEqual(guess("192.0.2.1", number).line(), WRONG)
        # Three at once, then after 0.25, 0.5, 1, 2 and 4 seconds.
        self.assertGreater(time.monotonic() - start, 7.5)
        slow = guess("192.0.2.1", 9)
        self.assertEqual(guess("192.0.2.2", 1).line(), WRONG)
        self.through(options={"headers": {"X-Forwarded-For": "192.0.2.1"}})
        slow.socket.settimeout(0.01)
        with self.assertRaises(TimeoutError):
            slow.socket.recv(1)
        self.assertEqual(slow.line(), WRONG)
        until(lambda: len(self.entries("refused")) == 10, 5)
        addresses = [line["peer"] for line in self.entries("refused")]
        self.assertEqual(sum("192.0.2.1" in address for address in addresses), 9, addresses)
        self.assertEqual(sum("192.0.2.2" in address for address in addresses), 1, addresses)
        self.assertEqual(self.entries("connected")[0]["peer"].split(":")[0], "192.0.2.1")

    def test_the_address_is_the_one_that_trusted_proxies_name(self):
        self.site_of(extra="  trusted_proxies: [127.0.0.1, 10.0.0.0/8]\n")
        cases = (
            ({"X-Forwarded-For": "192.0.2.7"}, "192.0.2.7"),
            ({"X-Forwarded-For": "198.51.100.1, 192.0.2.8, 10.1.2.3"}, "192.0.2.8"),
            ({"X-Forwarded-For": "2001:db8::7"}, "2001:db8::7"),
            ({"X-Forwarded-For": "::ffff:192.0.2.9"}, "192.0.2.9"),
            # Named by none, or by no address: the door's own.
            ({"X-Forwarded-For": "unknown"}, "127.0.0.1"),
            ({}, "127.0.0.1"))
        forged = {"Forwarded": "for=192.0.2.2", "X-Real-IP": "192.0.2.3", "True-Client-IP": "192.0.2.4", "Proxy-Protocol": "192.0.2.5"}
        cases = [*cases, (forged, "127.0.0.1")]
        for number, (headers, _) in enumerate(cases):
            self.through(agent=f"app-{number}", options={"headers": headers}).close()
        stranger = self.through(agent="forger", options={
            "headers": {"X-Forwarded-For": "192.0.2.1", **forged}, "source": "127.0.0.2"})
        until(lambda: len(self.entries("connected")) == len(cases) + 1, 10)
        peers = {line["agent"]: line["peer"] for line in self.entries("connected")}
        for number, (headers, expected) in enumerate(cases):
            self.assertRegex(peers[f"app-{number}"], rf"^\[?{re.escape(expected)}\]?(:\d+)?$", headers)
        self.assertEqual(peers["forger"], stranger.socket.place)

    def test_what_the_door_says_first(self):
        """The header of the PROXY protocol, and not a byte more before the agent's own."""
        received = []

        def listen(connected):
            received.append(connected.recv(1 << 16))
            received.append(connected.recv(1 << 16))

        listener = Listener(listen)
        self.addCleanup(listener.close)
        self.door = LineDoor(self.site, listener.address).start()
        tunnel = self.tunnel(source="127.0.0.3")
        until(lambda: received, 20)
        ports = int(tunnel.place.split(":")[1]).to_bytes(2, "big")
        header = received[0]
        self.assertEqual(header[:14], b"\r\n\r\n\0\r\nQUIT\n\x21\x11")
        self.assertEqual((header[16:20], header[24:26]), (bytes([127, 0, 0, 3]), ports))
        self.assertEqual(header[28:], b"\xe0\0\4door")
        self.assertEqual(int.from_bytes(header[14:16], "big"), len(header) - 16)
        tunnel.sendall(b"anything\n")
        until(lambda: received[1:], 20)
        self.assertEqual(received[1], b"anything\n")


class RefusalTests(LineTest):
    """Requests that get no tunnel, and what they are told."""

    def setUp(self):
        super().setUp()
        self.site_of(more="    connections: 3\n")

    def assert_refused(self, status, code, reason, **options):
        count = self.door.metric("s_refused_total", reason=reason)
        refused = self.door.refusal(**options)
        self.assertEqual((refused.status, refused.told.get("code")), (status, code), f"{options}: {refused}")
        self.assertTrue(refused.told["cause"])
        self.assertEqual(self.door.metric("s_refused_total", reason=reason), count + 1)
        return refused.headers

    def test_pages_get_none(self):
        for origin in ("https://shop.example.com", "null", ""):
            self.assert_refused(403, "not-allowed", "origin", headers={"Origin": origin})

    def test_what_is_no_handshake(self):
        key = "Sec-WebSocket-Key"
        for changes in (
                {"Upgrade": None}, {"Upgrade": "h2c"}, {"Connection": None}, {"Connection": "keep-alive"},
                {"Sec-WebSocket-Version": "8"}, {"Sec-WebSocket-Version": None}, {key: None}, {key: "short"},
                {key: "A" * 5000}, {"Upgrade": None, "Connection": None, "Sec-WebSocket-Version": None, key: None}):
            headers = self.assert_refused(426, "syntax", "handshake", headers=changes)
            self.assertEqual((headers["Upgrade"], headers["Sec-WebSocket-Version"]), ("websocket", "13"))
        self.assertEqual(self.process.log().count("agent connected"), 0)

    def test_names_and_values_in_any_case(self):
        """As browsers and proxies write them, with offers that the door does not take."""
        tunnel = self.tunnel(headers={
            "Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket", "Sec-WebSocket-Extensions": "permessage-deflate",
            "Sec-WebSocket-Protocol": "waybill"})
        self.assertTrue(Peer(connected=tunnel).hello(token=self.TOKENS["web"]).startswith("READY "))

    def test_other_methods_and_paths(self):
        for method in ("POST", "PUT", "DELETE"):
            refused = self.door.refusal(method=method, headers={"Content-Length": "0"})
            self.assertEqual(refused.status, 405, method)
            self.assertIn("GET", refused.headers["Allow"])
        for path in ("/v1/streams", "/v1/streams/s-1", "/v1/line/", "/line"):
            self.assertEqual(self.door.refusal(path=path).status, 404, path)

    def test_a_door_without_a_line_has_no_path_for_it(self):
        door = LineDoor(self.site, self.place)
        text = door.config.read_text()
        door.config.write_text(text[:text.index("  line:")])
        self.assertEqual(door.start().refusal().status, 404)
        self.assertNotIn("line", door.status())

    def test_as_many_tunnels_as_there_may_be(self):
        held = [self.through(agent=f"app-{number}") for number in range(3)]
        headers = self.assert_refused(503, "unavailable", "full")
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        held[0].send("PING 4")
        self.assertEqual(held[0].line(), "PONG 4")
        held[0].close()
        until(self.door.is_open, 20, "there is room again")

    def test_each_place_is_given_back(self):
        """However a tunnel ends, and whenever its agent leaves."""
        request = (b"GET /v1/line HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
        chance = random.Random(SEED)
        for _ in range(60):
            with socket.create_connection(("127.0.0.1", self.door.port)) as connection:
                connection.sendall(request)
                time.sleep(chance.choice((0, 0.0005, 0.001, 0.002, 0.01)))
                if chance.random() < 0.5:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(Refused):
                tunnel = self.tunnel()
                tunnel.sendall(chance.choice((b"PING 1\n", b"BYE\n", HELLO[:9], b"")))
                chance.choice((tunnel.say_close, tunnel.close, lambda: tunnel.send_frame(TEXT, b"x")))()
                tunnel.close()
        until(lambda: self.door.metric("s") == 0, 20, "all are over")
        held = until(lambda: self.take(3), 20, "as many tunnels as there may be are open")
        self.assertEqual(self.door.refusal().status, 503)
        self.assertEqual(len(held), 3)

    def take(self, count):
        held = []
        try:
            for number in range(count):
                held.append(self.through(agent=f"late-{number}"))
        except Refused:
            for peer in held:
                peer.close()
            return []
        return held

    def test_pipelined_requests_and_bodies_open_nothing_by_stealth(self):
        """What stands behind a request that is refused is no session."""
        hello = HELLO % (b"smuggled", b',"token":"%s"' % self.TOKENS["web"].encode())
        for headers in ({"Upgrade": None}, {"Origin": "https://evil.org"}, {"Content-Length": str(len(hello)), "Upgrade": None}):
            with self.assertRaises(Refused):
                self.tunnel(headers=headers, first=hello + frame(BINARY, hello))
        with self.assertRaises(Refused):
            self.tunnel(method="POST", first=frame(BINARY, hello))
        peer = self.through()
        self.assertEqual(peer.open("s-1"), "AT 1 0")
        self.assertEqual([line["agent"] for line in self.entries("connected")], ["app-1"])


class ShareTests(LineTest):
    def open_all(self):
        """Opens tunnels of an address until one is refused; returns them and the refusal."""
        held = []
        while True:
            try:
                held.append(self.tunnel(source="127.0.0.2"))
            except Refused as refused:
                return held, refused

    def test_an_address_has_so_many_tunnels_without_ready(self):
        self.site_of()
        held, refused = self.open_all()
        self.assertEqual((refused.status, refused.told["code"]), (429, "unavailable"))
        # More, where the first have ended meanwhile.
        self.assertGreaterEqual(len(held), 256)
        self.assertGreaterEqual(int(refused.headers["Retry-After"]), 1)
        self.assertEqual(self.door.metric("s_refused_total", reason="share"), 1)
        peer = self.through()
        peer.open("s-1")
        self.ship(peer, self.made(5))
        # Each that is let in makes room for one more.
        for number, tunnel in enumerate(held[-2:]):
            known = Peer(connected=tunnel)
            self.assertTrue(known.hello(f"known-{number}", token=self.TOKENS["web"]).startswith("READY "))
        more, refused = self.open_all()
        self.assertGreaterEqual(len(more), 2)
        self.assertEqual(refused.status, 429)
        self.assert_stored(self.process)
