"""Principals: who is let in and as whom, what each may write, and what happens when credentials change under open
connections. Each attack is by a principal that is let in, or by a stranger who wants to be."""

import base64
import hashlib
import json
import os
import ssl
import time

from certificates import Authority, openssl
from harness import free_port, samples, succeed, until
from ledger import LedgerTest
from wire import Peer, let_in, skip


def digest(token):
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def device():
    """A device's key in base64url, and the name that it proves."""
    key = os.urandom(16)
    return base64.urlsafe_b64encode(key).decode().rstrip("="), hashlib.sha256(key).hexdigest()[:32]


class PrincipalsTest(LedgerTest):
    TOKENS = {name: f"{name}-0123456789abcdef" for name in ("web", "rival", "phones", "door")}

    def setUp(self):
        super().setUp()
        self.audit = self.site.root / "audit.json"
        self.metrics = free_port()

    def configure(self, *entries, extra=""):
        """Writes the configuration, with these entries of `agents` in a file of their own; returns its path."""
        self.write_agents(*entries)
        path = self.site.root / "waybill.yaml"
        path.write_text(
            f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n  audit: {self.audit}\n"
            f"  metrics: 127.0.0.1:{self.metrics}\n  agents_file: agents.yaml\n{extra}")
        return path

    def write_agents(self, *entries):
        text = "agents:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)
        self.site.write("agents.yaml", text)

    def entry(self, name, more=""):
        return f"name: {name}, tokens: [\"{digest(self.TOKENS[name])}\"]{more and ', ' + more}"

    def receiver(self, *entries, extra="", exports="none"):
        return self.site.receiver("--config", self.configure(*entries, extra=extra), exports=exports)

    def peer(self, principal, agent="peer", tls=None, **members):
        return let_in(self, self.site.port, agent, tls, token=self.TOKENS[principal], **members)

    def refusal(self, agent="peer", tls=None, **members):
        peer = Peer(self.site.port, tls=tls)
        self.addCleanup(peer.close)
        return peer.hello(agent, **members)

    def made(self, count, **changes):
        return b"".join(super().made(count, **{"bundle": "com.example.web", "env": "prod", **changes}))

    def ship(self, peer, raw, stream="s-1", offset=0, number=1):
        """Sends a batch; returns the offset that is acknowledged."""
        peer.batch(stream, raw, offset=offset, number=number)
        self.assertEqual(peer.line(), f"ACK {number} {offset + len(raw)}")
        return offset + len(raw)

    def entries(self, event):
        """The audit log's entries of one kind."""
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()] if self.audit.exists() else []
        return [line for line in lines if line["event"] == event]

    def metric(self, name):
        return samples(f"127.0.0.1:{self.metrics}", name)

    def assert_stored(self, *processes):
        super().assert_stored(*processes)
        self.assert_verified()


class StreamTests(PrincipalsTest):
    """One id at two principals."""

    def test_b1_an_id_that_another_principal_took_first_is_still_free(self):
        """It opened, filled and sealed the id before its owner came; the owner begins at 0 and loses nothing."""
        receiver = self.receiver(self.entry("web"), self.entry("rival"))
        rival = self.peer("rival")
        self.assertEqual(rival.open("s"), "AT 1 0")
        theirs = self.made(20)
        self.ship(rival, theirs, "s")
        rival.send(f"SEAL 1 {len(theirs)}")
        self.assertEqual(rival.line(), "SEALED 1")
        owner = self.peer("web")
        self.assertEqual(owner.open("s"), "AT 1 0")
        self.assertEqual(owner.proofs[1], (0, "-"))
        ours = self.made(30)
        self.ship(owner, ours, "s")
        again = self.peer("web", "second")
        owner.close()
        until(lambda: again.open("s") == f"AT 1 {len(ours)}", 10)
        again.assert_proved("s", ours)
        self.assert_stored(receiver)

    def test_b8_skips_are_bounded_and_audited(self):
        receiver = self.receiver(self.entry("web", "skip_mib: 1"), self.entry("rival"))
        peer = self.peer("web")
        self.assertEqual(peer.open("s"), "AT 1 0")
        peer.send(skip(0, 600_000, "truncated"))
        self.assertEqual(peer.line(), "ACK 1 600000")
        peer.send(skip(600_000, 600_000, "truncated"))
        self.assertRegex(peer.line(), "^NAK 1 600000 retry-after ")
        self.assertEqual(peer.open("s"), "AT 1 600000", "the stream continues")
        raw = self.made(3)
        self.ship(peer, raw, "s", 600_000)
        other = self.peer("rival")
        other.open("t")
        other.send(skip(0, 10**9, "truncated"))
        self.assertEqual(other.line(), f"ACK 1 {10**9}", "the bound is the principal's own")
        until(lambda: self.entries("denied"), 5)
        self.assertEqual([line["bytes"] for line in self.entries("skipped")], ["600000", "1000000000"])
        self.assertEqual([line["code"] for line in self.entries("denied")], ["retry-after"])
        self.assert_stored(receiver)

    def test_agents_that_are_switched_on_store_nothing_twice(self):
        """A log that grows, and a segment: shipped without `agents`, then by a principal that adopts; and by one whose
        file has other bytes under the same path, which begins its own."""
        receiver = self.site.receiver(exports="none")
        path = self.site.root / "web.json"
        arguments = self.site.agent_arguments("--glob", str(path), "--env", "prod", "--bundle", "com.example.web",
                                              "--name", "front", "--spool", str(self.site.spool))

        def ship(token=""):
            succeed(*arguments, "--once", env={"WAYBILL_TOKEN": token})

        self.write_log(path, 300)
        self.maker.segment(self.site.spool, self.maker.lines(200), ledger=self.ledger)
        ship()
        self.assertEqual(receiver.stop(), 0)
        for _ in range(2):
            receiver = self.receiver(self.entry("web", "adopt: true"), self.entry("rival", "adopt: true"))
            self.write_log(path, 100)
            ship(self.TOKENS["web"])
            # The journal is read again by the next start.
            self.assertEqual(receiver.stop(), 0)
        self.assertEqual(len(self.entries("adopted")), 1, self.entries("adopted"))
        self.assert_stored(self.receiver(self.entry("web", "adopt: true")))

    def test_b1_a_stream_from_before_goes_to_the_one_that_has_its_bytes(self):
        """No one else learns more than its offset: a wrong proof, a wrong offset, a principal that may not adopt."""
        receiver = self.site.receiver(exports="none")
        peer = Peer(self.site.port)
        peer.hello("old")
        peer.open("s")
        raw = self.made(40)
        self.ship(peer, raw, "s")
        peer.close()
        self.assertEqual(receiver.stop(), 0)
        receiver = self.receiver(
            self.entry("web", "adopt: true"), self.entry("rival", "adopt: true"), self.entry("door"))
        proof = hashlib.sha256(b"s\n%d\n" % len(raw) + raw[-512:]).hexdigest()[:32]
        self.assertEqual(self.peer("door").open("s"), "AT 1 0")
        rival = self.peer("rival")
        for claim in (
                {}, {"from": len(raw)}, {"from": len(raw), "proof": "0" * 32}, {"from": len(raw) - 1, "proof": proof}):
            self.assertRegex(rival.open("s", **claim), f"^NAK 1 {len(raw)} prove ")
        owner = self.peer("web")
        self.assertRegex(owner.open("s"), f"^NAK 1 {len(raw)} prove ")
        self.assertEqual(owner.open("s", **{"from": len(raw), "proof": proof}), f"AT 1 {len(raw)}")
        owner.assert_proved("s", raw)
        more = self.made(5)
        self.ship(owner, more, "s", len(raw))
        self.assertEqual(rival.open("s", **{"from": 0}), "AT 1 0", "whoever lacks the bytes begins its own stream")
        receiver.kill()
        receiver = self.receiver(self.entry("web", "adopt: true"), self.entry("rival"))
        owner = self.peer("web")
        self.assertEqual(owner.open("s"), f"AT 1 {len(raw + more)}")
        self.assert_stored(receiver)

    def test_a_principal_continues_the_streams_of_its_former_name(self):
        receiver = self.receiver(self.entry("web"))
        peer = self.peer("web")
        peer.open("s")
        raw = self.made(10)
        self.ship(peer, raw, "s")
        self.assertEqual(receiver.stop(), 0)
        receiver = self.receiver(f"name: front, tokens: [\"{digest(self.TOKENS['web'])}\"], formerly: [web]")
        peer = self.peer("web")
        self.assertEqual(peer.open("s"), f"AT 1 {len(raw)}")
        self.assert_stored(receiver)


class CredentialTests(PrincipalsTest):
    """Tokens, devices, certificates, and what happens when they change."""

    def test_d12_guesses_are_counted_and_slowed_and_the_right_token_is_not(self):
        receiver = self.receiver(self.entry("web"))
        start = time.monotonic()
        for guess in range(8):
            self.assertEqual(self.refusal(token=f"guess-{guess}-0123456789"), "ERR token the token is missing or wrong")
        # Three at once, then after 0.25, 0.5, 1, 2 and 4 seconds.
        self.assertGreater(time.monotonic() - start, 7.5)
        slow = Peer(self.site.port)
        self.addCleanup(slow.close)
        slow.send('HELLO {"protocol":[1],"agent":"a","instance":"1","accept":["zlib"],"token":"another-guess-012345"}')
        self.peer("web")
        slow.socket.settimeout(0.01)
        with self.assertRaises(TimeoutError):
            slow.socket.recv(1)
        until(lambda: self.metric("waybill_refused_agents_total").get('{reason="token"}') == 9.0, 10)
        self.assertIn("an agent is refused", receiver.log())
        until(lambda: len(self.entries("refused")) == 9, 5)
        for text in (receiver.log(), self.audit.read_text()):
            self.assertNotIn("guess-", text)
            self.assertNotIn(self.TOKENS["web"], text)

    def test_a_token_revoked_under_a_connection_ends_it(self):
        """Also when it is replaced in its file; a file that cannot be used changes nothing."""
        token = self.site.root / "web.token"
        token.write_text(self.TOKENS["web"] + "\n")
        receiver = self.receiver("name: web, tokens: [web.token]", self.entry("rival"))
        peer, other = self.peer("web"), self.peer("rival")
        token.write_text("short\n")
        receiver.until_logged("has fewer than 16 bytes")
        self.peer("web", "second").close()
        token.write_text("new-token-0123456789\n")
        self.assertEqual(peer.line(10), "ERR token the token is missing or wrong")
        self.assertEqual(self.refusal(token=self.TOKENS["web"]), "ERR token the token is missing or wrong")
        self.assertTrue(self.refusal(token="new-token-0123456789").startswith("READY "))
        other.send("PING 5")
        self.assertEqual(other.line(), "PONG 5", "others stay")
        self.write_agents("name: web, tokens: [web.token]")
        self.assertEqual(other.line(10), "ERR token the token is missing or wrong")
        self.assertEqual(receiver.stop(), 0)

    def test_an_entry_that_changes_lets_its_agents_connect_again(self):
        self.receiver(self.entry("web"))
        peer = self.peer("web")
        self.write_agents(self.entry("web", "envs: [prod]"))
        self.assertRegex(peer.line(10), "^ERR unavailable ")
        self.peer("web")

    def test_b8_devices_prove_their_names_and_have_streams_of_their_own(self):
        """Of many installs with one token, none can take another's name or stream."""
        receiver = self.receiver(self.entry("phones", "devices: true"))
        texts, names = zip(device(), device())
        for agent, members in ((names[0], {}), (names[0], {"key": texts[1]}), ("app", {"key": texts[0]})):
            answer = self.refusal(agent, token=self.TOKENS["phones"], **members)
            self.assertRegex(answer, "^ERR token the agent's name does not follow from its key")
        first, second = (self.peer("phones", name, key=text) for name, text in zip(names, texts))
        for peer in (first, second):
            self.assertEqual(peer.open("s"), "AT 1 0")
            raw = self.made(5)
            self.ship(peer, raw, "s")
        self.assert_stored(receiver)
        owners = {line["owner"] for line in self.entries("opened")}
        self.assertEqual(owners, {f"phones/{name}" for name in names})


class CertificateTests(PrincipalsTest):
    """A certificate names the principal."""

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.site.root / "ca")
        self.certificate, self.key = self.authority.issue("receiver")
        self.list = self.site.root / "agents.crl"
        self.write_list()

    def write_list(self, authority=None):
        authority = authority or self.authority
        draft = self.site.root / "draft.crl"
        openssl("ca", "-config", authority.folder / "authority.conf", "-cert", authority.certificate,
                "-keyfile", authority.key, "-gencrl", "-crldays", "1", "-out", draft)
        draft.rename(self.list)

    def context(self, name, kind="clientAuth"):
        identity = self.authority.issue(name, alternatives=f"DNS:{name}.example.com", kind=kind)
        context = ssl.create_default_context(cafile=self.authority.certificate)
        context.load_cert_chain(*identity)
        return context, identity

    def start(self):
        return self.receiver(
            "name: web, certificates: [web.example.com], tokens: [\"%s\"]" % digest(self.TOKENS["web"]),
            "name: rival, certificates: [rival.example.com], tokens: [\"%s\"]" % digest(self.TOKENS["rival"]),
            extra=f"  tls: {{certificate: {self.certificate}, key: {self.key}, "
                  f"client_ca: {self.authority.certificate}, crl: {self.list}}}\n")

    def test_a_certificate_decides_and_a_revoked_one_ends_its_connection(self):
        self.start()
        web, identity = self.context("web")
        stranger, _ = self.context("stranger")
        self.assertTrue(self.refusal(tls=web).startswith("READY "))
        self.assertRegex(self.refusal("a", tls=web, token=self.TOKENS["rival"]), "^ERR token .*different agents")
        self.assertRegex(
            self.refusal("b", tls=stranger, token=self.TOKENS["web"]), "^ERR token the certificate belongs to no agent")
        peer = self.peer("web", "held", tls=web)
        openssl("ca", "-config", self.authority.folder / "authority.conf", "-cert", self.authority.certificate,
                "-keyfile", self.authority.key, "-revoke", identity[0])
        self.write_list()
        self.assertEqual(peer.line(10), "ERR token the certificate is revoked")
        self.assertEqual(self.refusal("c", tls=web), "ERR token the certificate is revoked")
        # The first connection, which is still open, the held one, and the last attempt.
        until(lambda: self.metric("waybill_refused_agents_total").get('{reason="certificate-revoked"}') == 3.0, 10)
