"""Tools/simulate: lives that keep every promise, a planted bug that is caught, and its life told again."""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIMULATE = ROOT / "Tools" / "simulate"
PROGRAM = ROOT / ".build" / "release" / "waybill-simulate"


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

    def test_a_seed_lives_the_same_life_in_each_process(self):
        """Also where a process goes through dictionaries in another order."""
        plain = {name: value for name, value in os.environ.items() if name != "SWIFT_DETERMINISTIC_HASHING"}
        for kind, count in (["--storage"], 600), (["--fleet"], 60), ([], 60):
            with self.subTest(kind=kind):
                said = {
                    subprocess.run([PROGRAM, "--seeds", str(count), *kind], env=environment, capture_output=True,
                                   text=True, check=True, timeout=600).stdout
                    for environment in (plain, plain, plain | {"SWIFT_DETERMINISTIC_HASHING": "1"})}
                self.assertEqual(len(said), 1, said)
