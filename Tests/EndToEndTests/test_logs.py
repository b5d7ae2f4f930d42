"""What programs log: formats, identifiers, one line a cause and minute, the last line; and messages that say what to do."""
import json
import signal
import socket
import unittest

from harness import Handler, SiteTest, ended, failure, free_port, run, serve, succeed, until
from wire import Peer

# A program that dies: the data directory of a running receiver, an agent without a receiver, and options that lack one.
IN_USE, USAGE, FILES, CONFIG = 75, 64, 74, 78


class FormatTests(SiteTest):
    def test_the_last_line_has_the_format(self):
        receiver = self.site.receiver()
        second = ["receiver", "--data", self.site.data, "--listen", f"127.0.0.1:{free_port()}"]
        result = ended(IN_USE, *second)
        last = json.loads(result.stderr.splitlines()[-1])
        self.assertEqual((last["level"], last["id"]), ("error", "WB4003"))
        self.assertIn(str(receiver.child.pid), last["message"])
        self.assertRegex(failure(IN_USE, *second, "--log-format", "journal").splitlines()[-1], "^<3>WB4003 waybill: ")
        result = run("agent", "--state", self.site.state, "--spool", self.site.spool, "--log-format", "text")
        self.assertEqual(result.returncode, USAGE)
        self.assertRegex(result.stderr.decode(), r"^\S+Z error WB4001 waybill: name a receiver: --to HOST:PORT\n\Z")
        result = ended(CONFIG, "receiver", "--config", "/nowhere.yaml", "--log-format", "json")
        self.assertEqual(json.loads(result.stderr)["id"], "WB4002")

    def test_every_warning_has_an_identifier_and_an_agent_logs_types(self):
        receiver = self.site.receiver()
        path = self.site.root / "app.json"
        path.write_text('{"ts":"2026-11-20T09:14:15.926Z","name":"sign_up"}\nnot JSON\n')
        agent = self.site.agent("--glob", path, "--env", "prod", "--bundle", "com.example.web")
        agent.until_logged("quarantine")
        agent.stop()
        lines = agent.entries()
        self.assertEqual(agent.log().count("\n"), len(lines))
        self.assertEqual([line for line in lines if line["level"] in ("warning", "error") and "id" not in line], [])
        quarantined = next(line for line in lines if line.get("id") == "WB2103")
        self.assertEqual((quarantined["lines"], quarantined["streams"]), (1, 1))
        self.assertEqual(lines[-1]["summary"]["lines"], 2)
        connected = next(line for line in receiver.entries() if line["message"] == "agent connected")
        self.assertRegex(connected["peer"], r"^127\.0\.0\.1:\d+$")


class ExplainTests(unittest.TestCase):
    def test_an_identifier_is_explained(self):
        result = succeed("explain", "WB1203", "wb4003")
        first, second = result.stdout.decode().split("\n\n")
        self.assertRegex(first, r"\AWB1203: .*\nCause:  .*\.\nEffect: .*\.\nRemedy: .*\.\Z")
        self.assertTrue(second.startswith("WB4003: "))

    def test_an_unknown_one_names_the_nearest(self):
        result = run("explain", "WB12O3")
        self.assertEqual((result.returncode, result.stdout), (USAGE, b""))
        self.assertIn(b"WB12O3 is not an identifier of this version; did you mean WB1203?", result.stderr)


class RepetitionTests(SiteTest):
    def test_a_receiver_that_hangs_up_is_named_once_with_how_often(self):
        """Many attempts fail in the same way: one line at once, and their number at the end."""
        server = socket.create_server(("127.0.0.1", self.site.port))
        self.addCleanup(server.close)
        agent = self.site.agent()
        server.settimeout(60)
        for _ in range(4):
            server.accept()[0].close()

        def told():
            return [line for line in agent.entries() if line.get("id") == "WB2101"]
        # One hang-up may be seen as another reason than the next: closed, or reset.
        until(told, 20, "the first is told")
        self.assertLessEqual(len(told()), 2)
        server.close()
        agent.stop()
        # An attempt follows the failure of the one before it; the last one may end after the agent.
        self.assertGreaterEqual(sum(line.get("repeated", 1) for line in told()), 3)
        for line in told():
            self.assertEqual(line["receiver"], self.site.address)
            self.assertEqual(line["waiting_bytes"], 0)
            self.assertGreater(line["retry_in_s"], 0)
            self.assertGreaterEqual(line["alone_for_s"], 0)


class RemedyTests(SiteTest):
    """Messages that name what happened, where, and what to do."""

    def test_another_server_at_the_address_is_named(self):
        serve(self, Handler, port=self.site.port)
        agent = self.site.agent()
        agent.until_logged(f"{self.site.address} is not a Waybill receiver: it said")
        line = next(line for line in agent.entries() if line.get("id") == "WB2101")
        self.assertRegex(line["reason"], r'it said "(HTTP/1\.[01] 400|<!DOCTYPE)')
        self.assertIn("correct the address", line["reason"])

    def test_an_address_that_cannot_be_listened_on(self):
        """The cause in words, and no call of a library."""
        result = ended(FILES, "receiver", "--data", self.site.data, "--listen", "192.0.2.1:4390")
        last = json.loads(result.stderr.splitlines()[-1])
        self.assertEqual(last["id"], "WB4005")
        self.assertIn("cannot listen on 192.0.2.1:4390: no interface of this host has this address", last["message"])
        self.site.receiver()
        for arguments in (["--listen", self.site.address], ["--listen", f"127.0.0.1:{free_port()}", "--metrics", self.site.address]):
            result = ended(FILES, "receiver", "--data", self.site.root / "other", *arguments)
            last = json.loads(result.stderr.splitlines()[-1])
            self.assertEqual(last["id"], "WB4005")
            self.assertIn(f"{self.site.address}: another process listens there", last["message"])
        result = run(*self.site.agent_arguments("--metrics", self.site.address))
        self.assertEqual(result.returncode, FILES)
        self.assertRegex(result.stderr.decode(), f"cannot serve metrics on {self.site.address}: .*--metrics")

    def test_a_reload_without_changes_says_so(self):
        config = self.site.root / "waybill.yaml"
        config.write_text(f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n  exports: []\n")
        receiver = self.site.configured(config)
        receiver.child.send_signal(signal.SIGHUP)
        receiver.until_logged("configuration reloaded: nothing changed")
        config.write_text(config.read_text() + "  retention: {days: 3}\n")
        receiver.child.send_signal(signal.SIGHUP)
        until(lambda: any("retention" in line.get("changes", "") for line in receiver.entries()), 20, "a change")
        self.assertEqual(receiver.stop(), 0)

    def test_a_wrong_token_is_a_warning_with_the_address(self):
        receiver = self.site.receiver(env={"WAYBILL_TOKEN": "the-right-token-of-agents"})
        for _ in range(3):
            with Peer(self.site.port) as peer:
                self.assertRegex(peer.hello(token="a-wrong-token-of-agents"), "^ERR token")
        receiver.until_logged("WB1201")
        self.assertEqual(receiver.stop(), 0)
        told = [line for line in receiver.entries() if line.get("id") == "WB1201"]
        self.assertEqual({line["level"] for line in told}, {"warning"})
        self.assertEqual({line["address"] for line in told}, {"127.0.0.1"})
        self.assertEqual(sum(line.get("repeated", 1) for line in told), 3)
        self.assertNotIn("wrong-token", receiver.log())

    def test_an_agent_of_a_name_that_is_in_use_learns_nothing_and_the_log_says_from_where(self):
        receiver = self.site.receiver()
        with Peer(self.site.port) as first, Peer(self.site.port) as second:
            self.assertRegex(first.hello("twin", instance="1"), "^READY")
            answer = second.hello("twin", instance="2")
            self.assertRegex(answer, "^ERR agent-in-use")
            self.assertNotIn("127.0.0.1", answer)
            receiver.until_logged("WB1201")
            told = next(line for line in receiver.entries() if line.get("id") == "WB1201")
            self.assertRegex(told["connected_from"], r"^127\.0\.0\.1:\d+$")
            self.assertNotEqual(told["connected_from"], told["peer"])
            self.assertRegex(told["connected_since"], r"^20\d\d-")

    def test_misspelt_words_and_ports_are_answered(self):
        result = ended(USAGE, "recevier")
        self.assertIn(b"did you mean waybill receiver?", result.stderr)
        for arguments in (["receiver", "--data", "x", "--listen"], ["agent", "--state", "x", "--to"], ["live", "--listen"]):
            self.assertIn("a port is 0 to 65535", failure(USAGE, *arguments, "127.0.0.1:80000"))
            self.assertIn(b"it must be HOST:PORT", run(*arguments, "nowhere").stderr)

    def test_damage_in_the_journal_names_file_and_bytes(self):
        receiver = self.site.receiver(exports="none")
        with Peer(self.site.port) as peer:
            peer.hello()
            peer.open("s")
            line = b'{"ts":"2026-11-20T09:14:15.926Z","name":"a0"}\n'
            for number in range(3):
                peer.batch("s", line, offset=number * len(line))
                self.assertEqual(peer.line(), f"ACK 1 {(number + 1) * len(line)}")
        receiver.kill()
        path, = sorted((self.site.data / "journal").glob("*.journal"))[-1:]
        content = bytearray(path.read_bytes())
        middle = len(content) // 2
        content[middle:middle + 8] = bytes(8)
        path.write_bytes(content)
        receiver = self.site.receiver(exports="none")
        receiver.until_logged("WB1004")
        told = next(line for line in receiver.entries() if line.get("id") == "WB1004")
        self.assertEqual(told["path"], f"journal/{path.name}")
        self.assertTrue(told["first_byte"] <= middle < told["end_byte"], told)
        self.assertIn("waybill inspect --verify", told["message"])
        receiver.stop()
