"""Random events through agent, receiver and replay into the parts of every provider, judged by the validators.

WAYBILL_THOROUGH=1 takes 30,000 events instead of 1,500.
"""

import collections
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import unittest

from export_harness import PROVIDERS, judge, validator
from corpus import Corpus
from harness import SiteTest, free_port, metric, run, succeed, until
from ledger import EventMaker, timestamp, whole
from scale import THOROUGH

COUNT = 30_000 if THOROUGH else 1500


# They apply what an event says of a user when they get it, not by its time.
USERS_IN_ORDER = ("ga4", "mixpanel-profiles", "amplitude", "segment", "posthog")


def files(folder, suffix):
    return sorted(path for path in folder.rglob("part-*") if path.name.removesuffix(".gz").endswith(suffix))


class PartTests(SiteTest):
    def ship(self):
        """Ships events into all exports; returns how many lines were sent."""
        corpus = Corpus(seed=21, as_of=int(time.time() * 1000), days=(-4, 2))
        maker = EventMaker(21)
        address = f"127.0.0.1:{free_port()}"
        receiver = self.site.receiver("--metrics", address, exports=",".join(PROVIDERS))
        for start in range(0, COUNT, 10_000):
            lines = [line + b"\n" for line in (*corpus.extremes(), *corpus.lines(min(10_000, COUNT - start)))]
            # Many of one day, so that parts are filled.
            plain = maker.lines(len(lines) // 2, ts=timestamp(maker.times[0]), env="prod") + maker.lines(200, kind="user")
            maker.segment(self.site.spool, lines + plain)
        self.site.once("--spool", self.site.spool, timeout=600)
        # A stop leaves what an export has not done yet to the next start.
        pending = "waybill_projection_pending_bytes"
        until(lambda: set(metric(address, pending)) == {0}, 600, "everything is exported")
        self.assertEqual(receiver.stop(600), 0)

    def tally(self, provider, base):
        """What the files of an export say: exported, refused, held."""
        module, top = validator(provider), base / "exports" / provider
        found, held = collections.Counter(), collections.Counter()
        for path in files(top, "." + module.EXTENSION):
            if path.parent.name == "dead" or path.name.endswith(".manifest.json"):
                continue
            part = whole(path)
            stem = path.name.split(".")[0]
            manifest = path.parent / (stem + ".manifest.json")
            if provider == "mixpanel-profiles" and not part.endswith(b"]\n"):
                part += b"]\n"  # The list is still open.
            records, events, problems = judge(provider, part)
            self.assertEqual(problems, [], path)
            ids = (path.parent / (stem + ".ids")).read_text().splitlines()
            self.assertEqual(len(ids), records, path)
            self.assertEqual(sum(line.count(",") + 1 for line in ids), events, path)
            # Requests of several events may be cut elsewhere; everything else is the same record by record.
            held.update(",".join(ids).split(",") if provider == "ga4" else map(hash, module.records(part)))
            found["exported"] += events
            found["parts"] += 1
            if manifest.exists():
                found["closed"] += 1
                says = json.loads(manifest.read_text())
                self.assertEqual(says["sha256"], hashlib.sha256(part).hexdigest(), path)
                self.assertEqual((says["records"], says["events"]), (records, events), path)
        for path in top.rglob("dead/part-*.ndjson"):
            found["refused"] += len(path.read_bytes().splitlines())
        for path in top.rglob("held"):
            lines = path.read_bytes().splitlines(keepends=True)  # Nothing is sealed: none of them stands in a part.
            part = b"".join(line.split(b" ", 3)[3] for line in lines)
            self.assertEqual(judge(provider, part), (len(lines), len(lines), []), path)
            held.update(map(hash, module.records(part)))
            found["held"] += len(lines)
        return found, held

    def check_schemas(self, base):
        """Each event and entity of a closed part has a draft of its schema next to the part."""
        snowplow, checked = validator("snowplow"), 0
        for manifest in sorted((base / "exports" / "snowplow").rglob("*.manifest.json")):
            part = manifest.parent / manifest.name.replace(".manifest.json", ".ndjson.gz")
            for record in snowplow.records(whole(part)):
                for path, members in [snowplow.envelope(record), *snowplow.entities(record)]:
                    if path.startswith(snowplow.PUBLIC):
                        continue
                    draft = manifest.parent / "schemas" / path
                    if path not in self.drafts.setdefault(manifest.parent, {}):
                        problems, types = snowplow.check_draft(draft.read_bytes(), path)
                        self.assertEqual(problems, [], draft)
                        self.drafts[manifest.parent][path] = types
                    types = self.drafts[manifest.parent][path]
                    # A draft has at most 500 members, with names of at most 255 bytes.
                    drafted = {
                        name: value for name, value in members.items()
                        if len(name.encode()) <= 255 and (name in types or len(types) < 500)}
                    self.assertTrue(snowplow.fits(drafted, types), f"{draft}: {record[:300]}")
                    checked += 1
        return checked

    def test_parts_are_requests_and_every_event_is_accounted_for(self):
        """Live parts and replayed ones: valid, within a request, with their ids, digests and counts; and in = exported +
        refused + held + skipped for every provider."""
        self.ship()
        self.assert_verified()
        self.drafts = {}
        for provider in PROVIDERS:
            output = self.site.root / "again"
            result = succeed("replay", "--data", self.site.data, "--provider", provider, "--output", output, timeout=600)
            counts = json.loads(result.stdout)
            self.assertEqual(
                counts["lines"], counts["exported"] + counts["refused"] + counts["held"] + counts["skipped"], provider)
            self.assertGreater(counts["lines"], COUNT * 1.4)
            live, records = self.tally(provider, self.site.data)
            again, replayed = self.tally(provider, output)
            self.assertEqual(replayed - records, collections.Counter(), f"{provider}: replayed, and never lived")
            # What sets properties of users is left out where it would be applied anew.
            told = re.search(rb"(\d+) events that set properties of users are left out", result.stderr)
            users = int(told[1]) if told else 0
            self.assertEqual(users >= 200, provider in USERS_IN_ORDER, provider)
            for what in ("exported", "refused", "held"):
                self.assertEqual(again[what], counts[what], f"{provider}: {what}, replayed")
            # Meanwhile the provider takes more of what was held.
            self.assertGreaterEqual(live["held"], counts["held"], provider)
            mapped = live["exported"] + live["held"] - counts["exported"] - counts["held"]
            refused = live["refused"] - counts["refused"]
            self.assertEqual(((records - replayed).total(), min(mapped, refused, 0)), (mapped, 0), provider)
            self.assertLessEqual(mapped + refused, users, provider)
            self.assertGreater(live["exported"], 50, provider)
            # A replay has seen everything, so all its parts are closed.
            self.assertEqual(again["closed"], again["parts"], provider)
            if provider == "snowplow":
                self.assertGreater(live["closed"], 0)
                self.assertGreater(self.check_schemas(self.site.data), 400)
                self.assertGreater(self.check_schemas(output), 1000)
            shutil.rmtree(output)

    def test_the_systemd_journal_takes_what_is_written_for_it(self):
        """systemd-journal-remote reads an export, and journalctl gives every field back."""
        tool = shutil.which("systemd-journal-remote") or "/lib/systemd/systemd-journal-remote"
        if not os.access(tool, os.X_OK) or not shutil.which("journalctl"):
            raise unittest.SkipTest("there is no systemd-journal-remote")
        journal = validator("journald")
        lines = b"\n".join(Corpus(seed=22).lines(1000))
        part = self.site.root / "part.export"
        part.write_bytes(run("transform", "--provider", "journald", stdin=lines).stdout)
        subprocess.run([tool, "-o", str(self.site.root / "a.journal"), str(part)], check=True, capture_output=True)
        back = subprocess.run(
            ["journalctl", "--file", str(self.site.root / "a*.journal"), "--all", "--no-pager", "-o", "export"],
            check=True, capture_output=True).stdout

        def entries(data):
            # What the journal adds begins with an underscore; it drops empty fields and the second of two equal ones.
            return collections.Counter(
                frozenset((name, value) for name, value, _ in journal.fields(record, 0)[0] if name[:1] != b"_" and value)
                for record in journal.records(data))

        self.assertEqual(entries(back), entries(whole(part)))
