"""What bounds an agent: descriptors, watches, memory, its registry. Beyond a bound only time is lost."""

import os
import pathlib
import re
import resource
import signal
import subprocess
import time

from harness import Process, binary, free_port, metric, until
from ledger import archive_files, stored
from test_agent import AgentTest

MEBIBYTE = 1 << 20


class LimitTest(AgentTest):
    def write(self, name, lines):
        self.ledger.add(lines)
        self.append(name, lines)

    @staticmethod
    def read_bytes(process):
        """How many bytes the process has read by system calls."""
        return int(re.search(r"rchar: (\d+)", pathlib.Path(f"/proc/{process.child.pid}/io").read_text())[1])

    def registry_entries(self):
        """The keys that the registry's commits add up to (Protocol/formats/state.md); `None` while it is replaced."""
        keys = set()
        try:
            text = (self.site.state / "registry.state").read_text(errors="replace")
        except FileNotFoundError:
            return None
        for line in text.splitlines():
            if line.startswith("+ "):
                keys.add(line.split(" ")[1])
            elif line.startswith("- "):
                keys.discard(line.split(" ")[1])
        # The others are receivers.
        return {key for key in keys if not key.startswith("@")}

    def until_stored_bytes(self, seconds=60):
        until(lambda: sum(path.stat().st_size for path in archive_files(self.site.data)) >= self.ledger.byte_count,
              seconds, "every byte is archived")


class DescriptorTests(LimitTest):
    """More files than may be open."""

    FILES = 700

    def open_count(self, agent):
        return sum(f"{self.folder}/" in path for path in agent.open_files())

    def test_files_closed_and_opened_again_while_acknowledgements_are_slow(self):
        """700 files with new lines again and again, behind a receiver that mostly hangs, lose no line (T23)."""
        receiver = self.site.receiver()
        agent = self.site.agent(*self.globbing())
        agent.until_logged("connected")
        peak = 0
        for _ in range(4):
            receiver.child.send_signal(signal.SIGSTOP)
            for number in range(self.FILES):
                self.write(f"web-{number}.json", self.maker.foreign(2))
            until(lambda: self.open_count(agent) > 400, 30, "the agent holds as many files as it may")
            receiver.child.send_signal(signal.SIGCONT)
            time.sleep(0.05)
            peak = max(peak, self.open_count(agent))
        self.until_stored_bytes()
        self.assertLessEqual(peak, 512)
        self.assertGreater(peak, 400, "the limit was not reached")
        self.assert_stored(receiver, agent)

    def limited_agent(self, soft, hard=None):
        """An agent that may have so many files open."""
        limit = ["prlimit", f"--nofile={soft}:{hard or soft}"]
        return self.site.start(*self.site.agent_arguments(*self.globbing()), log="agent.log", within=limit)

    def test_the_soft_limit_is_raised(self):
        """A low soft limit means nothing where the hard one allows more."""
        self.site.receiver()
        agent = self.limited_agent(64, 4096)
        agent.until_logged("connected")
        self.assertEqual(resource.prlimit(agent.child.pid, resource.RLIMIT_NOFILE), (4096, 4096))

    def test_fewer_than_24_descriptors_are_refused(self):
        """The agent ends with 78 and says what to raise."""
        agent = self.limited_agent(23)
        self.assertEqual(agent.wait(), 78, agent.log())
        self.assertIn("may have 23 files open, and needs 24; raise its hard limit", agent.log())

    def test_unread_files_that_are_deleted_beyond_the_limit_are_counted(self):
        """Of 700 unread files that are deleted, those that were open arrive, and the others are counted (T20, T23)."""
        receiver = self.site.receiver()
        address = f"127.0.0.1:{free_port()}"
        agent = self.site.agent(*self.globbing(), "--metrics", address)
        agent.until_logged("connected")
        receiver.child.send_signal(signal.SIGSTOP)
        for number in range(self.FILES):
            self.write(f"web-{number}.json", self.maker.foreign(2))
        until(lambda: self.open_count(agent) == 512, 30, "as many files are open as may be")
        # A scan has seen them all when every descriptor is taken; the rest is named by its path.
        until(lambda: len(self.registry_entries() or ()) == self.FILES, 30, "the agent has seen every file")
        for number in range(self.FILES):
            os.unlink(self.folder / f"web-{number}.json")
        # Only the receiver knows where each ended.
        receiver.child.send_signal(signal.SIGCONT)
        # A file that was read whole may have made room for another one meanwhile.
        def settled():
            return sum(map(len, stored(self.site.data))) + sum(metric(address, "waybill_agent_lost_bytes_total"))
        until(lambda: settled() == self.ledger.byte_count, 30, "what is gone is counted")
        self.stop_all(agent, receiver)
        told = [entry for entry in agent.entries() if entry.get("id") == "WB2211"]
        gone = sum(entry.get("repeated", 1) for entry in told)
        self.assertGreater(gone, 1)
        self.assertEqual(len(told), 2, "one line at once, and one for all others")
        comparison = self.ledger.compare(stored(self.site.data))
        self.assertEqual([comparison.lost, comparison.twice, comparison.alien], [2 * gone, 0, 0])
        summary = next(entry["summary"] for entry in reversed(agent.entries()) if "summary" in entry)
        kept = sum(map(len, stored(self.site.data)))
        self.assertEqual(summary["lost_bytes"], self.ledger.byte_count - kept)
        self.assertEqual(told[-1]["lost_bytes_total"], summary["lost_bytes"])


class LineTests(LimitTest):
    """Lines of every length and kind."""

    def test_lines_from_64_kibibytes_to_100_mebibytes(self):
        """Each line up to the limit arrives, each longer one is kept aside, the next one is intact, memory is flat (T25)."""
        receiver = self.site.receiver()
        too_long = []
        fillers = (b"y", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", "토".encode())
        sizes = (64 << 10, MEBIBYTE - 1, MEBIBYTE, MEBIBYTE + 1, 2 * MEBIBYTE, 100 * MEBIBYTE)
        for number, (size, filler) in enumerate(zip(sizes, fillers)):
            for ending in (b"\n", b"\r\n"):
                if size == 100 * MEBIBYTE and ending == b"\r\n":
                    continue
                line = self.line_of(size, filler, ending)
                if size > MEBIBYTE:
                    too_long.append(line)
                    self.append("web.json", [line])
                else:
                    self.write("web.json", [line])
                self.write("web.json", self.maker.foreign(1))
        agent = self.site.agent(*self.globbing())
        self.until_stored_bytes_anywhere()
        peak = agent.peak_mebibytes()
        self.assertEqual(agent.stop(), 0)
        self.assertLess(peak, 64)
        kept = {path.read_bytes() for path in (self.site.state / "quarantine").iterdir()}
        self.assertEqual(kept, set(too_long))
        self.assert_stored(receiver)

    @staticmethod
    def line_of(size, filler, ending):
        start = b'{"time":"2026-11-20T00:00:00.000Z","x":"'
        rest = size - len(start) - len(ending) - 2
        return start + (filler * (rest // len(filler) + 1))[:rest] + b'"}' + ending

    def until_stored_bytes_anywhere(self):
        until(lambda: sum(path.stat().st_size for top in ("archive", "quarantine")
                          for path in (self.site.data / top).rglob("*.ndjson")) >= self.ledger.byte_count,
              60, "every byte is stored")


class LimitedProcess(Process):
    """An agent in a user namespace with its own limits of inotify."""

    def __init__(self, arguments, log, limits):
        script = "".join(f"echo {value} > /proc/sys/user/{name} && " for name, value in limits.items()) + 'exec "$@"'
        self.log_path, self.log_start = pathlib.Path(log), 0
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", binary(), *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)


class WatchTests(LimitTest):
    """inotify with little to give."""

    def limited_agent(self, *arguments, **limits):
        probe = subprocess.run(
            ["unshare", "--user", "--map-root-user", "sh", "-c", "echo 1 > /proc/sys/user/max_inotify_watches"],
            check=False, capture_output=True)
        if probe.returncode:
            self.skipTest("this machine lets no one make a user namespace with limits of its own")
        agent = LimitedProcess(self.site.agent_arguments(*arguments), self.site.logs / "agent.log", limits)
        self.site.processes.append(agent)
        return agent

    def check(self, **limits):
        receiver = self.site.receiver()
        folders = [self.folder / str(number) for number in range(4)]
        for folder in folders:
            folder.mkdir()
        agent = self.limited_agent(
            "--glob", self.folder / "*" / "*.json", "--env", "prod", "--bundle", "com.example.web", **limits)
        agent.until_logged("connected")
        agent.until_logged("folders cannot be watched")
        for turn in range(2):
            for folder in folders:
                self.write(folder / "web.json", self.maker.foreign(10))
            self.write(folders[0] / f"{turn}.json", self.maker.foreign(10))
            self.until_stored_bytes()
        self.assert_stored(receiver, agent)

    def test_one_watch_for_many_folders(self):
        """With a single watch to be had the agent says that it polls, and every line arrives (T26)."""
        self.check(max_inotify_watches=1)

    def test_no_inotify_at_all(self):
        """Without any inotify instance the agent says that it polls, and every line arrives (T26)."""
        self.check(max_inotify_instances=0)

    def test_a_queue_that_overflowed(self):
        """More events than the kernel keeps, while the agent was stopped, cost no line (T26)."""
        receiver = self.site.receiver()
        agent = self.site.agent(*self.globbing())
        self.write("a.json", self.maker.foreign(1))
        self.until_stored_bytes()
        agent.child.send_signal(signal.SIGSTOP)
        queue = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        # Equal events in a row are one; these alternate. The names do not match, so that only the events count.
        names = [os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("x", "y")]
        for number in range(min(queue, 100_000) + 1000):
            os.write(names[number % 2], b".")
        for name in names:
            os.close(name)
        self.write("a.json", self.maker.foreign(10))
        self.write("new.json", self.maker.foreign(10))
        agent.child.send_signal(signal.SIGCONT)
        self.until_stored_bytes()
        self.assert_stored(receiver, agent)
