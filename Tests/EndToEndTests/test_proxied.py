"""The receiver's place for proxies: who is believed, whom a header names, and what holds for the address that it carries."""

import contextlib
import grp
import ipaddress
import json
import os
import socket
import ssl
import stat
import time

from certificates import Authority
from harness import free_port, patience, run, until
from test_hostile_principals import PrincipalsTest
from wire import Peer

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PROXY, LOCAL = 0x21, 0x20
NONE, IPV4, IPV6 = 0x00, 0x11, 0x21
NO_OPERATION, SOFTWARE = 0x04, 0xE0
HANDSHAKE_SECONDS = 10
WRONG = "ERR token the token is missing or wrong"
HELLO = b'HELLO {"protocol":[1],"agent":"a","instance":"1","accept":["zlib"],"token":"%s"}\n'


def header(address=None, port=5000, command=PROXY, more=b""):
    """A header of the PROXY protocol, version 2, of a peer with this address; `more` are its TLVs."""
    family, content = NONE, more
    if address:
        packed = ipaddress.ip_address(address).packed
        family = IPV4 if len(packed) == 4 else IPV6
        content = packed * 2 + port.to_bytes(2, "big") + (4391).to_bytes(2, "big") + more
    return SIGNATURE + bytes([command, family]) + len(content).to_bytes(2, "big") + content


def tlv(kind, value):
    return bytes([kind]) + len(value).to_bytes(2, "big") + value


def padding(count):
    return tlv(NO_OPERATION, b"\0" * (count - 3))


class ProxiedTest(PrincipalsTest):
    def start(self, *entries, place=None, listed="127.0.0.1", more="", extra=""):
        """A receiver with a place for proxies; `more` are keys of `receiver.proxied`."""
        self.place = place or f"127.0.0.1:{free_port()}"
        proxies = "" if place else f", from: [{listed}]"
        self.process = self.receiver(
            *(entries or [self.entry("web")]), extra=f"  proxied: {{listen: \"{self.place}\"{proxies}{more}}}\n{extra}")
        self.process.until_logged("receiver started")

    def connect(self, first=b"", source="127.0.0.1"):
        """A connection to the proxies' place that begins with these bytes."""
        if self.place.startswith("/"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.place)
        else:
            connection = socket.create_connection(("127.0.0.1", int(self.place.split(":")[1])), patience(20), (source, 0))
        self.addCleanup(connection.close)
        connection.sendall(first)
        return connection

    def proxied(self, first, **options):
        return Peer(connected=self.connect(first, **options))

    def let_in(self, first, agent="peer", principal="web", **options):
        peer = self.proxied(first, **options)
        answer = peer.hello(agent, token=self.TOKENS[principal])
        self.assertTrue(answer and answer.startswith("READY "), f"{first}: {answer}")
        return peer

    def assert_closed(self, connection, seconds=5):
        """The connection ends, and not a byte is said."""
        connection.settimeout(patience(seconds))
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(connection.recv(1000), b"")

    def refusals(self):
        found = self.metric("waybill_proxy_refused_connections_total")
        self.assertEqual(set(found), {f'{{reason="{reason}"}}' for reason in ("address", "connections", "header", "timeout")})
        return {labels.split('"')[1]: int(count) for labels, count in found.items() if count}

    def connected(self):
        """The audit log's peer and proxy of each agent."""
        return {line["agent"]: (line["peer"], line.get("via")) for line in self.entries("connected")}


class HeaderTests(ProxiedTest):
    def test_whom_a_header_names(self):
        self.start()
        door, own = tlv(SOFTWARE, b"door"), "127.0.0.1:%d"
        cases = {
            "v4": (header("192.0.2.1", 5001), "192.0.2.1:5001", "proxy"),
            "v6-door": (header("2001:db8::2", 5003, more=padding(40) + door), "[2001:db8::2]:5003", "door"),
            "local-named": (header("192.0.2.3", command=LOCAL, more=door), own, "door"),
            "other": (header("192.0.2.4", 5005, more=tlv(SOFTWARE, b"another")), "192.0.2.4:5005", "proxy")}
        peers = {agent: self.let_in(first, agent) for agent, (first, _, _) in cases.items()}
        until(lambda: len(self.entries("connected")) == len(cases), 10)
        for agent, (_, place, proxy) in cases.items():
            with self.subTest(agent=agent):
                expected = place.replace("%d", str(peers[agent].socket.getsockname()[1]))
                self.assertEqual(self.connected()[agent], (expected, proxy))
        self.assertEqual(self.refusals(), {})

    def test_a_header_in_pieces_and_with_what_follows(self):
        self.start()
        connection = self.connect()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = header("192.0.2.1", more=tlv(SOFTWARE, b"door")) + HELLO % self.TOKENS["web"].encode()
        for byte in whole:
            connection.sendall(bytes([byte]))
            time.sleep(0.002)
        self.assertTrue(Peer(connected=connection).line().startswith("READY "))
        self.assertTrue(self.proxied(whole).line().startswith("READY "))
        # Two headers are one too many.
        self.assertRegex(self.proxied(header("192.0.2.1") + whole).line(), "^ERR syntax ")
        self.assertEqual(self.refusals(), {})


class RefusalTests(ProxiedTest):
    """What is closed without an answer, and counted."""

    def assert_logged(self, reason):
        self.process.until_logged('"reason":"%s"' % reason)
        lines = [json.loads(line) for line in self.process.log().splitlines() if "WB1206" in line]
        self.assertIn(reason, [line["reason"] for line in lines])

    def test_a_session_without_a_header(self):
        self.start()
        for first in (HELLO % self.TOKENS["web"].encode(), b"GET / HTTP/1.1\r\n\r\n", b"\n",
                      b"PROXY TCP4 192.0.2.1 127.0.0.1 5000 4391\r\n", b"\x16\x03\x01\x02\x00\x01", b"\r\n\r\n\r\n",
                      header("192.0.2.1", command=0x22), header("192.0.2.1", more=padding(600))):
            self.assert_closed(self.connect(first))
        self.assertEqual(self.refusals(), {"header": 8})
        self.assert_logged("header")
        self.assertNotIn(self.TOKENS["web"], self.process.log())
        self.assertEqual(self.entries("connected") + self.entries("refused"), [])

    def test_a_header_that_is_not_whole_in_time(self):
        self.start()
        start, whole = time.monotonic(), header("192.0.2.1")
        stalled = [self.connect(), self.connect(whole[:1]), self.connect(whole[:15]), self.connect(whole[:-1])]
        trickling = self.connect()
        late = self.let_in(whole)
        with contextlib.suppress(OSError):
            for byte in header("192.0.2.1", more=padding(400)):
                trickling.sendall(bytes([byte]))
                time.sleep(0.1)
        for connection in (*stalled, trickling):
            self.assert_closed(connection, HANDSHAKE_SECONDS)
            self.assertTrue(HANDSHAKE_SECONDS - 0.5 < time.monotonic() - start < HANDSHAKE_SECONDS + patience(10))
        self.assertEqual(self.refusals(), {"timeout": 5})
        self.assert_logged("timeout")
        late.send("PING 1")
        self.assertEqual(late.line(), "PONG 1")

    def test_a_whole_header_and_silence(self):
        """From then on it is a silent agent, who is told why it is closed."""
        self.start()
        start, peer = time.monotonic(), self.proxied(header("192.0.2.1"))
        self.assertRegex(peer.line(), "^ERR timeout ")
        self.assertIsNone(peer.line())
        self.assertGreater(time.monotonic() - start, HANDSHAKE_SECONDS - 0.5)
        self.assertEqual(self.refusals(), {})

    def test_addresses_that_are_not_listed(self):
        self.start(listed="10.0.0.1, \"2001:db8::/32\", 127.0.1.0/24")
        for source in ("127.0.0.1", "127.0.0.2", "127.0.2.1"):
            self.assert_closed(self.connect(header("10.0.0.1") + HELLO % self.TOKENS["web"].encode(), source=source))
        self.let_in(header("192.0.2.1"), source="127.0.1.7")
        self.assertEqual(self.refusals(), {"address": 3})
        self.assert_logged("address")
        # It is the receiver's second place; the first one is open to all.
        self.peer("web", "direct")

    def test_as_many_connections_as_proxies_may_have(self):
        self.start(more=", connections: 3")
        held = [self.let_in(header(f"192.0.2.{number}"), f"app-{number}") for number in range(2)]
        waiting = self.connect()
        # The third is counted before its header.
        until(lambda: self.is_refused(), 10, "there is no room")
        self.assertEqual(list(self.refusals()), ["connections"])
        self.assert_logged("connections")
        self.peer("web", "direct")
        held[0].send("PING 1")
        self.assertEqual(held[0].line(), "PONG 1")
        waiting.close()
        until(lambda: not self.is_refused(), 10, "there is room again")
        held[0].close()
        until(lambda: not self.is_refused(), 10)

    def is_refused(self):
        with contextlib.closing(self.connect(header("192.0.2.9") + HELLO % self.TOKENS["web"].encode())) as connection:
            try:
                return connection.recv(1000) == b""
            except ConnectionResetError:
                return True

    def test_many_refused_connections_are_few_lines_of_the_log(self):
        self.start()
        for _ in range(300):
            self.assert_closed(self.connect(b"HELLO {}\n"))
        self.assertEqual(self.refusals(), {"header": 300})
        self.assertLess(self.process.log().count("WB1206"), 30)

    def test_a_header_at_the_other_place(self):
        self.start()
        for first in (header("192.0.2.1"), header(command=LOCAL) + HELLO % self.TOKENS["web"].encode()):
            peer = Peer(self.site.port)
            self.addCleanup(peer.close)
            peer.send(first)
            self.assertRegex(peer.line(), "^ERR syntax .*this is a proxy's header")
            self.assertIsNone(peer.line())
        self.assertEqual(self.refusals(), {})
        # Nor is it a way to another address in a session.
        peer = self.peer("web")
        peer.send(header("192.0.2.1"))
        self.assertRegex(peer.line(), "^ERR syntax ")
        until(lambda: "peer" in self.connected(), 10)
        self.assertEqual(self.connected()["peer"][1], None)


class AccountTests(ProxiedTest):
    """Until `HELLO` is accepted, what an address may do is what the carried one may do."""

    def test_silent_connections(self):
        self.start(extra="  limits: {silent_connections: 3}\n")

        def silent(*addresses):
            """One for each of these addresses, once all have arrived."""
            count = self.open_count()
            peers = [self.proxied(header(address, 5000 + number)) for number, address in enumerate(addresses)]
            until(lambda: self.open_count() == count + len(peers), 5)
            return peers

        # Networks of IPv6 are addresses.
        others = silent("192.0.2.2", *(f"2001:db8:0:{number}::1" for number in range(4)))
        crowd = silent(*["192.0.2.1"] * 3)
        self.assertEqual(self.limited(), 0)
        self.let_in(header("192.0.2.1", 6000))
        self.assertEqual(self.limited(), 1)
        until(lambda: self.ended(crowd) == 1, 5, "the oldest one ends for one more")
        # The newcomer is silent no more.
        crowd += silent("192.0.2.1")
        self.assertEqual(self.limited(), 1)
        crowd.append(self.proxied(header("192.0.2.1", 7000)))
        until(lambda: self.ended(crowd) == 2, 5)
        self.assertEqual(self.limited(), 2)
        others += silent(*(f"2001:db8:1::{number}" for number in range(3)))
        self.proxied(header("2001:db8:1::9"))
        until(lambda: self.ended(others) == 1, 5)
        self.assertEqual((self.limited(), self.ended(crowd)), (3, 2))

    def ended(self, peers):
        """How many were closed, and told nothing."""
        ended = 0
        for peer in peers:
            peer.socket.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                self.assertEqual(peer.socket.recv(1, socket.MSG_PEEK), b"")
                ended += 1
        return ended

    def open_count(self):
        return self.metric("waybill_connections")[""]

    def limited(self):
        return self.metric("waybill_limited_total").get('{limit="silent-connections-of-address"}', 0)


class SocketTests(ProxiedTest):
    def setUp(self):
        super().setUp()
        self.path = self.site.root / "proxied.sock"

    def mode(self):
        status = self.path.stat()
        return stat.S_ISSOCK(status.st_mode), stat.S_IMODE(status.st_mode)

    def test_a_socket(self):
        self.start(place=str(self.path))
        self.assertEqual(self.mode(), (True, 0o660))
        self.let_in(header("192.0.2.1", 5001, more=tlv(SOFTWARE, b"door")), "named")
        self.let_in(header(command=LOCAL), "local")
        self.assert_closed(self.connect(HELLO % self.TOKENS["web"].encode()))
        until(lambda: len(self.entries("connected")) == 2, 10)
        peers = self.connected()
        self.assertEqual(peers["named"], ("192.0.2.1:5001", "door"))
        self.assertEqual(peers["local"][1], "proxy")
        self.assertEqual(self.refusals(), {"header": 1})
        self.assertEqual(self.process.stop(), 0)
        self.assertFalse(self.path.exists(), "a stop removes it")

    def test_a_group_that_may_open_it(self):
        group = grp.getgrgid(os.getgroups()[0] if os.getgroups() else os.getgid())
        self.start(place=str(self.path), more=f", group: {group.gr_name}")
        self.assertEqual((self.mode(), self.path.stat().st_gid), ((True, 0o660), group.gr_gid))
        self.let_in(header("192.0.2.1"))

    def test_places_that_cannot_be_used(self):
        """The receiver does not start, and what is there stays."""
        self.path.write_text("a file\n")
        other = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(other.close)
        taken = "127.0.0.1:%d" % other.getsockname()[1]
        for place, more, expected in (
                (taken, ", from: [127.0.0.1]", f"cannot listen on {taken}"),
                (self.path, "", "not a socket"), (self.site.root / "none" / "a.sock", "", "must exist"),
                (self.site.root / ("x" * 120), "", "its path"), (self.site.root / "b.sock", ", group: nobody-of-ours", "group")):
            config = self.configure(self.entry("web"), extra=f"  proxied: {{listen: \"{place}\"{more}}}\n")
            result = run("receiver", "--config", config)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(expected, result.stderr.decode() + result.stdout.decode(), place)
        self.assertEqual(self.path.read_text(), "a file\n")

    def test_a_stop_does_not_wait_for_headers(self):
        self.start(place=str(self.path))
        held = [self.connect(), self.connect(SIGNATURE), self.connect(header("192.0.2.1"))]
        start = time.monotonic()
        self.assertEqual(self.process.stop(), 0)
        self.assertLess(time.monotonic() - start, patience(5))
        for connection in held:
            connection.settimeout(patience(5))
            with contextlib.suppress(ConnectionResetError):
                self.assertIn(connection.recv(1000), (b"", b"BYE\n"))


class TLSTests(ProxiedTest):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.site.root / "ca")
        chain, key = self.authority.issue("receiver")
        self.tls = f"  tls: {{certificate: {chain}, key: {key}, client_ca: {self.authority.certificate}}}\n"
        self.context = ssl.create_default_context(cafile=self.authority.certificate)

    def web(self):
        return self.entry("web", "certificates: [web.example.com]")

    def test_tls_follows_the_header_and_no_certificate_is_asked_for(self):
        self.start(self.web(), more=", tls: on", extra=self.tls)
        peer = Peer(connected=self.connect(header("192.0.2.1", 5001)), tls=self.context)
        self.addCleanup(peer.close)
        self.assertTrue(peer.hello(token=self.TOKENS["web"]).startswith("READY "))
        peer.open("s")
        self.ship(peer, self.made(3), "s")
        until(lambda: self.entries("connected"), 10)
        self.assertEqual(self.connected()["peer"], ("192.0.2.1:5001", "proxy"))
        plain = self.proxied(header("192.0.2.1", 5002))
        self.assertRegex(plain.hello(token=self.TOKENS["web"]), "^ERR syntax this port takes TLS alone")
        # TLS without a header is no header; and directly, a certificate is asked for.
        with self.assertRaises(OSError):
            Peer(connected=self.connect(), tls=self.context)
        self.assertEqual(self.refusals(), {"header": 1})
        with self.assertRaises(OSError):
            direct = Peer(self.site.port, tls=self.context)
            self.assertIsNone(direct.hello(token=self.TOKENS["web"]))
            raise ConnectionResetError
        self.assert_stored(self.process)

    def test_a_certificate_is_not_taken_from_behind_a_proxy(self):
        self.start("name: machine, certificates: [machine.example.com]", more=", tls: on", extra=self.tls)
        self.context.load_cert_chain(*self.authority.issue("machine", "DNS:machine.example.com", kind="clientAuth"))
        self.assertTrue(self.refusal(tls=self.context).startswith("READY "))
        peer = Peer(connected=self.connect(header("192.0.2.1")), tls=self.context)
        self.addCleanup(peer.close)
        self.assertEqual(peer.hello(), WRONG)

    def test_without_tls_behind_the_header(self):
        self.start(self.web(), extra=self.tls)
        self.let_in(header("192.0.2.1"))
        peer = self.proxied(header("192.0.2.1") + b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n")
        self.assertRegex(peer.line(), "^ERR syntax ")
