"""An app that is killed while it tracks as fast as it can: of the events whose track() returned, none is lost."""

import json
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from harness import binary
from scale import SEED, amount

KILLS = amount("WAYBILL_CLIENT_KILLS", 80, 400)


class ClientKillTests(unittest.TestCase):
    def test_no_event_is_lost_whose_track_returned(self):
        dice = random.Random(SEED)
        with tempfile.TemporaryDirectory() as folder:
            spool, ledgers = pathlib.Path(folder, "spool"), pathlib.Path(folder, "ledgers")
            ledgers.mkdir()
            promised, torn, lines = 0, 0, 0
            for app in range(KILLS):
                ledger = ledgers / str(app)
                self.kill_while_tracking(app, spool, ledger, dice.uniform(0, 0.03))
                noted = self.noted(ledger)
                found, torn_count = self.found(spool, app)
                self.assertEqual(len(found), len(set(found)), f"app {app}: an event is stored twice")
                missing = set(noted) - set(found)
                self.assertFalse(missing, f"app {app}: track() returned and the event is lost")
                # Killed between track() and its note, one event may be there that nobody knows of.
                self.assertLessEqual(len(set(found) - set(noted)), 1, f"app {app}")
                promised += len(noted)
                torn += torn_count
                lines += len(found)
                for segment in spool.glob("*.ndjson"):
                    segment.unlink()
            print(f"\n{KILLS} kills: {promised} events promised, 0 lost; {lines} stored, {torn} torn last lines")
            self.assertGreater(promised, KILLS * 100, "the apps did not come to track anything")

    def kill_while_tracking(self, app, spool, ledger, seconds):
        process = subprocess.Popen(
            [binary(), "demo-app", "--app", str(app), "--events", "100000000", "--unpaused"]
            + ["--spool", str(spool), "--ledger", str(ledger)]
        )
        deadline = time.monotonic() + 30
        while not (ledger.exists() and ledger.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL, "the app ended by itself")

    def noted(self, ledger):
        """The numbers of events whose track() returned `stored`."""
        whole = ledger.read_bytes().split(b"\n")[:-1]
        return [int(line.split()[1]) for line in whole]

    def found(self, spool, app):
        """The numbers of the app's events in the spool, checked for their sequence; and how many lines are torn."""
        numbers, torn, sequence = [], 0, 0
        for segment in sorted(spool.glob("*.ndjson")):
            *whole, tail = segment.read_bytes().split(b"\n")
            torn += bool(tail)
            for line in whole:
                event = json.loads(line)
                sequence += 1
                self.assertEqual(event["seq"], sequence, f"app {app}: a gap in the sequence")
                if event["kind"] in ("screen", "action"):
                    self.assertEqual(event["data"]["app"], app)
                    numbers.append(event["data"]["number"])
        return numbers, torn


if __name__ == "__main__":
    unittest.main()
