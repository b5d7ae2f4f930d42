"""Exports made again from the archive, the filter, and the configuration checker."""

import collections
import csv
import io
import json
import subprocess
import tempfile
import time
import unittest

from harness import SiteTest, VECTORS, binary, ended, run
from ledger import LedgerTest, exported_ids, parts

PROVIDERS = ("ga4", "mixpanel", "csv")
GOLDEN = VECTORS / "providers"


def events(data, provider, base="exports"):
    """The multiset of the provider's records; for GA4, of the events in its requests."""
    found = collections.Counter()
    for content in parts(data, provider, base).values():
        if provider == "csv":
            found.update(map(tuple, list(csv.reader(io.StringIO(content.decode(), newline="")))[1:]))
            continue
        for line in content.splitlines():
            record = json.loads(line)
            if provider != "ga4":
                found[line] += 1
                continue
            head = {name: value for name, value in record.items() if name != "events"}
            for event in record["events"]:
                found[json.dumps([head.get("app_instance_id"), head.get("user_id"), event], sort_keys=True)] += 1
    return found


def days(data, provider, base="exports"):
    """Environment and day of each folder with records."""
    return sorted({name.rsplit("/", 1)[0] for name in parts(data, provider, base)})


class ReplayTest(LedgerTest):
    def replay(self, provider, *arguments, expected=0):
        result = ended(expected, "replay", "--data", self.site.data, "--provider", provider, *arguments)
        return json.loads(result.stdout) if expected == 0 else result.stderr.decode()

    def fill(self, byte_count=1_500_000, exports=",".join(PROVIDERS)):
        """Ships events and foreign lines to a receiver with these exports, which is stopped after."""
        receiver = self.site.receiver(exports=exports)
        self.ship(byte_count)
        self.assertEqual(receiver.stop(), 0)

    def ship(self, byte_count):
        self.maker.spool(self.site.spool, self.ledger, byte_count)
        lines = self.maker.foreign(300) + [b"not json\n"]
        self.ledger.add(lines)
        with open(self.site.root / "web.json", "ab") as file:
            file.write(b"".join(lines))
        self.site.once("--spool", self.site.spool, "--glob", self.site.root / "web.json", "--env", "dev", "--bundle", "web")

    def assert_same_records(self, provider, other, base="exports"):
        live, again = events(self.site.data, provider), events(other, provider, base)
        self.assertGreater(sum(live.values()), 0)
        self.assertEqual(sum((live - again).values()), 0, f"{provider}: missing {next(iter(live - again), None)}")
        self.assertEqual(sum((again - live).values()), 0, f"{provider}: more {next(iter(again - live), None)}")
        self.assertEqual(exported_ids(self.site.data, provider), exported_ids(other, provider, base))


class ReplayTests(ReplayTest):
    """`replay` into a directory of its own."""

    def test_the_data_directory_is_no_output(self):
        """A replay that would write over the live export is refused, and changes nothing."""
        self.fill(200_000)
        before = parts(self.site.data, "csv")
        error = self.replay("csv", "--from", "2020-01-01", "--to", "2020-01-01", "--output", self.site.data, expected=65)
        self.assertIn("--output", error)
        self.assertEqual(parts(self.site.data, "csv"), before)

    def test_a_replay_holds_the_records_of_the_live_export(self):
        """For each provider the replay has the same records, ids and days as the live export."""
        self.fill()
        for provider in PROVIDERS:
            output = self.site.root / f"again-{provider}"
            report = self.replay(provider, "--output", output)
            self.assert_same_records(provider, output)
            self.assertEqual(days(self.site.data, provider), days(output, provider))
            self.assertEqual(report["exported"], sum(events(output, provider).values()))
            manifests = list((output / "exports" / provider).rglob("*.manifest.json"))
            self.assertEqual(sum(json.loads(m.read_text())["events"] for m in manifests), report["exported"])

    def test_an_output_directory_may_be_made_while_the_receiver_runs(self):
        """With --output the receiver keeps running, and what it exports is not touched."""
        self.fill(500_000, "csv")
        before = parts(self.site.data, "csv")
        receiver = self.site.receiver(exports="csv")
        output = self.site.root / "again"
        self.replay("csv", "--output", output)
        self.assertTrue(receiver.is_running)
        self.assertEqual(parts(self.site.data, "csv"), before)
        self.assert_same_records("csv", output)
        self.assertEqual(receiver.stop(), 0)

    def test_days_and_environments_are_chosen(self):
        """--from, --to and --env take exactly these days and this environment of the export."""
        self.fill()
        live = parts(self.site.data, "csv")
        some = sorted({name.split("/")[1][5:] for name in live})
        self.assertGreaterEqual(len(some), 3)
        for arguments, chosen in (
                (["--from", some[1]], lambda env, day: day >= some[1]),
                (["--to", some[1]], lambda env, day: day <= some[1]),
                (["--from", some[1], "--to", some[1]], lambda env, day: day == some[1]),
                (["--env", "prod"], lambda env, day: env == "prod"),
                (["--env", "dev", "--to", some[0]], lambda env, day: env == "dev" and day == some[0])):
            output = self.site.root / ("some" + "".join(arguments))
            self.replay("csv", "--output", output, *arguments)
            wanted = [name for name in days(self.site.data, "csv")
                      if chosen(name.split("/")[0][4:], name.split("/")[1][5:])]
            self.assertEqual(days(output, "csv"), wanted, arguments)

    def test_what_cannot_be_replayed_says_why(self):
        """Usage is 64, a folder without archive 65, a data directory in use 75 with its process."""
        empty = self.site.root / "empty"
        empty.mkdir()
        self.assertEqual(run("replay", "--data", empty, "--provider", "csv").returncode, 65)
        for arguments in (["--provider", "fax"], ["--provider", "csv", "--from", "yesterday"],
                          ["--provider", "csv", "--from", "2026-02-02", "--to", "2026-02-01"],
                          ["--provider", "csv", "--zone", "Mars/Phobos"], ["--provider", "csv", "--env", "test"], []):
            self.assertEqual(run("replay", "--data", empty, *arguments).returncode, 64, arguments)
        receiver = self.site.receiver()
        self.assertIn(str(receiver.child.pid), self.replay("csv", expected=75))
        self.assertTrue(receiver.is_running)


class InPlaceTests(ReplayTest):
    """`replay` in the place of the live export."""

    def test_a_day_is_exchanged_and_what_it_replaced_is_kept(self):
        """After a replay in place the export holds the same records, and the old files lie in `.previous-<provider>`."""
        self.fill()
        for provider in PROVIDERS:
            before, records = parts(self.site.data, provider), events(self.site.data, provider)
            self.replay(provider)
            self.assertEqual(events(self.site.data, provider), records)
            self.assertEqual(parts(self.site.data, f".previous-{provider}"), before)
            self.assertEqual(list((self.site.data / "exports").glob(f".replay-{provider}/*/*")), [])

    def test_the_live_export_goes_on_after_it(self):
        """A receiver that starts after a replay in place adds new records, and neither repeats nor loses one."""
        self.fill()
        for turn in range(3):
            for provider in PROVIDERS:
                self.replay(provider)
            receiver = self.site.receiver(exports=",".join(PROVIDERS))
            self.ship(400_000)
            receiver.kill() if turn == 1 else self.assertEqual(receiver.stop(), 0)
        for provider in PROVIDERS:
            output = self.site.root / f"again-{provider}"
            self.replay(provider, "--output", output)
            ids = exported_ids(self.site.data, provider)
            self.assertEqual([name for name, count in ids.items() if count > 1 and name != b"-"][:3], [])
            self.assert_same_records(provider, output)

    def test_days_outside_the_range_are_not_touched(self):
        """A replay of one day changes that day's folders alone."""
        self.fill()
        before = parts(self.site.data, "csv")
        day = sorted({name.split("/")[1][5:] for name in before})[1]
        self.replay("csv", "--from", day, "--to", day, "--env", "prod")
        after = parts(self.site.data, "csv")
        others = {name for name in before if not name.startswith(f"env=prod/date={day}/")}
        self.assertEqual({name: after.get(name) for name in others}, {name: before[name] for name in others})
        self.assertEqual(sorted(parts(self.site.data, ".previous-csv")), sorted(set(before) - others))

    def test_an_export_that_was_never_live_is_made_and_goes_on(self):
        """A provider added later gets the past from a replay, and the future from the receiver."""
        self.fill(300_000, "csv")
        self.replay("mixpanel")
        self.fill(300_000, "csv,mixpanel")
        output = self.site.root / "again"
        self.replay("mixpanel", "--output", output)
        self.assert_same_records("mixpanel", output)


class TransformTests(unittest.TestCase):
    """`transform`: the same code as a filter."""

    def test_bad_lines_end_with_65_and_are_counted(self):
        """The good lines are mapped, the first bad one is named by line and reason, the exit code is 65."""
        good = (GOLDEN / "golden-events.ndjson").read_bytes().splitlines(True)
        result = ended(65, "transform", "--provider", "mixpanel", stdin=good[0] + b"oops\n" + good[1] + b"[]")
        self.assertEqual(len(result.stdout.splitlines()), 2)
        counts = json.loads(result.stderr)
        self.assertEqual([counts["lines"], counts["bad"], counts["first_bad_line"], counts["first_bad"]], [4, 2, 2, "not-json"])

    def test_refused_events_go_to_the_dead_file(self):
        """An event that is too old for its provider at --as-of is refused, with the reason."""
        source = (GOLDEN / "golden-events.ndjson").read_bytes()
        with tempfile.NamedTemporaryFile() as dead:
            result = run("transform", "--provider", "ga4", "--as-of", "2025-04-01T00:00:00Z", "--dead", dead.name,
                         stdin=source)
            self.assertEqual([result.returncode, result.stdout], [0, b""])
            letters = [json.loads(line) for line in dead.read().splitlines()]
        self.assertEqual({letter["reason"] for letter in letters}, {"ga4.too_old"})
        self.assertEqual(json.loads(result.stderr)["refused"], len(letters))

    def test_memory_stays_small_for_an_endless_line(self):
        """A line without an end is bad and counted once; what is behind it is mapped."""
        good = (GOLDEN / "golden-events.ndjson").read_bytes().splitlines(True)[0]
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as said:
            source.write(good)
            for _ in range(300):
                source.write(b"x" * (1 << 20))
            source.write(b"\n" + good)
            source.seek(0)
            child = subprocess.Popen([binary(), "transform", "--provider", "mixpanel"], stdin=source, stdout=output, stderr=said)
            peak = 0
            while child.poll() is None:
                # What wait4 says includes this process, which forked the other.
                with open(f"/proc/{child.pid}/status", encoding="ascii") as status:
                    peak = max([peak] + [int(line.split()[1]) for line in status if line.startswith("VmHWM")])
                time.sleep(0.005)
            self.assertEqual(child.returncode, 65)
            output.seek(0)
            self.assertEqual(len(output.read().splitlines()), 2)
            said.seek(0)
            counts = json.loads(said.read())
        self.assertEqual([counts["lines"], counts["bad"], counts["first_bad_line"], counts["first_bad"]], [3, 1, 2, "too-long"])
        self.assertTrue(0 < peak < 64 << 10, peak)

    def test_nothing_in_gives_nothing_but_a_header(self):
        """No input is no error."""
        self.assertEqual([(r := run("transform", "--provider", "ga4")).returncode, r.stdout], [0, b""])
        self.assertEqual(run("transform", "--provider", "csv").returncode, 0)

    def test_usage(self):
        """Unknown providers, zones and times are 64."""
        for arguments in (["--provider", "fax"], ["--provider", "csv", "--zone", "Mars"],
                          ["--provider", "csv", "--as-of", "noon"], ["--provider", "csv", "--env", "prod"]):
            self.assertEqual(run("transform", *arguments).returncode, 64, arguments)


class CheckTests(SiteTest):
    """`check`: a configuration's problems, each with line, key and remedy."""

    GOOD = (
        "receiver:\n  data: /var/lib/waybill\n  listen: 0.0.0.0:4390\n  archive: {zone: UTC}\n  exports:\n"
        "    - {provider: ga4, zone: Asia/Seoul}\n    - {provider: csv}\n"
        "agent:\n  state: /var/lib/waybill-agent\n  to: [collect.example.com:4390]\n  sources:\n"
        "    - {spool: /var/spool/shop}\n    - {files: ['/var/log/*.json'], env: prod, bundle: com.example.web, time: ts}\n")

    def check(self, text):
        path = self.site.root / "waybill.yaml"
        path.write_text(text)
        result = run("check", path)
        return result.returncode, (result.stdout + result.stderr).decode()

    def test_a_good_file(self):
        """A good file is 0, with what it holds."""
        code, text = self.check(self.GOOD)
        self.assertEqual(code, 0, text)
        self.assertIn("2 exports", text)
        self.assertIn("2 sources", text)
        for key in ("  data:", "  state:"):
            code, text = self.check(self.GOOD.replace(key, "  metrics: 127.0.0.1:4391\n" + key))
            self.assertEqual(code, 0, text)

    def test_each_problem_is_named_by_line_and_key(self):
        """A wrong value, a missing or unknown key: 78, the line, the key."""
        for old, new, line, key in (
                ("provider: csv", "provider: fax", 7, "exports[1].provider"),
                ("zone: Asia/Seoul", "zone: Mars/Phobos", 6, "exports[0].zone"),
                ("listen: 0.0.0.0:4390", "listen: nowhere", 3, "receiver.listen"),
                ("  listen:", "  lisen:", 3, "receiver.lisen"),
                ("  data:", "  metrics: 4391\n  data:", 2, "receiver.metrics"),
                ("  state:", "  metrics: here\n  state:", 9, "agent.metrics"),
                ("  state: /var/lib/waybill-agent\n", "", 9, "agent.state"),
                ("env: prod", "env: test", 12, "env"),
                ("    - {provider: csv}", "    - {provider: ga4}", 7, "provider"),
                ("  archive: {zone: UTC}", "  archive: UTC", 4, "receiver.archive"),
                ("agent:", "angel:", 8, "angel")):
            code, text = self.check(self.GOOD.replace(old, new))
            line += 1 if key == "env" else 0
            self.assertEqual(code, 78, text)
            self.assertIn(f"line {line}: ", text)
            self.assertIn(key, text)
