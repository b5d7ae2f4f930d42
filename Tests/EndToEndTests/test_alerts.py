"""The alert rules and the dashboard that are shipped: valid, about metrics that exist, and quiet while all is well.

Each rule is tried by promtool on made-up series; then a real Prometheus reads a receiver and an agent.
"""

import json
import re
import shutil
import signal
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from harness import REPOSITORY, SiteTest, free_port, patience, until
from ledger import EventMaker, Ledger

FOLDER = REPOSITORY / "Tools" / "packaging" / "monitoring"
ALERTS, DASHBOARD = FOLDER / "alerts.yaml", FOLDER / "dashboard.json"
RECEIVER, AGENT, DELIVER = (
    f'instance="host-1",job="waybill-{name}"' for name in ("receiver", "agent", "deliver"))

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
        (f'waybill_retention_kept_days{{{RECEIVER},projection="archive"}}', "2x70", True),
        (f'waybill_retention_kept_days{{{RECEIVER},projection="archive"}}', "2x30 0x40", False)],
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
    "WaybillAgentDisconnected": [
        (f"waybill_agent_connected{{{AGENT}}}", "1 0x15", True), (f"waybill_agent_connected{{{AGENT}}}", "1 0x5 1 0x7", False)],
    "WaybillAgentBehind": [(f"waybill_agent_pending_bytes{{{AGENT}}}", "65000000x20", True)],
    "WaybillAgentLostBytes": [(f"waybill_agent_lost_bytes_total{{{AGENT}}}", "0 0 10 10", True)],
    "WaybillAgentMissingSegments": [(f"waybill_agent_missing_segments_total{{{AGENT}}}", "0 0 1 1", True)],
    "WaybillAgentUnreadableFiles": [(f"waybill_agent_unreadable_files{{{AGENT}}}", "1x20", True)],
    "WaybillAgentDisputedStreams": [(f"waybill_agent_disputed_streams{{{AGENT}}}", "1x70", True)],
    "WaybillDeliveryRefused": [
        (f'waybill_delivery_state{{{DELIVER},delivery="ga4",state="refused"}}', "1x10", True),
        (f'waybill_delivery_state{{{DELIVER},delivery="ga4",state="backing-off"}}', "1x10", False)],
    "WaybillDeliveryWaits": [(f'waybill_delivery_state{{{DELIVER},delivery="ga4",state="backing-off"}}', "1x70", True)],
    "WaybillDeliveryBehind": [(f'waybill_delivery_oldest_unsent_seconds{{{DELIVER},delivery="ga4"}}', "30000x20", True)],
}
# Minutes after which a case is judged; the longest rule waits for an hour.
MINUTES = {
    "WaybillDown": 5, "WaybillCommitsFail": 4, "WaybillProjectionFails": 4, "WaybillCommitsSlow": 30,
    "WaybillDiskFillsUp": 480, "WaybillCertificateExpires": 80, "WaybillJournalDamaged": 4, "WaybillLinesNotAllowed": 4,
    "WaybillAgentLostBytes": 3, "WaybillAgentMissingSegments": 3, "WaybillAgentUnreadableFiles": 20,
    "WaybillExportMissedEvents": 4, "WaybillUnsealedDayDeleted": 3, "WaybillDaysNotDelivered": 70,
    "WaybillAgentDisputedStreams": 70, "WaybillDeliveryWaits": 70}


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
        described = set()
        for row in (REPOSITORY / "Protocol" / "metrics.md").read_text().splitlines():
            if not row.startswith("| `waybill"):
                continue
            first, *rest = re.findall(r"`(_?[a-z_]+)(?:\{\w+\})?`", row.split("|")[1])
            described.add(first)
            for name in rest:
                parts = name.strip("_").split("_")
                described.add(name if name.startswith("waybill") else "_".join(first.split("_")[:-len(parts)] + parts))
        texts = [ALERTS.read_text(), *(query for _, query in expressions())]
        used = set(re.findall(r"\bwaybill_[a-z_]+", " ".join(texts)))
        self.assertEqual({re.sub("_(bucket|sum|count)$", "", name) for name in used} - described, set())


class PrometheusTests(SiteTest):
    """A real Prometheus with the rules, which wait for a second in place of minutes."""

    def setUp(self):
        super().setUp()
        if not shutil.which("prometheus"):
            raise unittest.SkipTest("there is no prometheus")
        self.port, self.targets = free_port(), {"receiver": free_port(), "agent": free_port()}
        folder = self.site.root / "prometheus"
        folder.mkdir()
        rules = re.sub(r"for: \w+", "for: 1s", ALERTS.read_text())
        (folder / "alerts.yaml").write_text(rules)
        jobs = "".join(
            f"  - {{job_name: waybill-{name}, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n"
            for name, port in self.targets.items())
        (folder / "prometheus.yaml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [alerts.yaml]\nscrape_configs:\n{jobs}")
        self.log = open(folder / "log", "wb")
        self.addCleanup(self.log.close)
        self.prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log)
        self.addCleanup(self.prometheus.wait)
        self.addCleanup(self.prometheus.send_signal, signal.SIGKILL)

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

    def firing(self):
        return {sample["metric"]["alertname"] for sample in self.ask('ALERTS{alertstate="firing"}')}

    def test_the_dashboard_shows_a_receiver_and_an_agent_and_a_dead_one_raises_its_alert(self):
        maker, ledger = EventMaker(11), Ledger()
        receiver = self.site.receiver("--metrics", f"127.0.0.1:{self.targets['receiver']}", exports="csv")
        agent = self.site.agent("--metrics", f"127.0.0.1:{self.targets['agent']}")
        until(lambda: len(self.ask('up{job=~"waybill.*"} == 1')) == 2, 60, "Prometheus reads both")
        maker.spool(self.site.spool, ledger, 200_000)
        received = "sum(waybill_received_lines_total)"
        until(lambda: [s["value"][1] for s in self.ask(received)] == [str(ledger.line_count)], 60, "it has every line")
        for title, query in expressions():
            # The others are of what did not happen: deliveries, refusals, TLS.
            if "delivery" not in query and "> 0" not in query and "tls" not in query:
                # A rate needs two readings of each target.
                until(lambda query=query: self.ask(query), 60, f"{title}: {query}")
            else:
                self.ask(query)
        self.assertEqual(self.firing() - {"WaybillDiskNearlyFull", "WaybillDiskFillsUp"}, set())
        receiver.kill()
        until(lambda: "WaybillDown" in self.firing(), 60, "the dead receiver raises its alert")
        self.assertNotIn("WaybillAgentLostBytes", self.firing())
        self.assertEqual(agent.stop(), 0)


if __name__ == "__main__":
    unittest.main()
