"""What tests with programs that rotate and rewrite logs share: tests side by side, a program that logs, comparisons."""

import concurrent.futures
import contextlib
import os
import subprocess
import threading
import time
import unittest

from harness import until
from ledger import archive_files, stored
from test_agent import FOREIGN, AgentTest


class Recorder(unittest.TestResult):
    """Keeps what a test said of its outcome, for the result that asks later."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def addSuccess(self, test):
        self.calls.append(("addSuccess",))

    def addFailure(self, test, error):
        self.calls.append(("addFailure", error))

    def addError(self, test, error):
        self.calls.append(("addError", error))

    def addSkip(self, test, reason):
        self.calls.append(("addSkip", reason))


class SideBySideTest(AgentTest):
    """Tests that mostly wait: the first that is run starts all that were loaded of its class, with a thread and a site
    each."""

    JOBS = 10

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.loaded, cls.futures = [], None

    def __init__(self, name="runTest"):
        super().__init__(name)
        self.loaded.append(self)

    def run(self, result=None):
        if self.futures is None:
            pool = concurrent.futures.ThreadPoolExecutor(self.JOBS)
            type(self).futures = {test: pool.submit(test.run_alone) for test in self.loaded}
        result.startTest(self)
        for call, *details in self.futures[self].result():
            getattr(result, call)(self, *details)
        result.stopTest(self)

    def run_alone(self):
        recorder = Recorder()
        super().run(recorder)
        return recorder.calls

    def show_logs(self):
        if not self._outcome.success:
            print(f"=== {self.id()}")
        super().show_logs()


class ProgramTest(SideBySideTest):
    """A receiver, an agent that is started and stopped, and a ledger of how often each line must be stored."""

    def setUp(self):
        super().setUp()
        self.receiver = self.site.receiver(exports="none")
        self.arguments = ()

    # MARK: The agent

    def start(self, *patterns, more=()):
        """Starts the agent, with the patterns of the last start by default."""
        if patterns:
            globs = [word for pattern in patterns for word in ("--glob", self.folder / pattern)]
            self.arguments = (*globs, *FOREIGN, *more)
        self.agent = self.site.agent(*self.arguments)
        self.agent.until_logged("connected")

    def stop(self, lost_bytes=(0,)):
        """Lets the agent ship what it has seen and stop; checks how many bytes it says to be lost, none by default."""
        self.assertEqual(self.agent.stop(), 0)
        self.assertIn(self.summary()["lost_bytes"], lost_bytes, self.told("lost_bytes"))

    def summary(self):
        return next(entry["summary"] for entry in reversed(self.agent.entries()) if entry["message"] == "agent stopped")

    def told(self, member):
        """What the agent logged that has a member."""
        return [entry for entry in self.agent.entries() if member in entry]

    # MARK: Lines

    def expect_again(self, path):
        """What a file holds now must be stored once more."""
        self.ledger.add((self.folder / path).read_bytes().splitlines(True))

    def until_stored(self, seconds=40):
        """Waits until so many bytes are stored as are expected now."""
        byte_count = self.ledger.byte_count
        until(lambda: self.stored_byte_count() >= byte_count, seconds, f"{byte_count} bytes are stored")

    def stored_byte_count(self):
        time.sleep(0.05)
        paths = [*archive_files(self.site.data), *(self.site.data / "quarantine").rglob("*.ndjson")]
        return sum(path.stat().st_size for path in paths)

    def finish(self, twice_max=0, lost_bytes=(0,)):
        """Compares what is stored with the ledger: beyond it, so many lines may be there a second time."""
        self.until_stored()
        self.stop(lost_bytes)
        self.assertEqual(self.receiver.stop(), 0)
        comparison = self.ledger.compare(stored(self.site.data))
        self.assertEqual([comparison.lost, comparison.alien], [0, 0], str(comparison))
        self.assertLessEqual(comparison.twice, twice_max, str(comparison))
        return comparison.twice


class Program:
    """A program that logs some lines a second to a file that it holds open, as a server does."""

    def __init__(self, test, path, flags=os.O_APPEND):
        self.test, self.path, self.flags = test, test.folder / path, flags
        self.descriptor, self.lock, self.is_over = None, threading.RLock(), threading.Event()
        self.reopen()
        self.thread = threading.Thread(target=self.write)
        self.thread.start()
        test.addCleanup(self.stop)

    def write(self):
        while not self.is_over.wait(0.02):
            with self.lock:
                lines = self.test.maker.foreign(4)
                os.write(self.descriptor, b"".join(lines))
                self.test.ledger.add(lines)

    @contextlib.contextmanager
    def paused(self):
        """Meanwhile it writes nothing, and all that it wrote is stored."""
        with self.lock:
            self.test.until_stored()
            yield

    def reopen(self):
        """Opens the file under its name, as at SIGHUP."""
        with self.lock:
            if self.descriptor is not None:
                os.close(self.descriptor)
            self.descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | self.flags, 0o644)

    def stop(self):
        self.is_over.set()
        self.thread.join()
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def command(*words):
    """Runs a program that must succeed."""
    subprocess.run(list(map(str, words)), check=True, stdin=subprocess.DEVNULL, capture_output=True)
