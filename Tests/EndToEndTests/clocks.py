"""Wall clocks that are wrong under programs of a test; clocks that measure passed time are right."""

import pathlib
import struct

from harness import compiled

DAY = 86_400


def shifted(days, folder):
    """An environment in which the wall clock is off by so many days."""
    library = compiled(pathlib.Path(__file__).with_name("clock_shift.c"), folder)
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT_SECONDS": str(days * DAY)}


class Clock:
    """A wall clock that a test sets while the programs of its `environment` run."""

    def __init__(self, folder):
        self.path = folder / "clock"
        self.path.write_bytes(bytes(8))
        self.environment = shifted(0, folder) | {"CLOCK_SHIFT_FILE": str(self.path)}

    def set(self, days):
        with open(self.path, "r+b", buffering=0) as file:
            file.write(struct.pack("q", days * DAY))
