"""Nothing is set aside in silence: what the logs, the metrics, the summary and the exit code say about it."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import binary, free_port, run, samples, until
from test_agent import FOREIGN, AgentTest
from test_hostile_files import IS_ROOT, STRANGER

EXPORTS = "ga4,mixpanel,csv"


def entries(text):
    """The messages of a log, each with its fields."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def nginx(count, start=0):
    """Lines of a web server that knows no one."""
    return [
        json.dumps({"time": "2026-11-22T09:00:%02d+00:00" % (number % 60), "request": f"GET /{number}", "status": 200,
                    "addr": "203.0.113.9"}).encode() + b"\n"
        for number in range(start, start + count)
    ]


class SilenceTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.metrics = free_port()
        self.receiver = self.site.receiver("--metrics", f"127.0.0.1:{self.metrics}", exports=EXPORTS)

    def ship(self, *arguments, pattern="*"):
        """One run of an agent: its exit code, its summary, its log."""
        result = run(*self.site.agent_arguments("--once", *self.globbing(pattern), *arguments))
        return result.returncode, json.loads(result.stdout), entries(result.stderr.decode())

    def messages(self, beginning):
        """What the receiver has logged that begins so; shown with the test's output."""
        found = [entry["message"] for entry in entries(self.receiver.log()) if entry["message"].startswith(beginning)]
        for message in found:
            print(f"receiver: {message}")
        return found

    def value(self, name, **labels):
        found = samples(f"127.0.0.1:{self.metrics}", name).items()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return next((value for own, value in found if all(text in own for text in wanted)), None)


class ReceiverTests(SilenceTest):
    """What a receiver says."""

    def test_refused_events_are_told_with_their_app_share_and_remedy(self):
        """496 lines of nginx and the default exports: the log names provider, app, share, reason and remedy, once."""
        self.append("access.json", nginx(496))
        code, summary, log = self.ship()
        self.assertEqual([code, summary["quarantined_lines"]], [0, 0])
        self.assertGreaterEqual(summary["refused_events"], 496)
        told = [entry for entry in log if entry["message"].startswith("exports of the receiver refused events")]
        print(f"agent: {told}")
        self.assertIn("ga4.no_app_instance_id", [entry["reason"] for entry in told])
        refusals = until(lambda: self.value(
            "waybill_projection_lines_total", projection="ga4", outcome="refused", reason="ga4.no_app_instance_id"), 20)
        self.assertEqual(refusals, 496)
        self.receiver.until_logged("ga4 refused")
        # More of the same within the minute adds no line; the stop says what was not told.
        self.append("access.json", nginx(300, start=496))
        self.ship()
        until(lambda: self.value("waybill_projection_lines_total", projection="ga4", outcome="refused",
                                 reason="ga4.no_app_instance_id") == 796, 20)
        self.assertEqual(self.receiver.stop(), 0)
        told = self.messages("ga4 refused")
        self.assertEqual(len(told), 2, told)
        for message, count in zip(told, (496, 300)):
            self.assertTrue(message.startswith(
                f"ga4 refused {count} of {count} events of com.example.web (ga4.no_app_instance_id); GA4 takes only"))

    def test_quarantined_lines_are_told_at_both_ends(self):
        """24 of 37 lines are no events: receiver, agent, summary and metrics say so, with file and reason."""
        self.append("mixed.json", nginx(13) + [b"not json\n"] * 14 + [b"[1]\n"] * 10)
        code, summary, log = self.ship()
        self.assertEqual([code, summary["lines"], summary["quarantined_lines"]], [0, 37, 24])
        told = [entry for entry in log if entry["message"].startswith("the receiver put lines into its quarantine")]
        for entry in told:
            print(f"agent: {entry}")
        self.assertEqual(sum(entry["lines"] for entry in told), 24)
        self.assertEqual(until(lambda: self.value(
            "waybill_projection_lines_total", projection="archive", outcome="quarantined", reason="not-json"), 20), 14)
        self.assertEqual(self.receiver.stop(), 0)
        told = self.messages("quarantined")
        self.assertRegex(told[0], r"^quarantined 14 of 37 lines of stream \S+, source \S*mixed.json \(not-json\); each")
        self.assertRegex(told[1], r"^quarantined 10 of 37 lines of stream .* \(not-object\); ")


@unittest.skipUnless(IS_ROOT, "only root can start an agent as another user")
class PermissionTests(SilenceTest):
    """What an agent may not read."""

    def ship_as_stranger(self, *arguments):
        self.site.root.chmod(0o755)
        os.chown(self.folder, 0, 0)
        self.folder.chmod(0o755)
        state = self.site.root / "other-state"
        state.mkdir()
        os.chown(state, STRANGER, STRANGER)
        try:
            result = subprocess.run(
                [binary(), "agent", "--state", state, "--to", self.site.address, "--once", *map(str, arguments), *FOREIGN],
                user=STRANGER, group=STRANGER, extra_groups=[], check=False, capture_output=True, timeout=60)
        except PermissionError:
            raise unittest.SkipTest("other users cannot start the program where it was built") from None
        return result.returncode, json.loads(result.stdout), result.stderr.decode()

    def test_a_file_that_cannot_be_read_is_counted_and_ends_with_66(self):
        self.append("open.json", nginx(5))
        self.append("secret.json", nginx(5))
        (self.folder / "secret.json").chmod(0o600)
        (self.folder / "open.json").chmod(0o644)
        code, summary, log = self.ship_as_stranger("--glob", self.folder / "*.json")
        print(f"agent: {log.splitlines()[-1]}")
        self.assertEqual([code, summary["lines"], summary["unreadable_files"]], [66, 5, 1])
        self.assertIn("secret.json", log)
        self.assertIn("1 files or folders could not be read", log)

    def test_a_folder_that_may_not_be_read_has_a_message_of_its_own(self):
        self.append("open.json", nginx(5))
        (self.folder / "open.json").chmod(0o644)
        closed = self.folder / "closed"
        closed.mkdir(mode=0o700)
        code, summary, log = self.ship_as_stranger("--glob", self.folder / "*.json", "--glob", closed / "*.json")
        self.assertEqual([code, summary["lines"], summary["unreadable_files"]], [66, 5, 1])
        self.assertNotIn("max_user_watches", log)
        told = [entry for entry in entries(log) if entry["message"].startswith("folders may not be read")]
        print(f"agent: {told}")
        self.assertEqual([entry["first"] for entry in told], [str(closed)])


class EndlessLineTests(SilenceTest):
    """A line without an end."""

    SIZE = 300 << 20

    def test_its_copy_is_bounded_and_it_is_reported_while_it_grows(self):
        self.append("endless.json", nginx(3) + [b"x" * self.SIZE])
        agent = self.site.agent(*self.globbing())
        agent.until_logged("is too long and has no end yet", 60)
        until(lambda: any(entry["bytes"] >= 256 << 20 for entry in entries(agent.log())
                          if entry["message"].startswith("a line is too long and has no end yet")), 60)
        copies = list((self.site.state / "quarantine").iterdir())
        self.assertEqual([copy.stat().st_size for copy in copies], [128 << 20])
        self.append("endless.json", [b"\n", *nginx(2)])
        self.until_stored(5)
        told = [entry for entry in entries(agent.log()) if "too long" in entry["message"]]
        for entry in told:
            print(f"agent: {entry}")
        self.assertLessEqual(len(told), 6)
        self.assertEqual(told[-1]["kept_bytes"], 128 << 20)
        self.assertEqual(agent.stop(), 0)

    def test_lengths_that_no_disk_has_end_no_agent(self):
        """Sparse files take no room, and the sum of two lengths may be more than a number holds."""
        folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.addCleanup(shutil.rmtree, folder)
        for name in ("a.json", "b.json"):
            (folder / name).write_bytes(b"".join(nginx(1)))
            with contextlib.suppress(OSError):  # Few file systems have such lengths.
                os.truncate(folder / name, (1 << 63) - 1)
        self.receiver.kill()
        agent = self.site.agent("--glob", f"{folder}/*.json", *FOREIGN)
        # An agent without a receiver says how much waits.
        agent.until_logged("waiting_bytes", 60)
        self.assertTrue(agent.is_running)
        agent.stop()
