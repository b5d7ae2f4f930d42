"""TLS between agent and receiver: what is delivered over it, whom each side refuses and what it says, and that nothing
is lost meanwhile. Authorities and certificates are made for each run."""

import contextlib
import json
import pathlib
import random
import shutil
import select
import socket
import ssl
import tempfile
import threading
import time
import warnings

from certificates import Authority, openssl
from harness import ended, failure, free_port, page, patience, run, succeed, until
from ledger import LedgerTest, stored
from peers import Listener
from scale import SEED, amount, at_night
from wire import Peer

MEGABYTES = amount("WAYBILL_TLS_MEGABYTES", 60, 200)
NAMED = "DNS:collect.test"
HANDSHAKE_SECONDS = 10


class TLSTest(LedgerTest):
    """A site with an authority, and a stranger that no one trusts."""

    LINES = SEED

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="waybill-tls-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.authority, cls.stranger = Authority(cls.folder / "ours"), Authority(cls.folder / "theirs", "stranger")
        cls.good = cls.authority.issue("receiver")

    def receiver(self, identity=None, *arguments, **named):
        certificate, key = identity or self.good
        return self.site.receiver("--tls-certificate", certificate, "--tls-key", key, *arguments, **named)

    def agent(self, *arguments):
        return self.site.agent(*(arguments or self.trusting()))

    def trusting(self, *arguments):
        return ["--tls-ca", self.authority.certificate, *arguments]

    def fill(self, byte_count=200_000):
        self.maker.spool(self.site.spool, self.ledger, byte_count)

    def is_shipped(self):
        return not list(self.site.spool.glob("*.ndjson"))

    def assert_nothing_shipped(self):
        self.assertFalse(self.is_shipped())
        self.assertEqual(sum(1 for _ in stored(self.site.data)), 0)

    def assert_stored(self, receiver, agent=None):
        """Waits until everything is shipped, stops both and compares what is stored with what was made."""
        if agent:
            until(self.is_shipped, 90, "everything is shipped")
            self.stop_all(agent)
        super().assert_stored(receiver)
        self.assert_no_secrets()

    def assert_no_secrets(self):
        secrets = [line for path in self.folder.rglob("*.key") for line in path.read_text().splitlines()[1:-1]]
        for log in self.site.logs.glob("*.log"):
            text = log.read_text(errors="replace")
            self.assertFalse([line for line in secrets if line in text], f"{log.name} shows a private key")

    def context(self, identity=None, version=None):
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if identity:
            context.load_cert_chain(*identity)
        if version:
            context.minimum_version = context.maximum_version = version
        return context


class DeliveryTests(TLSTest):
    """What is promised without TLS is promised with it."""

    @at_night
    def test_a_drain_survives_kills_of_both_sides(self):
        """Agent and receiver are killed again and again in the middle of a backlog: every line is stored exactly once."""
        chance = random.Random(SEED)
        self.fill(MEGABYTES * 1_000_000)
        receiver, agent = self.receiver(), self.agent()
        kills = 0
        while not self.is_shipped() and kills < 12:
            time.sleep(chance.uniform(0.05, 0.4))
            agent.kill()
            if chance.random() < 0.4:
                receiver.kill()
                receiver = self.receiver()
            kills += not self.is_shipped()
            agent = self.agent()
        self.assertGreater(kills, 3, "too few kills interrupt anything")
        print(f"tls: {kills} kills in the middle of {self.ledger.line_count} lines (seed {SEED})")
        self.assert_stored(receiver, agent)

    def test_by_name_with_a_chain_and_from_configuration_files(self):
        """A chain with an authority in between, a name of its own, and both sides' keys in the configuration file."""
        between, key = self.authority.issue("between", alternatives="", is_authority=True)
        middle = object.__new__(Authority)
        middle.folder, middle.name, middle.certificate, middle.key = self.authority.folder, "authority", between, key
        leaf, leaf_key = middle.issue("leaf", NAMED)
        shutil.copy(leaf_key, self.site.root / "receiver.key")
        (self.site.root / "receiver.pem").write_bytes(leaf.read_bytes() + between.read_bytes())
        shutil.copy(self.authority.certificate, self.site.root / "ca.pem")
        file = self.site.root / "waybill.yaml"
        file.write_text(
            f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n"
            "  tls: {certificate: receiver.pem, key: receiver.key}\n"
            f"agent:\n  state: {self.site.state}\n  to: [\"localhost:{self.site.port}\"]\n"
            f"  sources: [{{spool: {self.site.spool}}}]\n  tls: {{ca: ca.pem, server_name: collect.test}}\n")
        receiver = self.site.configured(file)
        self.fill()
        succeed("agent", "--config", file, "--once")
        self.assert_stored(receiver)

    def test_a_session_by_hand(self):
        """Another implementation of TLS speaks the protocol over 1.3 and over 1.2; older versions are refused."""
        receiver = self.receiver()
        for number, version in enumerate((ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)):
            with Peer(self.site.port, tls=self.context(version=version)) as peer:
                self.assertEqual(peer.socket.version(), ("TLSv1.3", "TLSv1.2")[number])
                self.assertTrue(peer.hello(f"by-hand-{number}").startswith("READY "))
                self.assertEqual(peer.open(f"stream-{number}"), "AT 1 0")
                offset = 0
                for lines in (self.maker.lines(1), self.maker.lines(3000), self.maker.lines(1)):
                    self.ledger.add(lines)
                    peer.batch(f"stream-{number}", b"".join(lines), offset=offset)
                    offset += len(b"".join(lines))
                    self.assertEqual(peer.line(), f"ACK 1 {offset}")
                peer.send("BYE")
                self.assertEqual(peer.line(), "BYE")
                self.assertIsNone(peer.line())
        with warnings.catch_warnings(action="ignore"):
            old = self.context(version=ssl.TLSVersion.TLSv1_1)
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        with self.assertRaises(ssl.SSLError):
            Peer(self.site.port, tls=old)
        receiver.until_logged("no-common-version")
        self.assert_stored(receiver)

    def test_what_ends_a_session_is_read_by_the_peer(self):
        """An `ERR` and what follows it arrive over TLS as they do without; the port stays open to others."""
        receiver = self.receiver()
        with Peer(self.site.port, tls=self.context()) as peer:
            peer.send("NONSENSE")
            self.assertRegex(peer.line(), "^ERR syntax ")
            self.assertIsNone(peer.line())
        with Peer(self.site.port, tls=self.context()) as peer:
            peer.hello("patient")
            self.assertEqual(receiver.stop(), 0)
            self.assertEqual(peer.line(), "BYE")
            self.assertIsNone(peer.line())


class RefusalTests(TLSTest):
    """Whoever is not who they should be: said with cause and remedy, nothing is lost, and it continues once it is mended."""

    def check_refused(self, identity, code, *arguments):
        """An agent meets a receiver with this certificate, says why not, and continues when the receiver has a good one."""
        self.fill()
        receiver = self.receiver(identity)
        agent = self.agent(*self.trusting(*arguments))
        agent.until_logged(f"({code})")
        self.assert_nothing_shipped()
        self.assertNotIn("agent connected", receiver.log(), "not even a HELLO was sent")
        self.assertEqual(receiver.stop(), 0)
        mended = self.authority.issue("mended", "IP:127.0.0.1,DNS:collect.test")
        self.assert_stored(self.receiver(mended), agent)

    def test_an_authority_that_is_not_trusted(self):
        self.check_refused(self.stranger.issue("receiver"), "tls-untrusted")

    def test_an_expired_certificate(self):
        self.check_refused(self.authority.issue("expired", days=("-3", "-1")), "tls-expired")

    def test_a_certificate_for_another_host(self):
        self.check_refused(self.authority.issue("other", "DNS:other.test"), "tls-wrong-host")

    def test_a_certificate_for_the_address_where_a_name_is_asked_for(self):
        """Whoever forges a name's address may well have a certificate for the address."""
        self.check_refused(
            self.authority.issue("address", "IP:127.0.0.1,DNS:other.test"), "tls-wrong-host",
            "--tls-server-name", "collect.test")

    def test_a_certificate_without_a_name(self):
        """The common name alone is no name of a host."""
        self.check_refused(
            self.authority.issue("collect.test", ""), "tls-wrong-host", "--tls-server-name", "collect.test")

    def test_wildcards_stand_for_one_label(self):
        """`*.collect.test` is any name right below, in either case, and no other."""
        receiver = self.receiver(self.authority.issue("wildcard", "DNS:*.collect.test,DNS:*.test,DNS:*"))
        for name, code in (("a.collect.test", 0), ("A.Collect.TEST", 0), ("a.b.collect.test", 69), ("localhost", 69)):
            result = ended(code, *self.site.agent_arguments(
                "--once", "--patience", "1", *self.trusting("--tls-server-name", name)))
            self.assertEqual(b"(tls-wrong-host)" in result.stderr, code != 0)
        receiver.stop()

    def test_the_systems_authorities(self):
        """`--tls` alone trusts the system's authorities, which do not know ours."""
        self.fill()
        receiver = self.receiver()
        agent = self.agent("--tls")
        agent.until_logged("(tls-untrusted)")
        receiver.until_logged("refused-by-peer")
        self.assert_nothing_shipped()
        agent.stop()
        self.assert_stored(receiver, self.agent())

    def test_a_plaintext_agent_and_a_receiver_with_tls(self):
        """Each side says what to do; the agent continues with TLS."""
        self.fill()
        port = free_port()
        receiver = self.receiver(None, "--metrics", f"127.0.0.1:{port}")
        agent = self.site.agent()
        agent.until_logged("this port takes TLS alone; start the agent with --tls or --tls-ca (syntax)")
        receiver.until_logged("the peer does not speak TLS")
        metrics = page(f"127.0.0.1:{port}")
        self.assertRegex(metrics, 'waybill_tls_refused_connections_total{reason="plaintext"} [1-9]')
        self.assertRegex(metrics, "waybill_tls_certificate_expiry_seconds 1[0-9]{9}\n")
        self.assert_nothing_shipped()
        agent.stop()
        self.assert_stored(receiver, self.agent())

    def test_an_agent_with_tls_and_a_plaintext_receiver(self):
        """Each side says what to do; the agent continues without a restart of its own when the receiver speaks TLS."""
        self.fill()
        receiver = self.site.receiver()
        agent = self.agent()
        agent.until_logged("(tls-plaintext)")
        receiver.until_logged("this is TLS, which this port does not speak")
        self.assert_nothing_shipped()
        self.assertEqual(receiver.stop(), 0)
        self.assert_stored(self.receiver(), agent)

    def test_once_says_why(self):
        """`--once` gives up after its patience with the reason, exit code 69, and everything is still there."""
        self.fill()
        receiver = self.receiver(self.stranger.issue("receiver"))
        told = failure(69, *self.site.agent_arguments("--once", "--patience", "2", *self.trusting()))
        self.assertIn("an authority that this agent trusts; name its authority with --tls-ca", told)
        self.assert_nothing_shipped()
        receiver.stop()


class ClientCertificateTests(TLSTest):
    """`--tls-client-ca`: only agents with a certificate get in."""

    def setUp(self):
        super().setUp()
        self.fill()
        self.mutual = self.receiver(None, "--tls-client-ca", self.authority.certificate)

    def with_certificate(self, authority, **changes):
        certificate, key = authority.issue("agent", "", kind="clientAuth", **changes)
        return self.trusting("--tls-certificate", certificate, "--tls-key", key)

    def check_refused(self, code, arguments):
        agent = self.agent(*arguments)
        agent.until_logged("(tls-client-certificate)")
        self.mutual.until_logged(code)
        self.assert_nothing_shipped()
        self.assertNotIn("agent connected", self.mutual.log())
        self.stop_all(agent)
        self.assert_stored(self.mutual, self.agent(*self.with_certificate(self.authority)))

    def test_a_good_certificate_gets_in(self):
        self.assert_stored(self.mutual, self.agent(*self.with_certificate(self.authority)))

    def test_no_certificate(self):
        self.check_refused("client-certificate-missing", self.trusting())

    def test_another_authority(self):
        self.check_refused("client-certificate-untrusted", self.with_certificate(self.stranger))

    def test_an_expired_certificate(self):
        self.check_refused("client-certificate-expired", self.with_certificate(self.authority, days=("-3", "-1")))

    def test_other_implementations(self):
        """TLS 1.2 and 1.3 of another implementation, with a certificate and without."""
        identity = self.authority.issue("peer", "", kind="clientAuth")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with Peer(self.site.port, tls=self.context(identity, version)) as peer:
                self.assertTrue(peer.hello(version.name).startswith("READY "))
            with self.assertRaises((ssl.SSLError, OSError)) as raised:
                with Peer(self.site.port, tls=self.context(None, version)) as peer:
                    self.assertIsNone(peer.hello())
                    raise ConnectionResetError
            print(f"tls: without a certificate over {version.name}: {raised.exception}")


class PinTests(TLSTest):
    """A receiver's own certificate is named by its SHA-256."""

    def test_a_pinned_certificate_from_a_configuration_file(self):
        self.fill()
        receiver = self.receiver(self.stranger.issue("filed", "DNS:other.test"))
        printed = openssl("x509", "-in", self.stranger.folder / "filed.pem", "-noout", "-fingerprint", "-sha256").decode()
        pin = printed.split("=")[1].strip().replace(":", "").lower()
        file = self.site.root / "agent.yaml"
        text = (f"agent:\n  name: pinned\n  state: {self.site.root}/state\n  to: [\"{self.site.address}\"]\n"
                f"  sources: [{{spool: {self.site.spool}}}]\n")
        file.write_text(text + f"  tls: {{pinned: ['sha256:{pin}']}}\n")
        succeed("agent", "--config", file, "--once", "--patience", "30")
        self.assertTrue(self.is_shipped())
        receiver.stop()
        file.write_text(text + f"  tls: {{pinned: '{pin[:-1]}', ca: a.pem}}\n")
        self.assertIn("line 6: agent.tls.pinned: must be the SHA-256 of a certificate", failure(78, "check", file))
        file.write_text(text + f"  tls: {{pinned: '{pin}', ca: a.pem}}\n")
        self.assertIn("agent.tls.ca: cannot stand with pinned", run("check", file).stderr.decode())


class HostileTests(TLSTest):
    """Peers that stall, talk nonsense or are too many."""

    def closed_after(self, opened, seconds=30):
        """How long after `opened`, a time, the receiver closed this connection."""
        connection, since = opened
        connection.settimeout(patience(seconds))
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65536):
                pass
        connection.close()
        return time.monotonic() - since

    def connect(self, first=b""):
        connection, since = socket.create_connection(("127.0.0.1", self.site.port)), time.monotonic()
        connection.sendall(first)
        return connection, since

    def client_hello(self):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            session.do_handshake()
        return outgoing.read()

    def test_a_stalled_handshake_ends_in_time_and_holds_nobody_up(self):
        """Nothing at all, half a hello, a whole one and silence, a trickle, a handshake without HELLO: each is closed at
        the deadline that a silent peer has without TLS, and an agent ships at the same time."""
        receiver, hello = self.receiver(), self.client_hello()
        stalled = [self.connect(), self.connect(hello[:50]), self.connect(hello), self.connect(hello[:1])]
        trickling = self.connect(hello[:5])
        stop = threading.Event()

        def trickle():
            with contextlib.suppress(OSError):
                for byte in hello[5:]:
                    if stop.wait(0.2):
                        return
                    trickling[0].sendall(bytes([byte]))

        thread = threading.Thread(target=trickle)
        thread.start()
        silent, since = Peer(self.site.port, tls=self.context()), time.monotonic()
        self.fill()
        started = time.monotonic()
        self.site.once(*self.trusting())
        self.assertLess(time.monotonic() - started, patience(8))
        for opened in [*stalled, trickling]:
            seconds = self.closed_after(opened)
            self.assertTrue(HANDSHAKE_SECONDS - 0.5 <= seconds <= HANDSHAKE_SECONDS + patience(2.5), seconds)
        stop.set()
        thread.join()
        self.assertRegex(silent.line(), "^ERR timeout ")
        self.assertIsNone(silent.line())
        self.assertLess(time.monotonic() - since, HANDSHAKE_SECONDS + patience(2.5))
        silent.close()
        self.assert_stored(receiver)
        told = [json.loads(line) for line in receiver.log().splitlines() if '"code":"timeout"' in line]
        self.assertEqual(sum(line.get("repeated", 1) for line in told), 5, "one for each that had no TLS yet")

    @at_night
    def test_a_receiver_that_never_shakes_hands(self):
        """The agent gives up 20 s after it began to connect, as it does without TLS, and continues elsewhere."""
        self.fill()
        receiver, silent = self.receiver(), Listener(lambda connected: connected.recv(1) and time.sleep(60))
        self.addCleanup(silent.close)
        started = time.monotonic()
        agent = self.site.start(
            "agent", "--state", self.site.state, "--to", silent.address, "--to", self.site.address, "--spool",
            self.site.spool, *self.trusting(), log="agent.log")
        agent.until_logged("the receiver does not answer", 30)
        self.assertTrue(18 <= time.monotonic() - started <= 20 + patience(4))
        self.assert_stored(receiver, agent)

    def test_garbage(self):
        """Random bytes, alone and behind the beginning of a handshake, a cut and a changed hello: closed, and counted."""
        chance, receiver, hello = random.Random(SEED), self.receiver(), self.client_hello()
        for number in range(150):
            garbage = chance.randbytes(chance.randrange(1, 3000))
            changed = bytearray(hello)
            changed[chance.randrange(1, len(hello))] ^= 1 << chance.randrange(8)
            sent = (garbage, b"\x16" + garbage, b"\x16\x03\x01\x02\x00\x01" + garbage, bytes(changed))[number % 4]
            connection, _ = self.connect(sent)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            self.closed_after((connection, 0))
        self.assertTrue(receiver.is_running)
        receiver.until_logged('"code":"malformed"')
        self.fill()
        self.site.once(*self.trusting())
        self.assert_stored(receiver)

    def test_plaintext_is_answered_at_once(self):
        """Whoever speaks the protocol or HTTP without TLS reads an `ERR` in plain text."""
        receiver = self.receiver()
        for first in (b"HELLO {}\n", b"GET / HTTP/1.1\r\n\r\n", b"PING 1\n" + b"x" * 100_000):
            connection, _ = self.connect(first)
            connection.settimeout(5)
            self.assertRegex(connection.makefile("rb").readline(), b"^ERR syntax this port takes TLS alone")
            connection.close()
        self.assertEqual(receiver.stop(), 0)

    def test_stalled_handshakes_end_for_newcomers(self):
        """A stalled handshake is a silent connection, of which a quarter of all may be: the oldest ends for one more."""
        file = self.site.root / "waybill.yaml"
        file.write_text(
            f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n  connections: 12\n"
            f"  tls: {{certificate: {self.good[0]}, key: {self.good[1]}}}\n")
        receiver = self.site.configured(file)
        stalled = {connection for connection, _ in (self.connect() for _ in range(12))}
        deadline = time.monotonic() + patience(2)
        while len(stalled) > 3:
            ended = select.select(stalled, [], [], max(0, deadline - time.monotonic()))[0]
            self.assertTrue(ended, f"{len(stalled)} of 12 stalled handshakes are open")
            for connection in ended:
                connection.close()
                stalled.remove(connection)
        self.fill()
        self.assert_stored(receiver, self.agent())


class ConfigurationTests(TLSTest):
    """What is wrong with the files or the options is said at the start."""

    def check(self, arguments, *texts, code=78):
        told = failure(code, *arguments)
        for text in texts:
            self.assertIn(text, told)

    def receiving(self, *arguments):
        return ["receiver", "--data", self.site.data, "--listen", self.site.address, *arguments]

    def test_both_or_neither(self):
        certificate, key = self.good
        self.check(self.receiving("--tls-certificate", certificate), "give --tls-key FILE as well", code=64)
        self.check(self.receiving("--tls-key", key), "give --tls-certificate FILE as well", code=64)
        self.check(self.receiving("--tls-client-ca", self.authority.certificate), "--tls-client-ca needs TLS", code=64)
        self.check(self.site.agent_arguments("--tls-key", key), "give --tls-certificate FILE as well", code=64)
        self.check(self.site.agent_arguments("--tls-server-name", "127.0.0.1"), "must be a host name", code=64)

    def test_the_configuration_file(self):
        file = self.site.root / "waybill.yaml"
        file.write_text(
            "receiver:\n  data: d\n  tls: {certificate: a.pem}\nagent:\n  state: s\n  to: [\"a:1\"]\n"
            "  sources: [{spool: s}]\n  tls: {key: a.key, server_name: \"10.0.0.1\", verify: off}\n")
        self.check(
            ["check", file], "line 3: receiver.tls.certificate: needs its private key; add key: FILE",
            "line 8: agent.tls.key: needs its certificate", "line 8: agent.tls.server_name: must be a host's name",
            "line 8: agent.tls.verify: is not a key of agent.tls:")
        file.write_text(
            "receiver:\n  data: d\n  tls: {client_ca: a.pem}\nagent:\n  state: s\n  to: [\"a:1\"]\n"
            "  sources: [{spool: s}]\n  tls: maybe\n")
        self.check(
            ["check", file], "receiver.tls.certificate: is missing: certificate: FILE, key: FILE",
            "agent.tls: must be on or off")
        file.write_text("agent:\n  state: s\n  to: [\"a:1\"]\n  sources: [{spool: s}]\n  tls: on\n")
        self.check(["check", file], code=0)
