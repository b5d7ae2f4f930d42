"""A receiver that stands alone, with its data, becomes a fleet's, and stands alone again: each line is in one archive, once.

Before and after the fleet the receiver's own archive has the lines, meanwhile the merger's. Both together are compared with what
was written.
"""

import fcntl
import os

from fleets import WatchedFleet
from harness import SiteTest, until
from ledger import EventMaker, timestamp, utc_now


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

    def until_before(self, holders):
        """The merger names whose own archives have what no piece has; none of it is missing."""
        def is_named():
            _, found = self.fleet.fleet(status=("m1",))
            self.assertEqual(found["missing"], [])
            return sorted({name for stream in found["before"] for name in stream["holders"]}) == holders
        until(is_named, 90, f"before the fleet, in the archives of {holders}")


class ThereAndBackTests(UpgradeTest):
    def test_each_line_is_in_one_archive_once(self):
        # Alone.
        receiver = self.alone()
        agent = self.fleet.agent(ports=[self.fleet.ports["a"]])
        self.fleet.write(100)
        self.assert_each_once("a")
        self.assertEqual(receiver.stop(), 0)

        # In a fleet: the same data directory, and a second receiver. The agent has the stream's first bytes at no one else.
        receivers = {name: self.fleet.receiver(name) for name in ("a", "b")}
        self.assertEqual(agent.stop(), 0)
        agent = self.fleet.agent()
        merger = self.fleet.merger()
        self.fleet.write(100)
        self.assert_each_once("a", "m1")
        self.assertEqual((len(self.fleet.archived("a")), len(self.fleet.archived("m1"))), (100, 100))
        self.until_merged()

        # The first one is killed; the other continues from what is stored, and what was before the fleet is not missing.
        receivers["a"].kill()
        self.fleet.write(50)
        self.assert_each_once("a", "m1")
        self.until_before(["a"])
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
        self.stop_all(agent, receiver, merger)
        for name in ("a", "m1"):
            self.assert_verified(self.site.root / name)

        # And into the fleet once more: another chain, that begins where the archive ends.
        receiver = self.fleet.receiver("a")
        agent = self.fleet.agent(ports=[self.fleet.ports["a"]])
        merger = self.fleet.merger()
        self.fleet.write(40)
        self.assert_each_once("a", "m1")
        self.assertEqual(len(self.fleet.archived("a")), 130)
        self.stop_all(agent, receiver, merger)


class SegmentTests(UpgradeTest):
    """A segment whose lines a receiver took when it stood alone, and that its writer ends in the fleet."""

    def setUp(self):
        super().setUp()
        self.spool = self.site.root / "spool-x"
        self.spool.mkdir()
        maker = EventMaker(3)
        lines = maker.lines(30, ts=timestamp(utc_now()), env="prod")
        self.fleet.written = [line.decode().rstrip("\n") for line in lines]
        making = self.site.root / "making"
        self.writer = open(making, "wb")
        self.addCleanup(self.writer.close)
        fcntl.flock(self.writer, fcntl.LOCK_SH)
        self.writer.write(b"".join(lines))
        self.writer.flush()
        self.segment = self.spool / f"{maker.writer()}-{1:020}.ndjson"
        os.rename(making, self.segment)
        receiver = self.alone()
        agent = self.spooling(ports=[self.fleet.ports["a"]])
        self.assert_each_once("a")
        self.stop_all(agent, receiver)

    def spooling(self, **options):
        return self.fleet.agent("x", "--spool", self.spool, **options)

    def until_waiting(self):
        """The receiver has said what it has, and is killed; the other one has sealed the segment without that."""
        receivers = {name: self.fleet.receiver(name) for name in ("a", "b")}
        merger, agent = self.fleet.merger(), self.spooling()
        registry = self.site.root / "agent-x" / "registry.state"
        until(lambda: b" before=" in registry.read_bytes(), 60, "the agent knows what was before the fleet")
        receivers["a"].kill()
        self.writer.close()
        agent.until_logged("it stays until that one has sealed it", 90)
        self.assertTrue(self.segment.exists())
        self.until_before(["a"])
        self.assertEqual(self.fleet.archived("m1"), [])
        # A restart changes nothing of it.
        agent.stop()
        agent = self.spooling()
        agent.until_logged("it stays until that one has sealed it", 90)
        self.assertTrue(self.segment.exists())
        agent.stop()
        return receivers["b"], merger

    def until_deleted(self):
        until(lambda: not self.segment.exists(), 90, "the segment is deleted")

    def test_it_waits_until_that_receiver_is_back(self):
        receiver, merger = self.until_waiting()
        first, agent = self.fleet.receiver("a"), self.spooling()
        self.until_deleted()
        self.assert_each_once("a", "m1")
        self.until_merged()
        self.stop_all(agent, first, receiver, merger)
