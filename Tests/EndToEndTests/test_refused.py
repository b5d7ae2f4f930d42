"""`replay --refused`: events that a provider refused are exported after all, each once, and sent alone."""

import collections
import datetime
import json
import random
import subprocess

from harness import binary, ended, run, succeed
from ledger import exported_ids
from providers import FalseProvider
from scale import SEED, amount
from test_deliver import QUICK, deliver
from test_replay import ReplayTest

KILLS = amount("WAYBILL_KILLS", 4, 20)


class RefusedTests(ReplayTest):
    def configuration(self, too_old):
        return self.site.write(f"{too_old}.yaml", f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n"
                               f"  exports:\n    - {{provider: ga4, options: {{too_old: {too_old}}}}}\n")

    def ship(self, config, count):
        """Ships events of five days ago to a receiver with these options, which is stopped after; returns their ids."""
        day = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=5)).date()
        events = [json.loads(line) for line in self.maker.lines(count, env="prod")]
        for event in events:
            event.update(ts=f"{day}T12:00:00.000Z", kind="event", name="tap", ids={"ga4": "0a1b2c3d4e5f60718293a4b5c6d7e8f9"})
        receiver = self.site.configured(config)
        self.maker.segment(self.site.spool, [(json.dumps(event) + "\n").encode() for event in events])
        self.site.once()
        self.assertEqual(receiver.stop(), 0, receiver.log())
        return {event["id"].encode() for event in events}

    def refused(self, config, *arguments, expected=0):
        result = ended(expected, "replay", "--data", self.site.data, "--refused", "ga4", "--config", config, *arguments)
        return json.loads(result.stdout) if expected == 0 else result.stderr.decode()

    def send(self, server):
        result = deliver(self.site.data, "ga4", "--endpoint", server.address, *QUICK)
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        return json.loads(result.stdout.splitlines()[-1])["sent"]

    def test_a_sent_day_gets_what_ga4_refused_and_nothing_is_sent_again(self):
        """Kills at random change nothing of it; the whole directory verifies."""
        clamp, reject = self.configuration("clamp"), self.configuration("reject")
        first = self.ship(clamp, 40)
        succeed("seal", "--data", self.site.data, "--all", "--config", clamp)
        server = FalseProvider("ga4", (), poison=False)
        self.addCleanup(server.close)
        self.assertEqual(self.send(server), 40)
        second = self.ship(reject, 60)
        self.assertEqual(set(exported_ids(self.site.data, "ga4")), first)
        self.assertEqual(self.refused(reject)["refused"], 60)
        self.assertEqual(self.send(server), 0)
        chance = random.Random(SEED)
        for _ in range(KILLS):
            process = subprocess.Popen(
                [binary(), "replay", "--data", self.site.data, "--refused", "ga4", "--config", clamp],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(0.08 * chance.random())
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait()
        report = self.refused(clamp)
        self.assertEqual(report["exported"] + report["taken_before"], 60)
        self.assertEqual(exported_ids(self.site.data, "ga4"), collections.Counter(first | second))
        self.assertEqual(self.send(server), 60)
        self.assertEqual(max(server.taken.values()), 1)
        verified = run("inspect", "--verify", "--config", clamp, self.site.data)
        self.assertEqual(verified.returncode, 0, verified.stdout.decode())
        # A receiver goes on from there, and its next seal has the part.
        receiver = self.site.configured(clamp)
        self.assertEqual(receiver.stop(), 0, receiver.log())
        self.assertEqual(exported_ids(self.site.data, "ga4"), collections.Counter(first | second))
        self.assertEqual(self.refused(clamp)["letters"], 0)

    def test_usage(self):
        """What excludes it is named; a running receiver is 75, an export that never was 65."""
        config = self.configuration("clamp")
        for arguments in (["--provider", "ga4"], ["--output", self.site.root / "x"], ["--dry-run"], ["--force"],
                          ["--after-version", "x"], ["--after-version", "99.0.0"]):
            self.refused(config, *arguments, expected=64)
        self.ship(config, 3)
        error = ended(65, "replay", "--data", self.site.data, "--refused", "mixpanel").stderr.decode()
        self.assertIn("nothing was exported for mixpanel", error)
        receiver = self.site.configured(config)
        self.assertIn("in use by process", self.refused(config, expected=75))
        self.assertEqual(receiver.stop(), 0)
