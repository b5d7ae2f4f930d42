"""Logs that other programs write again under their names, make shorter, cut, or leave holes in.

Each line is stored once. Which file is which is decided by content where the file that had the name is gone
(Documentation/logs.md). Where the old file is kept beside the new one there are two files, and both are shipped.
"""

import os
import shutil
import time
import unittest

from programs import ProgramTest, command
from test_agent import FOREIGN
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

    def test_two_runs_before_the_first_is_read(self):
        """Of files that followed each other faster than they were read, the last continues the first."""
        self.start("*.json")
        self.grow()
        self.mirror()
        self.until_stored()
        for _ in range(3):
            self.grow()
            self.mirror()
        self.finish()

    def test_runs_that_write_into_the_file(self):
        """`--inplace` and `--append` keep the file."""
        self.start("*.json")
        for options in ((), ("--inplace",), ("--append",), ("--inplace", "--no-whole-file")):
            self.grow()
            self.mirror(*options)
            self.until_stored()
        self.finish()

    def test_runs_while_the_agent_is_away(self):
        """An agent that comes back finds another file, and goes on in it."""
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

    def test_a_copy_of_the_new_file(self):
        """Of two files with the content of the one that is gone, one continues it, and the other is shipped whole."""
        self.grow()
        self.mirror()
        self.start("*.json")
        self.until_stored()
        self.grow(100)
        self.mirror()
        command("cp", self.folder / "web.json", self.folder / "copy.json")
        self.expect_again("copy.json")
        self.finish()

    def test_runs_between_runs_of_once(self):
        """A job that mirrors and ships, again and again."""
        for _ in range(3):
            self.grow()
            self.mirror()
            summary = self.site.once("--glob", self.folder / "*.json", *FOREIGN)
            self.assertEqual([summary["lines"], summary["lost_bytes"], summary["held_bytes"]], [1000, 0, 0])
        self.assert_stored(self.receiver)


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

    def test_vim_that_writes_into_the_file(self):
        """`backupcopy=yes` empties the file and fills it: an agent that looks in between sees another content."""
        self.assertEqual(self.edit_twice("web.json", "set writebackup backupcopy=yes"), [False, False])
        self.finish(twice_max=1000 + 1021)

    def test_vim_that_keeps_the_old_file(self):
        """With `backup` both files are there, and both are shipped."""
        self.write("web.json", 500)
        self.start("web.json*")
        self.until_stored()
        lines = self.maker.foreign(20)
        (self.site.root / "more").write_bytes(b"".join(lines))
        self.edit("set backup backupcopy=no", f"$r {self.site.root}/more")
        self.expect_again("web.json~")
        self.ledger.add(lines)
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

    def test_sed_that_keeps_the_old_file(self):
        """The old file is in the folder, although no pattern has its name: the new one is another."""
        self.write("web.json", 300)
        self.start("*.json")
        self.until_stored()
        command("sed", "-i.bak", "s/zzz/yyy/", self.folder / "web.json")
        self.expect_again("web.json")
        self.write("web.json", 5)
        self.finish()

    def test_a_change_of_the_first_line(self):
        """What begins with other bytes is another content, and is shipped whole."""
        self.write("web.json", 300)
        self.start("*.json")
        self.until_stored()
        command("sed", "-i", '1s/"status":200/"status":404/', self.folder / "web.json")
        self.expect_again("web.json")
        self.finish()

    def test_less_than_512_bytes(self):
        """Two lines prove too little: they are shipped again."""
        self.write("web.json", 2)
        self.assertLess((self.folder / "web.json").stat().st_size, 512)
        self.start("*.json")
        self.until_stored()
        command("sed", "-i", "s/zzz/yyy/", self.folder / "web.json")
        self.expect_again("web.json")
        self.write("web.json", 2)
        self.finish()

    def test_another_content_under_the_name(self):
        """A log that is replaced by another one of the same length."""
        self.write("web.json", 300)
        self.start("*.json")
        for number in range(3):
            self.until_stored()
            self.write(f".next-{number}", 300)
            os.replace(self.folder / f".next-{number}", self.folder / "web.json")
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
        """As network mounts report it: the file goes on where it was."""
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

    def take_back(self, seconds):
        """Takes the last line back, and writes others after some time; only the last batch may come twice."""
        self.write(self.path, 2000)
        self.start("*.json")
        self.until_stored()
        self.write(self.path, 50)
        self.until_stored()
        self.cut(len(self.path.read_bytes().splitlines(True)[-1]))
        self.settle()
        time.sleep(seconds)
        self.write(self.path, 10)
        self.finish(twice_max=49)
        reread = [entry["reread_bytes"] for entry in self.told("reread_bytes")]
        self.assertEqual(reread, [self.stored_byte_count() - self.ledger.byte_count])

    def test_the_last_line_taken_back_and_written_over(self):
        self.take_back(2)

    def test_the_last_line_taken_back_for_good(self):
        self.take_back(PATIENCE_SECONDS + 1)

    def test_half_a_line_taken_back(self):
        """What was never shipped may change."""
        self.write(self.path, 100)
        self.start("*.json")
        self.until_stored()
        self.append(self.path, [b'{"half'])
        self.settle()
        self.cut(6)
        self.settle()
        self.write(self.path, 10)
        self.finish(lost_bytes=(0, 6))

    def test_cut_and_grown_with_the_same_first_lines(self):
        """It was seen empty, so that what repeats all that was shipped is another content nevertheless."""
        first = self.write(self.path, 5)
        self.start("*.json")
        for _ in range(2):
            self.until_stored()
            os.truncate(self.path, 0)
            self.settle()
            self.append(self.path, first)
            self.ledger.add(first)
            self.write(self.path, 5)
            first += self.path.read_bytes().splitlines(True)[-5:]
        self.finish()

    def test_a_copy_that_grows_beside_its_original(self):
        """`cp`, and both go on: two files, whose common lines come from each."""
        self.write(self.path, 300)
        self.start("*.json")
        self.until_stored()
        shutil.copy(self.path, self.folder / "copy.json")
        self.expect_again("copy.json")
        for number in range(6):
            self.write(self.path, 20)
            self.write("copy.json", 20)
            if number % 2:
                self.until_stored()
        self.finish()

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

    def test_copied_and_cut_with_restarts_in_between(self):
        def restart():
            self.stop()
            self.start()
        self.copy_and_cut(restart)

    def test_copied_and_cut_with_kills_in_between(self):
        """An agent that was killed may have to ask what is stored, of a file that is no more when it is told."""
        def restart():
            self.agent.kill()
            self.start()
        self.copy_and_cut(restart, range(1 << 20))

    def test_copied_and_cut_while_the_agent_is_away(self):
        """What was not read before the cut comes from the copy."""
        self.write(self.path, 200)
        self.start("web.json*")
        self.until_stored()
        self.expect_again(self.path)
        self.stop()
        self.write(self.path, 50)
        shutil.copy(self.path, self.folder / "web.json.1")
        os.truncate(self.path, 0)
        self.write(self.path, 50)
        self.start()
        self.finish()


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

    def test_a_hole_of_the_old_length(self):
        self.check()

    def test_a_hole_of_two_megabytes(self):
        self.check(2_000_000)

    def test_a_hole_of_500_megabytes(self):
        self.check(500_000_000)

    def test_a_hole_that_is_filled_soon(self):
        """Bytes that arrive out of order, as on a network mount, are waited for."""
        first, second = self.maker.foreign(50), self.maker.foreign(50)
        self.start("*.json")
        with open(self.folder / "web.json", "wb", buffering=0) as file:
            began = time.monotonic()
            file.seek(len(b"".join(first)))
            file.write(b"".join(second))
            time.sleep(1)
            file.seek(0)
            file.write(b"".join(first))
        if time.monotonic() - began > PATIENCE_SECONDS - 1:
            return  # The machine stood still: it was not soon.
        self.ledger.add(first + second)
        self.finish()


if __name__ == "__main__":
    unittest.main()
