"""The configuration file from an operator's side: what `waybill check` finds, and what a reload does."""

import signal
import socket

from certificates import install
from harness import free_port, run, until
from health import ask
from test_tls import TLSTest
from wire import Peer


class ConfigurationTest(TLSTest):
    """A site with certificates and a configuration file."""

    def write(self, text, name="waybill.yaml"):
        return self.site.write(name, text)

    def receiver_file(self, *lines):
        return self.write(f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n"
                          + "".join(f"  {line}\n" for line in lines))

    def start(self, *lines):
        return self.site.configured(self.receiver_file(*lines))

    def check(self, path, *arguments, env=None):
        """The exit code, and the findings as (severity, line and key, text)."""
        result = run("check", *arguments, path, env=env)
        findings = []
        for line in result.stderr.decode().splitlines():
            severity, file, number, key, text = line.removeprefix("waybill: ").split(": ", 4)
            self.assertIn(severity, ("error", "warning"))
            self.assertTrue(file.endswith(".yaml"), line)
            findings.append((severity, f"{number}: {key}", text))
        return result.returncode, findings


class CheckTests(ConfigurationTest):
    """`waybill check`: each finding has a severity, a place and a remedy."""

    def test_certificates_are_opened_as_a_start_would_open_them(self):
        certificate, key = self.good
        other = self.authority.issue("other-check")[1]
        expired = self.authority.issue("expired-check", days=("-3", "-1"))
        early = self.authority.issue("early-check", days=("1", "40"))
        lasting = self.authority.issue("lasting-check", days=("-1", "40"))
        nothing = self.site.root / "nothing.pem"
        for names, place, text in (
                ((nothing, key), "line 4: receiver.tls", "there is no such file"),
                ((certificate, other), "line 4: receiver.tls", "do not belong together"),
                ((key, key), "line 4: receiver.tls", "holds no PEM certificate"),
                (expired, "line 4: receiver.tls.certificate", "expired at 20"),
                (early, "line 4: receiver.tls.certificate", "is not valid before 20")):
            code, findings = self.check(self.receiver_file(f"tls: {{certificate: {names[0]}, key: {names[1]}}}"))
            self.assertEqual((code, len(findings)), (78, 1), findings)
            self.assertEqual(findings[0][:2], ("error", place))
            self.assertIn(text, findings[0][2])
        code, findings = self.check(self.receiver_file(f"tls: {{certificate: {certificate}, key: {key}}}"))
        self.assertEqual((code, [finding[0] for finding in findings]), (0, ["warning"]))
        self.assertIn("expires at 20", findings[0][2])
        self.assertEqual(self.check(self.receiver_file(f"tls: {{certificate: {lasting[0]}, key: {lasting[1]}}}")), (0, []))
        agent = self.write("agent:\n  state: s\n  to: [\"a:1\"]\n  sources: [{spool: s}]\n"
                           f"  tls: {{ca: {nothing}}}\n")
        self.assertEqual([finding[:2] for finding in self.check(agent)[1]], [("error", "line 5: agent.tls")])

    def test_addresses_given_twice(self):
        for lines, place in (
                (("metrics: \"0.0.0.0:{port}\"",), "line 4: receiver.metrics"),
                (("metrics: \"127.0.0.1:{port}\"",), "line 4: receiver.metrics")):
            code, findings = self.check(self.receiver_file(*(line.format(port=self.site.port) for line in lines)))
            self.assertEqual((code, [finding[1] for finding in findings]), (78, [place]))
            self.assertIn("is also the address of receiver.listen", findings[0][2])
        both = self.write("receiver: {data: d, metrics: \"127.0.0.1:9\"}\nagent:\n  state: s\n  metrics: 127.0.0.1:9\n"
                          "  to: [\"a:1\", \"a:1\"]\n  sources: [{spool: s}]\n")
        code, findings = self.check(both)
        self.assertEqual([finding[:2] for finding in findings], [
            ("error", "line 4: agent.metrics"), ("warning", "line 5: agent.to")])

    def test_tokens_are_read_as_a_start_would_read_them(self):
        token = self.site.root / "status.token"
        for text, expected in ((None, "there is no token file"), ("short\n", "fewer than 16 bytes"),
                               ("two words are no token\n", "spaces or control characters")):
            if text:
                token.write_text(text)
            code, findings = self.check(self.receiver_file("status_token_file: status.token"))
            self.assertEqual((code, [finding[:2] for finding in findings]), (
                78, [("error", "line 4: receiver.status_token_file")]))
            self.assertIn(expected, findings[0][2])
        token.write_text("0123456789abcdef\n")
        self.assertEqual(self.check(self.receiver_file("status_token_file: status.token")), (0, []))
        agent = self.write("agent:\n  state: s\n  to: [\"a:1\"]\n  sources: [{spool: s}]\n  token_file: none.token\n"
                           "  status_token_file: none.token\n")
        code, findings = self.check(agent)
        self.assertEqual((code, [finding[:2] for finding in findings]), (78, [
            ("error", "line 6: agent.status_token_file"), ("warning", "line 5: agent.token_file")]))

    def test_a_probe_writes_listens_and_greets(self):
        """With everything in order: nothing is left behind, and the connected agent is not disturbed."""
        receiver = self.site.receiver()
        self.site.agent("--name", "web-1").until_logged("agent started")
        receiver.until_logged('"agent":"web-1"')
        with Peer(self.site.port) as peer:
            self.assertTrue(peer.hello("peer-1").startswith("READY "))
            state = f"{self.site.root}/new//state/"
            for name in ("web-1", "peer-1"):
                path = self.write(f"agent:\n  name: {name}\n  state: {state}\n  to: [\"{self.site.address}\"]\n"
                                  f"  metrics: 127.0.0.1:{free_port()}\n  sources: [{{spool: {self.site.spool}}}]\n")
                self.assertEqual(self.check(path, "--probe"), (0, []))
                receiver.until_logged(f'"agent":"{name}~probe"')
            peer.send("PING 7")
            self.assertEqual(peer.line(), "PONG 7")
        self.assertFalse((self.site.root / "new").exists())
        agents = [process for process in self.site.processes if process is not receiver]
        self.assertNotIn("not connected", agents[0].log())
        self.assertNotIn('agent-in-use', receiver.log())

    def test_a_probe_says_what_fails(self):
        (self.site.root / "file").write_text("")
        closed = free_port()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            path = self.write(
                f"receiver:\n  data: {self.site.root}/file/data\n  listen: 127.0.0.1:{port}\n"
                f"agent:\n  state: {self.site.root}/file\n  to: [\"127.0.0.1:{closed}\"]\n  sources: [{{spool: s}}]\n")
            self.assertEqual(self.check(path), (0, []))
            code, findings = self.check(path, "--probe")
        self.assertEqual(code, 78)
        self.assertEqual([finding[:2] for finding in findings], [
            ("error", "line 2: receiver.data"), ("error", "line 5: agent.state"), ("error", "line 3: receiver.listen"),
            ("error", "line 6: agent.to")])
        self.assertIn("Address already in use", findings[2][2])
        self.assertIn("Connection refused", findings[3][2])

    def test_a_probe_shows_its_token_and_verifies_the_receiver(self):
        receiver = self.receiver(env={"WAYBILL_TOKEN": "s3cret-0123456789-token"})
        text = (f"agent:\n  state: {self.site.root}/s\n  to: [\"{self.site.address}\"]\n"
                f"  sources: [{{spool: {self.site.spool}}}]\n  tls: {{ca: %s}}\n")
        good = self.write(text % self.authority.certificate)
        self.assertEqual(self.check(good, "--probe", env={"WAYBILL_TOKEN": "s3cret-0123456789-token"}), (0, []))
        for path, token, expected in (
                (good, "wrong", "(token)"),
                (self.write(text % self.stranger.certificate, "other.yaml"), "s3cret-0123456789-token", "tls-untrusted")):
            code, findings = self.check(path, "--probe", env={"WAYBILL_TOKEN": token})
            self.assertEqual((code, findings[0][1]), (78, "line 3: agent.to"))
            self.assertIn(expected, findings[0][2])
            self.assertNotIn("s3cret-0123456789-token", findings[0][2])
        self.assertEqual(receiver.stop(), 0)


class HelpTests(ConfigurationTest):
    def test_help_has_the_defaults_of_the_page(self):
        for command, texts in (("receiver", ("(default: 127.0.0.1:4390)", "(default: UTC)")),
                               ("agent", ("(0 to 9; default: 1)", "(1 to 64; default: 1)", "from this machine's id"))):
            text = " ".join(run(command, "--help").stdout.decode().split())
            for expected in texts:
                self.assertIn(expected, text)


class ReloadTests(ConfigurationTest):
    """SIGHUP to a receiver: what changes, what has to wait, what is refused."""

    def reload(self, receiver, *lines):
        """What the log says after a reload."""
        self.receiver_file(*lines)
        before = len(receiver.log())
        receiver.child.send_signal(signal.SIGHUP)
        until(lambda: "configuration reloaded" in receiver.log()[before:] or "is refused" in receiver.log()[before:], 20,
              "the reload is answered")
        # The second line of a reload comes at once after its first.
        until(lambda: receiver.log().endswith("\n"), 5)
        return receiver.log()[before:]

    def status(self, port, token):
        """The code that a request for /status gets that comes under another name than this machine's own."""
        return ask(port, "/status", {"Host": "collector", "Authorization": f"Bearer {token}"})[0]

    def test_the_token_of_the_status_is_replaced_and_a_bad_one_is_not_taken(self):
        port = free_port()
        lines = [f"metrics: 127.0.0.1:{port}", "status_token_file: status.token"]
        token = self.site.root / "status.token"
        token.write_text("0123456789abcdef\n")
        receiver = self.start(*lines)
        self.assertEqual((self.status(port, "0123456789abcdef"), self.status(port, "fedcba9876543210")), (200, 401))
        token.write_text("fedcba9876543210\n")
        self.assertIn("receiver.status_token_file (token): former -> another one", self.reload(receiver, *lines))
        self.assertEqual((self.status(port, "0123456789abcdef"), self.status(port, "fedcba9876543210")), (401, 200))
        token.write_text("short\n")
        self.assertIn("fewer than 16 bytes", self.reload(receiver, *lines))
        self.assertEqual(self.status(port, "fedcba9876543210"), 200)
        self.assertIn("receiver.status_token_file: ", self.reload(receiver, lines[0]))
        self.assertEqual(self.status(port, "fedcba9876543210"), 403)
        self.assertNotIn("fedcba9876543210", receiver.log())
        self.assertEqual(receiver.stop(), 0)

    def install(self, identity):
        install(identity, self.site.root / "receiver.pem", self.site.root / "receiver.key")

    def serial(self):
        """Of the certificate that a new connection gets."""
        with Peer(self.site.port, tls=self.context()) as peer:
            self.assertTrue(peer.hello().startswith("READY "))
            peer.send("BYE")
            return peer.socket.getpeercert()["serialNumber"]

    def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(self):
        tls = "tls: {certificate: receiver.pem, key: receiver.key}"
        self.install(self.good)
        receiver = self.start(tls)
        first = self.serial()
        with Peer(self.site.port, tls=self.context()) as old:
            self.assertTrue(old.hello("old").startswith("READY "))
            renewed = self.authority.issue("renewed", days=("-1", "30"))
            self.install(renewed)
            said = self.reload(receiver, tls)
            self.assertRegex(said, r"receiver.tls \(certificate\): valid until \S+ -> valid until ")
            second = self.serial()
            self.assertNotEqual(first, second)
            old.send("PING 1")
            self.assertEqual(old.line(), "PONG 1")
        for broken in ((renewed[0], self.good[1]), (renewed[1], renewed[1]),
                       self.authority.issue("late", days=("-3", "-1"))):
            self.install(broken)
            said = self.reload(receiver, tls, "retention: {days: 3}")
            self.assertIn("the old one stays", said)
            self.assertEqual(self.serial(), second)
        self.install(renewed)
        self.assertIn("receiver.retention.days: keep all -> 3", self.reload(receiver, tls, "retention: {days: 3}"))
        self.assertIn("receiver.tls.certificate: ", self.reload(receiver))
        receiver.until_logged("need a restart")
        self.assertEqual(self.serial(), second)
        self.assertEqual(receiver.stop(), 0)
