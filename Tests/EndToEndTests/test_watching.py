"""How soon an agent sees a change, wherever it happens: replaced folders, links, new folders, file systems without hints.

Without a hint the next look may be five seconds away. A hint takes milliseconds. Delays are compared with the former, and
as medians: a machine that is a hundred times slower passes.

`WAYBILL_THOROUGH=1` uses 12,000 links instead of 300.
"""

import os
import shutil
import statistics
import subprocess
import time
import unittest

from harness import patience, until
from scale import THOROUGH
from test_agent import FOREIGN, AgentTest

# Much more than a hint takes, and much less than the pause between two looks.
SOON = 2


class WatchingTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.receiver = self.site.receiver()

    def start(self, *arguments):
        agent = self.site.agent(*arguments, *FOREIGN)
        agent.until_logged("connected")
        return agent

    def write(self, path, count=1):
        """Appends lines; returns when they were written."""
        self.write_log(self.folder / path, count)
        return time.monotonic()

    def delay(self, path):
        """How long a line takes that is written now."""
        start = self.write(path)
        self.until_stored()
        return time.monotonic() - start

    def mount(self, kind, options, folder):
        """Mounts on a folder that exists; skips the test where that is not allowed."""
        result = subprocess.run(
            ["mount", "-t", kind, "-o", options, "none", str(folder)], check=False, capture_output=True)
        if result.returncode != 0:
            raise unittest.SkipTest(f"this machine lets no one mount: {result.stderr.decode().strip()}")
        self.site.mounts.append(str(folder))

    def finish(self, agent):
        self.until_stored()
        self.assert_stored(self.receiver, agent)


class ReplacedFolderTests(WatchingTest):
    """The folder of a pattern becomes another one."""

    ROTATIONS = 6

    def check(self, replace):
        """Lines are seen at once before and after the folder is replaced, through rotations by rename."""
        for release in ("1", "2"):
            (self.folder / release / "log").mkdir(parents=True)
        os.symlink("1", self.folder / "current")
        logs = self.folder / "current" / "log"
        agent = self.start("--glob", logs / "web.json")
        self.write(logs / "web.json")
        self.until_stored()
        replace(logs)
        # Whatever the agent makes of the other folder, it knows its file when this line is there.
        self.write(logs / "web.json")
        self.until_stored()
        delays = []
        for number in range(self.ROTATIONS):
            delays.append(self.delay(logs / "web.json"))
            os.rename(logs / "web.json", logs / f"web.json.{number}")
            delays.append(self.delay(logs / "web.json"))
        self.assertLess(statistics.median(delays), SOON, delays)
        self.finish(agent)

    def test_renamed_away_and_made_again(self):
        def replace(logs):
            os.rename(logs, f"{logs}.old")
            logs.mkdir()
        self.check(replace)

    def test_mounted_over(self):
        self.check(lambda logs: self.mount("tmpfs", "size=1m", logs))


class LinkTests(WatchingTest):
    """Links as Kubernetes has them: `containers/x.log` to `pods/x/0.log`."""

    COUNT = 12_000 if THOROUGH else 300

    def pod(self, name):
        """Makes a pod with an empty log and its link; returns the log."""
        log = self.folder / "pods" / name / "0.log"
        log.parent.mkdir(parents=True)
        log.touch()
        os.symlink(f"../pods/{name}/0.log", self.folder / "containers" / f"{name}.log")
        return log

    def follow(self):
        return self.start("--glob", self.folder / "containers" / "*.log", "--follow-links")

    def setUp(self):
        super().setUp()
        (self.folder / "containers").mkdir()

    def test_twenty_rotations_behind_links(self):
        """No line is lost when the file behind a link is rotated each half second."""
        log = self.pod("web")
        agent = self.follow()
        self.write(log)
        self.until_stored()
        start = time.monotonic()
        for number in range(20):
            rotation = time.monotonic()
            while time.monotonic() < rotation + 0.5:
                self.write(log, 5)
                time.sleep(0.05)
            # A file that lived and went while the machine ran something else could not be seen by anybody.
            until(lambda: str(log) in agent.open_files(), 20, "the agent has the file")
            os.rename(log, f"{log}.{number}")
            log.touch()
        self.assertLess(time.monotonic() - start, patience(15))
        self.finish(agent)


class NewFolderTests(WatchingTest):
    """Folders that come and go."""

    def test_forty_folders_that_live_for_two_and_a_half_seconds(self):
        """Pods of jobs, with a file that is there from the first moment: nothing is lost."""
        agent = self.start("--glob", self.folder / "*" / "0.log")
        delays, folders = [], []
        for number in range(40):
            folder = self.folder / f"job-{number}"
            folder.mkdir()
            folders.append((time.monotonic(), folder))
            # Each file is its own wait: what is measured is one folder.
            delays.append(self.delay(folder / "0.log"))
            self.write(folder / "0.log", 10)
        self.until_stored()
        self.assertLess(statistics.median(delays), SOON, delays)
        for born, folder in folders:
            time.sleep(max(0, born + 2.5 - time.monotonic()))
            shutil.rmtree(folder)
        self.finish(agent)


class BlindTests(WatchingTest):
    """Changes of which the system reports nothing."""

    def test_an_overlay_that_is_written_below(self):
        """A file system that others write to is polled, and the log says so."""
        top = self.site.mount("overlay", "8m")
        for name in ("lower", "upper", "work", "merged"):
            (top / name).mkdir()
        (top / "upper" / "web.json").touch()
        self.mount(
            "overlay", f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work", top / "merged")
        agent = self.start("--glob", top / "merged" / "*.json")
        agent.until_logged("folders are polled")
        # Rests longer than a look at everything would, if it were thought complete.
        delays = [self.delay(top / "upper" / "web.json") for _ in range(7)]
        self.assertLess(statistics.median(delays), SOON, delays)
        self.finish(agent)

    def test_a_source_that_is_polled_by_configuration(self):
        """`--poll` looks twice a second, and ships as without it."""
        agent = self.start("--glob", self.folder / "*.json", "--poll")
        delays = [self.delay(self.folder / "web.json") for _ in range(7)]
        self.assertLess(statistics.median(delays), SOON, delays)
        self.finish(agent)
