"""A receiver is killed around each step of closing and compressing a part, while a delivery follows its exports.

Parts close by age, a second after their first record. Whatever step the receiver dies at, a new one goes on with it, and
the provider takes each event once.
"""

import collections
import fnmatch
import json
import unittest

from faults import armed, counted
from test_crash_points import CrashTest, Point

from harness import until
from ledger import EventMaker
from providers import SECRETS, FalseProvider
from scale import SEED, THOROUGH

PROVIDER = "segment"
FOLDER = f"*/exports/{PROVIDER}/*"
# The points of a usual run, a few seconds each.
SAMPLE = 9
# What a part is made of, from its open file to its delivery; the first that fits names a path.
STEPS = ("*.gz.tmp", "*.gz", "*.manifest.json*", "*.ids", "*/part-*")


class ClosingTests(CrashTest):
    def setUp(self):
        super().setUp()
        self.maker = EventMaker(SEED, days=1)
        self.config = self.site.root / "receiver.yaml"
        self.config.write_text(
            f"receiver:\n  data: {self.site.data}\n  exports:\n    - {{provider: {PROVIDER}, close_after: 1s}}\n")
        self.server = FalseProvider(PROVIDER, poison=False)
        self.addCleanup(self.server.close)
        self.expected = collections.Counter()

    def receiver(self, **variables):
        process = self.site.start(
            "receiver", "--config", self.config, "--listen", self.site.address, log="receiver.log",
            env=armed(self.site.data, **variables) if variables else None)
        until(lambda: self.site.is_listening() or not process.is_running, 30, "the receiver listens or dies")
        return process

    def delivery(self):
        return self.site.start(
            "deliver", "--data", self.site.data, "--provider", PROVIDER, "--follow", "--env", "prod", "--backoff-max",
            "0.05", "--timeout", "5", "--rate", "1000000", "--endpoint", self.server.address, log="deliver.log",
            env=SECRETS)

    def make(self, count):
        lines = self.maker.lines(count, env="prod", bundle="com.example.shop")
        self.expected.update(json.loads(line)["id"] for line in lines)
        self.maker.segment(self.site.spool, lines)

    def is_delivered(self):
        return sum(self.server.taken.values()) >= sum(self.expected.values())

    def test_a_receiver_dies_at_each_step_of_closing(self):
        count = self.site.root / "count"
        receiver, delivery = self.receiver(count=count), None
        self.make(20)
        self.site.once()
        delivery = self.delivery()
        until(self.is_delivered, 60, "the first part is delivered")
        self.assertEqual(receiver.stop(), 0)
        points = self.steps(counted(count))
        self.assertGreaterEqual(len(points), SAMPLE, points)
        for point in points:
            message = f"seed {SEED}, {point}"
            self.make(7)
            dying = self.receiver(kill=point)
            if dying.is_running:
                agent = self.site.start(*self.site.agent_arguments(), log="agent.log")
                try:
                    until(lambda: not dying.is_running or self.is_delivered(), 60, f"{message}: the death")
                finally:
                    agent.stop()
            self.died(dying.stop() if dying.is_running else dying.wait(), message)
            receiver = self.receiver()
            self.site.once()
            until(self.is_delivered, 60, f"{message}: the delivery")
            self.assertEqual(receiver.stop(), 0, message)
            self.assertEqual(self.server.taken, self.expected, message)
            self.assertEqual(self.leftovers(), [], message)
        self.assertTrue(delivery.is_running)
        self.assertEqual(delivery.stop(), 0)
        self.assertEqual(self.server.complaints, [])
        self.report("closing")

    def steps(self, calls):
        """Points around each kind of call that is made of a part; a usual run takes some of them."""
        kinds = collections.Counter()
        for op, path in calls:
            if fnmatch.fnmatchcase(path, FOLDER):
                pattern = next((step for step in STEPS if fnmatch.fnmatchcase(path, FOLDER + step.removeprefix("*"))), None)
                if pattern:
                    kinds[op, pattern] += 1
        whens = ("before", "half", "after")
        points = [
            Point(1, when, op, FOLDER + pattern.removeprefix("*")) for op, pattern in sorted(kinds) for when in whens
            if when != "half" or op == "write"]
        return points if THOROUGH else self.chance.sample(points, min(SAMPLE, len(points)))

    def leftovers(self):
        """No half-made file, and no part in both forms."""
        files = {str(path) for path in (self.site.data / "exports").rglob("part-*")}
        return sorted(path for path in files if path.endswith(".tmp") or path.removesuffix(".gz") in files - {path})


if __name__ == "__main__":
    unittest.main()
