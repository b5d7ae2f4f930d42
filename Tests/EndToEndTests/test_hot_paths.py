"""The hot paths ask for memory per batch at most, never per event: counted, so the same on every machine."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import REPOSITORY


def benchmark():
    named = os.environ.get("WAYBILL")
    path = (pathlib.Path(named).parent if named else REPOSITORY / ".build/release") / "waybill-benchmark"
    if not path.exists():
        raise unittest.SkipTest("there is no waybill-benchmark; build it, or name its neighbour in $WAYBILL")
    return str(path)


class AllocationTests(unittest.TestCase):
    def test_no_path_allocates_more_than_it_may(self):
        with tempfile.TemporaryDirectory() as directory:
            result = subprocess.run(
                [benchmark(), "--check", "--directory", directory], capture_output=True, text=True, timeout=300)
            self.assertEqual(os.listdir(directory), [], "it leaves nothing behind")
        measured = {line["path"]: line for line in map(json.loads, result.stdout.splitlines())}
        self.assertEqual(result.returncode, 0, [line for line in measured.values() if "verdict" in line])
        self.assertLessEqual(
            {"deflate", "inflate", "judge", "parse", "export-mixpanel", "frame-decode", "journal-commit", "track",
             "track-encodable"},
            set(measured))
        # The counter counts: a commit cannot do without memory.
        self.assertGreater(measured["journal-commit"]["allocations_per_round"], 0)
