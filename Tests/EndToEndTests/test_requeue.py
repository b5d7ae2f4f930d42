"""`requeue`: what was set aside goes to an agent once more, each line once."""

import collections
import json

from harness import ended, run
from ledger import archived, quarantined
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
        report = self.requeue("--reason", "no-env")
        self.assertEqual([report["lines"], len(report["files"])], [50, 1])
        self.assertEqual(self.published(), collections.Counter(lines))
        self.assertEqual(self.requeue("--reason", "no-env")["files"], [])
        receiver = self.site.receiver()
        self.site.once("--glob", self.site.root / "again" / "requeue-*.ndjson", "--env", "prod", "--bundle", "web")
        self.ship([lines[0]])
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(collections.Counter(archived(self.site.data)), collections.Counter(lines))
        self.assertEqual(collections.Counter(quarantined(self.site.data)["no-env"]), collections.Counter([*lines, lines[0]]))
        report = self.requeue()
        self.assertEqual(report["lines"], 3)
        self.assertEqual(self.published()[b"not json\n"], 2)
        self.assertEqual(run("inspect", "--verify", self.site.data).returncode, 0)

    def test_usage(self):
        """What requeue no longer does names what does it; a folder that is no data directory is 65."""
        for arguments in (["--reason", "x"], ["--reason", "ga4.too_old"], ["--reason", "poison"]):
            self.requeue(*arguments, expected=64)
        self.assertIn("waybill replay --refused ga4", self.requeue("--dead", "ga4", expected=64))
        self.assertIn("leave --quarantine out", self.requeue("--quarantine", expected=64))
        self.assertIn("not a receiver's data directory", self.requeue(expected=65))
