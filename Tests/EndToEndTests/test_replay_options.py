"""Replays with every option: jobs, interruptions, filters, several providers, comparisons, generations."""

import collections
import gzip
import json
import pathlib
import random
import shutil
import signal
import subprocess
import time

from harness import binary, ended, failure, patience, run, succeed, until
from ledger import exported_ids, parts, timestamp, whole
from scale import SEED
from test_replay import ReplayTest, days, events


def tree(top, skipped=()):
    """Every file below a folder, by path, but for some names."""
    return {
        str(path.relative_to(top)): path.read_bytes() for path in sorted(pathlib.Path(top).rglob("*"))
        if path.is_file() and path.name not in skipped}


class OptionTest(ReplayTest):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)

    def lines(self, *arguments, expected=0):
        """The lines of JSON that a replay prints, and what it says."""
        result = ended(expected, "replay", "--data", self.site.data, *arguments)
        return [json.loads(line) for line in result.stdout.splitlines()], result.stderr.decode()

    def ship_lines(self, lines, exports="ga4,mixpanel,csv"):
        receiver = self.site.receiver(exports=exports)
        self.maker.segment(self.site.spool, lines, ledger=self.ledger)
        self.site.once()
        self.assertEqual(receiver.stop(), 0)

    def made(self, name, *arguments):
        """What a replay elsewhere writes."""
        output = self.site.root / name
        self.lines("--output", output, *arguments)
        return tree(output)

    def killed(self, arguments, after):
        """Starts a replay and kills it after so many seconds; whether it was still running."""
        child = subprocess.Popen(
            [binary(), "replay", "--data", self.site.data, *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        try:
            child.communicate(timeout=after)
            self.assertEqual(child.returncode, 0)
            return False
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return True

    def started(self, output, *arguments):
        """A replay to `output` that has come far enough to have a state, or has ended."""
        shutil.rmtree(output, ignore_errors=True)
        child = subprocess.Popen(
            [binary(), "replay", "--data", self.site.data, *arguments, "--output", output], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        state = output / "state" / "replay.state"
        until(lambda: state.exists() or child.poll() is not None, 60, "the replay has a state")
        return child

    def kill_in_the_middle(self, output, *arguments):
        """Kills a replay that has a state to continue from."""
        is_running = False
        while not is_running:
            child = self.started(output, *arguments)
            time.sleep(self.chance.uniform(0, 0.1))
            is_running = child.poll() is None
            child.kill()
            child.communicate()


class DeterminismTests(OptionTest):
    """The same bytes with any number of jobs, of interruptions, and of providers in a pass."""

    ALL = ("--provider", "ga4,mixpanel,csv,segment")

    def test_jobs_and_company_change_no_byte(self):
        """1, 2 and 4 jobs, and each provider by itself, give the same files."""
        self.fill()
        for zone in ([], ["--zone", "Asia/Seoul"]):
            name = "-".join(zone[1:]).replace("/", "-")
            one = self.made(f"one{name}", *self.ALL, *zone)
            self.assertGreater(len(one), 20)
            for jobs in (2, 4):
                self.assertEqual(self.made(f"{jobs}{name}", *self.ALL, *zone, "--jobs", jobs), one)
            alone = {}
            for provider in self.ALL[1].split(","):
                alone.update(self.made(f"{provider}{name}", "--provider", provider, *zone))
            self.assertEqual(alone, one)

    def test_a_signal_leaves_a_state_to_go_on_from(self):
        """SIGTERM and SIGINT end with 75 and say how to continue."""
        self.fill(5_000_000)
        undisturbed = self.made("undisturbed", *self.ALL)
        interrupted = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            output = self.site.root / f"stopped-{interrupted}"
            child = self.started(output, *self.ALL)
            time.sleep(self.chance.uniform(0, 0.1))
            child.send_signal(number)
            _, said = child.communicate(timeout=patience(60))
            if child.returncode == 75:
                interrupted += 1
                self.assertIn("run the same command again to continue", said.decode())
            self.lines(*self.ALL, "--output", output)
            self.assertEqual(tree(output), undisturbed)
        self.assertGreater(interrupted, 0)

    def test_another_request_or_a_grown_archive_begins_again(self):
        """What was made for another request, or of less, is not gone on with; the replay says so."""
        self.fill(4_000_000)
        output = self.site.root / "again"
        self.kill_in_the_middle(output, *self.ALL)
        _, said = self.lines("--provider", "csv", "--output", output)
        self.assertIn("begins again: another replay was interrupted", said)
        self.kill_in_the_middle(output, *self.ALL)
        self.fill(100_000, "csv")
        _, said = self.lines(*self.ALL, "--output", output)
        self.assertIn("begins again: the archive, or what is left out of it, has changed", said)
        self.assertEqual(tree(output), self.made("fresh", *self.ALL))

    def test_two_replays_to_one_directory(self):
        """The second is refused while the first runs."""
        self.fill(5_000_000)
        output = self.site.root / "again"
        child = self.started(output, *self.ALL)
        result = run("replay", "--data", self.site.data, *self.ALL, "--output", output)
        if child.poll() is None:
            self.assertEqual(result.returncode, 75, result.stderr)
            self.assertIn(b"another replay writes to", result.stderr)
        child.communicate(timeout=patience(120))
        self.assertEqual(child.returncode, 0)


class FilterTests(OptionTest):
    """Which events are taken."""

    def ids(self, name, *arguments):
        output = self.site.root / name
        self.lines("--provider", "csv", "--output", output, *arguments)
        return exported_ids(output, "csv")

    def test_apps_names_kinds_and_environments(self):
        """Each filter takes exactly the events that it names; several of one kind are alternatives."""
        made = []
        for number, (env, bundle, name, kind) in enumerate(
                (env, bundle, name, kind) for env in ("prod", "dev") for bundle in ("a.b", "장바구니")
                for name in ("one", "two \\\"quoted\\\"") for kind in ("action", "screen")):
            line = self.maker.event(self.maker.writer(), number + 1, env=env, bundle=bundle, name=name, kind=kind)
            made.append((env, bundle, name.replace("\\", ""), kind, json.loads(line)["id"].encode(), line))
        self.ship_lines([row[5] for row in made])
        for number, (arguments, chosen) in enumerate((
                (["--bundle", "장바구니"], lambda row: row[1] == "장바구니"),
                (["--bundle", "장바구니", "--bundle", "a.b"], lambda row: True),
                (["--name", 'two "quoted"'], lambda row: row[2] == 'two "quoted"'),
                (["--kind", "screen", "--env", "dev"], lambda row: row[3] == "screen" and row[0] == "dev"),
                (["--env", "dev", "--env", "prod", "--name", "one"], lambda row: row[2] == "one"),
                (["--name", "nobody"], lambda row: False))):
            wanted = collections.Counter(row[4] for row in made if chosen(row))
            self.assertEqual(self.ids(f"filtered-{number}", *arguments), wanted, arguments)

    def test_a_part_of_a_day_is_refused_in_place(self):
        """Nothing is exchanged for some events of a day; usage is 64."""
        self.fill(200_000)
        before = tree(self.site.data / "exports")
        for arguments in (["--bundle", "a"], ["--name", "a"], ["--kind", "user"], ["--name", "a", "--diff"],
                          ["--from-journal"]):
            _, said = self.lines("--provider", "csv", *arguments, expected=64)
            self.assertIn("--output DIR", said)
        for arguments in (["--dry-run", "--diff"], ["--diff", "--output", "x"], ["--jobs", "0"], ["--kind", "x"],
                          ["--provider", "csv,csv"]):
            self.lines(*([] if "csv,csv" in arguments else ["--provider", "csv"]), *arguments, expected=64)
        self.assertEqual(tree(self.site.data / "exports"), before)

    def test_repeated_ids_are_left_out_once(self):
        """--distinct keeps the first of each id in each environment, with any number of jobs, and counts the others."""
        first = self.maker.lines(300)
        again = [first[index] for index in range(0, 300, 3)]
        other = [self.maker.event(self.maker.writer(), 1, env="prod")]
        self.ship_lines(first)
        self.ship_lines(again + other)
        plain, _ = self.lines("--provider", "csv", "--output", self.site.root / "plain")
        self.assertEqual([plain[0]["exported"], plain[0]["dup"]], [401, 0])
        for jobs in (1, 4):
            output = self.site.root / f"distinct-{jobs}"
            report, _ = self.lines("--provider", "csv", "--distinct", "--jobs", jobs, "--output", output)
            self.assertEqual([report[0]["exported"], report[0]["dup"], report[0]["lines"]], [301, 100, 401])
            self.assertEqual(set(exported_ids(output, "csv").values()), {1})
        self.assertEqual(tree(self.site.root / "distinct-1"), tree(self.site.root / "distinct-4"))

    def test_the_journal_gives_the_same_events(self):
        """--from-journal replays what the journal keeps: here all there is."""
        self.fill()
        for provider in ("ga4", "mixpanel", "csv"):
            output = self.site.root / f"journal-{provider}"
            report, _ = self.lines("--provider", provider, "--from-journal", "--output", output)
            self.assert_same_records(provider, output)
            self.assertEqual(report[0]["exported"], sum(events(output, provider).values()))
            counted, _ = self.lines("--provider", provider, "--from-journal", "--dry-run")
            self.assertEqual(counted[0]["partitions"], report[0]["partitions"])
        day = days(self.site.data, "csv")[0]
        self.lines("--provider", "csv", "--from-journal", "--output", self.site.root / "day", "--env",
                   day.split("/")[0][4:], "--from", day[-10:], "--to", day[-10:])
        self.assertEqual(days(self.site.root / "day", "csv"), [day])


class UserTests(OptionTest):
    """Events that set properties of users."""

    def user(self, sequence, user, traits, minutes, **changes):
        time = self.maker.times[0].replace(microsecond=0)
        ts = timestamp(time.replace(minute=minutes))
        line = json.loads(self.maker.event(self.maker.writer(), sequence, ts=ts, env="prod", kind="user", **changes))
        line["user"], line["traits"] = user, traits
        return (json.dumps(line, ensure_ascii=False) + "\n").encode()

    def traits(self, output):
        """What posthog would be told, in order."""
        told = []
        for content in parts(output, "posthog").values():
            for record in map(json.loads, content.splitlines()):
                properties = record["properties"]
                if "$set" in properties or "$unset" in properties:
                    told.append((record["distinct_id"], properties.get("$set", {}), properties.get("$unset", [])))
        return told

    def test_only_the_newest_value_of_each_property(self):
        """Left out by default; --with-users tells each property once, in whatever order the lines came."""
        self.ship_lines([
            self.user(1, "u-2", {"tier": "B", "age": 3}, 30, bundle="z.app"),
            self.user(2, "u-1", {"tier": "new", "city": "Seoul"}, 20, bundle="a.app"),
            self.user(3, "u-1", {"tier": "old", "plan": "x"}, 10, bundle="z.app"),
            self.user(4, "u-1", {"plan": None}, 15, bundle="b.app"),
            self.user(5, "u-2", {"tier": "A"}, 5, bundle="z.app"),
            self.maker.event(self.maker.writer(), 6, env="prod"),
        ], exports="posthog,csv")
        report, said = self.lines("--provider", "posthog", "--output", self.site.root / "none")
        self.assertEqual([report[0]["exported"], report[0]["skipped"]], [1, 5])
        self.assertIn("5 events that set properties of users are left out", said)
        self.assertEqual(self.traits(self.site.root / "none"), [])
        output = self.site.root / "newest"
        report, _ = self.lines("--provider", "posthog", "--with-users", "--output", output)
        self.assertEqual([report[0]["exported"], report[0]["skipped"]], [4, 2])
        self.assertEqual(sorted(map(str, self.traits(output))), sorted(map(str, [
            ("u-1", {"tier": "new", "city": "Seoul"}, []), ("u-1", {}, ["plan"]), ("u-2", {"tier": "B", "age": 3}, [])])))


class ComparisonTests(OptionTest):
    """`--dry-run` and `--diff`: what would be, and nothing written."""

    def test_a_dry_run_counts_what_a_replay_writes(self):
        """Counts and bytes are those of the replay; no file changes."""
        self.fill()
        before = tree(self.site.data)
        for provider in ("ga4", "csv", "mixpanel-profiles"):
            counted, _ = self.lines("--provider", provider, "--dry-run", "--jobs", 2)
            output = self.site.root / f"again-{provider}"
            report, _ = self.lines("--provider", provider, "--output", output)
            parts = {
                name: gzip.decompress(content) if name.endswith(".gz") else content
                for name, content in tree(output).items() if "/part-" in name and ".manifest" not in name}
            written = sum(map(len, parts.values()))
            headers = sum(54 if provider == "csv" and ".csv" in name else 0 for name in parts)
            self.assertEqual({name: counted[0][name] for name in report[0]}, report[0])
            self.assertLessEqual(abs(written - counted[0]["output_bytes"] - headers), 4 * len(tree(output)))
        self.assertEqual(tree(self.site.data), before)

    def test_equal_generations_do_not_differ(self):
        """After a fill and after a replay no day differs, whatever the provider's format."""
        exports = "ga4,mixpanel,csv,segment,syslog,journald,mixpanel-profiles"
        self.fill(700_000, exports)
        for _ in range(2):
            differences, _ = self.lines("--provider", exports, "--diff", "--jobs", 2)
            self.assertEqual([line for line in differences if "partition" in line], [])
            self.lines("--provider", exports)

    def test_each_difference_is_counted_with_its_reason(self):
        """A lost record, a changed one, a foreign one, and a refusal that would not be repeated."""
        bad = json.loads(self.maker.event(self.maker.writer(), 1, env="prod"))
        bad["ids"] = {}
        lines = [self.maker.event(self.maker.writer(), n, env="prod", ts=bad["ts"]) for n in range(2, 12)]
        self.ship_lines(lines + [(json.dumps(bad) + "\n").encode()], exports="ga4,mixpanel")
        self.assertEqual(len(self.lines("--provider", "ga4,mixpanel", "--diff")[0]), 2)
        folder = next((self.site.data / "exports" / "mixpanel").glob("env=prod/date=*"))
        records, ids = folder / "part-00000.ndjson", folder / "part-00000.ids"
        some = records.read_bytes().splitlines(True)
        # Of the same length, so that the checkpoint holds: one event of another id, one with another name.
        some[0] = some[0].replace(b"019550fc-", b"aaaaaaaa-")
        some[1] = some[1].replace(b'"build"', b'"bxild"').replace(b"118", b"119")
        records.write_bytes(b"".join(some))
        named = ids.read_bytes().splitlines(True)
        ids.write_bytes(b"".join([named[0].replace(b"019550fc-", b"aaaaaaaa-"), *named[1:]]))
        dead = next((self.site.data / "exports" / "ga4").rglob("dead/part-00000.ndjson"))
        dead.write_bytes(dead.read_bytes().replace(b'"ga4.no_app_instance_id"', b'"ga4.old_app_instance_id"'[:26]))
        differences, _ = self.lines("--provider", "ga4,mixpanel", "--diff")
        found = {line["partition"].split("/")[1]: line for line in differences if "partition" in line}
        self.assertEqual([found["mixpanel"][name] for name in ("added", "removed", "changed", "same")], [1, 1, 1, 9])
        self.assertEqual(found["mixpanel"]["fates"], {"absent → exported": 1, "exported → absent": 1})
        self.assertEqual([found["ga4"]["changed"], found["ga4"]["same"]], [0, 10])
        self.assertEqual(len(found["ga4"]["fates"]), 1)


class GenerationTests(OptionTest):
    """`--rollback` and the guard against sending twice."""

    def test_back_and_forth(self):
        """Rolled back, the export is as it was, open parts included; rolled back again, as the replay made it."""
        self.fill(400_000, "csv,ga4")
        skipped = (".generation", ".standing")
        live = self.site.data / "exports" / "csv"
        before = tree(live, skipped)
        self.lines("--provider", "csv,ga4")
        after = tree(live, skipped)
        self.assertNotEqual(before, after)
        day = days(self.site.data, "csv")[0]
        result = run("replay", "--data", self.site.data, "--provider", "csv", "--rollback", "--env",
                     day.split("/")[0][4:], "--from", day[-10:], "--to", day[-10:])
        self.assertEqual([result.returncode, result.stdout.decode().split()], [0, [f"exports/csv/{day}"]])
        mixed = {name: (before if name.startswith(day) else after).get(name) for name in {*before, *after}}
        self.assertEqual(tree(live, skipped), {name: content for name, content in mixed.items() if content is not None})
        for wanted in (after, None, after):
            run("replay", "--data", self.site.data, "--provider", "csv", "--rollback", "--env",
                day.split("/")[0][4:], "--from", day[-10:], "--to", day[-10:])
            if wanted:
                self.assertEqual(tree(live, skipped), wanted)
        self.lines("--provider", "csv,ga4", "--rollback", expected=64)
        for provider in ("csv", "ga4"):
            succeed("replay", "--data", self.site.data, "--provider", provider, "--rollback")
        self.assertEqual(tree(live, skipped), before)
        self.assertEqual(run("inspect", "--verify", self.site.data).returncode, 0)
        self.fill(300_000, "csv,ga4")
        for provider in ("csv", "ga4"):
            output = self.site.root / f"again-{provider}"
            self.lines("--provider", provider, "--output", output)
            self.assert_same_records(provider, output)
        self.assert_verified()

    def test_days_that_grew_are_not_rolled_back(self):
        """Events that came since the exchange are in one generation alone: nothing is changed, the days are named."""
        self.fill(300_000)
        _, said = [], run("replay", "--data", self.site.data, "--provider", "csv", "--rollback")
        self.assertEqual(said.returncode, 65)
        self.assertIn(b"no days of the range to restore", said.stderr)
        self.lines("--provider", "csv")
        self.fill(200_000, "csv")
        before = tree(self.site.data / "exports" / "csv")
        told = failure(65, "replay", "--data", self.site.data, "--provider", "csv", "--rollback")
        self.assertIn("got events since the exchange", told)
        self.assertEqual(tree(self.site.data / "exports" / "csv"), before)

    def deliver(self, provider):
        """Says of every part that is closed that it was sent."""
        for manifest in (self.site.data / "exports" / provider).rglob("part-*.manifest.json"):
            sha256 = json.loads(manifest.read_text())["sha256"]
            (manifest.parent / manifest.name.replace(".manifest.json", ".delivered")).write_text(sha256 + "\n")

    def test_what_was_sent_is_not_sent_again_by_accident(self):
        """GA4 removes no duplicates; mixpanel does while name, time and person are the same; files are harmless."""
        self.fill(300_000)
        self.lines("--provider", "ga4,mixpanel,csv")
        for provider in ("ga4", "mixpanel", "csv"):
            self.deliver(provider)
        before = tree(self.site.data / "exports" / "ga4")
        self.lines("--provider", "mixpanel,csv")
        _, said = self.lines("--provider", "ga4", expected=65)
        self.assertIn("were sent already, and it removes no duplicates", said)
        self.assertIn("--force", said)
        self.assertEqual(tree(self.site.data / "exports" / "ga4"), before)
        self.lines("--provider", "ga4", "--force")
        self.deliver("mixpanel")
        for part in (self.site.data / "exports" / "mixpanel").rglob("part-*.ndjson.gz"):
            part.write_bytes(gzip.compress(whole(part).replace(b'"event":"search"', b'"event":"zearch"')))
        _, said = self.lines("--provider", "mixpanel", expected=65)
        self.assertIn("were sent already under another key", said)
