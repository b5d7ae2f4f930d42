"""Sealed days, as `gzip`, `zcat` and any reader of JSON find them; deaths in the middle of sealing."""

import datetime
import gzip
import hashlib
import json
import pathlib
import random
import shutil
import subprocess
import time
import unittest

from harness import SiteTest, binary, run
from ledger import EventMaker, Ledger, exported_ids, parts, stored, timestamp, utc_now, whole

EXPORTS = "mixpanel,csv"


def manifests(top):
    return {path.parent: json.loads(path.read_text()) for path in sorted(top.rglob("manifest.json"))}


class SealTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.maker, self.ledger = EventMaker(71), Ledger()

    def ship(self, byte_count=400_000, **changes):
        """Brings lines of three days to a receiver, which is stopped then."""
        receiver = self.site.receiver(exports=EXPORTS)
        if changes:
            lines = self.maker.lines(200, **changes)
            self.maker.segment(self.site.spool, lines, ledger=self.ledger)
        else:
            self.maker.spool(self.site.spool, self.ledger, byte_count)
        self.site.once()
        self.assertEqual(receiver.stop(), 0, receiver.log())

    def seal(self, *arguments, data=None):
        result = run("seal", "--data", data or self.site.data, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        return [json.loads(line) for line in result.stdout.splitlines()]

    def assert_whole(self, data=None):
        data = data or self.site.data
        self.assertTrue((comparison := self.ledger.compare(stored(data))).is_clean, str(comparison))
        result = run("inspect", "--verify", data)
        self.assertEqual(result.returncode, 0, result.stdout.decode()[-2000:] + result.stderr.decode()[-500:])

    def assert_sealed(self, data):
        """Every manifest says what its folder holds; nothing of the archive is plain."""
        found = manifests(data / "archive")
        self.assertTrue(found)
        self.assertEqual([str(path) for path in (data / "archive").rglob("*.ndjson")], [])
        for folder, manifest in found.items():
            self.assertEqual((folder / "_SUCCESS").read_bytes(), b"")
            self.assertEqual(folder.parts[-3:], (
                f"env={manifest['env']}", f"bundle={manifest['bundle']}", f"date={manifest['day']}"))
            self.assertEqual({path.name for path in folder.glob("*.gz")}, {file["name"] for file in manifest["files"]})
            self.assertEqual(manifest["lines"], sum(file["lines"] for file in manifest["files"]))
            self.assertEqual(manifest["bytes"], sum(file["bytes"] for file in manifest["files"]))
            self.assertEqual(manifest["lines"], sum(source["lines"] for source in manifest["sources"]))
            for file in manifest["files"]:
                packed = (folder / file["name"]).read_bytes()
                raw = gzip.decompress(packed)
                self.assertEqual(file["gz_bytes"], len(packed))
                self.assertEqual(file["sha256"], hashlib.sha256(packed).hexdigest())
                self.assertEqual(file["raw_sha256"], hashlib.sha256(raw).hexdigest())
                self.assertEqual((file["lines"], file["bytes"]), (raw.count(b"\n"), len(raw)))
                times = sorted(json.loads(line)["ts"] for line in raw.splitlines())
                self.assertEqual((file["first_ts"], file["last_ts"]), (times[0], times[-1]))

    def test_sealed_days_are_read_by_every_tool(self):
        self.ship()
        plain = {str(path.relative_to(self.site.data)): path.read_bytes()
                 for path in (self.site.data / "archive").rglob("*.ndjson")}
        said = self.seal("--all")
        self.assert_sealed(self.site.data)
        self.assert_whole()
        for name, content in plain.items():
            path = self.site.data / (name + ".gz")
            subprocess.run(["gzip", "-t", path], check=True)
            self.assertEqual(subprocess.run(["zcat", path], check=True, capture_output=True).stdout, content)
        self.assertEqual(
            {day["day"] for day in said if day["projection"] == "archive"},
            {str(pathlib.PurePath(name).parent) for name in plain})
        self.assertEqual(self.seal("--all"), [])

    def test_a_day_that_goes_on_is_not_sealed(self):
        self.ship(ts=timestamp(utc_now()))
        self.assertEqual(self.seal(), [])
        # What came for a day that is long over waits for the next cut-off as well.
        self.ship(ts=timestamp(utc_now() - datetime.timedelta(days=9)))
        self.assertEqual(self.seal(), [])
        self.assert_whole()

    def test_late_lines_make_late_parts_and_new_revisions(self):
        day = utc_now() - datetime.timedelta(days=2)
        self.ship(ts=timestamp(day))
        self.seal("--all")
        for turn in range(1, 4):
            self.ship(ts=timestamp(day + datetime.timedelta(seconds=turn)))
            self.assert_whole()
            said = self.seal("--all")
            self.assertTrue(all(line["revision"] == turn + 1 for line in said), said)
            self.assert_sealed(self.site.data)
            self.assert_whole()
        names = {file["name"] for manifest in manifests(self.site.data / "archive").values() for file in manifest["files"]}
        self.assertEqual(names, {"part-00001.ndjson.gz"} | {f"late-{number:05}.ndjson.gz" for number in (1, 2, 3)})

    def test_exports_are_sealed_with_late_parts_in_parts_of_their_own(self):
        day = utc_now() - datetime.timedelta(days=2)
        self.ship(ts=timestamp(day))
        self.seal("--all")
        self.ship(ts=timestamp(day + datetime.timedelta(seconds=5)))
        self.seal("--all")
        self.assert_whole()
        for provider in EXPORTS.split(","):
            found = manifests(self.site.data / "exports" / provider)
            self.assertTrue(found)
            for folder, manifest in found.items():
                self.assertEqual((folder / "_SUCCESS").read_bytes(), b"")
                self.assertEqual(manifest["revision"], 2)
                self.assertEqual([part["late"] for part in manifest["parts"]], [False, True])
                self.assertEqual(manifest["records"], sum(part["records"] for part in manifest["parts"]))
                for part in manifest["parts"]:
                    content = whole(folder / part["name"])
                    self.assertEqual(part["sha256"], hashlib.sha256(content).hexdigest())
                    own = json.loads((folder / f"{part['name'].split('.')[0]}.manifest.json").read_text())
                    self.assertEqual(own.get("late", False), part["late"])

    def test_a_replay_of_sealed_days_gives_what_the_live_export_has(self):
        self.ship()
        self.seal("--all")
        self.ship()
        other = self.site.root / "again"
        result = run("replay", "--data", self.site.data, "--provider", "mixpanel", "--output", other)
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        self.assertEqual(exported_ids(self.site.data, "mixpanel"), exported_ids(other, "mixpanel"))
        self.assertTrue(parts(other, "mixpanel"))

    def test_damage_in_a_sealed_day_is_named(self):
        self.ship()
        self.seal("--all")
        path = sorted((self.site.data / "archive").rglob("*.gz"))[0]
        content = path.read_bytes()
        for damaged in (content[:-9], content[:40] + b"\xff" + content[41:], b"", content + b"x"):
            path.write_bytes(damaged)
            result = run("inspect", "--verify", self.site.data)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(str(path.relative_to(self.site.data)), result.stdout.decode() + result.stderr.decode())
        path.write_bytes(content)
        self.assert_whole()

    def test_a_kill_in_the_middle_of_sealing_costs_and_repeats_nothing(self):
        self.ship(3_000_000)
        rng, unfinished = random.Random(5), 0
        for turn in range(12):
            data = self.site.root / f"copy-{turn}"
            shutil.copytree(self.site.data, data)
            child = subprocess.Popen([binary(), "seal", "--data", str(data), "--all"], stdout=subprocess.DEVNULL)
            time.sleep(rng.random() * 0.15)
            unfinished += child.poll() is None
            child.kill()
            child.wait()
            self.assert_whole(data)
            self.seal("--all", data=data)
            self.assert_sealed(data)
            self.assert_whole(data)
            shutil.rmtree(data)
        self.assertGreater(unfinished, 3)

    def test_a_running_receiver_keeps_its_directory(self):
        self.ship()
        receiver = self.site.receiver(exports=EXPORTS)
        result = run("seal", "--data", self.site.data)
        self.assertEqual(result.returncode, 75)
        self.assertIn("in use", result.stderr.decode())
        self.assertEqual(receiver.stop(), 0)

    def test_cut_offs_are_checked(self):
        path = self.site.root / "waybill.yaml"
        good = 'receiver:\n  data: /d\n  archive: {zone: Asia/Seoul, cut_off: "05:30"}\n  exports: [{provider: csv, cut_off: "00:00"}]\n'
        path.write_text(good)
        self.assertEqual(run("check", path).returncode, 0)
        for wrong in ("24:00", "4:00", "noon", "04:60", "04:00:00"):
            path.write_text(good.replace("05:30", wrong))
            result = run("check", path)
            self.assertEqual(result.returncode, 78, wrong)
            self.assertIn("receiver.archive.cut_off", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
