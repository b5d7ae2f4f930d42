"""One person leaves a whole fleet: both mergers' files and the bucket's days, whatever is killed meanwhile.

Over moto's bucket, with receivers, agents, mergers and a delivery as processes. The mergers' clock is two days ahead: days
are sealed at the first cut-off after their lines arrived, and this one is over then; to them all receivers are silent.
"""

import gzip
import json
import re

from clocks import shifted
from harness import run, succeed, until
from providers import FalseProvider
from test_deliver import environment
from test_fleet import ENVIRONMENT, FleetTest

PERSON = "u3"
NAMED = re.compile(rb"\bu3\b")


def is_persons(line):
    return json.loads(line)["user"] == PERSON


class FleetEraseTest(FleetTest):
    def setUp(self):
        super().setUp()
        self.ahead = ENVIRONMENT | shifted(2, self.site.root)

    def objects(self, *prefixes):
        """The bucket's objects by their keys, inflated."""
        objects = {}
        for key in [key for prefix in prefixes for key in self.requests.keys(f"w/{prefix}")]:
            content = self.requests.get(key)
            # A merger may have deleted it since.
            if content is not None:
                objects[key.removeprefix("w/")] = gzip.decompress(content) if key.endswith(".gz") else content
        return objects

    def erase(self, *arguments):
        result = succeed(
            "erase", "--store", "s3://events/w", "--endpoint", self.fleet.server.url, *arguments, env=ENVIRONMENT)
        return json.loads(result.stdout), result.stderr.decode()

    def merger(self, name, exports="csv"):
        config = self.site.root / f"{name}.yaml"
        config.write_text(
            self.fleet.store
            + f"merger: {{data: {self.site.root}/{name}, name: {name}, exports: [{{provider: {exports}}}]}}\n")
        return self.site.start("merge", "--config", config, log=f"{name}.log", env=self.ahead)

    def rest(self):
        return sorted(line for line in self.fleet.written if not is_persons(line))

    def ship(self, *agents):
        """Everything that was written goes to the bucket, so that one round has it and days are sealed with it."""
        for name in agents:
            self.assertEqual(self.fleet.agent(name, "--once").wait(120), 0, name)

    def until_archived(self, *mergers, lines):
        for name in mergers:
            until(lambda name=name: sorted(self.fleet.merged(name)) == lines, 90, f"{name} has these lines")

    def until_published(self):
        """Both days of the archive and of the export are in the bucket."""
        until(lambda: sum(key.endswith("/_SUCCESS") for key in self.requests.keys()) >= 4, 90, "days in the bucket")

    def named(self, merger):
        """A merger's files outside the journal that name the person."""
        found = []
        for path in sorted((self.site.root / merger).rglob("*")):
            if path.is_file() and "journal" not in path.parts:
                content = path.read_bytes()
                try:
                    content = gzip.decompress(content) if path.suffix == ".gz" else content
                except (EOFError, gzip.BadGzipFile):
                    # It is being written; what is left of a killed process has no name of a part.
                    pass
                if NAMED.search(content):
                    found.append(str(path.relative_to(self.site.root)))
        return found

    def state_of(self, merger):
        path = self.site.root / merger / "state" / "erasures"
        return path.read_text() if path.exists() else ""

    def test_a_person_leaves_both_mergers_and_the_bucket_whatever_is_killed(self):
        """Asked twice, both mergers killed again and again meanwhile; then nothing of the person is anywhere."""
        receivers = [self.fleet.receiver(name) for name in self.fleet.ports]
        for name in ("x", "y"):
            self.fleet.write(name, 300)
        self.ship("x", "y")
        mergers = {name: self.merger(name) for name in ("m1", "m2")}
        self.until_archived("m1", "m2", lines=sorted(self.fleet.written))
        self.until_published()
        before = self.objects("archive/", "exports/")
        self.assertTrue(any(NAMED.search(content) for content in before.values()))

        answer, text = self.erase("--user", PERSON, "--dry-run")
        self.assertEqual((answer["dry_run"], answer["erasure"], answer["repeated"]), (True, None, False))
        self.assertIn("known to mergers alone", text)
        answer, text = self.erase("--user", PERSON)
        self.assertEqual((answer["erasure"], answer["repeated"]), (1, False))
        self.assertIn("merger.pieces_days", text)
        answer, text = self.erase("--user", PERSON)
        self.assertEqual((answer["erasure"], answer["repeated"]), (1, True))
        self.assertEqual(self.requests.keys("w/erasures/"), ["w/erasures/00000000000000000001.json"])
        # Each merger is killed at other moments of its work, if it is still at it.
        for number in range(4):
            for name in mergers:
                until(
                    lambda name=name, number=number: "state=" in self.state_of(name) or number == 0
                    and (self.site.root / name / "state" / "erasure.waits").exists(), 60, f"{name} erases")
                mergers[name].kill()
                mergers[name] = self.merger(name)
        self.until_archived("m1", "m2", lines=self.rest())
        for name in mergers:
            until(lambda name=name: "state=done" in self.state_of(name), 60, f"{name} is done")
            until(lambda name=name: not self.named(name), 60, f"{name} names no one")
        until(
            lambda: not any(NAMED.search(content) for content in self.objects("archive/", "exports/").values()),
            90, "the bucket names no one")

        # What is left in the bucket is what each day has, whole.
        until(self.published_is_whole, 60, "manifests fit their parts")
        after = self.objects("archive/", "exports/")
        self.assertEqual(set(after), set(before))
        lines = [line for key, content in after.items() if key.endswith(".ndjson.gz")
                 for line in content.decode().splitlines()]
        self.assertEqual(sorted(lines), self.rest())

        # What agents still send of the person is dropped, and counted.
        for name in ("x", "y"):
            self.fleet.write(name, 60)
        self.ship("x", "y")
        self.until_archived("m1", "m2", lines=self.rest())
        erased = len(self.fleet.written) - len(self.rest())
        for name in mergers:
            until(lambda name=name: self.erased_count(name) == erased, 60, f"{name} counts {erased} erased lines")
            self.assertEqual(mergers[name].stop(), 0)
            self.assertEqual(self.erased_count(name), erased)
            self.assertEqual(self.named(name), [])
        self.assert_whole("m1", "m2")
        files = self.sealed("m1")
        self.assertEqual(files, self.sealed("m2"))
        self.assertGreaterEqual(len(files), 4)
        alone = run("erase", "--data", self.site.root / "m1", "--user", PERSON)
        self.assertNotEqual(alone.returncode, 0)
        self.assertIn("is a merger's data directory", alone.stderr.decode())
        self.stop_all(*receivers)

    def erased_count(self, merger):
        """How many lines of the quarantine's record are erased ones."""
        records = (self.site.root / merger / "quarantine").glob("*/erased.sources")
        return sum(path.read_text().count("ERASED") for path in records)

    def sealed(self, merger):
        """The first parts of each day, whose bytes are compressed."""
        root = self.site.root / merger
        return {str(path.relative_to(root)): path.read_bytes() for top in ("archive", "exports")
                for number in (0, 1) for path in (root / top).glob(f"**/part-0000{number}.*.gz")}

    def published_is_whole(self):
        """Every sealed file that a day's manifest names has the digest that the manifest says."""
        objects = self.objects("archive/")
        for key, content in objects.items():
            if key.endswith("/manifest.json"):
                manifest, folder = json.loads(content), key.rpartition("/")[0]
                if not manifest.get("erased"):
                    return False
                for file in manifest["files"]:
                    raw = objects[f"{folder}/{file['name']}"]
                    if raw.count(b"\n") != file["lines"] or len(raw) != file["bytes"]:
                        return False
        return True

    def delivery(self, name, server):
        """A merger's configuration with a delivery of its export, and the delivery that runs."""
        config = self.site.root / f"{name}.yaml"
        config.write_text(
            config.read_text()
            + f"deliver:\n  data: {self.site.root}/{name}\n  deliveries:\n"
            f"    - {{provider: mixpanel, env: prod, endpoint: '{server.address}', rate: 1000000, timeout_seconds: 60, "
            "backoff_seconds: 1, retry_seconds: 1}\n")
        return self.site.start("deliver", "--config", config, log=f"deliver-{name}.log", env=environment(**self.ahead))

    def is_delivered(self, name):
        """Whether each closed part has the mark of exactly its bytes."""
        manifests = list((self.site.root / name / "exports").glob("mixpanel/env=*/date=*/part-*.manifest.json"))
        for path in manifests:
            mark = path.with_name(path.name.removesuffix(".manifest.json") + ".delivered")
            if not mark.exists() or mark.read_text().splitlines()[0] != json.loads(path.read_text())["sha256"]:
                return False
        return bool(manifests)

    def test_a_running_delivery_lets_an_erasure_by_and_nothing_is_sent_again(self):
        """`deliver` holds its lock all day, and no one stops it; a merger that sent nothing sends nothing afterwards."""
        server = FalseProvider("mixpanel", (), poison=False)
        self.addCleanup(server.close)
        receivers = [self.fleet.receiver(name) for name in self.fleet.ports]
        self.fleet.write("x", 280)
        self.ship("x")
        mergers = {name: self.merger(name, exports="mixpanel") for name in ("m1", "m2")}
        self.until_archived("m1", "m2", lines=sorted(self.fleet.written))
        delivery = self.delivery("m1", server)
        until(lambda: len(server.taken) == 280 and self.is_delivered("m1"), 90, "everything is delivered")
        self.erase("--user", PERSON)
        for name in mergers:
            until(lambda name=name: "state=done" in self.state_of(name), 60, f"the person is erased from {name}")
            until(lambda name=name: not self.named(name), 60, f"{name} names no one")
        delivery.until_logged("the erasure is done; delivery continues", 30)
        self.assertFalse((self.site.root / "m1" / "state" / "erasure.waits").exists())
        until(lambda: self.is_delivered("m1"), 60, "m1 has its marks")
        other = self.delivery("m2", server)
        until(lambda: self.is_delivered("m2"), 60, "m2 has its marks")
        self.assertTrue(delivery.is_running)
        self.assertEqual(set(server.taken.values()), {1})
        self.assertEqual(len(server.taken), 280)
        self.stop_all(delivery, other, *mergers.values(), *receivers)
        self.assert_whole("m1", "m2")
