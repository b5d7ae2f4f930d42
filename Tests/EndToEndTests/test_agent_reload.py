"""SIGHUP to an agent: what changes, what has to wait, what is refused; and that no line is lost or shipped twice meanwhile."""

import json
import pathlib
import shutil
import signal
import tempfile
import threading

from certificates import Authority, install
from harness import free_port, metric, patience, until
from ledger import Ledger, LedgerTest
from scale import SEED, amount

RELOADS = amount("WAYBILL_RELOADS", 25, 200)


class AgentReloadTest(LedgerTest):
    """A site whose agent has a configuration file."""

    LINES = SEED

    def setUp(self):
        super().setUp()
        self.config = self.site.root / "agent.yaml"
        self.web = self.site.root / "web"
        self.web.mkdir()
        self.metrics = f"127.0.0.1:{free_port()}"

    def spool(self, path=None):
        return {"spool": str(path or self.site.spool)}

    def files(self, pattern="*.log", **members):
        return {"files": [str(self.web / pattern)], "env": "prod", "bundle": "com.example.web", "time": "time", **members}

    def write(self, *sources, **keys):
        agent = {
            "state": str(self.site.state), "to": [self.site.address], "name": "web-1", "metrics": self.metrics,
            "sources": list(sources), **keys}
        # JSON is YAML.
        self.site.write("agent.yaml", json.dumps({"agent": agent}, indent=1))

    def start(self, *sources, env=None, **keys):
        self.write(*sources, **keys)
        agent = self.site.start("agent", "--config", self.config, log="agent.log", env=env)
        agent.until_logged("agent started")
        until(lambda: metric(self.metrics, "waybill_agent_streams") or not agent.is_running, 20, "the agent answers")
        return agent

    def hang_up(self, agent):
        """What the log says of a reload of the file as it is."""
        before = len(agent.log())
        count = self.reload_count()
        agent.child.send_signal(signal.SIGHUP)
        until(lambda: self.reload_count() > count, 20, "the reload is counted")
        until(lambda: "configuration reloaded" in agent.log()[before:] or "is refused" in agent.log()[before:], 20,
              "the reload is answered")
        return agent.log()[before:]

    def reload(self, agent, *sources, **keys):
        self.write(*sources, **keys)
        return self.hang_up(agent)

    def reload_count(self):
        return sum(metric(self.metrics, "waybill_agent_reloads_total"))

    def assert_whole(self, agent, receiver, data=None):
        self.until_stored(seconds=60, data=data)
        self.stop_all(agent, receiver)
        self.assert_each_once(data)


class SourceTests(AgentReloadTest):
    def test_a_source_is_removed_and_returns_and_its_files_continue(self):
        receiver = self.site.receiver()
        agent = self.start(self.spool(), self.files())
        self.write_log(self.web / "a.log", 20)
        self.maker.spool(self.site.spool, self.ledger, 50_000)
        self.until_stored()
        said = self.reload(agent, self.spool())
        self.assertIn(f"agent.sources[{self.web / '*.log'}]: present -> absent", said)
        late = self.write_log(self.web / "a.log", 20)
        # What is shipped after it shows that the agent has looked, and has left the file alone.
        more = Ledger()
        self.maker.spool(self.site.spool, more, 50_000)
        expected = self.ledger.line_count - len(late) + more.line_count
        until(lambda: self.stored_count() >= expected, 60, "the spool's lines are stored")
        self.assertEqual(self.stored_count(), expected)
        self.ledger.counts.update(more.counts)
        self.ledger.line_count += more.line_count
        # In front of the other one, so that both have other numbers.
        said = self.reload(agent, self.files(), self.spool())
        self.assertIn("absent -> present", said)
        self.assert_whole(agent, receiver)

    def test_reloads_under_load_lose_nothing_and_ship_nothing_twice(self):
        """Sources come, go and change places, batches and threads change, while segments and log lines are written."""
        receiver = self.site.receiver()
        agent = self.start(self.spool(), self.files())
        is_over = threading.Event()

        def write():
            for _ in range(100):
                if is_over.is_set():
                    return
                self.write_log(self.web / "a.log", 200)
                self.maker.spool(self.site.spool, self.ledger, 100_000, 40_000)
                is_over.wait(0.02)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            files, spool = self.files(), self.spool()
            for turn in range(RELOADS):
                sources = ([spool, files], [files, spool], [spool], [files], [self.files("a.*"), spool],
                           [self.files("none.*"), spool, files])[turn % 6]
                keys = ({}, {"batch_kib": 64}, {"compression_threads": 2}, {"compression": 9}, {"batch_lines": 500},
                        {"batch_kib": 2048}, {"linger_ms": 0})[turn % 7]
                self.assertIn("configuration reloaded", self.reload(agent, *sources, **keys))
        finally:
            is_over.set()
            writer.join()
        self.reload(agent, spool, files)
        self.until_stored()
        self.assertEqual(metric(self.metrics, "waybill_agent_lost_bytes_total"), [0])
        self.assert_whole(agent, receiver)
        print(f"reloads: {RELOADS} under load, {self.ledger.line_count} lines")


class OtherKeyTests(AgentReloadTest):
    def test_receivers_change(self):
        first = self.site.receiver()
        agent = self.start(self.spool())
        agent.until_logged("connected to a receiver")
        other = self.site.root / "other"
        port = free_port()
        second = self.site.start(
            "receiver", "--data", other, "--listen", f"127.0.0.1:{port}", "--exports", "none", log="second.log")
        second.until_logged("receiver started")
        said = self.reload(agent, self.spool(), to=[f"127.0.0.1:{port}"])
        self.assertIn(f"agent.to: {self.site.address} -> 127.0.0.1:{port}", said)
        self.maker.spool(self.site.spool, self.ledger, 50_000)
        self.until_stored(data=other)
        self.assertEqual(first.stop(), 0)
        self.assert_whole(agent, second, other)
        self.assertEqual(self.stored_count(), 0)

    def test_a_bad_file_changes_nothing_and_says_the_lines(self):
        receiver = self.site.receiver()
        agent = self.start(self.spool())
        until(lambda: metric(self.metrics, "waybill_agent_connected") == [1], 20, "it is connected")
        connections = metric(self.metrics, "waybill_agent_connections_total")
        self.config.write_text("agent:\n  state: s\n  to: nowhere\n  sorces: []\n")
        said = self.hang_up(agent)
        self.assertIn("the old one stays", said)
        for place in ("agent.yaml: line 3: agent.to", "agent.yaml: line 4: agent.sorces"):
            self.assertIn(place, said)
        self.write(self.spool(), token_file="missing.token")
        self.assertIn("there is no token file", self.hang_up(agent))
        self.write(self.spool(), tls={"ca": "missing.pem"})
        self.assertIn("missing.pem: there is no such file", self.hang_up(agent))
        self.assertEqual(metric(self.metrics, "waybill_agent_reloads_total"), [0, 0, 3])
        self.assertEqual(metric(self.metrics, "waybill_agent_connections_total"), connections)
        self.maker.spool(self.site.spool, self.ledger, 20_000)
        self.assert_whole(agent, receiver)

    def test_a_spool_of_another_agent_is_refused(self):
        self.site.receiver()
        taken = self.site.root / "taken"
        taken.mkdir()
        other = self.site.start(
            "agent", "--state", self.site.root / "other", "--to", self.site.address, "--spool", taken, log="other.log")
        other.until_logged("connected")
        agent = self.start(self.spool())
        said = self.reload(agent, self.spool(taken))
        self.assertIn("another agent ships this spool", said)
        self.assertTrue(agent.is_running)
        # Its own claim is still there: another agent cannot take the spool.
        third = self.site.start(
            "agent", "--state", self.site.root / "third", "--to", self.site.address, "--spool", self.site.spool,
            log="third.log")
        self.assertEqual(third.wait(20), 75)
        self.assertEqual(other.stop(), 0)
        self.assertIn("present", self.reload(agent, self.spool(taken)))
        self.assertEqual(agent.stop(), 0)

    def test_a_new_token_is_shown_after_a_reload(self):
        token = self.site.root / "agent.token"
        token.write_text("first-0123456789-token\n")
        receiver = self.site.receiver(env={"WAYBILL_TOKEN": "first-0123456789-token"})
        agent = self.start(self.spool(), token_file=str(token))
        until(lambda: metric(self.metrics, "waybill_agent_connected") == [1], 20, "it is connected")
        self.assertIn('"changes":"none"', self.hang_up(agent))
        self.assertEqual(metric(self.metrics, "waybill_agent_connections_total"), [1])
        token.write_text("other-0123456789-token\n")
        said = self.hang_up(agent)
        self.assertIn("agent.token_file (token): former -> another one", said)
        self.assertNotIn("0123456789", agent.log())
        agent.until_logged("(token)", 30)
        until(lambda: metric(self.metrics, "waybill_agent_connected") == [0], 20, "the receiver refuses the new token")
        self.stop_all(receiver, agent)


class CertificateTests(AgentReloadTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="waybill-reload-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.authority = Authority(cls.folder)

    def install(self, identity):
        install(identity, self.site.root / "agent.pem", self.site.root / "agent.key")

    def test_a_renewed_certificate_is_shown_and_its_end_is_a_metric(self):
        tls = {"ca": str(self.authority.certificate), "certificate": "agent.pem", "key": "agent.key"}
        self.install(self.authority.issue("agent-1", kind="clientAuth", days=("-1", "3")))
        receiver = self.site.receiver(
            "--tls-certificate", (server := self.authority.issue("receiver"))[0], "--tls-key", server[1],
            "--tls-client-ca", self.authority.certificate)
        agent = self.start(self.spool(), tls=tls)
        until(lambda: metric(self.metrics, "waybill_agent_connected") == [1], 30, "it is connected")
        first = metric(self.metrics, "waybill_agent_tls_certificate_expiry_seconds")
        self.assertIn('"changes":"none"', self.hang_up(agent))
        self.install(self.authority.issue("agent-2", kind="clientAuth", days=("-1", "30")))
        said = self.hang_up(agent)
        self.assertRegex(said, r"agent.tls \(files\): certificate valid until \S+ -> certificate valid until ")
        until(lambda: metric(self.metrics, "waybill_agent_connections_total") == [2], 30, "it connects again")
        second = metric(self.metrics, "waybill_agent_tls_certificate_expiry_seconds")
        self.assertAlmostEqual(second[0] - first[0], 27 * 86_400, delta=patience(600))
        self.maker.spool(self.site.spool, self.ledger, 20_000)
        self.assert_whole(agent, receiver)
