"""Logs that other programs write again under their names, make shorter, cut, or leave holes in.

Each line is stored once. Which file is which is decided by content where the file that had the name is gone
(Documentation/logs.md). Where the old file is kept beside the new one there are two files, and both are shipped.
"""

import os
import shutil
import time

from programs import ProgramTest, command
from test_real_input import program

# Shorter than this for less than five seconds, a file is no other content.
PATIENCE_SECONDS = 5


class MirrorTests(ProgramTest):
    """`rsync` copies a log that grows elsewhere."""

    def setUp(self):
        super().setUp()
        self.rsync = program("rsync")
        self.origin = self.site.root / "origin"
        self.origin.mkdir()

    def grow(self, count=1000):
        self.write(self.origin / "web.json", count)

    def mirror(self, *options):
        command(self.rsync, "-a", *options, f"{self.origin}/", f"{self.folder}/")

    def test_five_runs(self):
        """Each run puts another file under the name, with 1,000 lines more."""
        self.start("*.json")
        for _ in range(5):
            self.grow()
            self.mirror()
            self.until_stored()
        self.finish()

    def test_runs_while_the_agent_is_away(self):
        """An agent that comes back finds another file, and continues in it."""
        self.grow()
        self.mirror()
        self.start("*.json")
        for _ in range(2):
            self.until_stored()
            self.stop()
            for _ in range(2):
                self.grow()
                self.mirror()
            self.start()
        self.finish()


class EditTests(ProgramTest):
    """Editors and `sed -i`."""

    def edit(self, *commands):
        """Opens the log in vim, runs commands, and writes it."""
        # Vim makes no backups in /tmp by default.
        words = [word for text in ("set backupskip=", *commands, "wq") for word in ("-c", text)]
        command(program("vim.tiny"), "-u", "NONE", "-i", "NONE", "-n", "-N", "-es", *words, self.folder / "web.json")

    def edit_twice(self, pattern, option):
        """Appends lines in vim, twice; returns whether each time another file had the name afterwards."""
        self.write("web.json", 1000)
        self.start(pattern)
        are_other = []
        for _ in range(2):
            self.until_stored()
            lines = self.maker.foreign(20)
            (self.site.root / "more").write_bytes(b"".join(lines))
            before = os.stat(self.folder / "web.json").st_ino
            self.edit(option, f"$r {self.site.root}/more")
            self.ledger.add(lines)
            are_other.append(os.stat(self.folder / "web.json").st_ino != before)
            self.write("web.json", 1)
        return are_other

    def test_vim_that_renames(self):
        """`backupcopy=no` makes another file and deletes the old one."""
        self.assertEqual(self.edit_twice("web.json*", "set writebackup backupcopy=no"), [True, True])
        self.finish()

    def test_sed_in_place(self):
        """`sed -i` that changes nothing, twice, with lines appended after it."""
        self.write("web.json", 2000)
        self.start("*.json")
        for _ in range(2):
            self.until_stored()
            command("sed", "-i", "s/zzz/yyy/", self.folder / "web.json")
            self.write("web.json", 1)
        self.finish()


class ShorterTests(ProgramTest):
    """Logs that become shorter."""

    def setUp(self):
        super().setUp()
        self.path = self.folder / "web.json"

    def cut(self, byte_count):
        """Takes bytes from the end, and returns them."""
        body = self.path.read_bytes()
        os.truncate(self.path, len(body) - byte_count)
        return body[-byte_count:]

    def settle(self):
        """Returns when the agent has seen what happened before: hints come in the order of what happened."""
        self.write("other.json", 1)
        self.until_stored()

    def test_twenty_bytes_shorter_for_a_moment(self):
        """As network mounts report it: the file continues where it was."""
        self.write(self.path, 2000)
        self.start("*.json")
        self.until_stored()
        began, rest = time.monotonic(), self.cut(20)
        self.settle()
        time.sleep(max(0, began + PATIENCE_SECONDS / 2 - time.monotonic()))
        self.append(self.path, [rest])
        # On a machine that stood still for so long, it was not a moment.
        was_short = time.monotonic() - began < PATIENCE_SECONDS - 1
        self.write(self.path, 10)
        self.finish(twice_max=0 if was_short else 2000)

    def copy_and_cut(self, restart, lost_bytes=(0,)):
        """`copytruncate` whose copies the pattern covers: each copied line comes from both, and no line is missing."""
        self.write(self.path, 200)
        self.start("web.json*")
        for number in range(4):
            self.until_stored()
            shutil.copy(self.path, self.folder / f"web.json.{number}")
            self.expect_again(f"web.json.{number}")
            if number & 1:
                restart()
            os.truncate(self.path, 0)
            if number & 2:
                restart()
            self.write(self.path, 50)
        self.finish(lost_bytes=lost_bytes)

    def test_copied_and_cut_with_kills_in_between(self):
        """An agent that was killed may have to ask what is stored, of a file that is no more when it is told."""
        def restart():
            self.agent.kill()
            self.start()
        self.copy_and_cut(restart, range(1 << 20))


class HoleTests(ProgramTest):
    """A log is emptied (`> web.json`, `copytruncate`) whose program writes on at its old offset: a hole before a line.
    """

    def write_at(self, descriptor, count):
        lines = self.maker.foreign(count)
        os.write(descriptor, b"".join(lines))
        self.ledger.add(lines)

    def check(self, byte_count=0):
        """All that is written behind a hole arrives, and the hole is not copied."""
        descriptor = os.open(self.folder / "web.json", os.O_CREAT | os.O_WRONLY, 0o644)
        self.write_at(descriptor, 200)
        if byte_count:
            os.lseek(descriptor, byte_count, os.SEEK_SET)
        self.start("*.json")
        for count in (1, 300):
            self.until_stored()
            os.ftruncate(descriptor, 0)
            self.write_at(descriptor, count)
            # What is written later stands behind a line that stands behind the hole.
            time.sleep(1)
            self.write_at(descriptor, count)
        os.close(descriptor)
        self.finish()
        state = sum(path.stat().st_size for path in self.site.state.rglob("*") if path.is_file())
        self.assertLess(state, 1 << 20)

    def test_a_hole_of_two_megabytes(self):
        self.check(2_000_000)
