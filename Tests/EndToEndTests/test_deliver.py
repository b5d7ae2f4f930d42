"""Closed parts go to servers that behave as the providers document it, failures and all."""

import collections
import gzip
import hashlib
import json
import os
import pathlib
import random
import shutil
import ssl
import subprocess

from certificates import Authority
from harness import Site, SiteTest, binary, free_port, run, succeed, until
from ledger import EventMaker, timestamp, utc_now, whole
from providers import PATHS, SECRETS, FalseProvider, compact, is_poison, key
from scale import SEED, amount, at_night

PROVIDERS = sorted(PATHS)
KILLS = amount("WAYBILL_KILLS", 3, 6)
# Failures that any provider may have; those by which a request may count twice for GA4 are among them.
FAULTS = ("error", "unavailable", "limit", "too_large", "cut_before", "cut_after", "cut_answer", "silence", "slow")
BY_PROVIDER = {"amplitude": FAULTS + ("throttle",), "ga4": tuple(fault for fault in FAULTS if fault != "too_large")}
QUICK = ("--env", "prod", "--backoff-max", "0.05", "--timeout", "1", "--rate", "1000000")


def environment(**changes):
    """This process's variables, with the credentials of prod and without a proxy."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_") and "proxy" not in name.lower()}
    return {**variables, **SECRETS, **changes}


def deliver(data, provider, *arguments, env=None, timeout=60):
    return subprocess.run(
        [binary(), "deliver", "--data", str(data), "--provider", provider, *map(str, arguments)], capture_output=True,
        timeout=timeout, env=environment() if env is None else env)


class Exports:
    """One archive, and the closed parts of each provider, made once for all tests."""

    site, made = None, {}

    @classmethod
    def open(cls):
        cls.site = Site()
        maker, site = EventMaker(5), cls.site
        receiver = site.receiver(exports="none")
        for env, count in (("prod", 1200), ("dev", 60)):
            lines = maker.lines(count, env=env, bundle="com.example.shop")
            for number in range(0, count, 9):
                # Another person's every now and then, so that GA4's requests are of several sizes.
                lines[number] = lines[number].replace(b'"anon":', b'"user":"u-%06d","anon":' % (number // 30))
            lines += [cls.profile(maker, env, number) for number in range(count // 10)]
            maker.segment(site.spool, lines)
        site.once()
        assert receiver.stop() == 0

    @staticmethod
    def profile(maker, env, number):
        event = json.loads(maker.event(maker.writer(), 1, env=env, kind="user", name="set_user"))
        traits = {"tier": f"T{number}", "note": "${MIXPANEL_TOKEN}", "nested": {"$token": "${MIXPANEL_TOKEN}"}, "gone": None}
        return (compact({**event, "user": f"u-{number:06d}", "traits": traits, "bundle": "com.example.shop"}) + "\n").encode()

    @classmethod
    def copy(cls, provider, target):
        """A data directory with the provider's closed parts."""
        if provider not in cls.made:
            output = cls.site.root / f"made-{provider}"
            succeed("replay", "--data", cls.site.data, "--provider", provider, "--output", output, "--with-users")
            cls.made[provider] = output
        shutil.copytree(cls.made[provider], target)
        return target

    @classmethod
    def close(cls):
        cls.site.close()
        cls.made = {}


setUpModule, tearDownModule = Exports.open, Exports.close


class Part:
    """A closed part: records as values, with the ids of their events."""

    def __init__(self, manifest):
        self.path, self.manifest = manifest, json.loads(manifest.read_text())
        self.stem = manifest.name.removesuffix(".manifest.json")
        self.file = next(path for path in manifest.parent.glob(self.stem + ".*.gz"))
        text = whole(self.file).decode()
        if self.file.name.endswith(".json.gz"):
            self.records = [json.loads(f"[{line.lstrip('[').rstrip(',')}]" if not line.endswith("]") else f"[{line.lstrip('[')}") for line in text.splitlines()]
        else:
            self.records = [json.loads(line) for line in text.splitlines()]
        self.ids = [line.split(",") for line in (manifest.parent / (self.stem + ".ids")).read_text().splitlines()]
        assert len(self.ids) == len(self.records) == self.manifest["records"]

    def dead(self):
        found = list((self.path.parent / "dead").glob(f"delivery-{self.stem.removeprefix('part-')}.ndjson*"))
        assert len(found) < 2, found
        return [json.loads(line) for path in found for line in whole(path).splitlines()]

    @property
    def is_delivered(self):
        path = self.path.parent / (self.stem + ".delivered")
        return path.exists() and path.read_text() == self.manifest["sha256"] + "\n"


def parts(data, provider, env="prod"):
    return [Part(path) for path in sorted((data / "exports" / provider / f"env={env}").glob("date=*/*.manifest.json"))]


def filled(provider, record):
    """A record's keys at the provider: of its updates for profiles, of itself otherwise."""
    if provider != "mixpanel-profiles":
        return [key(provider, record)]
    token = SECRETS["WAYBILL_MIXPANEL_TOKEN_PROD"]
    return [key(provider, {"$token": token, **{name: value for name, value in update.items() if name != "$token"}}) for update in record]


class DeliverTest(SiteTest):
    def server(self, provider, *faults, **options):
        server = FalseProvider(provider, faults, **options)
        self.addCleanup(server.close)
        return server

    def export(self, provider):
        return Exports.copy(provider, self.site.root / f"data-{provider}")

    def summary(self, result, expected=0):
        self.assertEqual(result.returncode, expected, result.stderr.decode()[-1500:])
        return json.loads(result.stdout.splitlines()[-1])

    def assert_no_secret(self, data, *outputs):
        places = {path: path.read_bytes() for path in pathlib.Path(data).rglob("*") if path.is_file()}
        places.update(enumerate(outputs))
        for place, content in places.items():
            for name, value in SECRETS.items():
                if not name.startswith(("WAYBILL_GA4_FIREBASE", "WAYBILL_MIXPANEL_PROJECT")):
                    self.assertNotIn(value.encode(), content, f"{name} in {place}")

    def assert_settled(self, data, provider, server):
        """Every record was taken once, after the provider's own removal of repetitions, or given up once."""
        self.assertEqual(server.complaints[:3], [])
        expected = collections.Counter()
        for part in parts(data, provider):
            self.assertTrue(part.is_delivered, part.path)
            dead = collections.Counter(letter["id"] for letter in part.dead())
            reasons = {letter["record"]: letter["reason"] for letter in part.dead()}
            for number, (record, ids) in enumerate(zip(part.records, part.ids, strict=True)):
                keys = filled(provider, record)
                expected.update(keys)
                taken = [server.taken[each] for each in keys]
                if number in reasons:
                    self.assertEqual([dead[each] for each in ids], [1] * len(ids), "one dead letter an event")
                    if not reasons[number].endswith(".ambiguous") and provider != "mixpanel-profiles":
                        self.assertEqual(sum(taken), 0, "refused and taken")
                else:
                    self.assertEqual([dead[each] for each in ids], [0] * len(ids))
                    self.assertGreater(min(taken), 0, f"lost: {ids}")
                if provider == "ga4":
                    self.assertLessEqual(max(taken), 1, "counted twice")
            self.assertEqual(sum(dead.values()), sum(len(part.ids[number]) for number in reasons))
        self.assertEqual(list(set(server.taken) - set(expected))[:3], [], "taken and never exported")
        return expected


class ProviderTests(DeliverTest):
    """Each provider's requests and answers."""

    def test_every_record_of_a_quiet_day_arrives_once_and_in_order(self):
        """Without failures each record is sent once, in the order of its part; a second run sends nothing."""
        for provider in PROVIDERS:
            with self.subTest(provider):
                data, server = self.export(provider), self.server(provider, poison=False)
                result = deliver(data, provider, "--endpoint", server.address, *QUICK)
                summary = self.summary(result)
                expected = self.assert_settled(data, provider, server)
                self.assertEqual(server.taken, expected)
                if provider != "ga4":
                    order = [each for part in parts(data, provider) for record in part.records for each in filled(provider, record)]
                    self.assertEqual(server.order, order)
                events = sum(part.manifest["events"] for part in parts(data, provider))
                self.assertEqual((summary["sent"], summary["dead"], summary["remaining"]), (events, {}, 0))
                requests = len(server.requests)
                again = self.summary(deliver(data, provider, "--endpoint", server.address, *QUICK))
                self.assertEqual((again["requests"], len(server.requests)), (0, requests))
                self.assert_no_secret(data, result.stdout, result.stderr)
                verified = run("inspect", "--verify", data)
                self.assertNotIn(b"delivered", verified.stdout + verified.stderr)

    def test_what_is_refused_is_a_dead_letter_with_the_reason(self):
        """Refused records are found by index or by halving, go to the dead letters once, and all others arrive."""
        for provider in PROVIDERS:
            if provider in ("ga4", "snowplow"):
                continue  # They refuse nothing that keeps to the rules, or do not say so.
            with self.subTest(provider):
                data, server = self.export(provider), self.server(provider)
                result = deliver(data, provider, "--endpoint", server.address, *QUICK)
                summary = self.summary(result)
                self.assert_settled(data, provider, server)
                dead = [letter for part in parts(data, provider) for letter in part.dead()]
                self.assertGreater(len(dead), 1)
                self.assertEqual(summary["dead"], {f"{provider}.rejected": len(dead)})
                if provider != "mixpanel-profiles":
                    refused = sum(is_poison(provider, record) for part in parts(data, provider) for record in part.records)
                    self.assertEqual(len(dead), refused)
                self.assertEqual({letter["provider"] for letter in dead}, {provider})
                self.assertTrue(all(letter["detail"] and letter["content"] and letter["at"] for letter in dead))
                self.assert_no_secret(data, result.stdout, result.stderr)

    @at_night
    def test_failures_of_every_kind_lose_and_repeat_nothing(self):
        """Errors, limits, cuts, silence and slowness, at random: everything arrives once or is given up once."""
        for number, provider in enumerate(PROVIDERS):
            with self.subTest(provider):
                # Silence costs a time-out; two of them a provider are enough.
                faults = BY_PROVIDER.get(provider, FAULTS)
                data, server = self.export(provider), self.server(provider, seed=SEED + number)
                server.script = random.Random(SEED + number).sample(faults * 2, len(faults) * 2)
                result = deliver(data, provider, "--endpoint", server.address, *QUICK)
                self.summary(result)
                self.assert_settled(data, provider, server)
                self.assert_no_secret(data, result.stdout, result.stderr)

    def test_kills_at_random_lose_and_repeat_nothing(self):
        """SIGKILL again and again in the middle of failures; GA4 counts nothing twice."""
        chance = random.Random(SEED)
        for number, provider in enumerate(("ga4", "mixpanel", "mixpanel-profiles", "amplitude", "posthog", "segment")):
            with self.subTest(provider):
                faults = [fault for fault in BY_PROVIDER.get(provider, FAULTS) if fault != "silence"]
                data = self.export(provider)
                server = self.server(provider, *faults, chance=0.3, fault_count=40, seed=SEED + number)
                outputs, kills = [], 0
                while True:
                    process = subprocess.Popen(
                        [binary(), "deliver", "--data", data, "--provider", provider, "--endpoint", server.address, *QUICK],
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())
                    if kills < KILLS:
                        try:
                            process.wait(0.03 + 0.25 * chance.random())
                        except subprocess.TimeoutExpired:
                            process.kill()
                            kills += 1
                    outputs.append(process.communicate(timeout=60)[0])
                    if process.returncode == 0:
                        break
                    self.assertEqual(process.returncode, -9, outputs[-1][-1500:])
                self.assert_settled(data, provider, server)
                self.assert_no_secret(data, *outputs)
                self.assertEqual(json.loads(outputs[-1].splitlines()[-1])["remaining"], 0)


class RuleTests(DeliverTest):
    """What an operator relies on."""

    def test_a_request_that_may_have_arrived_is_resent_on_demand_alone(self):
        """GA4 without an answer: a dead letter by default, a second request with --ambiguous resend."""
        for more, taken, reasons in (((), [1, 1], ["ga4.ambiguous"]), (("--ambiguous", "resend"), [1, 2], [])):
            data, server = self.export("ga4"), self.server("ga4")
            server.script = ["cut_after"]
            self.summary(deliver(data, "ga4", "--endpoint", server.address, *more, *QUICK))
            dead = {letter["record"]: letter["reason"] for part in parts(data, "ga4") for letter in part.dead()}
            self.assertEqual((list(dead.values()), sorted(server.taken.values())[-2:]), (reasons, taken))
            shutil.rmtree(data)

    def test_a_connection_that_never_was_is_no_ambiguity(self):
        """GA4 behind a closed port: nothing is given up, and the exit code says that no one answered."""
        data = self.export("ga4")
        result = deliver(data, "ga4", "--endpoint", f"http://127.0.0.1:{free_port()}", *QUICK, "--patience", "0.3")
        summary = self.summary(result, expected=69)
        self.assertEqual((summary["sent"], summary["dead"], summary["outcome"]), (0, {}, "unreachable"))
        self.assertIn(b"Connection refused", result.stderr)

    def test_wrong_credentials_stop_everything(self):
        """401, and 400 with the same meaning: one request, exit code 77, and no echo of the secret."""
        for provider, name in (("mixpanel", "MIXPANEL_SERVICE_SECRET"), ("amplitude", "AMPLITUDE_API_KEY"), ("segment", "SEGMENT_WRITE_KEY"), ("posthog", "POSTHOG_API_KEY")):
            with self.subTest(provider):
                data, server = self.export(provider), self.server(provider)
                wrong = "wrong-geheim-123"
                result = deliver(
                    data, provider, "--endpoint", server.address, *QUICK, env=environment(**{f"WAYBILL_{name}_PROD": wrong}))
                summary = self.summary(result, expected=77)
                self.assertEqual((len(server.requests), summary["sent"], summary["dead"]), (1, 0, {}))
                self.assertNotIn(wrong.encode(), result.stdout + result.stderr)
                self.assertIn(f"${{WAYBILL_{name}_PROD}}".encode(), result.stderr)

    def test_old_events_are_not_sent_to_ga4(self):
        """After 72 hours GA4 would move their time: they go to the dead letters."""
        data, server = self.export("ga4"), self.server("ga4")
        manifest = parts(data, "ga4")[0].path
        # The manifest says when it is worth looking; the records say what is too old.
        manifest.write_text(manifest.read_text().replace('"not_after":"20', '"not_after":"19'))
        self.summary(deliver(data, "ga4", "--endpoint", server.address, *QUICK))
        self.assertEqual([letter for part in parts(data, "ga4") for letter in part.dead()], [], "looked at, and young")
        shutil.rmtree(data)
        data, server = self.export("ga4"), self.server("ga4")
        self.age(parts(data, "ga4")[0], record=2)
        self.summary(deliver(data, "ga4", "--endpoint", server.address, *QUICK))
        self.assert_settled(data, "ga4", server)
        dead = [letter for part in parts(data, "ga4") for letter in part.dead()]
        self.assertEqual({(letter["reason"], letter["record"]) for letter in dead}, {("ga4.too_old", 2)})

    def age(self, part, record):
        """Makes the events of one record a week older, as if the part had lain for so long."""
        lines = whole(part.file).decode().splitlines()
        value = json.loads(lines[record])
        for event in value["events"]:
            event["timestamp_micros"] -= 7 * 86_400_000_000
        lines[record] = compact(value)
        content = ("\n".join(lines) + "\n").encode()
        part.file.write_bytes(gzip.compress(content))
        manifest = {**part.manifest, "sha256": hashlib.sha256(content).hexdigest(), "not_after": "2020-01-01T00:00:00.000Z",
                    "gz_sha256": hashlib.sha256(part.file.read_bytes()).hexdigest()}
        part.path.write_text(compact(manifest) + "\n")

    def test_a_day_that_was_made_again_is_sent_on_demand_alone(self):
        """A replay's day holds what was sent: GA4 would count it twice, Mixpanel would not."""
        for provider, expected in (("ga4", 65), ("mixpanel", 0)):
            with self.subTest(provider):
                data, server = self.export(provider), self.server(provider, poison=False)
                self.summary(deliver(data, provider, "--endpoint", server.address, *QUICK))
                before = sum(server.taken.values())
                day = parts(data, provider)[0].path.parent
                again = self.site.root / "again"
                shutil.copytree(day, again)
                shutil.rmtree(day)
                for name in [*again.glob("*.delivered"), *again.glob("dead/delivery*")]:
                    name.unlink()
                (again / ".generation").write_text("0123456789abcdef\n")
                shutil.move(again, day)
                summary = self.summary(deliver(data, provider, "--endpoint", server.address, *QUICK), expected=expected)
                self.assertEqual(summary["remade_days"], 1 if expected else 0)
                self.assertEqual(sum(server.taken.values()) > before, not expected)
                forced = self.summary(deliver(data, provider, "--endpoint", server.address, "--force", *QUICK))
                self.assertEqual(forced["remaining"], 0)
                self.assertGreater(sum(server.taken.values()), before)

    def test_damaged_parts_are_left_out_and_named(self):
        """A part whose bytes are not its manifest's is not sent; the others are."""
        data, server = self.export("mixpanel"), self.server("mixpanel")
        part = parts(data, "mixpanel")[0]
        content = bytearray(part.file.read_bytes())
        content[100] ^= 1
        part.file.write_bytes(content)
        result = deliver(data, "mixpanel", "--endpoint", server.address, *QUICK)
        summary = self.summary(result, expected=65)
        self.assertEqual(summary["damaged_parts"], 1)
        self.assertEqual(summary["remaining"], part.manifest["events"])
        self.assertIn(part.stem.encode(), result.stderr)

    def test_a_receiver_that_runs_is_not_in_the_way(self):
        """Closed parts of a live export are delivered, the open one is not, and the data still holds together."""
        receiver = self.site.receiver(exports="segment")
        maker = EventMaker(9)
        # Of one day, whenever the test runs.
        lines = maker.lines(2300, env="prod", bundle="com.example.shop", ts=timestamp(utc_now()))
        maker.segment(self.site.spool, lines)
        self.site.once()
        server = self.server("segment", poison=False)
        # 2300 calls of about 480 bytes, in parts of 450,000 bytes: two are closed and the third is open.
        until(lambda: len(parts(self.site.data, "segment")) == 2, what="two closed parts")
        closed = parts(self.site.data, "segment")
        self.summary(deliver(self.site.data, "segment", "--endpoint", server.address, *QUICK))
        self.assert_settled(self.site.data, "segment", server)
        self.assertEqual(sum(server.taken.values()), sum(part.manifest["events"] for part in closed))
        self.assertEqual(receiver.stop(), 0)
        restarted = self.site.receiver(exports="segment")
        self.assertEqual(restarted.stop(), 0)
        self.assertTrue(all(part.is_delivered for part in closed), "a restart keeps what others put beside")
        self.assert_verified()

    def test_only_one_delivery_of_a_provider_runs(self):
        """The second one says so and leaves."""
        data, server = self.export("segment"), self.server("segment", poison=False)
        first = self.site.start("deliver", "--data", data, "--provider", "segment", "--endpoint", server.address, "--follow", *QUICK, log="first.log", env=environment())
        until(lambda: all(part.is_delivered for part in parts(data, "segment")), what="the delivery")
        second = deliver(data, "segment", "--endpoint", server.address)
        self.assertEqual(second.returncode, 75)
        self.assertIn(b"another delivery to segment", second.stderr)
        self.assertEqual(first.stop(), 0)

    def test_sigterm_lets_what_is_on_its_way_come_back(self):
        """SIGTERM in the middle: exit code 0, nothing ambiguous, and the next run sends the rest alone."""
        data, server = self.export("ga4"), self.server("ga4", "slow", chance=1, fault_count=12)
        process = self.site.start("deliver", "--data", data, "--provider", "ga4", "--endpoint", server.address, log="deliver.log", env=environment())
        until(lambda: len(server.requests) >= 3, what="the first requests")
        self.assertEqual(process.stop(), 0)
        sent = sum(server.taken.values())
        self.assertIn('"outcome":"interrupted"', process.log())
        self.assertGreater(sent, 0)
        summary = self.summary(deliver(data, "ga4", "--endpoint", server.address, *QUICK))
        self.assertEqual(summary["dead"], {})
        expected = self.assert_settled(data, "ga4", server)
        self.assertEqual(sum(server.taken.values()), sum(expected.values()))

    def test_ga4_is_asked_what_it_thinks(self):
        """--validate shows each record to the debug endpoint and counts nothing as sent."""
        data, server = self.export("ga4"), self.server("ga4")
        result = deliver(data, "ga4", "--endpoint", server.address, "--validate", *QUICK)
        self.assertEqual(result.returncode, 65, result.stderr)
        records = [record for part in parts(data, "ga4") for record in part.records]
        bad = sum(is_poison("ga4", record) for record in records)
        self.assertEqual(json.loads(result.stdout.splitlines()[-1]), {"judged": len(records), "complaints": bad})
        self.assertIn(b"VALUE_INVALID", result.stdout)
        self.assertEqual(sum(server.taken.values()), 0)
        self.assertFalse(any(part.is_delivered for part in parts(data, "ga4")))
        self.assert_no_secret(data, result.stdout, result.stderr)


class OptionTests(DeliverTest):
    """Before anything is sent."""

    def test_a_dry_run_shows_requests_without_secrets(self):
        """--dry-run prints what would be sent, for every provider, with names in the place of credentials."""
        for provider in PROVIDERS:
            with self.subTest(provider):
                data = self.export(provider)
                before = sorted(data.rglob("*"))
                arguments = ["--endpoint", "https://collector.example.com"] if provider == "snowplow" else []
                result = deliver(data, provider, "--dry-run", "--env", "prod", *arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                text = result.stdout.decode()
                self.assertIn("POST https://", text)
                self.assertIn("Content-Type: application/", text)
                if provider not in ("snowplow", "mixpanel-profiles"):
                    self.assertIn("${WAYBILL_", text)
                requests = sum(1 if provider != "ga4" else part.manifest["records"] for part in parts(data, provider))
                self.assertEqual(text.count("POST https://"), requests)
                self.assertEqual(sorted(data.rglob("*")), before, "nothing is written")
                self.assert_no_secret(data, result.stdout, result.stderr)

    def test_each_region_has_its_host(self):
        data = self.export("mixpanel")
        for region, host in (("us", "api.mixpanel.com"), ("eu", "api-eu.mixpanel.com")):
            text = deliver(data, "mixpanel", "--dry-run", "--region", region).stdout.decode()
            self.assertIn(f"POST https://{host}/import?", text)

    def test_files_without_an_endpoint_are_not_delivered(self):
        for provider, words in (("csv", "take its files"), ("flurry", "switched off"), ("syslog", "take its files"), ("journald", "take its files")):
            result = deliver(self.site.root, provider)
            self.assertEqual(result.returncode, 64)
            self.assertIn(words, result.stderr.decode())

    def test_credentials_files_are_their_owners_alone(self):
        """A file that others may read is refused; a private one is used, and the environment is not."""
        data, server = self.export("segment"), self.server("segment", poison=False)
        path = self.site.root / "keys"
        path.write_text("# prod\nWAYBILL_SEGMENT_WRITE_KEY_PROD = " + SECRETS["WAYBILL_SEGMENT_WRITE_KEY_PROD"])
        arguments = ("--endpoint", server.address, "--credentials", path, *QUICK)
        plain = {name: value for name, value in environment().items() if not name.startswith("WAYBILL_")}
        for mode in (0o644, 0o640, 0o604):
            path.chmod(mode)
            result = deliver(data, "segment", *arguments, env=plain)
            self.assertEqual(result.returncode, 78)
            self.assertIn(b"chmod 600", result.stderr)
        path.chmod(0o600)
        self.summary(deliver(data, "segment", *arguments, env=plain))
        self.assert_settled(data, "segment", server)
        path.write_text("nonsense geheim-5\n")
        result = deliver(data, "segment", *arguments, env=plain)
        self.assertEqual(result.returncode, 78)
        self.assertIn(b"keys:1 is not NAME=value", result.stderr)
        self.assertNotIn(b"geheim-5", result.stderr)

    def test_certificates_are_checked(self):
        """A server whose authority no one knows gets nothing, and GA4 knows that nothing was sent."""
        data = self.export("ga4")
        server = self.server("ga4")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*Authority(self.site.root / "ca").issue("localhost"))
        server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
        address = server.address.replace("http://127.0.0.1", "https://localhost")
        result = deliver(data, "ga4", "--endpoint", address, *QUICK, "--patience", "0.3")
        summary = self.summary(result, expected=69)
        self.assertEqual((server.requests, summary["sent"], summary["dead"]), ([], 0, {}))
        self.assertIn(b"certificate", result.stderr.lower())
