"""`waybill deliver --config`: all deliveries of a file in one process; one provider's trouble is no other's."""

import json
import pathlib
import random
import shutil
import signal
import stat
import tempfile
import time

import health
from harness import check_described, ended, failure, free_port, page, patience, run, samples, succeed, until
from providers import FalseProvider
from scale import SEED, amount
from test_deliver import BY_PROVIDER, FAULTS, DeliverTest, Exports, environment, parts

setUpModule, tearDownModule = Exports.open, Exports.close
TOKEN = "a-token-that-is-long-enough"
KILLS = amount("WAYBILL_KILLS", 6, 20)


class RefusingProvider(FalseProvider):
    """Refuses the credentials, and says which, until it is told otherwise."""

    refuses = True

    def serve(self, handler):
        if not self.refuses:
            return super().serve(handler)
        self.read(handler)
        with self.lock:
            self.requests.append(handler.path)
        self.answer(handler, 401, b'{"error":"bad credentials seg-geheim-00dd"}')


class ServiceTest(DeliverTest):
    def setUp(self):
        super().setUp()
        self.metrics = free_port()
        self.config = self.site.root / "deliver.yaml"
        self.data = self.site.root / "data"

    def exports(self, *providers):
        """A data directory with the closed parts of several providers."""
        for provider in providers:
            copy = Exports.copy(provider, self.site.root / f"copy-{provider}")
            shutil.copytree(copy, self.data, dirs_exist_ok=True)

    def write(self, *deliveries):
        usual = {"env": "prod", "rate": 1_000_000, "timeout_seconds": 1, "backoff_seconds": 1, "retry_seconds": 1}
        lines = [f"    - {json.dumps({**usual, **delivery})}\n" for delivery in deliveries]
        self.config.write_text(
            f"deliver:\n  data: {self.data}\n  metrics: 127.0.0.1:{self.metrics}\n  deliveries:\n{''.join(lines)}")

    def start(self, env=None):
        return self.site.start("deliver", "--config", self.config, log="deliver.log", env=env or environment())

    def get(self, path):
        return page(f"127.0.0.1:{self.metrics}", path)

    def status(self):
        try:
            return json.loads(self.get("/status"))
        except OSError:
            return None

    def state(self, name):
        return next((each["state"] for each in (self.status() or {"deliveries": []})["deliveries"] if each["name"] == name), None)

    def codes(self):
        return {
            (delivery["name"], problem["code"])
            for delivery in self.status()["deliveries"] for problem in delivery["problems"]}

    def sample(self, name, **labels):
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return samples(f"127.0.0.1:{self.metrics}", name)[f"{{{text}}}"]

    def is_delivered(self, *providers):
        return all(part.is_delivered for provider in providers for part in parts(self.data, provider))


class TroubleTests(ServiceTest):
    def test_a_refusing_a_slow_and_a_dead_provider_delay_no_other(self):
        self.exports("mixpanel", "posthog", "segment", "amplitude")
        good, slow = self.server("mixpanel"), self.server("posthog", "slow", chance=1, fault_count=10_000, poison=False)
        refusing = RefusingProvider("segment")
        self.addCleanup(refusing.close)
        dead = {"provider": "amplitude", "endpoint": f"http://127.0.0.1:{free_port()}"}
        others = [
            {"provider": "mixpanel", "endpoint": good.address}, {"provider": "posthog", "endpoint": slow.address, "name": "hog"},
            {"provider": "segment", "endpoint": refusing.address}]
        self.write(dead, *others)
        service = self.start()
        until(lambda: self.is_delivered("mixpanel", "posthog"), 60, "the good and the slow one are done")
        until(lambda: self.state("segment") == "refused" and self.state("amplitude") == "backing-off", 30)
        self.assertEqual(self.codes(), {("segment", "provider-refused"), ("amplitude", "provider-waiting")})
        self.assertTrue(self.get("/readyz").startswith("ready\n"))
        self.assertIn("provider-refused: segment: ", self.get("/readyz"))
        until(lambda: self.sample("waybill_delivery_waiting_events", delivery="mixpanel") == 0)
        events = sum(part.manifest["events"] for part in parts(self.data, "mixpanel"))
        refused = self.sample("waybill_delivery_refused_events_total", delivery="mixpanel", reason="rejected")
        self.assertGreater(refused, 0)
        self.assertEqual(self.sample("waybill_delivery_sent_events_total", delivery="mixpanel") + refused, events)
        self.assertEqual(self.sample("waybill_delivery_oldest_unsent_seconds", delivery="mixpanel"), 0)
        self.assertGreater(self.sample("waybill_delivery_oldest_unsent_seconds", delivery="amplitude"), 0)
        self.assertEqual(
            self.sample("waybill_delivery_waiting_events", delivery="amplitude"),
            sum(part.manifest["events"] for part in parts(self.data, "amplitude")))
        self.assertEqual(self.sample("waybill_delivery_state", delivery="hog", state="up"), 1)
        self.assertAlmostEqual(
            self.sample("waybill_delivery_last_success_timestamp_seconds", delivery="hog"), time.time(), delta=patience(60))
        # The operator corrects both; what ran continues and sends nothing again.
        requests = len(good.requests)
        refusing.refuses = False
        alive = self.server("amplitude")
        self.write({**dead, "endpoint": alive.address}, *others)
        service.child.send_signal(signal.SIGHUP)
        until(lambda: self.is_delivered("segment", "amplitude"), 60, "all is delivered")
        until(lambda: self.status()["problems"] == [], 30)
        self.assertIn("deliver.deliveries.amplitude.endpoint", service.log())
        self.assertNotIn("deliver.deliveries.mixpanel", service.log())
        pages = check_described(self, f"127.0.0.1:{self.metrics}") + self.get("/status") + self.get("/readyz")
        self.assertEqual(service.stop(), 0, service.log())
        self.assertEqual(len(good.requests), requests)
        for provider, server in (("mixpanel", good), ("posthog", slow), ("segment", refusing), ("amplitude", alive)):
            self.assert_settled(self.data, provider, server)
        self.assert_no_secret(self.data, service.log().encode(), pages.encode())

    def test_kills_lose_and_repeat_nothing(self):
        """SIGKILL again and again among failures of all kinds; GA4 counts nothing twice."""
        providers = ("ga4", "mixpanel", "amplitude")
        self.exports(*providers)
        servers = {}
        for number, provider in enumerate(providers):
            faults = [fault for fault in BY_PROVIDER.get(provider, FAULTS) if fault != "silence"]
            servers[provider] = self.server(provider, *faults, chance=0.3, fault_count=40, seed=SEED + number)
        self.write(*({"provider": provider, "endpoint": server.address} for provider, server in servers.items()))
        chance = random.Random(SEED)
        for _ in range(KILLS):
            service = self.start()
            time.sleep(0.1 + 0.6 * chance.random())
            service.kill()
        service = self.start()
        until(lambda: self.is_delivered(*providers), 120, "all is delivered")
        self.assertEqual(service.stop(), 0, service.log())
        for provider, server in servers.items():
            self.assert_settled(self.data, provider, server)
        self.assert_no_secret(self.data, service.log().encode())

    def test_what_an_operator_forgot_stops_no_other(self):
        self.exports("mixpanel", "segment")
        good = self.server("mixpanel")
        keys = self.site.root / "segment.keys"
        self.write(
            {"provider": "mixpanel", "endpoint": good.address}, {"provider": "posthog", "endpoint": good.address},
            {"provider": "segment", "endpoint": good.address, "credentials_file": "segment.keys"})
        service = self.start()
        until(lambda: self.is_delivered("mixpanel"), 60)
        until(lambda: self.state("posthog") == "failed" and self.state("segment") == "failed")
        self.assertEqual(self.codes(), {("posthog", "nothing-sent"), ("segment", "nothing-sent")})
        texts = {
            delivery["name"]: problem["text"]
            for delivery in self.status()["deliveries"] for problem in delivery["problems"]}
        self.assertIn("configure the export", texts["posthog"])
        self.assertIn(str(keys), texts["segment"])
        self.assertEqual(service.stop(), 0)


class StatusTests(ServiceTest):
    def test_it_answers_at_a_socket_and_elsewhere_with_a_token(self):
        """As receiver and agent do: the socket of the command line precedes the file's."""
        self.exports("mixpanel")
        server = self.server("mixpanel", poison=False)
        self.write({"provider": "mixpanel", "endpoint": server.address})
        token = self.site.root / "status.token"
        token.write_text(TOKEN + "\n")
        # A socket's path has at most 107 bytes.
        folder = tempfile.TemporaryDirectory(prefix="wb")
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "deliver.sock"
        text = self.config.read_text()
        self.config.write_text(text.replace(
            "  deliveries:", f"  status_socket: {path}\n  status_token_file: {token}\n  deliveries:"))
        service = self.start()
        until(lambda: self.is_delivered("mixpanel"), 60)
        code, output = health.shown(path)
        self.assertEqual((code, "mixpanel" in "\n".join(output)), (0, True), output)
        self.assertEqual(stat.filemode(path.stat().st_mode), "srw-rw----")
        away = {"Host": "collector.example.com"}
        self.assertEqual(health.ask(self.metrics, headers=away)[0], 401)
        self.assertEqual(health.ask(self.metrics, headers={**away, "Authorization": "Bearer " + TOKEN})[0], 200)
        self.assertEqual(health.ask(self.metrics, "/livez")[0], 200)
        self.config.write_text(self.config.read_text().replace(str(path), str(path) + "2"))
        service.child.send_signal(signal.SIGHUP)
        service.until_logged("a changed key needs a restart")
        self.assertIn("deliver.status_socket", service.log())
        self.assertEqual(service.stop(), 0)
        self.assertFalse(path.exists())
        self.assertNotIn(TOKEN, service.log())
        other = path.with_name("other.sock")
        service = self.site.start(
            "deliver", "--config", self.config, "--status-socket", other, log="deliver.log", env=environment())
        until(lambda: health.ask(other), 30, "the service answers")
        self.assertFalse(pathlib.Path(str(path) + "2").exists())
        self.assertEqual(service.stop(), 0)
        token.write_text("short\n")
        self.assertIn("fewer than 16 bytes", failure(78, "deliver", "--config", self.config, env=environment()))
        ended(64, "deliver", "--data", self.data, "--provider", "mixpanel", "--status-socket", other, env=environment())


class ReloadTests(ServiceTest):
    def test_a_file_with_problems_changes_nothing(self):
        self.exports("mixpanel")
        server = self.server("mixpanel", poison=False)
        self.write({"provider": "mixpanel", "endpoint": server.address})
        self.assertEqual(run("check", self.config).returncode, 0)
        service = self.start()
        until(lambda: self.is_delivered("mixpanel"), 60)
        text = self.config.read_text()
        self.config.write_text(text + "    - {provider: ga4, api_secret: geheim}\n")
        self.assertIn("deliver.deliveries[1].api_secret", failure(78, "check", self.config))
        service.child.send_signal(signal.SIGHUP)
        service.until_logged("the configuration is not reloaded; the old one applies")
        self.assertEqual(self.state("mixpanel"), "up")
        self.config.write_text(text)
        service.child.send_signal(signal.SIGHUP)
        service.until_logged("reloaded: nothing changed")
        # A delivery that goes is gone from metrics, and frees its lock.
        self.config.write_text(text[:text.index("    - ")].replace("deliveries:\n", "deliveries: []\n"))
        service.child.send_signal(signal.SIGHUP)
        until(lambda: self.status()["deliveries"] == [])
        self.assertNotIn("waybill_delivery_state", self.get("/metrics"))
        succeed("deliver", "--data", self.data, "--provider", "mixpanel", "--endpoint", server.address, env=environment())
        self.assertEqual(service.stop(), 0)
