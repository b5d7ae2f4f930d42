"""Where an agent stands in its files: long outages, spoilt registries, used inodes.

Each test compares every line that was written with what the receiver stored, byte for byte.

`WAYBILL_THOROUGH=1` kills more often, spoils more bytes and makes more files.
"""

import os
import random
import shutil
import time

from harness import until
from scale import SEED, THOROUGH
from test_agent import AgentTest


class OutageTests(AgentTest):
    """No one takes the lines for long."""

    KILLS = 200 if THOROUGH else 25

    def test_an_agent_killed_again_and_again_while_nobody_listens(self):
        """Lines written during a long outage, with the agent killed many times, arrive once when it ends (T16)."""
        chance = random.Random(SEED)
        sources = [*self.globbing("*.json*"), "--spool", self.site.spool]
        for turn in range(self.KILLS):
            self.write(turn)
            self.kill_soon(self.site.agent(*sources), chance)
        segments = {path.name for path in self.site.spool.glob("*.ndjson")}
        self.assertEqual(len(segments), self.KILLS, "nothing unacknowledged was deleted")
        receiver = self.site.receiver()
        for turn in range(self.KILLS // 3):
            self.write(turn)
            self.kill_soon(self.site.agent(*sources), chance)
        self.site.once(*sources)
        self.assertEqual(list(self.site.spool.glob("*.ndjson")), [])
        self.assertEqual(self.site.once(*sources)["lines"], 0)
        self.assert_stored(receiver)

    def write(self, turn):
        self.maker.segment(self.site.spool, self.maker.lines(30), ledger=self.ledger)
        self.write_log(self.folder / f"web{turn % 3}.json", 20)
        if turn % 7 == 6:
            os.rename(self.folder / "web0.json", self.folder / f"web0.json.{time.monotonic_ns()}")

    def kill_soon(self, agent, chance):
        """The instant of the kill is what is random: from before its first look to well behind its first try."""
        time.sleep(chance.random() * 0.15)
        self.assertTrue(agent.is_running, agent.log()[-1000:])
        agent.kill()


class StateDirectoryTests(AgentTest):
    """What the agent keeps for itself is damaged, lost or old."""

    ROUNDS = 200 if THOROUGH else 20

    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.receiver = self.site.receiver()

    def work(self):
        """New lines, in a segment and in a file that is now and then rotated or cut; all are shipped."""
        self.maker.segment(self.site.spool, self.maker.lines(5), ledger=self.ledger)
        self.write("web.json", 5)
        self.site.once(*self.sources)
        turn = self.chance.randrange(6)
        if turn == 0:
            os.truncate(self.folder / "web.json", 0)
        elif turn == 1:
            os.rename(self.folder / "web.json", self.folder / f"web.json.{time.monotonic_ns()}")

    @property
    def sources(self):
        return [*self.globbing("web.json*"), "--spool", self.site.spool]

    def state_files(self):
        return [path for path in self.site.state.rglob("*") if path.is_file()]

    def test_one_bit_in_every_file_of_the_agent(self):
        """A flipped bit in each stored file, its registry's first, stops no start, loses and repeats nothing (T17, T29)."""
        self.append("web.json", [b"y" * (2 << 20) + b"\n"])
        for _ in range(self.ROUNDS):
            self.work()
            for path in self.state_files():
                content = bytearray(path.read_bytes())
                if content:
                    content[self.chance.randrange(len(content))] ^= 1 << self.chance.randrange(8)
                    path.write_bytes(content)
        self.work()
        kept = [path for path in self.state_files() if path.suffix == ".line"]
        self.assertEqual(len(kept), 1, "the over-long line is where it was put")
        self.assert_stored(self.receiver)

    def test_a_lost_registry_after_a_cut_with_the_same_first_line(self):
        """Without registry, a file that was cut and begins as before is not taken for what it was (T17, T21)."""
        def lines(name, count):
            made = [b'{"time":"2026-11-20T00:00:00.000Z","name":"begin"}\n']
            made += [b'{"time":"2026-11-20T00:00:00.000Z","name":"%s-%06d"}\n' % (name, at) for at in range(count)]
            self.ledger.add(made)
            return made

        self.append("web.json", lines(b"a", 5))
        self.site.once(*self.globbing())
        os.truncate(self.folder / "web.json", 0)
        second = lines(b"b", 30)
        self.append("web.json", second[:3])
        self.site.once(*self.globbing())
        self.append("web.json", second[3:20])
        self.site.once(*self.globbing())
        shutil.rmtree(self.site.state)
        self.append("web.json", second[20:])
        self.site.once(*self.globbing())
        self.assert_stored(self.receiver)

    def test_a_full_state_directory_stops_no_line(self):
        """With no room for its registry the agent ships on, says so, and writes it again once there is room."""
        small = self.site.mount("small", "256k")
        agent = self.site.agent(*self.sources, "--state", small / "state")
        agent.until_logged("connected")
        self.write("web.json", 10)
        self.until_stored()
        filler = small / "filler"
        with self.assertRaises(OSError):
            filler.write_bytes(b"x" * (1 << 20))
        # Enough new streams that the registry needs another page.
        for number in range(40):
            self.write(f"web.json.{number}", 2)
            self.until_stored()
        agent.until_logged("the registry could not be written")
        filler.unlink()
        until(lambda: b"web.json.39" in (small / "state" / "registry.state").read_bytes(), 30, "the registry is written")
        self.assert_stored(self.receiver, agent)


class LookalikeTests(AgentTest):
    """Which file is which."""

    FILES = 1000

    def test_a_used_inode_is_another_file(self):
        """Files deleted and made until the inode comes back, smaller, equal and larger, are read from 0 (T18)."""
        receiver = self.site.receiver()
        agent = self.site.agent(*self.globbing())
        agent.until_logged("connected")
        for size in (40, 20, 20, 60, 60, 1, 60):
            self.remake(size, is_same_head=size == 60)
        self.assertEqual(agent.stop(), 0)
        # The same while the agent is stopped, with and without its registry.
        for turn, size in enumerate((60, 30, 30, 90, 90)):
            self.remake(size, is_same_head=True, waits=False)
            self.site.once(*self.globbing())
            if turn == 2:
                shutil.rmtree(self.site.state)
        self.assert_stored(receiver)

    def remake(self, size, is_same_head, waits=True):
        """Deletes the file and makes it again in the same inode, if the file system gives that out again."""
        path = self.folder / "web.json"
        inode = path.stat().st_ino if path.exists() else None
        head = b'{"time":"2026-11-20T00:00:00.000Z","event":"begin"}\n'
        lines = ([head] if is_same_head else []) + self.maker.foreign(size)
        self.ledger.add(lines)
        if inode:
            path.unlink()
        for attempt in range(200):
            path.touch()
            if inode in (None, path.stat().st_ino):
                break
            os.rename(path, self.folder / f"other-{attempt}")
        for other in self.folder.glob("other-*"):
            other.unlink()
        self.append("web.json", lines)
        if waits:
            self.until_stored()

    @staticmethod
    def line_of(size, number):
        start = b'{"time":"2026-11-20T00:00:00.000Z","n":%d,"x":"' % number
        return start + b"x" * (size - len(start) - 3) + b'"}\n'
