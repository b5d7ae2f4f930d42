"""Tools/simulate: lives that keep every promise, a planted bug that is caught, and its life told again."""

import pathlib
import re
import subprocess
import unittest

SIMULATE = pathlib.Path(__file__).resolve().parents[2] / "Tools" / "simulate"


def simulate(*arguments):
    return subprocess.run(
        [SIMULATE, "--skip-build", *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=600)


class SimulateTests(unittest.TestCase):
    def test_lives_are_counted(self):
        ended = simulate("--seeds", 60, "--from", 7000)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("60 lives from seed 7000, none broke a promise", ended.stdout)

    def test_a_broken_promise_names_the_command_that_shows_it_again(self):
        ended = simulate("--seeds", 300, "--bug", "deleteOnAck")
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        violation = re.search(r"^seed (\d+): (.+)$", ended.stdout, re.MULTILINE)
        command = re.search(r"^reproduce: Tools/simulate (.+)$", ended.stdout, re.MULTILINE)
        self.assertIn(f"--from {violation[1]} ", command[1])
        again = simulate(*command[1].split())
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"VIOLATION: {violation[2][:60]}", again.stdout)
        self.assertIn("troubles: ", again.stdout)


if __name__ == "__main__":
    unittest.main()
