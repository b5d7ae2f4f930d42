"""What the tutorial shows of the programs, run and compared."""
import os
import subprocess
import unittest

from test_readme import ROOT, binary

RESOURCES = os.path.join(ROOT, "Sources/Waybill/Waybill.docc/Resources")


class TutorialTests(unittest.TestCase):
    def test_ga4_gets_what_the_tutorial_says(self):
        with open(os.path.join(RESOURCES, "arrive-2-event.ndjson"), "rb") as event:
            result = subprocess.run(
                [binary(), "transform", "--provider", "ga4"], stdin=event, capture_output=True, check=True, timeout=60)
        with open(os.path.join(RESOURCES, "arrive-3-ga4.ndjson"), "rb") as record:
            self.assertEqual(result.stdout, record.read())

    def test_the_configuration_is_good(self):
        path = os.path.join(RESOURCES, "arrive-1-receiver.yaml")
        subprocess.run([binary(), "check", path], capture_output=True, check=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
