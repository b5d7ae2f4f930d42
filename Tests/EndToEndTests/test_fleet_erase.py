"""One person leaves a whole fleet: both mergers' files and the bucket's days, whatever is killed meanwhile.

Over moto's bucket, with receivers, agents, mergers and a delivery as processes. The mergers' clock is two days ahead: days
are sealed at the first cut-off after their lines arrived, and this one is over then; to them all receivers are silent.
"""

import gzip
import json
import re
import unittest
import urllib.parse
import urllib.request
import xml.etree.ElementTree

import buckets
from fleet_checks import COMPILER, clock
from harness import SiteTest, run, succeed, until
from providers import FalseProvider
from test_deliver import environment
from test_fleet import ENVIRONMENT, Fleet

PERSON = "u3"
NAMED = re.compile(rb"\bu3\b")


def is_persons(line):
    return json.loads(line)["user"] == PERSON


class Bucket:
    """What the bucket has, read without Waybill."""

    def __init__(self, server):
        self.address = f"{server.url}/events"
        credential = f"{buckets.KEY}/20260101/us-east-1/s3/aws4_request"
        self.headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={credential}"}

    def get(self, path):
        request = urllib.request.Request(self.address + path, headers=self.headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def keys(self, prefix):
        keys, token = [], None
        while True:
            query = {"list-type": "2", "prefix": f"w/{prefix}", **({"continuation-token": token} if token else {})}
            page = xml.etree.ElementTree.fromstring(self.get("?" + urllib.parse.urlencode(query)))
            space = page.tag.partition("}")[0] + "}"
            keys += [element.findtext(f"{space}Key") for element in page.iter(f"{space}Contents")]
            token = page.findtext(f"{space}NextContinuationToken")
            if not token:
                return keys

    def objects(self, *prefixes):
        """The objects by their keys, inflated."""
        objects = {}
        for key in [key for prefix in prefixes for key in self.keys(prefix)]:
            content = self.get("/" + urllib.parse.quote(key))
            objects[key.removeprefix("w/")] = gzip.decompress(content) if key.endswith(".gz") else content
        return objects


@unittest.skipUnless(COMPILER, "there is no C compiler")
class FleetEraseTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.ahead = ENVIRONMENT | clock(2 * 86_400, self.site.root)
        self.fleet = Fleet(self.site)
        self.addCleanup(self.fleet.close)
        self.bucket = Bucket(self.fleet.server)

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

    def archived(self, merger):
        """The lines of a merger's archive; without files that are about to take another one's place."""
        lines = []
        for path in (self.site.root / merger / "archive").glob("**/*.ndjson*"):
            if ".erase" in path.name or path.name.endswith(".tmp"):
                continue
            if not path.name.endswith(".gz"):
                lines += path.read_text().splitlines()
            elif not path.with_suffix("").exists():
                lines += gzip.decompress(path.read_bytes()).decode().splitlines()
        return sorted(lines)

    def until_archived(self, *mergers, lines):
        for name in mergers:
            until(lambda name=name: self.archived(name) == lines, 90, f"{name} has these lines")

    def until_published(self):
        """Both days of the archive and of the export are in the bucket."""
        until(lambda: sum(key.endswith("/_SUCCESS") for key in self.bucket.keys("")) >= 4, 90, "days in the bucket")

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

    def verify(self, *mergers):
        for name in mergers:
            self.assert_verified(self.site.root / name)

    def test_a_person_leaves_both_mergers_and_the_bucket_whatever_is_killed(self):
        """Asked twice, both mergers killed again and again meanwhile; then nothing of the person is anywhere."""
        receivers = [self.fleet.receiver(name) for name in self.fleet.ports]
        for name in ("x", "y"):
            self.fleet.write(name, 300)
        self.ship("x", "y")
        mergers = {name: self.merger(name) for name in ("m1", "m2")}
        self.until_archived("m1", "m2", lines=sorted(self.fleet.written))
        self.until_published()
        before = self.bucket.objects("archive/", "exports/")
        self.assertTrue(any(NAMED.search(content) for content in before.values()))

        answer, text = self.erase("--user", PERSON, "--dry-run")
        self.assertEqual((answer["dry_run"], answer["erasure"], answer["repeated"]), (True, None, False))
        self.assertIn("known to mergers alone", text)
        answer, text = self.erase("--user", PERSON)
        self.assertEqual((answer["erasure"], answer["repeated"]), (1, False))
        self.assertIn("merger.pieces_days", text)
        answer, text = self.erase("--user", PERSON)
        self.assertEqual((answer["erasure"], answer["repeated"]), (1, True))
        self.assertEqual(self.bucket.keys("erasures/"), ["w/erasures/00000000000000000001.json"])
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
            lambda: not any(NAMED.search(content) for content in self.bucket.objects("archive/", "exports/").values()),
            90, "the bucket names no one")

        # What is left in the bucket is what each day has, whole.
        until(self.published_is_whole, 60, "manifests fit their parts")
        after = self.bucket.objects("archive/", "exports/")
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
        self.verify("m1", "m2")
        files = self.sealed("m1")
        self.assertEqual(files, self.sealed("m2"))
        self.assertGreaterEqual(len(files), 4)
        alone = run("erase", "--data", self.site.root / "m1", "--user", PERSON)
        self.assertNotEqual(alone.returncode, 0)
        self.assertIn("is a merger's data directory", alone.stderr.decode())
        for process in receivers:
            self.assertEqual(process.stop(), 0)

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
        objects = self.bucket.objects("archive/")
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
        for process in [delivery, other, *mergers.values(), *receivers]:
            self.assertEqual(process.stop(), 0)
        self.verify("m1", "m2")
