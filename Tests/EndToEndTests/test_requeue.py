"""`requeue`: what was set aside goes to an agent once more, each line once."""

import collections
import json

from harness import ended, run
from ledger import archived, exported_ids, quarantined
from test_replay import ReplayTest


class RequeueTest(ReplayTest):
    def requeue(self, *arguments, expected=0):
        result = ended(expected, "requeue", "--data", self.site.data, "--output", self.site.root / "again", *arguments)
        return json.loads(result.stdout) if expected == 0 else result.stderr.decode()

    def published(self):
        """Lines of all published files."""
        lines = collections.Counter()
        for path in sorted((self.site.root / "again").glob("requeue-*.ndjson")):
            lines.update(path.read_bytes().splitlines(True))
        return lines

    def ship(self, lines):
        self.maker.segment(self.site.spool, lines)
        self.site.once()


class QuarantineTests(RequeueTest):
    def test_lines_come_back_with_the_right_description(self):
        """Lines without an environment are quarantined, requeued, shipped with one, and archived; originals stay."""
        receiver = self.site.receiver()
        lines = [b'{"ts":"2026-11-20T09:14:15.926Z","name":"n%d"}\n' % number for number in range(50)]
        self.ship([*lines, b"not json\n", b"not json\n"])
        self.assertEqual(receiver.stop(), 0)
        report = self.requeue("--quarantine", "--reason", "no-env")
        self.assertEqual([report["lines"], len(report["files"])], [50, 1])
        self.assertEqual(self.published(), collections.Counter(lines))
        self.assertEqual(self.requeue("--quarantine", "--reason", "no-env")["files"], [])
        receiver = self.site.receiver()
        self.site.once("--glob", self.site.root / "again" / "requeue-*.ndjson", "--env", "prod", "--bundle", "web")
        self.ship([lines[0]])
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(collections.Counter(archived(self.site.data)), collections.Counter(lines))
        self.assertEqual(collections.Counter(quarantined(self.site.data)["no-env"]), collections.Counter([*lines, lines[0]]))
        report = self.requeue("--quarantine")
        self.assertEqual(report["lines"], 3)
        self.assertEqual(self.published()[b"not json\n"], 2)
        self.assertEqual(run("inspect", "--verify", self.site.data).returncode, 0)

    def test_usage(self):
        """What to requeue must be said; a folder that is no data directory is 65."""
        for arguments in ([], ["--quarantine", "--dead", "ga4"], ["--dead", "fax"], ["--quarantine", "--reason", "x"],
                          ["--dead", "ga4", "--reason", "no-env"]):
            self.requeue(*arguments, expected=64)
        self.assertIn("not a receiver's data directory", self.requeue("--quarantine", expected=65))


class DeadLetterTests(RequeueTest):
    def test_refused_events_come_back_for_their_provider_alone(self):
        """Each refused event once, also after its day was made again; other providers do not get it twice."""
        receiver = self.site.receiver(exports="ga4,csv")
        refused = []
        for sequence in range(1, 21):
            event = json.loads(self.maker.event(self.maker.writer(), sequence, env="prod"))
            event["ids"] = {}
            event["providers"] = ["csv", "ga4"]
            refused.append(event)
        self.ship([*((json.dumps(event) + "\n").encode() for event in refused), *self.maker.lines(10)])
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(self.requeue("--dead", "ga4", "--reason", "ga4.too_old")["lines"], 0)
        report = self.requeue("--dead", "ga4", "--reason", "ga4.no_app_instance_id")
        self.assertEqual(report["lines"], 20)
        lines = [json.loads(line) for line in self.published()]
        for line in lines:
            self.assertEqual(line["providers"], ["ga4"])
            line["providers"] = ["csv", "ga4"]
        self.assertEqual(sorted(line["id"] for line in lines), sorted(event["id"] for event in refused))
        self.assertIn(lines[0], refused)
        self.replay("ga4")
        report = self.requeue("--dead", "ga4")
        self.assertEqual([report["lines"], report["known"], report["files"]], [0, 20, []])
        before = exported_ids(self.site.data, "csv")
        receiver = self.site.receiver(exports="ga4,csv")
        self.ship(list(self.published()))
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(exported_ids(self.site.data, "csv"), before)

    def test_foreign_lines_keep_the_ids_that_were_made_for_them(self):
        """An id of a thing gets another name; a UUID stays."""
        receiver = self.site.receiver(exports="ga4,csv")
        own = "019550fc-2dfb-7b1c-82d3-000000000001"
        ids = [None, '"order-17"', "17", f'"{own}"', '"00000000-0000-0000-0000-000000000000"']
        log = self.site.root / "web.log"
        log.write_text("".join(
            '{"time":"2026-11-20T09:14:15Z","n":%d%s}\n' % (number, f',"id":{value}' if value else "")
            for number, value in enumerate(ids)))
        self.site.once("--glob", log, "--env", "prod", "--bundle", "web")
        self.assertEqual(receiver.stop(), 0)
        made = exported_ids(self.site.data, "csv")
        self.assertEqual(self.requeue("--dead", "ga4")["lines"], len(ids))
        lines = sorted(map(json.loads, self.published()), key=lambda line: line["n"])
        self.assertEqual(collections.Counter(line["id"].encode() for line in lines), made)
        self.assertEqual(
            [line.get("x_id") for line in lines],
            [None, "order-17", 17, None, "00000000-0000-0000-0000-000000000000"])
        self.assertEqual(lines[3]["id"], own)
