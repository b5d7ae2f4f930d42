"""`waybill sealed`: one line for each revision of a day, once, whatever is killed in between."""

import collections
import hashlib
import json
import random
import stat
import subprocess

from harness import binary, ended, failure, patience, succeed, until
from ledger import LedgerTest
from scale import SEED, amount

KILLS = amount("WAYBILL_KILLS", 12, 60)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class SealedTest(LedgerTest):
    def setUp(self):
        super().setUp()
        self.cursor = self.site.root / "cursor"

    def ship(self, *more, byte_count=150_000):
        receiver = self.site.receiver(*more, exports="mixpanel,csv")
        self.maker.spool(self.site.spool, self.ledger, byte_count)
        self.site.once()
        self.assertEqual(receiver.stop(), 0, receiver.log())
        sealed = succeed("seal", "--data", self.site.data, "--all")
        return lines(sealed.stdout)

    def sealed(self, *arguments, cursor=None):
        result = succeed("sealed", "--data", self.site.data, "--cursor", cursor or self.cursor, *arguments)
        self.assertEqual(result.stderr, b"")
        return lines(result.stdout)

    def make_days(self, count):
        """Sealed days by hand: as many as a test of size needs."""
        for number in range(count):
            self.make_day(f"archive/env=prod/bundle=app{number // 365}/date={2000 + number % 365 // 28}-01-{number % 28 + 1:02}", 1)

    def make_day(self, path, revision):
        folder = self.site.data / path
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {
            "revision": revision, "env": "prod", "bundle": path.split("/")[2][7:], "day": path[-10:], "zone": "UTC",
            "sealed_at": "2026-11-21T04:00:00.000Z",
            "files": [{"name": "part-00001.ndjson.gz", "lines": 2, "bytes": 3, "gz_bytes": 4, "sha256": "ab"}]}
        (folder / "manifest.tmp").write_text(json.dumps(manifest))
        (folder / "manifest.tmp").rename(folder / "manifest.json")
        (folder / "_SUCCESS").touch()


class LineTests(SealedTest):
    def test_each_revision_is_printed_once_with_its_files(self):
        sealed = self.ship()
        found = self.sealed()
        self.assertEqual(sorted(line["path"] for line in found), sorted(day["day"] for day in sealed))
        self.assertEqual({line["kind"] for line in found}, {"archive", "export"})
        for line in found:
            folder = self.site.data / line["path"]
            self.assertEqual(line["id"], hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()[:32])
            manifest = json.loads((folder / "manifest.json").read_text())
            self.assertEqual(line["records"], manifest["lines" if line["kind"] == "archive" else "records"])
            self.assertEqual((line["revision"], line["day"], line["env"]), (1, manifest["day"], manifest["env"]))
            self.assertEqual(line.get("provider"), manifest.get("provider"))
            self.assertNotIn("again", line)
            for file in line["files"]:
                content = (folder / file["name"]).read_bytes()
                self.assertEqual((file["bytes"], file["sha256"]), (len(content), hashlib.sha256(content).hexdigest()))
        self.assertEqual(self.sealed(), [])
        # Late lines give a new revision to the days that they belong to, and to no other.
        again = self.ship(byte_count=40_000)
        self.assertEqual(sorted((line["path"], line["revision"]) for line in self.sealed()),
                         sorted((day["day"], day["revision"]) for day in again))
        self.assertTrue(any(day["revision"] == 2 for day in again))
        self.assertEqual(self.sealed(), [])
        # Another cursor begins with what there is now.
        self.assertEqual(len(self.sealed(cursor=self.site.root / "other")), len({day["day"] for day in sealed + again}))

    def test_readers_change_nothing(self):
        self.ship()
        def picture():
            return {path: (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in self.site.data.rglob("*")}
        before = picture()
        self.sealed()
        self.assertEqual(picture(), before)

    def test_a_second_process_is_refused_and_a_wrong_folder_named(self):
        self.make_days(1)
        follower = self.site.start("sealed", "--data", self.site.data, "--cursor", self.cursor, "--follow", log="sealed.log")
        until(follower.log)
        told = failure(75, "sealed", "--data", self.site.data, "--cursor", self.cursor)
        self.assertIn("another process uses the cursor", told)
        self.assertEqual(follower.stop(), 0)
        ended(66, "sealed", "--data", self.site.root / "nowhere", "--cursor", self.cursor)

    def test_a_follower_prints_what_is_sealed_later(self):
        self.make_days(3)
        follower = self.site.start("sealed", "--data", self.site.data, "--cursor", self.cursor, "--follow", log="sealed.log")
        until(lambda: len(lines(follower.log())) == 3)
        self.make_day("archive/env=prod/bundle=app0/date=2000-01-01", 2)
        self.make_day("archive/env=prod/bundle=later/date=2000-01-01", 1)
        until(lambda: len(lines(follower.log())) == 5)
        self.assertEqual(follower.stop(), 0)
        self.assertEqual([line["revision"] for line in lines(follower.log())[3:]], [2, 1])


class KillTests(SealedTest):
    """SIGKILL at any moment."""

    def start(self, output, *arguments):
        return subprocess.Popen(
            [binary(), "sealed", "--data", str(self.site.data), "--cursor", str(self.cursor), *map(str, arguments)],
            stdout=output, stderr=subprocess.PIPE)

    def kill_until_done(self, start):
        """Starts again and again, each time killed a little later, until one run ends by itself."""
        chance = random.Random(SEED)
        for number in range(100_000):
            process = start()
            if number < KILLS:
                try:
                    process.wait(0.01 + 0.06 * chance.random())
                except subprocess.TimeoutExpired:
                    process.kill()
            _, errors = process.communicate(timeout=patience(60))
            if process.returncode == 0:
                return number
            self.assertEqual(process.returncode, -9)
            # A kill may fall into a rewrite of the cursor, and the next run says so.
            for line in errors.splitlines():
                self.assertIn(b"the checkpoint before the last rewrite is used", line)
        raise AssertionError("it never ended")

    def test_a_file_has_each_line_once(self):
        self.make_days(600)
        target = self.site.root / "out.ndjson"
        with open(target, "ab") as output:
            kills = self.kill_until_done(lambda: self.start(output))
            self.make_day("archive/env=prod/bundle=app0/date=2000-01-01", 2)
            self.kill_until_done(lambda: self.start(output))
        self.assertGreater(kills, 0)
        found = collections.Counter((line["path"], line["revision"]) for line in lines(target.read_text()))
        self.assertEqual(len(found), 601)
        self.assertEqual(set(found.values()), {1})

    def test_a_command_confirms_each_line(self):
        """A command that fails gets its line again; what it confirmed never comes again, except one in doubt after a kill."""
        self.make_days(25)
        log, flag = self.site.root / "log", self.site.root / "fail"
        flag.touch()
        script = self.site.root / "load"
        script.write_text(f"#!/bin/sh\ncat >>{log}\n[ ! -e {flag} ]\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        told = failure(75, "sealed", "--data", self.site.data, "--cursor", self.cursor, "--exec", script)
        self.assertIn("the command failed (exit code 1)", told)
        self.assertEqual(len(lines(log.read_text())), 1)
        flag.unlink()
        self.kill_until_done(lambda: self.start(subprocess.DEVNULL, "--exec", script))
        plain, again = collections.Counter(), collections.Counter()
        for line in lines(log.read_text()):
            (again if line.get("again") else plain)[line["path"]] += 1
        self.assertEqual(len(set(plain) | set(again)), 25)
        self.assertEqual(max(plain.values()), 1)
