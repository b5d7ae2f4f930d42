"""A receiver that stands alone, with its data, becomes a fleet's, and stands alone again: each line is in one archive, once.

Before and after the fleet the receiver's own archive has the lines, meanwhile the merger's. Both together are compared with what
was written.
"""

import unittest

from fleets import WatchedFleet
from harness import SiteTest, run, until


class UpgradeTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.fleet = WatchedFleet(self.site)
        self.addCleanup(self.fleet.close)

    def alone(self, name="a"):
        config = self.site.root / "alone.yaml"
        config.write_text(
            f"receiver: {{data: {self.site.root}/{name}, listen: '127.0.0.1:{self.fleet.ports[name]}', name: {name}, "
            "exports: [{provider: csv}], stop_seconds: 60}\n", encoding="utf-8")
        process = self.site.start("receiver", "--config", config, log=f"{name}.log")
        process.until_logged("receiver started", 60)
        return process

    def assert_each_once(self, *names):
        """The archives together have every line that was written, once."""
        until(lambda: sum(len(self.fleet.archived(name)) for name in names) >= len(self.fleet.written), 60, "every line is there")
        self.assertEqual(sorted(line for name in names for line in self.fleet.archived(name)), sorted(self.fleet.written))

    def until_merged(self):
        def merged():
            code, found = self.fleet.fleet(status=("m1",))
            return code == 0 and not found["missing"] and all(chain["waiting_bytes"] == 0 for chain in found["chains"])
        until(merged, 90, "nothing waits, and nothing is missing")


class ThereAndBackTests(UpgradeTest):
    def test_each_line_is_in_one_archive_once(self):
        # Alone.
        receiver = self.alone()
        agent = self.fleet.agent(ports=[self.fleet.ports["a"]])
        self.fleet.write(100)
        self.assert_each_once("a")
        self.assertEqual(receiver.stop(), 0)

        # In a fleet: the same data directory, and a second receiver. The agent has the stream's first bytes at nobody else.
        receivers = {name: self.fleet.receiver(name) for name in ("a", "b")}
        self.assertEqual(agent.stop(), 0)
        agent = self.fleet.agent()
        merger = self.fleet.merger()
        self.fleet.write(100)
        self.assert_each_once("a", "m1")
        self.assertEqual((len(self.fleet.archived("a")), len(self.fleet.archived("m1"))), (100, 100))
        self.until_merged()

        # The first one is killed; the other goes on from what is stored, and what was before the fleet is not missing.
        receivers["a"].kill()
        self.fleet.write(50)
        self.assert_each_once("a", "m1")
        receivers["a"] = self.fleet.receiver("a")

        # Back: the receiver that stays is the last of the fleet, and its agents are there before it leaves.
        self.assertEqual(receivers["b"].stop(), 0)
        self.fleet.write(20)
        self.assert_each_once("a", "m1")
        self.until_merged()
        self.assertEqual(receivers["a"].stop(), 0)
        self.assert_each_once("a", "m1")
        self.assertEqual(len(self.fleet.archived("a")), 100)
        receiver = self.alone()
        self.fleet.write(30)
        self.assert_each_once("a", "m1")
        self.assertEqual(len(self.fleet.archived("a")), 130)
        for process in (agent, receiver, merger):
            self.assertEqual(process.stop(), 0)
        for name in ("a", "m1"):
            verified = run("inspect", "--verify", self.site.root / name, timeout=120)
            self.assertEqual(verified.returncode, 0, verified.stdout.decode() + verified.stderr.decode())

        # And into the fleet once more: another chain, that begins where the archive ends.
        receiver = self.fleet.receiver("a")
        agent = self.fleet.agent(ports=[self.fleet.ports["a"]])
        merger = self.fleet.merger()
        self.fleet.write(40)
        self.assert_each_once("a", "m1")
        self.assertEqual(len(self.fleet.archived("a")), 130)
        for process in (agent, receiver, merger):
            self.assertEqual(process.stop(), 0)

    def test_with_both_the_own_archive_goes_on_and_mergers_have_everything(self):
        receiver = self.alone()
        agent = self.fleet.agent(ports=[self.fleet.ports["a"]])
        self.fleet.write(60)
        self.assert_each_once("a")
        self.assertEqual(receiver.stop(), 0)
        receiver = self.fleet.receiver("a", more="exports: [{provider: csv}]")
        self.fleet.write(40)
        self.assert_each_once("a")
        merger = self.fleet.merger()
        self.assert_each_once("m1")
        for process in (agent, receiver, merger):
            self.assertEqual(process.stop(), 0)


if __name__ == "__main__":
    unittest.main()
