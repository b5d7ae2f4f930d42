"""Parts that close by age are compressed and sent, wherever the receiver is killed while it closes them."""

import json
import signal
import subprocess
import time
import unittest
import urllib.request

import faults
from faults import armed

from harness import SiteTest, binary, free_port, run, until
from ledger import EventMaker, exported_ids, whole
from providers import FalseProvider
from test_deliver import QUICK, deliver, environment

PART = "*/exports/mixpanel/*/part-?????"
# Each step of closing: the commit, the compressed file, the manifest, the other file's end, and the last commit.
STEPS = [
    f"1:{when}:{op}:{path}"
    for path, calls in (
        (PART + ".ndjson.gz.tmp", (("open", "after"), ("write", "half"), ("sync", "before"), ("rename", "before"), ("rename", "after"))),
        (PART + ".manifest.json.tmp", (("write", "half"), ("rename", "before"), ("rename", "after"))),
        (PART + ".ndjson", (("unlink", "before"), ("unlink", "after"))))
    for op, when in calls]


class ClosingTests(SiteTest):
    def setUp(self):
        faults.use_memory(self)
        super().setUp()
        self.maker, self.count = EventMaker(11), 0

    def configure(self, close_after, metrics=None):
        path = self.site.root / "receiver.yaml"
        path.write_text(
            f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n"
            + (f"  metrics: 127.0.0.1:{metrics}\n" if metrics else "")
            + f"  exports:\n    - {{provider: mixpanel{close_after}}}\n")
        return path

    def start(self, config, **variables):
        receiver = self.site.start(
            "receiver", "--config", config, log="receiver.log", env=armed(self.site.data, **variables) if variables else None)
        until(lambda: self.site.is_listening() or not receiver.is_running, 30, "the receiver listens")
        return receiver

    def ship(self, count=20):
        self.maker.segment(self.site.spool, self.maker.lines(count, env="prod", bundle="com.example.shop"))
        self.site.once()
        self.count += count

    def parts(self, pattern):
        return sorted((self.site.data / "exports/mixpanel").glob(f"env=prod/date=*/part-*{pattern}"))

    def closed(self):
        return sum(json.loads(path.read_text())["records"] for path in self.parts(".manifest.json"))

    def test_a_kill_at_each_step_of_closing_under_a_running_deliver(self):
        """Every record is sent once, by a deliver that never stops, and each part is there in one form."""
        server = FalseProvider("mixpanel", (), poison=False)
        self.addCleanup(server.close)
        config = self.configure(", close_after: 1s")
        receiver = self.start(config)
        self.ship()
        until(lambda: self.closed() == self.count, 20, "the first part is closed, by the time alone")
        self.assertEqual(receiver.stop(), 0)
        follower = subprocess.Popen(
            [binary(), "deliver", "--data", self.site.data, "--provider", "mixpanel", "--endpoint", server.address, "--follow",
             *QUICK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.addCleanup(follower.kill)
        missed = []
        for point in STEPS:
            with self.subTest(point):
                receiver = self.start(config, kill=point)
                self.ship()
                until(lambda: not receiver.is_running or self.closed() == self.count, 30, f"{point}: the part is closed, or it dies")
                if receiver.is_running:
                    missed.append(point)
                    receiver.stop()
                else:
                    self.assertEqual(receiver.wait(), -signal.SIGKILL)
                receiver = self.start(config)
                until(lambda: self.closed() == self.count, 30, f"{point}: the next start closes the part")
                self.assertEqual(receiver.stop(), 0)
                self.assertEqual(len(self.parts(".ndjson")), 0, f"{point}: left over")
                self.assertEqual([path.name for path in self.site.data.rglob("*.tmp")], [], f"{point}: left over")
        self.assertEqual(missed, [])
        until(lambda: len(server.taken) >= self.count, 60, "everything is sent")
        follower.terminate()
        output, errors = follower.communicate(timeout=30)
        summary = json.loads(output.splitlines()[-1])
        self.assertEqual((summary["outcome"], summary["sent"], summary["remaining"], summary["damaged_parts"], summary["open_records"]),
                         ("interrupted", self.count, 0, 0, 0), errors[-1500:])
        self.assertEqual((len(server.taken), set(server.taken.values())), (self.count, {1}))
        self.assertEqual(sum(exported_ids(self.site.data, "mixpanel").values()), self.count)
        records = sum(len(whole(path).splitlines()) for path in self.parts(".ndjson.gz"))
        self.assertEqual(records, self.count)
        verified = run("inspect", "--verify", self.site.data)
        self.assertEqual(verified.returncode, 0, verified.stdout)

    def test_deliver_and_the_receiver_say_how_much_waits_in_open_parts(self):
        """With the usual five minutes nothing is sent yet; the summary, the log and the metrics say so."""
        server = FalseProvider("mixpanel", (), poison=False)
        self.addCleanup(server.close)
        metrics = free_port()
        receiver = self.start(self.configure("", metrics))
        self.ship(30)

        def page():
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10) as answer:
                return dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))

        open_records, oldest = ('waybill_projection_%s{projection="mixpanel"}' % name for name in ("open_records", "oldest_open_seconds"))
        until(lambda: page().get(open_records) == "30", 30, "the metric counts the open part")
        self.assertLess(abs(time.time() - float(page()[oldest])), 120)
        result = deliver(self.site.data, "mixpanel", "--endpoint", server.address, *QUICK)
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual((summary["sent"], summary["remaining"], summary["open_records"]), (0, 0, 30))
        self.assertLess(summary["oldest_open_s"], 120)
        self.assertIn(b"records wait in open parts", result.stderr)
        self.assertEqual(receiver.stop(), 0)

    def test_what_close_after_may_be(self):
        """Off, or a whole number of seconds, minutes or hours up to a day; anything else is named with its line."""
        for value in ("off", "30s", "5m", "24h"):
            checked = run("check", self.configure(f", close_after: {value}"))
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        for value in ("5", "0s", "25h", "5 m", "on", "-1m", "1.5h"):
            checked = run("check", self.configure(f", close_after: {value}"))
            self.assertNotEqual(checked.returncode, 0, value)
            self.assertIn(b"close_after", checked.stdout + checked.stderr)
            self.assertIn(b"e.g. 5m", checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
