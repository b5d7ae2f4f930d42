"""Every command and every printed output in the README, run and compared."""
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def binary():
    given = os.environ.get("WAYBILL")
    choices = [given] if given else [os.path.join(ROOT, ".build", kind, "waybill") for kind in ("release", "debug")]
    return next(path for path in choices if os.path.exists(path))


def blocks(language):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return re.findall(r"^```%s\n(.*?)^```" % language, file.read(), re.MULTILINE | re.DOTALL)


class ReadmeTests(unittest.TestCase):
    maxDiff = None

    def run_block(self, block, directory):
        """Runs the commands of one block in one shell and returns what each printed."""
        commands = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
        script = "set -e\n" + "\n".join("echo '\x01'\n" + command for command in commands)
        # The receiver that a block starts in the background needs a moment before an agent looks for it; the agent waits.
        script += "\necho '\x01'\nkill $(jobs -p) 2>/dev/null || true\nwait\n"
        paths = [directory, os.path.join(ROOT, ".build/python/bin"), os.environ["PATH"]]
        environment = dict(os.environ, PATH=os.pathsep.join(paths))
        result = subprocess.run(
            ["bash", "-c", script], cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=120, text=True)
        return commands, result.stdout.split("\x01\n")[1:]

    def test_console_blocks_print_what_the_readme_says(self):
        # One folder for all of them: a later block asks what an earlier one wrote.
        with tempfile.TemporaryDirectory() as directory:
            os.symlink(binary(), os.path.join(directory, "waybill"))
            with open(os.path.join(directory, "product.sql"), "w", encoding="utf-8") as file:
                file.write(blocks("sql")[0])
            for block in blocks("console"):
                self.check_block(block, directory)

    def check_block(self, block, directory):
        expected = [part.split("\n", 1)[1] for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
        commands, printed = self.run_block(block, directory)
        for command, wanted, got in zip(commands, expected, printed):
            pattern = ".*".join(re.escape(piece) for piece in wanted.split("…"))
            self.assertRegex(got, re.compile("^" + pattern + "$"), "of: " + command)

    def test_the_example_is_the_one_that_the_tests_compile(self):
        with open(os.path.join(ROOT, "Tests/WaybillTests/ReadmeExample.swift"), encoding="utf-8") as file:
            self.assertIn(blocks("swift")[0], file.read())


if __name__ == "__main__":
    unittest.main()
