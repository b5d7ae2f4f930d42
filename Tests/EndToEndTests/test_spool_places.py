"""Spools in odd places: more than there are descriptors, restored, mirrored, copied, behind links, on other mounts.

`WAYBILL_THOROUGH=1` has a thousand spools at each limit of descriptors.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
import unittest

from harness import run, until
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

    def test_a_run_that_ends_ends_after_each_spool_had_its_turn(self):
        receiver = self.site.receiver()
        root = self.spools()
        agent = self.limited(LIMITS[0], *self.site.agent_arguments("--once", "--spool", f"{root}/*"))
        self.assertEqual(agent.wait(60 + SPOOL_COUNT / 4), 0)
        self.assertEqual(self.segments(root), [])
        self.assert_stored(receiver)

    def test_writers_that_live_are_served_in_turn(self):
        """Segments that stay open keep no spool from its turn, and lines that come later are shipped."""
        receiver = self.site.receiver()
        root = self.site.root / "spools"
        files = []
        for number in range(6):
            folder = root / str(number)
            folder.mkdir(parents=True)
            writer = self.maker.writer()
            path = self.maker.segment(folder, [self.maker.event(writer, 1)], writer)
            files.append((self.writer_of(path), writer))
        self.ledger.add([path.read_bytes() for path in self.segments(root)])
        agent = self.limited(LIMITS[0], *self.site.agent_arguments("--spool", f"{root}/*"))
        self.until_archived(6, 60)
        for file, writer in files:
            line = self.maker.event(writer, 2)
            self.ledger.add([line])
            file.write(line)
        self.until_archived(12, 60)
        for file, _ in files:
            file.close()
        self.until_empty(root, 60)
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

    def test_a_spool_of_another_agent_is_not_taken_for_a_lack_of_descriptors(self):
        receiver = self.site.receiver()
        root = self.spools()
        holder = os.open(root / "0000", os.O_RDONLY)
        self.addCleanup(os.close, holder)
        fcntl.flock(holder, fcntl.LOCK_EX)
        agent = self.limited(LIMITS[0], *self.site.agent_arguments("--spool", f"{root}/*"))
        self.assertEqual(agent.wait(), 75)
        self.assertIn("WB4003", agent.log())
        self.assertEqual(receiver.stop(), 0)


class CopyTests(PlaceTest):
    def test_a_restored_spool_is_not_stored_again(self):
        """Segments that come back after they were sealed and deleted go at once, with and without a running agent."""
        receiver = self.site.receiver()
        self.maker.spool(self.site.spool, self.ledger, 300_000, 100_000)
        shutil.copytree(self.site.spool, self.site.root / "backup")
        self.site.once()
        for segment in (self.site.root / "backup").iterdir():
            shutil.copy2(segment, self.site.spool)
        self.assertEqual(self.site.once()["lines"], 0)
        self.assertEqual(self.segments(), [])
        agent = self.site.agent()
        agent.until_logged("connected")
        subprocess.run(["cp", "-a", f"{self.site.root}/backup/.", self.site.spool], check=True)
        self.until_empty()
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

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
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

    @unittest.skipUnless(sys.platform == "linux", "only Linux tells who has a file open")
    def test_a_segment_that_is_copied_in_slowly_is_whole(self):
        """Its lines are shipped as they come; it is sealed when the program that copies it has closed it."""
        receiver = self.site.receiver()
        agent = self.site.agent()
        agent.until_logged("connected")
        for half in (0.5, 0.7):
            writer = self.maker.writer()
            lines = [self.maker.event(writer, number) for number in range(1, 101)]
            self.ledger.add(lines)
            data = b"".join(lines)
            # At the end of a line, and within one.
            cut = data[: int(len(data) * half)].rindex(b"\n") + (1 if half == 0.5 else 40)
            with open(self.site.spool / f"{writer}-{1:020}.ndjson", "wb", buffering=0) as copy:
                copy.write(data[:cut])
                # More than two looks at everything.
                time.sleep(12)
                self.assertEqual(len(self.segments()), 1)
                copy.write(data[cut:])
            self.until_empty()
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

    def test_of_a_spool_and_its_copy_every_line_is_stored_once(self):
        """Whichever comes first: a copy that was made earlier is shorter."""
        receiver = self.site.receiver()
        for whole, copy in (("one", "two"), ("two", "one")):
            root = self.site.root / f"spools-{whole}"
            (root / whole).mkdir(parents=True)
            (root / copy).mkdir()
            self.maker.spool(root / whole, self.ledger, 100_000, 100_000)
            for segment in (root / whole).iterdir():
                lines = segment.read_bytes().splitlines(keepends=True)
                if len(lines) > 1:
                    (root / copy / segment.name).write_bytes(b"".join(lines[: len(lines) // 2]))
            result = run(*self.site.agent_arguments("--once", "--spool", f"{root}/*", "--patience", "3"))
            self.assertIn(b"WB2212", result.stderr)
            self.assertEqual(self.segments(root / whole), [])
        self.assert_stored(receiver)


class LinkTests(PlaceTest):
    def test_a_spool_that_is_a_link_is_refused_and_one_behind_a_link_is_shipped(self):
        receiver = self.site.receiver()
        real = self.site.root / "real" / "spool"
        real.mkdir(parents=True)
        self.maker.spool(real, self.ledger, 50_000)
        (self.site.root / "link").symlink_to(real)
        (self.site.root / "current").symlink_to("real")
        result = run(*self.site.agent_arguments("--once", "--spool", self.site.root / "link"))
        self.assertIn(b"WB2206", result.stderr)
        self.assertNotEqual(self.segments(real), [])
        self.site.once("--spool", self.site.root / "current" / "spool")
        self.assertEqual(self.segments(real), [])
        self.assert_stored(receiver)

    def test_a_link_on_the_way_that_leads_elsewhere_later(self):
        receiver = self.site.receiver()
        for name in "ab":
            (self.site.root / name / "spool").mkdir(parents=True)
        (self.site.root / "current").symlink_to("a")
        self.maker.spool(self.site.root / "a" / "spool", self.ledger, 50_000)
        agent = self.site.agent("--spool", self.site.root / "current" / "spool")
        self.until_empty(self.site.root / "a")
        (self.site.root / "next").symlink_to("b")
        os.rename(self.site.root / "next", self.site.root / "current")
        self.maker.spool(self.site.root / "b" / "spool", self.ledger, 50_000)
        self.until_empty(self.site.root / "b")
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

    def test_segments_that_are_links_or_have_two_names_are_refused(self):
        receiver = self.site.receiver()
        real = self.site.root / "real"
        real.mkdir()
        for make in (os.symlink, os.link):
            path = self.maker.segment(real, self.maker.lines(3))
            make(path, self.site.spool / os.path.basename(path))
        result = run(*self.site.agent_arguments("--once"))
        self.assertEqual(result.stderr.count(b"WB2206"), 2)
        self.assertEqual(len(self.segments()), 2)
        self.assert_stored(receiver)


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
            self.skipTest("this machine lets nobody mount FUSE")
        self.site.mounts.append(str(self.seen))

    def test_a_segment_is_not_deleted_while_its_writer_goes_on(self):
        receiver = self.site.receiver()
        writer = self.maker.writer()
        lines = [self.maker.event(writer, number) for number in range(1, 21)]
        self.ledger.add(lines)
        path = self.maker.segment(self.real, lines[:10], writer)
        file = self.writer_of(path)
        agent = self.site.agent("--spool", self.seen)
        self.until_archived(10)
        agent.until_logged("WB2226")
        file.write(b"".join(lines[10:]))
        self.until_archived(20)
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
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)


if __name__ == "__main__":
    unittest.main()
