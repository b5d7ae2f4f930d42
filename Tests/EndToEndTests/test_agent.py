"""What an agent ships, keeps and gives up: spools, foreign files, odd lines, and how it ends."""

import fcntl
import json
import os
import shutil
import signal
import socket
import time
import zlib

from harness import ended, failure, patience, run, succeed, until
from ledger import Ledger, LedgerTest, archived

FOREIGN = ["--env", "prod", "--bundle", "com.example.web"]


class AgentTest(LedgerTest):
    def setUp(self):
        super().setUp()
        self.folder = self.site.root / "log"
        self.folder.mkdir()

    def globbing(self, pattern="*.json"):
        return ["--glob", self.folder / pattern, *FOREIGN]

    def append(self, name, lines):
        with open(self.folder / name, "ab") as file:
            file.write(b"".join(lines))

    def write(self, name, count):
        """Appends so many lines to a log, each of which must be stored once."""
        return self.write_log(self.folder / name, count)


class OnceTests(AgentTest):
    """`--once`: ship, wait, say what was done, leave."""

    def test_the_summary_counts_what_was_shipped(self):
        """The one line of JSON names streams, bytes, lines, batches, wire bytes and seconds, and the exit code is 0."""
        receiver = self.site.receiver()
        self.maker.spool(self.site.spool, self.ledger, 3_000_000)
        segments = len(list(self.site.spool.glob("*.ndjson")))
        summary = self.site.once()
        self.assertEqual(
            [summary["streams"], summary["bytes"], summary["lines"], summary["sealed"], summary["held_bytes"]],
            [segments, self.ledger.byte_count, self.ledger.line_count, segments, 0])
        self.assertGreaterEqual(summary["batches"], segments)
        self.assertTrue(0 < summary["wire_bytes"] < summary["bytes"])
        self.assertGreater(summary["seconds"], 0)
        self.assert_stored(receiver)

    def test_a_lost_registry_repeats_nothing(self):
        """Without its registry the agent asks the receiver, and no line of a foreign file comes twice."""
        receiver = self.site.receiver()
        self.write("web.json", 300)
        self.site.once(*self.globbing())
        shutil.rmtree(self.site.state)
        self.write("web.json", 200)
        self.assertEqual(self.site.once(*self.globbing())["lines"], 200)
        self.assert_stored(receiver)

    def test_a_damaged_registry_is_told_in_words(self):
        """A torn end and an entry that says nothing: counted and named, and nothing is shipped again (T17)."""
        receiver = self.site.receiver()
        self.write("web.json", 50)
        self.site.once(*self.globbing())
        entry = b"+ a-stream what no one reads\n"
        with open(self.site.state / "registry.state", "ab") as registry:
            registry.write(entry + b"= 1 %08x\n+ torn" % zlib.crc32(entry))
        result = run(*self.site.agent_arguments("--once", *self.globbing()))
        self.assertEqual((result.returncode, json.loads(result.stdout)["bytes"]), (0, 0))
        told = {entry["message"].split(";")[0]: entry for entry in map(json.loads, result.stderr.splitlines())}
        self.assertEqual(told["agent started"]["registry_entries"], 3)
        self.assertEqual(told["registry: parts of it could not be read"]["found"],
                         "6 bytes of the checkpoint hold no whole commit and are left out")
        unread = told["registry: entries that cannot be read are left out"]
        self.assertEqual((unread["entries"], unread["first"]), (1, "a-stream"))
        self.assert_stored(receiver)

    def test_an_unreachable_receiver_ends_with_69(self):
        """No one listening, or someone who says nothing: exit 69 within the patience, and nothing is deleted."""
        self.maker.spool(self.site.spool, self.ledger, 100_000)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            for port in (self.site.port, silent.getsockname()[1]):
                started = time.monotonic()
                result = ended(
                    69, "agent", "--state", self.site.state, "--to", f"127.0.0.1:{port}", "--spool", self.site.spool,
                    "--once", "--patience", "2")
                self.assertLess(time.monotonic() - started, patience(8))
                self.assertEqual(json.loads(result.stdout)["lines"], 0)
                self.assertIn(b"nothing is lost", result.stderr)
        receiver = self.site.receiver()
        self.site.once()
        self.assert_stored(receiver)

    def test_an_interrupted_run_ends_with_75(self):
        """SIGTERM or SIGINT before all is shipped: exit 75 and the summary; the next run ships it."""
        self.maker.spool(self.site.spool, self.ledger, 50_000)
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.site.start(
                *self.site.agent_arguments("--once", "--patience", "600"), log=f"once-{number}.log")
            process.until_logged("not connected")
            process.child.send_signal(number)
            self.assertEqual(process.wait(), 75, process.log()[-500:])
            self.assertIn("WB4014", process.log())
            summary = next(line for line in process.log().splitlines() if line.startswith('{"streams"'))
            self.assertEqual(json.loads(summary)["lines"], 0)
        receiver = self.site.receiver()
        self.site.once()
        self.assert_stored(receiver)

    def test_usage_errors_end_with_64(self):
        """No receiver, no source, a foreign glob without its environment, a bad name: usage."""
        state = ["agent", "--state", self.site.state, "--once"]
        for arguments in (
                [*state, "--spool", self.site.spool],
                [*state, "--to", self.site.address],
                [*state, "--to", self.site.address, "--glob", "/nowhere/*.json"],
                [*state, "--to", "nowhere", "--spool", self.site.spool],
                [*state, "--to", self.site.address, "--spool", self.site.spool, "--name", "a b"]):
            self.assertEqual(run(*arguments).returncode, 64, arguments)

    def test_a_second_agent_on_one_state_is_refused(self):
        """The state directory is locked: the second agent ends with 75 and a reason."""
        self.site.receiver()
        first = self.site.agent()
        first.until_logged("connected")
        self.assertIn("state directory", failure(75, *self.site.agent_arguments("--once")))
        self.assertTrue(first.is_running)


class RestTests(AgentTest):
    """What an agent does when there is nothing to do."""

    def test_unfinished_lines_cost_nothing(self):
        """Forty files that end in half a line leave the agent asleep."""
        self.site.receiver()
        folder = self.site.root / "half"
        folder.mkdir()
        files = [folder / f"{number}.json" for number in range(40)]
        for file in files:
            file.write_bytes(b'{"ts":"2026-11-20T09:14:15.926Z","name":"whole"}\n')
        agent = self.site.agent("--glob", folder / "*.json", "--env", "dev", "--bundle", "half")
        self.until_stored(40)
        for file in files:
            with open(file, "ab") as half:
                half.write(b'{"half":')

        def ticks():
            with open(f"/proc/{agent.child.pid}/stat") as stat:
                return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))

        def is_quiet():
            before, deadline = ticks(), time.monotonic() + 1
            while time.monotonic() < deadline:
                time.sleep(0.1)
            return ticks() - before <= 5

        until(is_quiet, 15, "the agent sleeps")


class SpoolTests(AgentTest):
    """Client segments."""

    def test_a_stop_drains(self):
        """SIGTERM ships what is there, deletes it, and leaves with 0."""
        receiver = self.site.receiver()
        agent = self.site.agent()
        agent.until_logged("connected")
        self.maker.spool(self.site.spool, self.ledger, 5_000_000)
        self.assertEqual(agent.stop(30), 0)
        self.assertEqual(list(self.site.spool.iterdir()), [])
        self.assert_stored(receiver)

    def test_a_stop_without_receiver_keeps_everything(self):
        """SIGTERM with no one to ship to ends soon and deletes nothing."""
        self.maker.spool(self.site.spool, self.ledger, 300_000)
        before = {path.name: path.read_bytes() for path in self.site.spool.iterdir()}
        agent = self.site.agent()
        agent.until_logged("agent started")
        agent.stop(20)
        self.assertEqual({path.name: path.read_bytes() for path in self.site.spool.iterdir()}, before)

    def test_nothing_unacknowledged_is_deleted(self):
        """While the receiver is stopped in mid-drain, every line is in the archive or still in the spool."""
        receiver = self.site.receiver()
        self.maker.spool(self.site.spool, self.ledger, 30_000_000)
        agent = self.site.agent()
        journal = self.site.data / "journal"
        until(lambda: sum(path.stat().st_size for path in journal.iterdir()) > 200_000, 60, "the drain has begun")
        receiver.kill()
        agent.kill()
        left = [line for path in self.site.spool.glob("*.ndjson") for line in path.read_bytes().splitlines(True)]
        receiver = self.site.receiver()
        self.assertEqual(receiver.stop(), 0)
        kept = Ledger()
        kept.add(left)
        kept.add(archived(self.site.data))
        missing = [digest for digest in self.ledger.counts if digest not in kept.counts]
        self.assertEqual(len(missing), 0)
        receiver = self.site.receiver()
        self.site.once()
        self.assert_stored(receiver)

    def test_a_spool_that_is_a_file_is_named_and_the_other_goes_on(self):
        """A spool that is no folder is logged with its path, and the other spool is shipped."""
        receiver = self.site.receiver()
        wrong = self.site.root / "not-a-folder"
        wrong.write_text("hello\n")
        self.maker.spool(self.site.spool, self.ledger, 50_000)
        result = succeed(*self.site.agent_arguments("--once", "--spool", wrong, "--spool", self.site.spool))
        self.assertIn(b"not-a-folder", result.stderr)
        self.assertEqual(wrong.read_text(), "hello\n")
        self.assert_stored(receiver)


class ForeignFileTests(AgentTest):
    """NDJSON that other programs write."""

    def test_memory_stays_small_for_an_endless_line(self):
        """A line of 64 MiB costs the agent no memory to speak of."""
        self.site.receiver()
        with open(self.folder / "web.json", "wb") as file:
            for _ in range(64):
                file.write(b"y" * (1 << 20))
            file.write(b"\n")
        agent = self.site.agent(*self.globbing())
        agent.until_logged("too long", 60)
        self.assertLess(agent.resident_mebibytes(), 100)

    def test_what_is_no_regular_file_is_passed_over(self):
        """A folder, a FIFO and a dangling link that match the pattern neither block nor end the agent."""
        receiver = self.site.receiver()
        os.mkdir(self.folder / "a.json")
        os.mkfifo(self.folder / "b.json")
        os.symlink("/nowhere", self.folder / "c.json")
        self.write("d.json", 10)
        self.site.once(*self.globbing(), timeout=40)
        self.assert_stored(receiver)


class NameTests(AgentTest):
    """The state keeps the agent's name, which begins the ids of its logs."""

    def ship(self, *arguments):
        result = run(*self.site.agent_arguments("--once", *self.globbing(), *arguments))
        return result.returncode, result.stderr.decode()

    def grow(self):
        return self.write("web.json", 20)

    @property
    def name(self):
        return (self.site.state / "name").read_text().split(" ")[0]

    def test_another_name_over_logs_is_refused_until_it_is_accepted(self):
        """WB4015 and exit 78, nothing shipped; back to the name all continues; accepted, every log comes again whole."""
        receiver = self.site.receiver()
        first = self.grow()
        self.assertEqual(self.ship("--name", "one")[0], 0)
        self.assertEqual(self.name, "one")
        second = self.grow()
        for arguments in (["--name", "two"], ["--name", "two", "--renamed-from", "three"]):
            code, log = self.ship(*arguments)
            self.assertEqual(code, 78, log)
            for word in ("WB4015", "two", "1 logs under one", "--renamed-from one"):
                self.assertIn(word, log)
            self.assertNotIn("WB221", log)
        self.assertEqual(self.ship("--name", "one")[0], 0)
        self.until_stored(40)
        code, log = self.ship("--name", "two", "--renamed-from", "one")
        self.assertEqual(code, 0, log)
        self.assertIn("every log is shipped again", log)
        self.assertNotIn("WB221", log)
        self.assertEqual(self.name, "two")
        self.ledger.add(first + second)
        # It does nothing from now on.
        self.assertEqual(self.ship("--name", "two", "--renamed-from", "one")[0], 0)
        self.assertEqual(self.ship("--name", "one")[0], 78)
        self.assert_stored(receiver)

    def test_a_name_that_is_not_configured_stays_the_state_s(self):
        """A machine with another id or name continues where it was, and says so."""
        receiver = self.site.receiver()
        self.grow()
        self.assertEqual(self.ship("--name", "machine-1")[0], 0)
        self.grow()
        code, log = self.ship()
        self.assertEqual(code, 0, log)
        self.assertIn("continues under the name of its state", log)
        self.assertEqual(self.name, "machine-1")
        self.assert_stored(receiver)

    @staticmethod
    def flip(path):
        """Another name, by one bit."""
        path.write_bytes(b"\x6e" + path.read_bytes()[1:])

    def test_a_state_without_its_name_has_it_in_its_logs(self):
        """As a state of a version that wrote no name, and one whose file is damaged."""
        receiver = self.site.receiver()
        self.grow()
        self.assertEqual(self.ship("--name", "one")[0], 0)
        for damage in (lambda path: path.unlink(missing_ok=True), lambda path: path.write_bytes(b"\xff\n"),
                       lambda path: path.write_bytes(b""), self.flip):
            damage(self.site.state / "name")
            self.assertEqual(self.ship("--name", "two")[0], 78)
            damage(self.site.state / "name")
            self.grow()
            self.assertEqual(self.ship()[0], 0)
            self.assertEqual(self.name, "one")
        self.assert_stored(receiver)

    def test_spools_alone_go_on_under_any_name(self):
        """The ids of segments have no agent's name: nothing is refused, and nothing comes twice."""
        receiver = self.site.receiver()
        writer = self.maker.writer()
        path = self.maker.segment(self.site.spool, self.maker.lines(20), writer, 1, self.ledger)
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            self.site.once("--name", "one")
            self.assertEqual(self.site.once("--name", "two")["lines"], 0)
        self.assertEqual(self.name, "two")
        self.site.once("--name", "three")
        self.assertEqual(list(self.site.spool.iterdir()), [])
        self.assert_stored(receiver)
