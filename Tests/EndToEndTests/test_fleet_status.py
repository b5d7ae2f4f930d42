"""An operator sees the fleet: a merger's metrics, probes and status, `waybill fleet`, and what `store check` compares."""

import json
import re
import shutil
import signal
import subprocess
import unittest

from fleets import ENVIRONMENT, STORE, WatchedFleet
from harness import REPOSITORY, SiteTest, check_metrics, ended, free_port, metric, patience, run, succeed, until
from health import ask, ready, shown, status
from scale import at_night
from test_service import Manager


class FleetTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.fleet = WatchedFleet(self.site)
        self.addCleanup(self.fleet.close)

    def until_merged(self, name="m1"):
        until(lambda: len(self.fleet.archived(name)) >= len(self.fleet.written), 60, f"{name} has every line")
        self.assertEqual(sorted(self.fleet.archived(name)), sorted(self.fleet.written))

    def until_well(self, **options):
        """Waits until `waybill fleet` finds nothing wrong and nothing waiting; returns its answer."""
        def well():
            code, found = self.fleet.fleet(**options)
            waiting = [chain for chain in found["chains"] if chain["waiting_bytes"] != 0]
            return found if (code, waiting) == (0, []) else None
        return until(well, 60, "the fleet is well")


class WellTests(FleetTest):
    def test_receivers_mergers_and_chains_are_shown(self):
        receivers = [self.fleet.receiver(name) for name in ("a", "b")]
        agent = self.fleet.agent()
        self.fleet.write(200)
        mergers = [self.fleet.merger(name) for name in ("m1", "m2")]
        for name in ("m1", "m2"):
            self.until_merged(name)
        found = self.until_well(status=("a", "b", "m1", "m2"))
        self.assertEqual({chain["receiver"] for chain in found["chains"]}, {"a", "b"})
        for chain in found["chains"]:
            self.assertEqual(chain["state"], "ok")
            self.assertEqual(chain["uploaded"], chain["merged"])
            self.assertGreater(chain["uploaded"], 0)
            self.assertLess(chain["heard_seconds"], patience(120))
            self.assertIsNotNone(chain["unstored_bytes"])
        self.assertEqual([row["health"] for row in found["asked"]], ["ok"] * 4)
        self.assertGreater(found["round"], 0)
        self.assertLessEqual({merger["name"] for merger in found["mergers"]}, {"m1", "m2"})
        self.assertEqual(sum(merger["rounds"] for merger in found["mergers"]), min(64, found["round"]))
        # On a merger's host the state is read in place of an answer.
        config = self.site.root / "m1.yaml"
        result = succeed("fleet", "--config", config, "--json", env=ENVIRONMENT)
        self.assertEqual([row["merged"] is not None for row in json.loads(result.stdout)["chains"]], [True, True])
        # For people.
        result = run("fleet", "--config", config, "--status", self.fleet.address("m1"), env=ENVIRONMENT)
        text = result.stdout.decode()
        self.assertRegex(text, rf"^fleet {found['fleet']} in {STORE}: ok\n")
        self.assertRegex(text, r"\nmerger m1: ok\n")
        self.assertRegex(text, r"\nRECEIVER +CHAIN +UPLOADED +HEARD +MERGED +WAITS +FOR +NOT STORED +STATE\n")
        self.assertRegex(text, r"\na +[0-9a-f]{16} .* ok\n")
        # `waybill status` knows a merger.
        code, lines = shown(self.fleet.address("m1"))
        self.assertEqual(code, 0, lines)
        self.assertRegex(lines[0], r"^merger m1 \(waybill/.*: ok, up ")
        self.assertRegex("\n".join(lines), r"\nCHAIN +MERGED +HEARD +STATE\n")
        self.stop_all(agent, *receivers, *mergers)

    def test_the_live_page_and_reports_work_behind_a_merger(self):
        self.fleet.receiver("a")
        self.fleet.agent()
        self.fleet.merger()
        self.fleet.write(40)
        self.until_merged()
        token, port = self.site.root / "live.token", free_port()
        token.write_text("a-token-of-the-tests-0123456789\n", encoding="utf-8")
        token.chmod(0o600)
        self.site.start(
            "live", "--data", self.site.root / "m1", "--receiver", f"http://{self.fleet.address('m1')}", "--listen",
            f"127.0.0.1:{port}", "--token-file", token, log="live.log")

        def asked(path):
            code, _, text = ask(port, path, {"Authorization": f"Bearer {token.read_text().strip()}"}) or [None] * 3
            return json.loads(text) if code == 200 else None

        until(lambda: len((asked("/api/events") or {"rows": []})["rows"]) == 40, 60, "the page has every event")
        found = until(lambda: asked("/api/status"), 30, "the page answers")
        self.assertEqual((found["receiver"], found["agents"]), (None, []))
        result = succeed("report", "--data", self.site.root / "m1", "overview", "--from", "2026-11-18", "--to", "2026-11-18")
        self.assertIn(b"40", result.stdout)

    def test_the_metrics_count_what_was_merged_and_promtool_has_nothing_to_say(self):
        self.fleet.receiver("a")
        self.fleet.receiver("b")
        self.fleet.agent()
        self.fleet.merger()
        self.fleet.write(150)
        self.until_merged()
        address = self.fleet.address("m1")
        self.assertEqual(metric(address, "waybill_merge_lines_total"), [150])
        self.assertGreater(metric(address, "waybill_merge_rounds_total")[0], 0)
        until(lambda: metric(address, "waybill_merge_lag_seconds")[0] < patience(10), 30, "it catches up")
        self.assertEqual(metric(address, "waybill_merge_missing_bytes"), [0])
        self.assertEqual(metric(address, "waybill_merge_stale_chains"), [0])
        self.assertGreater(metric(address, "waybill_merge_frames_total")[0], 0)
        self.assertEqual(sum(metric(address, "waybill_merge_failing")), 0)
        self.assertGreater(sum(metric(address, "waybill_store_requests_total")), 0)
        until(lambda: metric(address, "waybill_projection_read_lines_total") == [150, 150], 30, "archive and csv have them")
        # Of the agent, and of its receiver.
        size = sum(len(line) + 1 for line in self.fleet.written)
        until(lambda: metric(self.fleet.address("agent-x"), "waybill_agent_stored_bytes_total") == [size], 60, "all is stored")
        for name in ("a", "b"):
            until(lambda name=name: metric(self.fleet.address(name), "waybill_journal_unstored_seconds")[0] < patience(30), 60,
                  "the bucket has the journal")
        for name in ("m1", "a", "agent-x"):
            text = check_metrics(self, self.fleet.address(name))
            # Labels come from closed sets.
            for label in ("receiver", "chain", "stream", "merger"):
                self.assertNotIn(f'{label}="', text, name)


@at_night
class TroubleTests(FleetTest):
    def test_a_bucket_that_refuses(self):
        """Receivers acknowledge and say what waits; the merger is not ready; the fleet is down; all continues by itself."""
        self.fleet.receiver("a")
        self.fleet.receiver("b")
        self.fleet.agent()
        self.fleet.merger()
        self.fleet.write(50)
        self.until_merged()
        self.assertEqual(ready(self.fleet.port("m1")), (200, ["ready"]))
        self.fleet.bucket.fault = lambda method, path: (403, "AccessDenied")
        self.fleet.write(50)
        said = until(lambda: (ready(self.fleet.port("m1")) or (0,))[0] == 503 and ready(self.fleet.port("m1"))[1], 60, "not ready")
        self.assertEqual(said[0], "not ready")
        self.assertIn("the bucket is not reached or refuses (forbidden)", said[1])
        self.assertEqual(ask(self.fleet.port("m1"), "/livez")[0], 200)
        self.assertEqual(metric(self.fleet.address("m1"), "waybill_merge_failing")[0], 1)
        self.assertEqual(status(self.fleet.port("m1"))["health"], "down")
        self.assertIn("AccessDenied", status(self.fleet.port("m1"))["error"])
        code, lines = shown(self.fleet.address("m1"))
        self.assertEqual(code, 2, lines)
        holder = until(lambda: next((name for name in ("a", "b") if any(
            "the bucket does not take the journal" in line for line in ready(self.fleet.port(name))[1])), None), 60, "it waits")
        # It acknowledges all the same.
        self.assertEqual(ready(self.fleet.port(holder))[0], 200)
        until(lambda: metric(self.fleet.address(holder), "waybill_journal_unstored_seconds")[0] > 0, 30, "it grows old")
        self.assertGreater(status(self.fleet.port(holder))["store"]["unstored_bytes"], 0)
        code, found = self.fleet.fleet()
        self.assertEqual((code, found["health"]), (2, "down"))
        self.assertRegex(found["problems"][0], "the bucket cannot be read: .*AccessDenied")
        self.fleet.bucket.fault = None
        self.until_merged()
        until(lambda: ready(self.fleet.port("m1")) == (200, ["ready"]), 60, "it is ready again")
        self.until_well(status=("a", "b", "m1"))

    def test_missing_bytes_have_the_name_of_their_stream_and_of_who_was_told(self):
        """A receiver is lost together with what it had in the bucket: more than a fleet promises to survive."""
        receivers = {name: self.fleet.receiver(name) for name in ("a", "b")}
        self.fleet.agent()
        self.fleet.write(60)
        size = sum(len(line) + 1 for line in self.fleet.written)
        until(lambda: metric(self.fleet.address("agent-x"), "waybill_agent_stored_bytes_total") == [size], 60, "all is stored")
        lost = next(name for name in ("a", "b") if metric(self.fleet.address(name), "waybill_received_lines_total")[0] > 0)
        other = "ab".replace(lost, "")
        receivers[lost].kill()
        taken = {key: self.fleet.bucket.objects.pop(key) for key in list(self.fleet.bucket.objects)
                 if key.startswith(f"w/journal/{lost}~")}
        self.assertGreater(len(taken), 0)
        self.fleet.write(40)
        self.fleet.merger()
        until(lambda: len(self.fleet.archived("m1")) == 40, 60, "the merger has what came to the other receiver")
        def missing():
            return self.fleet.fleet(status=("m1",))[1]["missing"]
        found = until(missing, 30, "the range is missing")
        self.assertEqual(len(found), 1)
        self.assertEqual((found[0]["ranges"], found[0]["bytes"], found[0]["told"]), (f"0-{size}", size, [other]))
        self.assertEqual(self.fleet.fleet(status=("m1",))[0], 1)
        self.assertEqual(metric(self.fleet.address("m1"), "waybill_merge_missing_bytes"), [size])
        # The state says the same, when no merger runs.
        state = run("fleet", "--config", self.site.root / "m1.yaml", "--json", env=ENVIRONMENT)
        self.assertEqual(json.loads(state.stdout)["missing"], found)
        self.fleet.bucket.objects.update(taken)
        self.until_merged()
        until(lambda: not missing(), 30, "nothing is missing")


class ServiceTests(FleetTest):
    def test_the_service_manager_hears_of_start_life_reload_and_stop(self):
        manager = Manager(self.site.root)
        self.addCleanup(manager.socket.close)
        merger = self.fleet.merger(env=manager.environment(watchdog_seconds=3))
        ready_at = manager.until("READY=1")
        self.assertEqual(manager.heard[ready_at], "READY=1\nSTATUS=merging")
        alive = manager.until("WATCHDOG=1")
        manager.until("WATCHDOG=1", after=alive + 1)
        self.fleet.merger_configuration("m1", "exports: [{provider: csv}]\n  retention: {days: 30}")
        merger.child.send_signal(signal.SIGHUP)
        reloading = manager.until("RELOADING=1")
        manager.until("READY=1", after=reloading)
        self.assertIn("merger.retention.days: keep all -> 30", merger.log())
        # What needs a restart is named.
        self.fleet.merger_configuration("m1", "exports: [{provider: csv}, {provider: ga4}]\n  retention: {days: 30}")
        merger.child.send_signal(signal.SIGHUP)
        merger.until_logged("merger.exports.ga4: absent -> present")
        # A file with problems changes nothing.
        self.fleet.merger_configuration("m1", "exports: [{provider: csv}]\n  retention: {day: 30}")
        merger.child.send_signal(signal.SIGHUP)
        merger.until_logged("merger.retention.day: is not a key")
        until(lambda: metric(self.fleet.address("m1"), "waybill_reloads_total") == [1, 1, 1], 30, "reloads are counted")
        merger.terminate()
        manager.until("STOPPING=1", after=reloading)
        self.assertEqual(merger.wait(60), 0)


class AgreementTests(FleetTest):
    AGENTS = "agents: [{name: shop, tokens: ['sha256:" + "ab" * 32 + "']}]"

    def check(self, config, code=0):
        result = ended(code, "store", "check", "--config", config, env=ENVIRONMENT, timeout=120)
        return (result.stdout + result.stderr).decode()

    def record(self, name):
        found = self.fleet.bucket.objects.get(f"w/agents/{name}.json")
        return json.loads(found[0]) if found else None

    def test_a_receiver_without_agents_among_those_that_have_it_is_refused(self):
        more = "projections: none, exports: []"
        with_agents = self.fleet.receiver_configuration("a", more=f"{more}, {self.AGENTS}")
        self.assertRegex(self.check(with_agents), r"good  agents +no other receiver has started yet\n")
        self.fleet.receiver("a", more=f"{more}, {self.AGENTS}")
        record = until(lambda: self.record("a"), 90, "it says what its agents are")
        self.assertEqual((record["receiver"], record["principals"], len(record["digest"])), ("a", 1, 64))
        self.assertNotIn("ab" * 32, json.dumps(record))
        without = self.fleet.receiver_configuration("b", more=more)
        said = self.check(without, code=78)
        self.assertRegex(said, r"BAD   agents +there is no agents:, which these receivers have: a")
        self.assertIn("agents_file", said)
        same = self.fleet.receiver_configuration("b", more=f"{more}, {self.AGENTS}")
        self.assertRegex(self.check(same), r"good  agents +the same as on 1 other receivers\n")
        other = self.fleet.receiver_configuration("b", more=f"{more}, {self.AGENTS.replace('shop', 'web')}")
        self.assertRegex(self.check(other), r"note  agents +agents: differs from that of a")
        # It starts all the same, and says it.
        receiver = self.fleet.receiver("b", more=more)
        receiver.until_logged("agents: is not the same on all receivers of the fleet", 90)
        self.assertIsNone(self.record("b")["digest"])


@at_night
class ProxyTests(FleetTest):
    """The page's configuration of HAProxy, with this machine's addresses."""

    def test_agents_come_through_haproxy_and_go_on_at_another_receiver(self):
        if not shutil.which("haproxy"):
            raise unittest.SkipTest("there is no haproxy")
        page = (REPOSITORY / "Documentation" / "fleet.md").read_text(encoding="utf-8")
        text, door = re.search(r"```haproxy\n(.*?)```", page, re.DOTALL)[1], free_port()
        text, count = re.subn(r"bind 127.0.0.1:14390", f"bind 127.0.0.1:{door}", text)
        self.assertEqual(count, 1)
        for name in ("a", "b"):
            text, count = re.subn(
                rf"server {name} {name}.example.com:4390",
                f"server {name} 127.0.0.1:{self.fleet.ports[name]} port {self.fleet.port(name)}", text)
            self.assertEqual(count, 1)
        text = re.sub(r".*server c .*\n", "", text).replace("maxconn 4000", "maxconn 100")
        config = self.site.root / "haproxy.cfg"
        config.write_text(text, encoding="utf-8")
        checked = subprocess.run(["haproxy", "-c", "-f", config], capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, re.findall("WARNING.*", checked.stderr)), (0, []), checked.stderr)
        receivers = {name: self.fleet.receiver(name) for name in ("a", "b")}
        with open(self.site.logs / "haproxy.log", "wb") as log:
            proxy = subprocess.Popen(["haproxy", "-db", "-f", config], stdout=log, stderr=log)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)
        self.fleet.agent(ports=[door])
        self.fleet.write(50)

        def stored():
            size = sum(len(line) + 1 for line in self.fleet.written)
            return metric(self.fleet.address("agent-x"), "waybill_agent_acked_bytes_total") == [size]
        until(stored, 60, "all is acknowledged")
        self.fleet.write(50)
        until(stored, 60, "all is acknowledged")
        holder = next(name for name in ("a", "b") if metric(self.fleet.address(name), "waybill_agents") == [1])
        other = "ab".replace(holder, "")
        receivers[holder].kill()
        self.fleet.write(50)
        until(lambda: metric(self.fleet.address(other), "waybill_agents") == [1], 60, "the agent comes to the other one")
        # What the fleet had stored counts as acknowledged, so the sum tells nothing here: the other one has the last lines.
        until(lambda: metric(self.fleet.address(other), "waybill_received_lines_total")[0] >= 50, 60, "it continues there")
        self.assertEqual(metric(self.fleet.address("agent-x"), "waybill_agent_lost_bytes_total"), [0])
