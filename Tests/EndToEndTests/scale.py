"""How much a run does, and from which seed.

A change's run takes its seed from the commit, so that a test that fails once fails again; `Tools/nightly` takes one from
the clock and sets WAYBILL_THOROUGH=1, with which a suite does what takes too long for every change. WAYBILL_SEED repeats
a run, and a suite's own variables (WAYBILL_KILLS, …) say how much of one thing it does.
"""

import os
import pathlib
import subprocess
import unittest

THOROUGH = os.environ.get("WAYBILL_THOROUGH") == "1"
# For a long drill whose theme has another one in each change's run. Tests/skips.txt lists it.
at_night = unittest.skipUnless(THOROUGH, "a night runs it, and each change another drill of its theme")


def seed_of_commit():
    """The first 8 hexadecimal digits of the commit that is checked out; 1 where there is no repository."""
    named = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(named.stdout[:8], 16) if named.returncode == 0 else 1


SEED = int(os.environ["WAYBILL_SEED"]) if "WAYBILL_SEED" in os.environ else seed_of_commit()


def amount(name, change, thorough):
    """How many: what the variable `name` says, else `change`, or `thorough` in a nightly run."""
    return int(os.environ.get(name, thorough if THOROUGH else change))
