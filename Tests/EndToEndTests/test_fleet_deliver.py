"""Mergers of a fleet deliver the same parts, and each record is sent once: claims in the bucket decide who sends what.

The mergers are processes with data directories of their own, which have the same parts byte for byte. The bucket is moto's.
"""

import collections
import json
import re
import shutil
import threading

import buckets
from harness import REPOSITORY, SiteTest, ended, failure, free_port, patience, run, succeed, until
from health import ask
from providers import FalseProvider
from test_deliver import DeliverTest, Exports, environment, filled, parts

setUpModule, tearDownModule = Exports.open, Exports.close
STORE_KEYS = {"AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET, "AWS_REGION": "us-east-1"}


class GatedProvider(FalseProvider):
    """Answers so many requests; further ones wait, unread, until the gate opens."""

    def __init__(self, provider, passing):
        super().__init__(provider, poison=False)
        self.passing, self.reached, self.gate = passing, threading.Event(), threading.Event()

    def serve(self, handler):
        with self.lock:
            self.passing -= 1
            waits = self.passing < 0
        if waits:
            self.reached.set()
            self.gate.wait()
        super().serve(handler)

    def close(self):
        self.gate.set()
        super().close()


class FleetDeliverTest(DeliverTest):
    def setUp(self):
        super().setUp()
        self.moto = buckets.Moto(self.site.logs / "moto.log")
        self.addCleanup(self.moto.close)
        self.moto.make("events")
        self.metrics, self.servers = {}, {}
        succeed("store", "init", "--store", "s3://events/w", "--endpoint", self.moto.url, env=STORE_KEYS)

    def gated(self, provider, passing):
        server = GatedProvider(provider, passing)
        self.addCleanup(server.close)
        return server

    def data(self, name):
        return self.site.root / name

    def merger(self, name, **servers):
        """Makes a merger's data directory with the parts of these providers, and its configuration."""
        data = self.data(name)
        for provider, server in servers.items():
            copy = Exports.copy(provider, self.site.root / f"copy-{name}-{provider}")
            shutil.copytree(copy, data, dirs_exist_ok=True)
            shutil.rmtree(copy)
        (data / "state").mkdir(exist_ok=True)
        (data / "state" / "merge.state").write_bytes(b"")
        self.metrics[name], self.servers = free_port(), {**self.servers, **servers}
        deliveries = "".join(
            f"    - {{provider: {provider}, env: prod, endpoint: '{server.address}', rate: 1000000, timeout_seconds: 60, "
            f"backoff_seconds: 1, retry_seconds: 1}}\n" for provider, server in servers.items())
        self.config(name).write_text(
            f"store: {{url: 's3://events/w', endpoint: '{self.moto.url}'}}\n"
            f"merger: {{name: {name}, data: {data}, exports: []}}\n"
            f"deliver:\n  data: {data}\n  metrics: 127.0.0.1:{self.metrics[name]}\n  deliveries:\n{deliveries}")

    def config(self, name):
        return self.site.root / f"{name}.yaml"

    def start(self, name):
        return self.site.start("deliver", "--config", self.config(name), log=f"{name}.log", env=environment(**STORE_KEYS))

    def take_over(self, name, former):
        result = succeed(
            "deliver", "--config", self.config(name), "--take-over", former, env=environment(**STORE_KEYS), timeout=patience(60))
        return json.loads(result.stdout.splitlines()[-1]), result.stdout.decode()

    def get(self, name, path):
        return (ask(self.metrics[name], path) or (None, None, ""))[2]

    def status(self, name, provider):
        document = json.loads(self.get(name, "/status") or '{"deliveries":[]}')
        return next((each for each in document["deliveries"] if each["provider"] == provider), {"problems": []})

    def codes(self, name, provider):
        return {problem["code"] for problem in self.status(name, provider)["problems"]}

    def marks(self, name, provider):
        """The second lines of the `.delivered` of a merger's parts; `None` for a part that has none."""
        found = []
        for part in parts(self.data(name), provider):
            path = part.path.parent / f"{part.stem}.delivered"
            lines = path.read_text().splitlines() if path.exists() else [None]
            found.append(lines[1] if lines[0] == part.manifest["sha256"] else None)
        return found

    def until_delivered(self, provider, *names):
        for name in names:
            until(lambda name=name: all(self.marks(name, provider)), 90, f"{name} has all of {provider}")

    def letters(self, provider, *names):
        """How often each event is in the dead letters of any merger, with reasons."""
        found = [letter for name in names for part in parts(self.data(name), provider) for letter in part.dead()]
        return collections.Counter(letter["id"] for letter in found), {letter["reason"] for letter in found}

    def assert_fleet_settled(self, provider, *names, again=False):
        """Each record was taken once, or is in someone's dead letters; `again`: some may be taken twice."""
        server = self.servers[provider]
        self.assertEqual(server.complaints[:3], [])
        dead, _ = self.letters(provider, *names)
        expected = collections.Counter()
        for part in parts(self.data(names[0]), provider):
            for record, ids in zip(part.records, part.ids, strict=True):
                keys = filled(provider, record)
                expected.update(keys)
                for each in keys:
                    self.assertTrue(server.taken[each] or dead[ids[0]], f"lost: {ids}")
                    if not again:
                        self.assertLessEqual(server.taken[each], 1, f"twice: {ids}")
        self.assertEqual(set(server.taken) - set(expected), set())
        return expected, dead


class ClaimTests(FleetDeliverTest):
    def test_two_mergers_send_each_record_once(self):
        servers = {provider: self.server(provider, poison=False) for provider in ("ga4", "mixpanel", "segment")}
        for name in ("m1", "m2"):
            self.merger(name, **servers)
        processes = {name: self.start(name) for name in ("m1", "m2")}
        for provider, server in servers.items():
            self.until_delivered(provider, "m1", "m2")
            expected, dead = self.assert_fleet_settled(provider, "m1", "m2")
            self.assertEqual((server.taken, dead), (expected, {}))
            self.assertEqual(self.marks("m1", provider), self.marks("m2", provider))
            for mark, part in zip(self.marks("m1", provider), parts(self.data("m1"), provider), strict=True):
                self.assertRegex(mark, rf"^merger=m[12] sent={part.manifest['events']} dead=0$")
            sent = [until(lambda name=name: self.status(name, provider).get("sent") is not None and self.status(name, provider))
                    for name in processes]
            self.assertEqual(
                sum(status["sent"] for status in sent), sum(part.manifest["events"] for part in parts(self.data("m1"), provider)))
        until(lambda: 'waybill_delivery_parts{delivery="ga4",claim="elsewhere"} 0' in self.get("m2", "/metrics"))
        for name, process in processes.items():
            self.assertEqual(process.stop(), 0, process.log())
            verified = run("inspect", "--verify", self.data(name))
            self.assertNotIn(b"delivered", verified.stdout + verified.stderr)
            # Nothing is left to do for it.
            counts = [len(server.requests) for server in servers.values()]
            again = self.start(name)
            until(lambda: self.status(name, "segment").get("claimed_parts") == 0)
            self.assertEqual(again.stop(), 0)
            self.assertEqual([len(server.requests) for server in servers.values()], counts)

    def test_a_merger_that_is_killed_in_a_part_goes_on_with_it(self):
        server = self.gated("ga4", 40)
        for name in ("m1", "m2"):
            self.merger(name, ga4=server)
        first = self.start("m1")
        self.assertTrue(server.reached.wait(patience(60)), first.log())
        first.kill()
        server.passing = 1 << 30
        server.gate.set()
        second = self.start("m2")
        until(lambda: sum(mark is not None for mark in self.marks("m2", "ga4")) == 2, 60, "m2 sends the others")
        until(lambda: self.status("m2", "ga4").get("elsewhere_parts") == 1)
        until(lambda: self.status("m2", "ga4")["waiting"] == 0)
        self.assertEqual(self.marks("m2", "ga4")[0], None)
        first = self.start("m1")
        self.until_delivered("ga4", "m1", "m2")
        self.assertRegex(self.marks("m2", "ga4")[0], "^merger=m1 ")
        _, dead = self.assert_fleet_settled("ga4", "m1", "m2")
        # Only what was on its way when it was killed is in doubt.
        records = {letter["record"] for letter in parts(self.data("m1"), "ga4")[0].dead()}
        self.assertTrue(1 <= len(records) <= 4, records)
        self.assertEqual(self.letters("ga4", "m2"), ({}, set()))
        self.assertEqual(set(dead.values()), {1})
        self.stop_all(first, second)

    def test_what_a_merger_held_that_is_gone_is_taken_over(self):
        servers = {"ga4": self.gated("ga4", 40), "segment": self.gated("segment", 0)}
        for name in ("m1", "m2"):
            self.merger(name, **servers)
        first = self.start("m1")
        for server in servers.values():
            self.assertTrue(server.reached.wait(patience(60)), first.log())
        first.kill()
        for server in servers.values():
            server.passing = 1 << 30
            server.gate.set()
        # Before it has begun itself it cannot hold anything.
        ended(66, "deliver", "--config", self.config("m2"), "--take-over", "m1", env=environment(**STORE_KEYS))
        second = self.start("m2")
        for provider in servers:
            until(lambda provider=provider: sum(mark is not None for mark in self.marks("m2", provider)) == 2, 60)
        self.assertEqual(self.take_over("m2", "m3")[0], {"taken": 0, "elsewhere": 2, "damaged": 0, "others": 0})
        counts, text = self.take_over("m2", "m1")
        self.assertEqual(counts, {"taken": 2, "elsewhere": 0, "damaged": 0, "others": 0})
        self.assertIn("taken over: ga4/env=prod/date=", text)
        for provider in servers:
            self.until_delivered(provider, "m2")
        # GA4 never gets a record twice: what may have been sent is in the dead letters. Segment removes repetitions.
        _, dead = self.assert_fleet_settled("ga4", "m2")
        part = parts(self.data("m2"), "ga4")[0]
        self.assertEqual(len(part.dead()), sum(len(ids) for ids in part.ids))
        self.assertEqual({letter["reason"] for letter in part.dead()}, {"ga4.ambiguous"})
        self.assertIn("taken over from another merger", part.dead()[0]["detail"])
        self.assertEqual(len(dead), len(part.dead()))
        self.assert_fleet_settled("segment", "m2", again=True)
        self.assertEqual(self.letters("segment", "m2"), ({}, set()))
        # The former holder finds it finished, and sends nothing.
        counts = {provider: len(server.requests) for provider, server in servers.items()}
        first = self.start("m1")
        for provider, server in servers.items():
            self.until_delivered(provider, "m1")
            self.assertEqual(len(server.requests), counts[provider])
            self.assertRegex(self.marks("m1", provider)[0], "^merger=m2 ")
        self.stop_all(first, second)

    def test_a_merger_that_lost_its_disk_does_not_believe_its_former_claims(self):
        server = self.gated("ga4", 40)
        self.merger("m1", ga4=server)
        first = self.start("m1")
        self.assertTrue(server.reached.wait(patience(60)), first.log())
        first.kill()
        server.passing = 1 << 30
        server.gate.set()
        self.data("m1").rename(self.site.root / "lost")
        self.merger("m1", ga4=server)
        first = self.start("m1")
        until(lambda: sum(mark is not None for mark in self.marks("m1", "ga4")) == 2, 60)
        until(lambda: self.status("m1", "ga4").get("elsewhere_parts") == 1)
        self.assertEqual(self.take_over("m1", "m1")[0]["taken"], 1)
        self.until_delivered("ga4", "m1")
        self.assert_fleet_settled("ga4", "m1")
        self.assertEqual(first.stop(), 0)


class PageTests(SiteTest):
    def test_the_configuration_of_the_page_is_good(self):
        page = (REPOSITORY / "Documentation" / "deliveries.md").read_text(encoding="utf-8")
        block = next(text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "store:" in text)
        config = self.site.root / "merge.yaml"
        config.write_text(block, encoding="utf-8")
        succeed("check", config)
        config.write_text(block.replace("  name: merger-1\n", "  name: 'a b'\n"), encoding="utf-8")
        self.assertEqual(run("deliver", "--config", config, "--take-over", "merger-2").returncode, 78)


class TroubleTests(FleetDeliverTest):

    def test_without_the_bucket_nothing_is_sent(self):
        server = self.server("segment", poison=False)
        self.merger("m1", segment=server)
        text = self.config("m1").read_text()
        gone = free_port()
        self.config("m1").write_text(text.replace(self.moto.url, f"http://127.0.0.1:{gone}"))
        process = self.start("m1")
        until(lambda: "bucket-waiting" in self.codes("m1", "segment"), 60)
        process.until_logged("WB3011")
        self.assertEqual(self.status("m1", "segment")["waiting_parts"], 3)
        self.assertEqual(process.stop(), 0)
        self.assertEqual((server.requests, self.marks("m1", "segment")), ([], [None] * 3))
        self.config("m1").write_text(text)
        process = self.start("m1")
        self.until_delivered("segment", "m1")
        until(lambda: self.codes("m1", "segment") == set())
        self.assertEqual(process.stop(), 0)

    def test_a_bucket_that_goes_away_in_a_part_delays_its_end(self):
        store = buckets.SmallStore()
        self.addCleanup(store.close)
        keys = {**STORE_KEYS, "AWS_REGION": store.region}
        succeed("store", "init", "--store", "s3://events/w", "--endpoint", store.url, env=keys)
        server = self.gated("segment", 0)
        self.merger("m1", segment=server)
        self.config("m1").write_text(self.config("m1").read_text().replace(self.moto.url, store.url))
        process = self.site.start("deliver", "--config", self.config("m1"), log="m1.log", env=environment(**keys))
        self.assertTrue(server.reached.wait(patience(60)), process.log())
        store.fault = lambda method, path: (403, "AccessDenied")
        server.passing = 1 << 30
        server.gate.set()
        until(lambda: "bucket-waiting" in self.codes("m1", "segment"), 60)
        self.assertEqual(self.marks("m1", "segment"), [None] * 3)
        count = len(server.requests)
        self.assertEqual(sum(server.taken.values()), len(parts(self.data("m1"), "segment")[0].records))
        store.fault = None
        self.until_delivered("segment", "m1")
        self.assertGreater(len(server.requests), count)
        expected, _ = self.assert_fleet_settled("segment", "m1")
        self.assertEqual(server.taken, expected)
        self.assertEqual(process.stop(), 0)

    def test_a_mergers_parts_are_not_sent_without_claims(self):
        server = self.server("segment", poison=False)
        self.merger("m1", segment=server)
        self.assertIn("is a merger's", failure(
            78, "deliver", "--data", self.data("m1"), "--provider", "segment", "--endpoint", server.address,
            env=environment()))
        # What sends nothing is allowed.
        succeed("deliver", "--data", self.data("m1"), "--provider", "segment", "--dry-run", env=environment())
        config = self.config("m1")
        config.write_text("".join(line for line in config.read_text().splitlines(True) if not line.startswith("store:")))
        process = self.start("m1")
        until(lambda: "nothing-sent" in self.codes("m1", "segment"), 60)
        self.assertEqual(process.stop(), 0)
        self.assertEqual(server.requests, [])
        ended(78, "deliver", "--config", config, "--take-over", "m2", env=environment())
