"""Files that are renamed, cut, compressed and deleted while they are read, and what is said of bytes that are lost.

What a source destroys before anybody could read it is the only loss, and the agent names it: stream, path, from which
byte on, and how many of the lost bytes it had seen.

`WAYBILL_THOROUGH=1` cuts more often.
"""

import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from harness import until
from ledger import stored
from scale import SEED, THOROUGH
from test_agent import AgentTest


# Writes lines in two writes each to the file given, locked as a client's segment is, until it is killed.
WRITER = """
import fcntl, os, sys, time
file = open(sys.argv[1], "ab", buffering=0)
fcntl.flock(file, fcntl.LOCK_SH)
number = 0
while True:
    line = sys.argv[2].replace("NUMBER", "%09d" % number).encode() + b"\\n"
    file.write(line[:50])
    time.sleep(0.0005)
    file.write(line[50:])
    number += 1
"""


class RotationTest(AgentTest):
    def losses(self, *agents):
        """What the agents said of lost bytes, oldest first."""
        return [entry for agent in agents for entry in agent.entries() if "lost_bytes" in entry]

    @staticmethod
    def summary(agent):
        return next(entry["summary"] for entry in reversed(agent.entries()) if "summary" in entry)


class RenameTests(RotationTest):
    """Rotation by rename."""

    ROTATIONS = 20

    def rotate(self):
        for number in range(self.ROTATIONS, 0, -1):
            if (self.folder / f"web.json.{number}").exists():
                os.rename(self.folder / f"web.json.{number}", self.folder / f"web.json.{number + 1}")
        os.rename(self.folder / "web.json", self.folder / "web.json.1")

    def test_twenty_rotations_while_the_agent_is_stopped(self):
        """All arrive that the pattern covers; with the live name alone, the file that was known, under its new name (T20)."""
        receiver = self.site.receiver()
        self.write("web.json", 20)
        self.site.once(*self.globbing("web.json*"))
        for _ in range(self.ROTATIONS):
            self.write("web.json", 20)
            self.rotate()
            self.write("web.json", 20)
        self.site.once(*self.globbing("web.json*"))
        folder = self.folder
        self.folder = self.site.root / "other"
        self.folder.mkdir()
        self.write("live.json", 20)
        self.site.once("--state", self.site.root / "other-state", *self.globbing("live.json"))
        self.write("live.json", 20)
        os.rename(self.folder / "live.json", self.folder / "live.json.1")
        self.write("live.json", 20)
        self.site.once("--state", self.site.root / "other-state", *self.globbing("live.json"))
        self.folder = folder
        self.assert_stored(receiver)


class OutlastTests(RotationTest):
    """The receiver is away for longer than the agent waits for anything."""

    def test_nothing_is_given_up_while_nobody_listens(self):
        """Files deleted and renamed, segments, half lines of killed writers: all there after a long outage (T20, T22, T24)."""
        receiver = self.site.receiver()
        agent = self.site.agent(*self.globbing("*.json"), "--spool", self.site.spool)
        agent.until_logged("connected")
        receiver.child.send_signal(signal.SIGSTOP)
        # Written by processes that are killed between the two writes of a line.
        segments = [self.kill_a_writer(self.site.spool / f"{self.maker.writer()}-{1:020d}.ndjson",
                                       self.maker.event("WRITER", 1).decode().replace('"line":', '"line":1NUMBER'))
                    for _ in range(6)]
        for path in segments:
            self.ledger.add(line for line in path.read_bytes().splitlines(True) if line.endswith(b"\n"))
        files = [self.kill_a_writer(self.folder / f"killed-{number}.json",
                                    '{"time":"2026-11-20T00:00:00.000Z","x":"%d","n":NUMBER%s}' % (number, "." * 40))
                 for number in range(6)]
        for path in files:
            # The last line of a file that is gone is whole, however it ends; the archive ends it.
            self.ledger.add(line.rstrip(b"\n") + b"\n" for line in path.read_bytes().splitlines(True))
        for number in range(20):
            self.write(f"rotated-{number}.json", 30)
        held = [*files, *(self.folder / f"rotated-{number}.json" for number in range(20))]
        until(lambda: {str(path) for path in held} <= set(agent.open_files()), 30, "the agent holds every file")
        for number, path in enumerate(held):
            if number % 2:
                os.unlink(path)
            else:
                os.rename(path, f"{path}.1")
        # Longer than a file that was deleted may rest before its stream ends.
        deadline = time.monotonic() + 10.5
        while time.monotonic() < deadline:
            time.sleep(0.2)
            self.assertTrue(all(path.exists() for path in segments), "an unacknowledged segment was deleted")
        receiver.child.send_signal(signal.SIGCONT)
        self.until_stored(seconds=60)
        until(lambda: not any(path.exists() for path in segments), 30, "acknowledged segments are deleted")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.losses(agent), [])
        self.assert_stored(receiver)

    def kill_a_writer(self, path, template):
        """Runs a writer, and kills it when it has written some lines and is, most likely, in the middle of one."""
        with subprocess.Popen([sys.executable, "-c", WRITER, path, template]) as writer:
            until(lambda: path.exists() and path.stat().st_size > 10_000, 30, "the writer writes")
            until(lambda: not path.read_bytes().endswith(b"\n"), 30, "it is in the middle of a line")
            writer.kill()
        return path


class CutTests(RotationTest):
    """Copytruncate, which no reader can survive unharmed: what was read comes once, and what was not is named."""

    CUTS = 200 if THOROUGH else 25

    def test_cuts_at_random_times(self):
        """No line comes twice, and every missing one lies behind an offset that the log names (T21)."""
        receiver = self.site.receiver()
        chance = random.Random(SEED)
        agents = [self.site.agent(*self.globbing("web.json"))]
        contents = []
        for turn in range(self.CUTS):
            # The agent has seen each content's first line: one that came and went between two looks has no name.
            contents.append(self.write("web.json", 1))
            self.until_present(contents[-1][0])
            if turn % 5 == 4:
                receiver.child.send_signal(signal.SIGSTOP)
            for _ in range(chance.randrange(30)):
                contents[-1] += self.write("web.json", chance.randrange(1, 60))
                time.sleep(chance.random() * 0.004)
            shutil.copy(self.folder / "web.json", self.folder / "copy.1")
            os.truncate(self.folder / "web.json", 0)
            receiver.child.send_signal(signal.SIGCONT)
        agents[-1].until_logged("a file was cut")
        self.assertEqual(agents[-1].stop(), 0)
        self.assertEqual(receiver.stop(), 0)
        self.check(contents, self.losses(*agents), self.summary(agents[-1]))

    def until_present(self, line):
        until(lambda: line in set(stored(self.site.data)), 20, "the first line of the new content is stored")

    def check(self, contents, losses, summary):
        lines = list(stored(self.site.data))
        comparison = self.ledger.compare(lines)
        self.assertEqual([comparison.twice, comparison.alien], [0, 0], str(comparison))
        present, named = set(lines), collections.defaultdict(list)
        for loss in losses:
            named[loss["stream"].split("-")[-2]].append(loss["offset"])
        missing = 0
        for number, content in enumerate(contents):
            there = [line in present for line in content]
            kept = sum(len(line) for line, is_there in zip(content, there) if is_there)
            self.assertEqual(there, sorted(there, reverse=True), "what is missing is the end of a content")
            if not all(there):
                missing += sum(map(len, content)) - kept
                self.assertIn(kept, named[self.fingerprint(content[0])], f"content {number}: missing and not named")
        reported = sum(loss["lost_bytes"] for loss in losses)
        print(f"{len(contents)} contents, {missing} bytes lost at the source, {reported} of them had been seen", flush=True)
        self.assertEqual(summary["lost_bytes"], reported)

    @staticmethod
    def fingerprint(line):
        """FNV-1a 64, which a stream's id has of the first line (Protocol/formats/registry.md)."""
        value = 0xCBF29CE484222325
        for byte in line:
            value = (value ^ byte) * 0x100000001B3 % (1 << 64)
        return f"{value:016x}"

    def test_lines_of_one_length_behind_the_same_first_line(self):
        """A file that is cut and grows beyond what was read, alike in all but the text, is read from its start (T21)."""
        receiver = self.site.receiver()
        for turn, size in enumerate((50, 80, 200)):
            lines = [b'{"time":"2026-11-20T00:00:00.000Z","name":"begin"}\n']
            lines += [b'{"time":"2026-11-20T00:00:00.000Z","turn":%d,"n":%06d}\n' % (turn, n) for n in range(size)]
            self.ledger.add(lines)
            with open(self.folder / "web.json", "r+b" if turn else "wb") as file:
                file.truncate(0)
                file.write(b"".join(lines))
            self.site.once(*self.globbing("web.json"))
        self.assert_stored(receiver)
