"""Spools in odd places: more than there are descriptors, mirrored, on other mounts.

`WAYBILL_THOROUGH=1` has a thousand spools at each limit of descriptors.
"""

import fcntl
import os
import shutil
import subprocess
import time
import unittest

from harness import until
from scale import THOROUGH
from test_agent import AgentTest

SPOOL_COUNT = 1000 if THOROUGH else 100
LIMITS = (24, 25, 64, 256) if THOROUGH else (24,)


class PlaceTest(AgentTest):
    def segments(self, folder=None):
        return sorted((folder or self.site.spool).rglob("*.ndjson"))

    def until_empty(self, folder=None, seconds=30):
        until(lambda: not self.segments(folder), seconds, "every segment is shipped and deleted")

    def limited(self, limit, *arguments):
        """An agent that may have so many files open."""
        return self.site.start(
            *arguments, log="agent.log", within=["bash", "-c", f'ulimit -n {limit}; exec "$@"', "limited"])

    def writer_of(self, path):
        """Holds a segment's lock, as the process that writes it."""
        file = open(path, "ab", buffering=0)
        fcntl.flock(file, fcntl.LOCK_SH)
        self.addCleanup(file.close)
        return file


class DescriptorTests(PlaceTest):
    def spools(self):
        root = self.site.root / "spools"
        for number in range(SPOOL_COUNT):
            (root / f"{number:04}").mkdir(parents=True)
            self.maker.segment(root / f"{number:04}", self.maker.lines(2), ledger=self.ledger)
        return root

    def test_more_spools_than_descriptors_are_shipped_in_turn(self):
        """Fewer descriptors than spools: everything is shipped, once; one warning says what happens."""
        receiver = self.site.receiver()
        for limit in LIMITS:
            root = self.spools()
            agent = self.limited(limit, *self.site.agent_arguments("--spool", f"{root}/*"))
            self.until_empty(root, 30 + SPOOL_COUNT / 4)
            self.assertEqual(agent.log().count("there are more spools than this process may have files open"), 1)
            self.assertIn("WB2222", agent.log())
            self.assertEqual(agent.stop(), 0)
            shutil.rmtree(root)
        self.assert_stored(receiver)


class CopyTests(PlaceTest):

    @unittest.skipUnless(shutil.which("rsync"), "rsync is not installed")
    def test_a_spool_that_is_mirrored_again_and_again(self):
        receiver = self.site.receiver()
        source = self.site.root / "source"
        source.mkdir()
        self.maker.spool(source, self.ledger, 500_000, 100_000)
        agent = self.site.agent()
        for _ in range(3):
            subprocess.run(["rsync", "-a", f"{source}/", f"{self.site.spool}/"], check=True)
            self.until_empty()
        self.assert_stored(receiver, agent)


class MountTests(PlaceTest):
    """A writer whose lock the agent does not see: it writes below a FUSE mount."""

    def setUp(self):
        super().setUp()
        self.real, self.seen = self.site.root / "real", self.site.root / "seen"
        self.real.mkdir()
        self.seen.mkdir()
        if not shutil.which("bindfs") or not os.path.exists("/dev/fuse"):
            self.skipTest("bindfs and /dev/fuse are needed")
        if subprocess.run(["bindfs", self.real, self.seen], check=False, capture_output=True).returncode != 0:
            self.skipTest("this machine lets no one mount FUSE")
        self.site.mounts.append(str(self.seen))

    def test_a_segment_is_not_deleted_while_its_writer_goes_on(self):
        receiver = self.site.receiver()
        writer = self.maker.writer()
        lines = [self.maker.event(writer, number) for number in range(1, 21)]
        self.ledger.add(lines)
        path = self.maker.segment(self.real, lines[:10], writer)
        file = self.writer_of(path)
        agent = self.site.agent("--spool", self.seen)
        self.until_stored(10)
        agent.until_logged("WB2226")
        file.write(b"".join(lines[10:]))
        self.until_stored(20)
        # The next segment ends this one.
        file.close()
        later = [self.maker.event(writer, number) for number in range(21, 31)]
        following = self.maker.segment(self.real, later, writer, 21, self.ledger)
        until(lambda: not os.path.exists(path), 30, "the first segment is deleted")
        self.assertTrue(os.path.exists(following))
        # One that has rested for an hour is complete.
        os.utime(following, (time.time() - 4000,) * 2)
        self.until_empty(self.real)
        self.assertEqual(agent.log().count("locks of its writers may not be seen"), 1)
        self.assert_stored(receiver, agent)
