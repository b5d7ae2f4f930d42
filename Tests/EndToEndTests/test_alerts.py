"""The alert rules and the dashboard that are shipped: valid, about metrics that exist, and quiet while all is well.

Each rule is tried by promtool on made-up series; then a real Prometheus reads a receiver and an agent.
"""

import datetime
import json
import re
import shutil
import signal
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from certificates import Authority, install
from harness import REPOSITORY, SiteTest, check_metrics, described_metrics, fill_up, free_port, metric, patience, succeed, until
from ledger import EventMaker, Ledger, timestamp, utc_now
from scale import at_night
from test_deliver import environment
from test_deliver_service import RefusingProvider

FOLDER = REPOSITORY / "Tools" / "packaging" / "monitoring"
ALERTS, DASHBOARD = FOLDER / "alerts.yaml", FOLDER / "dashboard.json"
RECEIVER, AGENT, DELIVER, MERGER, INGEST = (
    f'instance="host-1",job="waybill-{name}"' for name in ("receiver", "agent", "deliver", "merge", "ingest"))

# Of each alert: a series with its values at each minute (as promtool writes them), and whether it is enough.
CASES = {
    "WaybillDown": [(f"up{{{RECEIVER}}}", "1 0x5", True), (f"up{{{RECEIVER}}}", "1 0 1x5", False)],
    "WaybillAcksWithheld": [(f"waybill_acks_withheld{{{RECEIVER}}}", "1x20", True)],
    "WaybillCommitsFail": [(f"waybill_journal_commit_failures_total{{{RECEIVER}}}", "0 0 1 1 1 1", True)],
    "WaybillCommitsSlow": [
        (f'waybill_journal_commit_seconds_bucket{{{RECEIVER},le="{le}"}}', f"0+{step}x40", True)
        for le, step in (("1", 90), ("2.5", 95), ("+Inf", 100))],
    "WaybillDiskNearlyFull": [
        (f"waybill_disk_free_bytes{{{RECEIVER}}}", "4000000000x10", True),
        (f"waybill_disk_free_bytes{{{RECEIVER}}}", "6000000000x10", False)],
    "WaybillDiskFillsUp": [
        (f"waybill_disk_free_bytes{{{RECEIVER}}}", "100000000000-50000000x500", True),
        (f"waybill_disk_free_bytes{{{RECEIVER}}}", "100000000000-1000000x500", False)],
    "WaybillClockDoubted": [(f"waybill_clock_doubted{{{RECEIVER}}}", "1x10", True)],
    "WaybillJournalDamaged": [(f"waybill_journal_damages_total{{{RECEIVER}}}", "0 0 1 1 1 1", True)],
    "WaybillUnaccountedLines": [
        (f'waybill_projection_unaccounted_lines{{{RECEIVER},projection="csv"}}', "-1x20", True)],
    "WaybillProjectionFails": [
        (f'waybill_projection_failures_total{{{RECEIVER},projection="csv"}}', "0 0 1 1 1 1", True)],
    "WaybillExportMissedEvents": [
        (f'waybill_projection_missed_bytes_total{{{RECEIVER},projection="csv"}}', "0 0 10 10 10", True)],
    "WaybillUnsealedDayDeleted": [
        (f'waybill_retention_deletions_total{{{RECEIVER},part="unsealed",reason="age"}}', "0 0 1 1", True),
        (f'waybill_retention_deletions_total{{{RECEIVER},part="archive",reason="age"}}', "0 0 1 1", False)],
    "WaybillDaysNotDelivered": [
        (f'waybill_retention_kept_folders{{{RECEIVER},projection="archive"}}', "2x70", True),
        (f'waybill_retention_kept_folders{{{RECEIVER},projection="archive"}}', "2x30 0x40", False)],
    "WaybillProjectionWaits": [(f'waybill_projection_waiting{{{RECEIVER},projection="csv"}}', "1x10", True)],
    "WaybillProjectionBehind": [
        (f'waybill_projection_pending_bytes{{{RECEIVER},projection="csv"}}', "65000000x15", True),
        (f'waybill_projection_pending_bytes{{{RECEIVER},projection="csv"}}', "65000000x5 0 65000000x8", False)],
    "WaybillEventsRefused": [
        (f'waybill_projection_lines_total{{{RECEIVER},projection="ga4",outcome="refused",reason="x"}}', "0+60x20", True),
        (f'waybill_projection_read_lines_total{{{RECEIVER},projection="ga4"}}', "0+100x20", True)],
    "WaybillLinesQuarantined": [
        (f'waybill_projection_lines_total{{{RECEIVER},projection="archive",outcome="quarantined",reason="not-json"}}',
         "0 0 1 1 1 1", True)],
    "WaybillLinesNotAllowed": [(f'waybill_not_allowed_lines_total{{{RECEIVER},principal="shop"}}', "0 0 1 1 1", True)],
    "WaybillTokensRefused": [
        (f'waybill_refused_agents_total{{{RECEIVER},reason="token"}}', "0+2x15", True),
        (f'waybill_refused_agents_total{{{RECEIVER},reason="token"}}', "0 0 1 1 1", False)],
    # Time begins at 0.
    "WaybillCertificateExpires": [
        (f"waybill_tls_certificate_expiry_seconds{{{RECEIVER}}}", "1000000x90", True),
        (f"waybill_tls_certificate_expiry_seconds{{{RECEIVER}}}", "2000000x90", False)],
    "WaybillReloadRefused": [(f'waybill_agent_reloads_total{{{AGENT},outcome="refused"}}', "0 0 1 1 1", True)],
    "WaybillAgentCertificateExpires": [
        (f"waybill_agent_tls_certificate_expiry_seconds{{{AGENT}}}", "1000000x90", True),
        (f"waybill_agent_tls_certificate_expiry_seconds{{{AGENT}}}", "2000000x90", False)],
    "WaybillAgentClockWrong": [
        (f"waybill_agent_clock_skew_seconds{{{AGENT}}}", "-400x15", True),
        (f"waybill_agent_clock_skew_seconds{{{AGENT}}}", "200x15", False)],
    "WaybillAgentDisconnected": [
        (f"waybill_agent_connected{{{AGENT}}}", "1 0x15", True), (f"waybill_agent_connected{{{AGENT}}}", "1 0x5 1 0x7", False)],
    "WaybillAgentBehind": [(f"waybill_agent_pending_bytes{{{AGENT}}}", "65000000x20", True)],
    "WaybillAgentLostBytes": [(f"waybill_agent_lost_bytes_total{{{AGENT}}}", "0 0 10 10", True)],
    "WaybillAgentUnseenEnds": [(f"waybill_agent_unseen_ends_total{{{AGENT}}}", "0 0 1 1 1", True)],
    "WaybillAgentMissingSegments": [(f"waybill_agent_missing_segments_total{{{AGENT}}}", "0 0 1 1", True)],
    "WaybillAgentUnreadableFiles": [(f"waybill_agent_unreadable_files{{{AGENT}}}", "1x20", True)],
    "WaybillAgentDisputedStreams": [(f"waybill_agent_disputed_streams{{{AGENT}}}", "1x70", True)],
    "WaybillDeliveryRefused": [
        (f'waybill_delivery_state{{{DELIVER},delivery="ga4",state="refused"}}', "1x10", True),
        (f'waybill_delivery_state{{{DELIVER},delivery="ga4",state="backing-off"}}', "1x10", False)],
    "WaybillDeliveryWaits": [(f'waybill_delivery_state{{{DELIVER},delivery="ga4",state="backing-off"}}', "1x70", True)],
    "WaybillDeliveryBehind": [(f'waybill_delivery_oldest_unsent_seconds{{{DELIVER},delivery="ga4"}}', "30000x20", True)],
    "WaybillBucketLacksJournal": [
        (f"waybill_journal_unstored_seconds{{{RECEIVER}}}", "0+60x15", True),
        (f"waybill_journal_unstored_seconds{{{RECEIVER}}}", "59x15", False)],
    "WaybillMergeBehind": [
        (f"waybill_merge_lag_seconds{{{MERGER}}}", "0+60x15", True),
        (f"waybill_merge_lag_seconds{{{MERGER}}}", "299x15", False)],
    "WaybillMergeFails": [
        (f'waybill_merge_failing{{{MERGER},reason="store"}}', "1x15", True),
        (f'waybill_merge_failing{{{MERGER},reason="store"}}', "1 1 0 1x12", False)],
    "WaybillPieceMissing": [
        (f'waybill_merge_failing{{{MERGER},reason="piece"}}', "0 0 1x13", True),
        (f'waybill_merge_failing{{{MERGER},reason="piece"}}', "0x15", False)],
    "WaybillPieceDamaged": [(f"waybill_merge_damaged_bytes_total{{{MERGER}}}", "0 0 10 10 10", True)],
    "WaybillBytesMissing": [
        (f"waybill_merge_missing_bytes{{{MERGER}}}", "512x20", True),
        (f"waybill_merge_missing_bytes{{{MERGER}}}", "512x5 0 512x14", False)],
    "WaybillMergeConflicts": [
        (f"waybill_merge_conflict_lines_total{{{MERGER}}}", "0 0 1 1 1", True),
        (f"waybill_merge_unproven_lines_total{{{MERGER}}}", "0 0 0 0 0", True)],
    "WaybillMergersDiffer": [
        (f'waybill_publish_total{{{MERGER},outcome="different"}}', "0 0 1 1 1", True),
        (f'waybill_publish_total{{{MERGER},outcome="present"}}', "0 0 1 1 1", False)],
    "WaybillPublishFails": [
        (f'waybill_publish_total{{{MERGER},outcome="failed"}}', "0+1x30", True),
        (f'waybill_publish_total{{{MERGER},outcome="failed"}}', "0 0 1 1x28", False)],
    "WaybillReceiverSilent": [(f"waybill_merge_stale_chains{{{MERGER}}}", "1x15", True)],
    "WaybillDoorStoresNothing": [
        (f'waybill_ingest_unstored_requests_total{{{INGEST},cause="disk-full"}}', "0 0 1 1 1", True)],
    "WaybillDoorRefusesForRoom": [
        (f'waybill_ingest_refused_requests_total{{{INGEST},reason="memory"}}', "0+60x20", True),
        (f'waybill_ingest_refused_requests_total{{{INGEST},reason="unknown-key"}}', "0+6000x20", False),
        (f'waybill_ingest_refused_requests_total{{{INGEST},reason="memory"}}', "0 60x20", False)],
    "WaybillDoorFaultsDropped": [(f"waybill_ingest_dropped_faults_total{{{INGEST}}}", "0 0 10 10", True)],
    "WaybillDoorForgetsRepeats": [
        (f"waybill_ingest_repeat_window_seconds{{{INGEST}}}", "30x20", True),
        (f"waybill_ingest_repeat_window_seconds{{{INGEST}}}", "60x20", False)],
    "WaybillDoorNotShipped": [
        (f"waybill_ingest_spool_bytes{{{INGEST}}}", "2000000000x20", True),
        (f"waybill_ingest_spool_bytes{{{INGEST}}}", "2000000000x5 0 2000000000x14", False)],
    "WaybillDoorReceiverAway": [
        (f"waybill_ingest_receiver_away{{{INGEST}}}", "1x20", True),
        (f"waybill_ingest_receiver_away{{{INGEST}}}", "1x5 0x15", False)],
}
# Minutes after which a case is judged; the longest rule waits for an hour.
MINUTES = {
    "WaybillDown": 5, "WaybillCommitsFail": 4, "WaybillProjectionFails": 4, "WaybillCommitsSlow": 30,
    "WaybillDiskFillsUp": 480, "WaybillCertificateExpires": 80,
    "WaybillAgentCertificateExpires": 80, "WaybillReloadRefused": 4, "WaybillJournalDamaged": 4, "WaybillLinesNotAllowed": 4,
    "WaybillAgentLostBytes": 3, "WaybillAgentMissingSegments": 3, "WaybillAgentUnreadableFiles": 20,
    "WaybillExportMissedEvents": 4, "WaybillUnsealedDayDeleted": 3, "WaybillDaysNotDelivered": 70,
    "WaybillAgentDisputedStreams": 70, "WaybillDeliveryWaits": 70,
    "WaybillMergeFails": 7, "WaybillPieceDamaged": 4, "WaybillBytesMissing": 20, "WaybillMergeConflicts": 4,
    "WaybillMergersDiffer": 4, "WaybillPublishFails": 30, "WaybillDoorStoresNothing": 4, "WaybillDoorFaultsDropped": 3}


def expressions():
    """Every query of the dashboard, with its panel's title."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


class RuleTests(unittest.TestCase):
    def promtool(self, *arguments):
        if not shutil.which("promtool"):
            raise unittest.SkipTest("there is no promtool")
        return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)

    def test_the_rules_are_valid(self):
        result = self.promtool("check", "rules", ALERTS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(f"{len(CASES)} rules found", result.stdout)

    def test_each_alert_fires_for_its_cause_alone(self):
        """Alone: of all the rules, the one that is meant fires; a series that is not enough fires none."""
        tests = []
        for name, cases in CASES.items():
            enough = [case for case in cases if case[2]]
            for group in [enough, *[[case] for case in cases if not case[2]]]:
                minute = f"{MINUTES.get(name, 15)}m"
                expected = {"=": int(group == enough), "!=": 0}
                tests.append({
                    "interval": "1m", "name": name,
                    "input_series": [{"series": series, "values": values} for series, values, _ in group],
                    "promql_expr_test": [
                        {"expr": f'count(ALERTS{{alertstate="firing",alertname{sign}"{name}"}}) or vector(0)',
                         "eval_time": minute, "exp_samples": [{"labels": "{}", "value": count}]}
                        for sign, count in expected.items()]})
        folder = REPOSITORY / ".build" / "tests"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "alerts-test.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
        result = self.promtool("test", "rules", file)
        self.assertEqual(result.returncode, 0, (result.stdout + result.stderr)[-3000:])

    def test_every_alert_is_tried_and_says_what_to_do(self):
        text = ALERTS.read_text()
        names = re.findall(r"- alert: (\w+)", text)
        self.assertEqual(sorted(names), sorted(CASES))
        self.assertEqual(text.count("action: "), len(names))

    def test_the_metrics_exist(self):
        """Each metric in rules and dashboard is one that Protocol/metrics.md describes."""
        texts = [ALERTS.read_text(), *(query for _, query in expressions())]
        used = set(re.findall(r"\bwaybill_[a-z_]+", " ".join(texts)))
        self.assertEqual({re.sub("_(bucket|sum|count)$", "", name) for name in used} - described_metrics().keys(), set())


class LayoutTests(unittest.TestCase):
    """The dashboard as Grafana reads it."""

    def test_panels_have_what_a_reader_needs_and_do_not_overlap(self):
        panels = json.loads(DASHBOARD.read_text())["panels"]
        self.assertEqual([panel["id"] for panel in panels], list(range(1, len(panels) + 1)))
        titles = [panel["title"] for panel in panels if panel["type"] != "row"]
        self.assertEqual(len(set(titles)), len(titles))
        taken = set()
        for panel in panels:
            grid = panel["gridPos"]
            cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
            self.assertLessEqual(grid["x"] + grid["w"], 24, panel["title"])
            self.assertEqual(taken & cells, set(), f"{panel['title']} lies on another panel")
            taken |= cells
            if panel["type"] == "row":
                continue
            self.assertTrue(panel["description"].endswith("."), panel["title"])
            self.assertIn("unit", panel["fieldConfig"]["defaults"], panel["title"])
            self.assertEqual([target["refId"] for target in panel["targets"]], list("ABC"[:len(panel["targets"])]))
            for place in (panel, *panel["targets"]):
                self.assertEqual(place["datasource"], {"type": "prometheus", "uid": "${source}"}, panel["title"])
            for target in panel["targets"]:
                self.assertTrue(target["legendFormat"], panel["title"])


class PrometheusTest(SiteTest):
    """A real Prometheus with the rules, which wait for a second in place of minutes."""

    # What the machine that runs the tests may raise by itself.
    MACHINE = {"WaybillDiskNearlyFull", "WaybillDiskFillsUp"}

    def setUp(self):
        super().setUp()
        if not shutil.which("prometheus"):
            raise unittest.SkipTest("there is no prometheus")
        self.port = free_port()
        self.targets = {"receiver": free_port(), "agent": free_port(), "deliver": free_port()}

    def watch(self, *names):
        """Starts a Prometheus that reads these programs, and returns when it has."""
        folder = self.site.root / "prometheus"
        folder.mkdir()
        rules = re.sub(r"for: \w+", "for: 1s", ALERTS.read_text())
        (folder / "alerts.yaml").write_text(rules)
        jobs = "".join(
            f"  - {{job_name: waybill-{name}, static_configs: [{{targets: ['127.0.0.1:{self.targets[name]}']}}]}}\n"
            for name in names)
        (folder / "prometheus.yaml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [alerts.yaml]\nscrape_configs:\n{jobs}")
        log = open(folder / "log", "wb")
        self.addCleanup(log.close)
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)
        self.addCleanup(prometheus.wait)
        self.addCleanup(prometheus.send_signal, signal.SIGKILL)
        until(lambda: len(self.ask('up{job=~"waybill.*"} == 1')) == len(names), 60, "Prometheus reads them all")

    def address(self, name):
        return f"127.0.0.1:{self.targets[name]}"

    def ask(self, query):
        address = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(address, timeout=patience(10)) as answer:
                return json.loads(answer.read())["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []  # It is starting.
            raise AssertionError(f"{query}: {error.read().decode()}") from None
        except OSError:
            return []  # It has not started yet.

    def value(self, query):
        return next((float(sample["value"][1]) for sample in self.ask(query)), None)

    def firing(self):
        return {sample["metric"]["alertname"] for sample in self.ask('ALERTS{alertstate="firing"}')} - self.MACHINE

    def lasting(self):
        """The alerts that fire in each of some rounds; on a slow machine one reading may fail, and the next one not."""
        lasting = self.firing()
        for _ in range(4):
            judged = self.rounds()
            until(lambda judged=judged: self.rounds() > judged, 60, "Prometheus judges the rules again")
            lasting &= self.firing()
        return lasting

    def rounds(self):
        """How often Prometheus has judged the rules."""
        return sum(metric(f"127.0.0.1:{self.port}", "prometheus_rule_group_iterations_total"))

    def until_firing(self, name, others=frozenset()):
        """Waits for an alert; none but it and `others`, which have the same cause, may fire then and a little later."""
        until(lambda: name in self.firing(), 60, f"{name} fires")
        lasting = self.lasting()
        self.assertIn(name, lasting)
        self.assertEqual(lasting - {name} - set(others), set())


class DashboardTests(PrometheusTest):
    def test_the_dashboard_shows_a_receiver_and_an_agent_and_a_dead_one_raises_its_alert(self):
        maker, ledger = EventMaker(11), Ledger()
        receiver = self.site.receiver("--metrics", self.address("receiver"), exports="csv")
        agent = self.site.agent("--metrics", self.address("agent"))
        self.watch("receiver", "agent")
        maker.spool(self.site.spool, ledger, 200_000)
        received = "sum(waybill_received_lines_total)"
        until(lambda: [s["value"][1] for s in self.ask(received)] == [str(ledger.line_count)], 60, "it has every line")
        for title, query in expressions():
            # The others are of what did not happen: deliveries, refusals, TLS, a bucket and its mergers, a door.
            if not re.search("delivery|> 0|tls|_merge_|_publish_|_store_|_unstored_|_ingest_", query):
                # A rate needs two readings of each target.
                until(lambda query=query: self.ask(query), 60, f"{title}: {query}")
            else:
                self.ask(query)
        self.assertEqual(self.lasting(), set())
        receiver.kill()
        until(lambda: "WaybillDown" in self.firing(), 60, "the dead receiver raises its alert")
        self.assertNotIn("WaybillAgentLostBytes", self.firing())
        self.assertEqual(agent.stop(), 0)

    def test_promtool_has_nothing_to_say_about_the_metrics(self):
        maker, ledger = EventMaker(11), Ledger()
        self.site.receiver("--metrics", self.address("receiver"), exports="csv,ga4")
        self.site.agent("--metrics", self.address("agent")).until_logged("agent started")
        maker.spool(self.site.spool, ledger, 200_000)
        until(lambda: metric(self.address("agent"), "waybill_agent_acked_bytes_total") == [ledger.byte_count], 60, "shipped")
        until(lambda: metric(self.address("receiver"), "waybill_data_bytes"), 60, "the data directory is measured")
        for name in ("receiver", "agent"):
            text = check_metrics(self, self.address(name))
            for label in ("path", "file", "agent", "address", "user", "stream"):
                self.assertNotIn(f'{label}="', text, f"{name} has a label per {label}")
            for row in ("waybill_build_info", "process_start_time_seconds"):
                self.assertIn(f"\n{row}", text)
            started = metric(self.address(name), "process_start_time_seconds")[0]
            self.assertLess(abs(time.time() - started), patience(300))

    def test_a_line_has_its_delay_and_the_agent_its_oldest_line(self):
        """A line of an hour ago is late by an hour; the agent's age of what waits has nothing to do with its time."""
        maker, ledger = EventMaker(11), Ledger()
        agent = self.site.agent("--metrics", self.address("agent"))
        agent.until_logged("agent started")
        past = utc_now() - datetime.timedelta(hours=1)
        lines = maker.lines(1, ts=timestamp(past))
        maker.segment(self.site.spool, lines, ledger=ledger)
        oldest = "waybill_agent_oldest_unacked_seconds"
        until(lambda: metric(self.address("agent"), oldest)[0] > 1, 60, "what waits grows old")
        self.assertLess(metric(self.address("agent"), oldest)[0], 3000)
        self.assertEqual(metric(self.address("agent"), "waybill_agent_clock_skew_seconds"), [])
        began = time.time()
        self.site.receiver("--metrics", self.address("receiver"))
        until(lambda: metric(self.address("receiver"), "waybill_line_delay_seconds_count") == [1], 60, "it is durable")
        delay = metric(self.address("receiver"), "waybill_line_delay_seconds_sum")[0]
        self.assertGreaterEqual(delay, 3600)
        self.assertLess(delay, 3600 + patience(300))
        self.assertGreaterEqual(metric(self.address("receiver"), "waybill_last_commit_timestamp_seconds")[0], began - 1)
        until(lambda: metric(self.address("agent"), oldest) == [0], 60, "nothing waits")
        self.assertLess(abs(metric(self.address("agent"), "waybill_agent_clock_skew_seconds")[0]), patience(15))
        # A clock that is ahead: the line took no time.
        maker.segment(self.site.spool, maker.lines(1, ts=timestamp(utc_now() + datetime.timedelta(hours=1))))
        until(lambda: metric(self.address("receiver"), "waybill_line_delay_seconds_count") == [2], 60, "it is durable")
        self.assertEqual(metric(self.address("receiver"), "waybill_line_delay_seconds_sum"), [delay])


@at_night
class CauseTests(PrometheusTest):
    """Each trouble raises the alert that is meant for it, and no other."""

    def test_a_full_disk(self):
        disk = self.site.mount("disk", "24m")
        maker, ledger = EventMaker(11), Ledger()
        receiver = self.site.receiver("--metrics", self.address("receiver"), data=disk / "data")
        agent = self.site.agent("--metrics", self.address("agent"))
        maker.spool(self.site.spool, ledger, 100_000)
        until(lambda: not any(self.site.spool.iterdir()), 30, "the agent ships while there is room")
        # A disk of 24 MiB is nearly full at any time: that alert is the machine's here, and is tried with made-up series.
        self.watch("receiver", "agent")
        self.assertEqual(self.lasting(), set())
        ballast = fill_up(disk)
        maker.spool(self.site.spool, ledger, 300_000)
        # The same cause: the archive and the exports wait for space, and the agent is sent away.
        self.until_firing("WaybillAcksWithheld", {
            "WaybillCommitsFail", "WaybillProjectionFails", "WaybillProjectionWaits", "WaybillAgentDisconnected"})
        ballast.unlink()
        until(lambda: not any(self.site.spool.iterdir()), 60, "both continue by themselves")
        until(lambda: "WaybillAcksWithheld" not in self.firing(), 60, "the alert ends")
        self.stop_all(agent, receiver)

    def test_a_refused_provider(self):
        """A stand-in for the provider answers that the credentials are wrong."""
        maker, data, config = EventMaker(11, days=1), self.site.root / "delivered", self.site.root / "deliver.yaml"
        receiver = self.site.receiver(exports="none")
        maker.segment(self.site.spool, maker.lines(50, env="prod"))
        self.site.once()
        self.assertEqual(receiver.stop(), 0)
        succeed("replay", "--data", self.site.data, "--provider", "segment", "--output", data)
        provider = RefusingProvider("segment")
        self.addCleanup(provider.close)
        delivery = {"provider": "segment", "env": "prod", "endpoint": provider.address, "retry_seconds": 1}
        config.write_text(json.dumps({"deliver": {
            "data": str(data), "metrics": self.address("deliver"), "deliveries": [delivery]}}))
        service = self.site.start("deliver", "--config", config, log="deliver.log", env=environment())
        self.watch("deliver")
        self.until_firing("WaybillDeliveryRefused")
        self.assertGreater(len(provider.requests), 0)
        self.assertEqual(service.stop(), 0)

    def test_a_certificate_that_expires(self):
        authority = Authority(self.site.root / "authority")
        long, short = {}, {}
        for name, kind in (("receiver", "serverAuth"), ("agent", "clientAuth")):
            long[name] = authority.issue(f"{name}-long", days=("-1", "60"), kind=kind)
            short[name] = authority.issue(f"{name}-short", days=("-1", "10"), kind=kind)
        alerts = {"receiver": "WaybillCertificateExpires", "agent": "WaybillAgentCertificateExpires"}
        files = {}
        for name in ("receiver", "agent"):
            files[name] = [self.site.root / f"{name}.{end}" for end in ("pem", "key")]
            install(long[name], *files[name])
        (self.site.root / "receiver.yaml").write_text(
            f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n  metrics: {self.address('receiver')}\n"
            f"  tls: {{certificate: receiver.pem, key: receiver.key, client_ca: {authority.certificate}}}\n")
        (self.site.root / "agent.yaml").write_text(
            f"agent:\n  state: {self.site.state}\n  to: ['{self.site.address}']\n  metrics: {self.address('agent')}\n"
            f"  sources: [{{spool: {self.site.spool}}}]\n"
            f"  tls: {{certificate: agent.pem, key: agent.key, ca: {authority.certificate}}}\n")
        programs = {
            name: self.site.start(name, "--config", self.site.root / f"{name}.yaml", log=f"{name}.log")
            for name in ("receiver", "agent")}
        self.watch("receiver", "agent")
        until(lambda: self.value("waybill_agent_connected") == 1, 60, "the agent is connected")
        self.assertEqual(self.lasting() - {"WaybillAgentDisconnected"}, set())
        for name in ("agent", "receiver"):
            install(short[name], *files[name])
            programs[name].child.send_signal(signal.SIGHUP)
            self.until_firing(alerts[name], {"WaybillAgentDisconnected"})
            install(long[name], *files[name])
            programs[name].child.send_signal(signal.SIGHUP)
            until(lambda name=name: alerts[name] not in self.firing(), 60, "a renewed certificate ends the alert")
        self.assertEqual([programs[name].stop() for name in ("agent", "receiver")], [0, 0])

    def test_a_refused_reload(self):
        config = self.site.root / "receiver.yaml"
        config.write_text(f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n"
                          f"  metrics: {self.address('receiver')}\n")
        receiver = self.site.start("receiver", "--config", config, log="receiver.log")
        self.watch("receiver")
        # An increase needs a reading before it.
        until(lambda: self.value('waybill_reloads_total{outcome="refused"}') == 0, 60, "the metric is read")
        config.write_text("receiver: {}\n")
        receiver.child.send_signal(signal.SIGHUP)
        self.until_firing("WaybillReloadRefused")
        self.assertEqual(receiver.stop(), 0)
