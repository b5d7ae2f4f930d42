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

from harness import binary, failure, run, succeed
from ledger import LedgerTest, exported_ids, parts, timestamp, utc_now
from scale import at_night

EXPORTS = "mixpanel,csv"


def manifests(top):
    return {path.parent: json.loads(path.read_text()) for path in sorted(top.rglob("manifest.json"))}


class SealTest(LedgerTest):
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
        result = succeed("seal", "--data", data or self.site.data, *arguments)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def assert_whole(self, data=None):
        data = data or self.site.data
        self.assert_each_once(data)
        self.assert_verified(data)

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

    def test_a_replay_of_sealed_days_gives_what_the_live_export_has(self):
        self.ship()
        self.seal("--all")
        self.ship()
        other = self.site.root / "again"
        succeed("replay", "--data", self.site.data, "--provider", "mixpanel", "--output", other)
        self.assertEqual(exported_ids(self.site.data, "mixpanel"), exported_ids(other, "mixpanel"))
        self.assertTrue(parts(other, "mixpanel"))

    @at_night
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
        self.assertIn("in use", failure(75, "seal", "--data", self.site.data))
        self.assertEqual(receiver.stop(), 0)

    def test_cut_offs_are_checked(self):
        path = self.site.root / "waybill.yaml"
        good = 'receiver:\n  data: /d\n  archive: {zone: Asia/Seoul, cut_off: "05:30"}\n  exports: [{provider: csv, cut_off: "00:00"}]\n'
        path.write_text(good)
        self.assertEqual(run("check", path).returncode, 0)
        for wrong in ("24:00", "4:00", "noon", "04:60", "04:00:00"):
            path.write_text(good.replace("05:30", wrong))
            self.assertIn("receiver.archive.cut_off", failure(78, "check", path))
