"""A mount that does not answer: its files wait, all others are shipped, it is said, and nothing is lost or comes twice.

The mount is a FUSE file system whose server stops to answer on command.
"""

import json
import time

from fuse_folder import FuseFolder
from harness import failure, free_port, metric, page, patience, run, until
from test_agent import FOREIGN, AgentTest

# Within this time an agent that is not stopped by anything has ended.
ENDED = 2
HANGS = "a file system does not answer"
ANSWERS = "a file system answers again"


class HangingMountTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.receiver = self.site.receiver()
        self.far, self.target = self.site.root / "far", self.site.root / "mnt"
        self.far.mkdir()
        self.target.mkdir()
        self.mount = FuseFolder(self.far, self.target)
        self.addCleanup(self.mount.close)
        self.address = f"127.0.0.1:{free_port()}"

    def start(self, *arguments):
        agent = self.site.agent(
            "--glob", self.target / "*.json", "--glob", self.folder / "*.json", "--metrics", self.address, *FOREIGN,
            *arguments)
        agent.until_logged("connected")
        return agent

    def write(self, path, count=1):
        """Appends lines and returns when; a path on the mount is written behind it."""
        self.write_log(path, count)
        return time.monotonic()

    def delay(self):
        """How long a line takes in a file that does not hang."""
        count = self.stored_count()
        start = self.write(self.folder / "near.json")
        self.until_stored(count + 1)
        return time.monotonic() - start

    def status(self):
        return json.loads(page(self.address, "/status"))


class HangTests(HangingMountTest):
    def test_other_sources_go_on_and_everything_arrives_once(self):
        """During the hang lines elsewhere arrive as soon as before; status, log and metric say what hangs; then all comes."""
        agent = self.start()
        self.write(self.far / "far.json", 5)
        self.until_stored(5)
        usual = min(self.delay() for _ in range(3))
        self.mount.hang()
        self.write(self.far / "far.json", 5)
        self.write(self.far / "new.json", 5)
        agent.until_logged(HANGS)
        # Each look would take as long as the hang; the first call alone is waited for, which is over by now.
        self.assertLess(min(self.delay() for _ in range(3)), usual + 1)
        status = self.status()
        [wait] = status["hanging"]
        self.assertEqual([wait["path"], wait["files"], wait["sources"]], [str(self.target), 1, 1])
        self.assertTrue(any("do not answer" in problem for problem in status["problems"]), status["problems"])
        self.assertIn(f"{self.target} has not answered for", run("status", self.address).stdout.decode())
        self.assertEqual(metric(self.address, "waybill_agent_hanging_mounts"), [1])
        self.mount.go_on()
        self.until_stored(self.ledger.line_count)
        agent.until_logged(ANSWERS)
        until(lambda: metric(self.address, "waybill_agent_hanging_mounts") == [0], 20, "nothing hangs")
        self.assertEqual(agent.log().count(HANGS), 1, agent.log())
        self.assertEqual(self.status()["lost_bytes"], 0)
        self.assert_stored(self.receiver, agent)

    def test_files_behind_links_hang_too(self):
        """Where a link leads decides, not where it lies."""
        (self.folder / "far.json").symlink_to(self.target / "far.json")
        self.write(self.far / "far.json")
        agent = self.site.agent(
            "--glob", self.folder / "*.json", "--follow-links", "--metrics", self.address, *FOREIGN)
        self.until_stored(1)
        self.mount.hang()
        agent.until_logged(HANGS)
        self.delay()
        self.write(self.far / "far.json")
        self.mount.go_on()
        self.until_stored(self.ledger.line_count)
        self.assert_stored(self.receiver, agent)

    def test_stopping_does_not_wait(self):
        """SIGTERM ends an agent whose mount hangs; what waited is shipped by the next one."""
        agent = self.start()
        self.write(self.far / "far.json", 5)
        self.until_stored(5)
        self.mount.hang()
        self.write(self.far / "far.json", 5)
        agent.until_logged(HANGS)
        start = time.monotonic()
        self.assertEqual(agent.stop(), 0)
        self.assertLess(time.monotonic() - start, patience(ENDED))
        self.mount.go_on()
        agent = self.start()
        self.until_stored(self.ledger.line_count)
        self.assert_stored(self.receiver, agent)

    def test_a_start_during_the_hang(self):
        """An agent that is started while a mount hangs ships the rest, and takes nothing on the mount for gone."""
        agent = self.start()
        self.write(self.far / "far.json", 5)
        self.until_stored(5)
        self.assertEqual(agent.stop(), 0)
        self.mount.hang()
        agent = self.start()
        agent.until_logged(HANGS)
        self.delay()
        self.write(self.far / "far.json", 5)
        self.mount.go_on()
        self.until_stored(self.ledger.line_count)
        self.assertNotIn("WB2211", agent.log())
        self.assert_stored(self.receiver, agent)

    def test_once_says_that_it_could_not_read_all(self):
        """`--once` ships the rest, says what hangs, and ends with 66."""
        self.write(self.far / "far.json")
        self.mount.hang()
        self.write(self.folder / "near.json")
        self.assertIn(HANGS, failure(66, *self.site.agent_arguments(
            "--once", "--glob", self.target / "*.json", "--glob", self.folder / "*.json", *FOREIGN)))
        self.until_stored(1)

    def test_a_state_directory_that_hangs_is_said(self):
        """An agent whose own state lies on the mount does not start, and says why."""
        self.mount.hang()
        told = failure(74, "agent", "--state", self.target / "state", "--to", self.site.address, *self.globbing())
        self.assertIn(f"the file system at {self.target} does not answer", told)
