"""The ground that a receiver stands on gives way: its files are taken away, its clock is wrong, its disk is full, its
command line is lost.

The names of the tests are those of the findings.
"""

import json
import shutil
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

from harness import binary, free_port, metric, patience, run, until
from ledger import LedgerTest, quarantined, stored
from scale import at_night
from test_load import CLOCK
from wire import Peer

STREAM = "ground-stream"
DAY = 86_400
# A library that changes the environment before the program begins, as those that fake a clock do.
LOST = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void begin(void) {
    char name[32];
    for (int number = 0; number < 64; number++) {
        snprintf(name, sizeof name, "ADDED_%d", number);
        setenv(name, "1", 1);
    }
}
"""


class GroundTest(LedgerTest):
    def setUp(self):
        super().setUp()
        self.metrics = f"127.0.0.1:{free_port()}"

    def compiled(self, name, source):
        """A library for LD_PRELOAD."""
        compiler = shutil.which("cc") or shutil.which("clang")
        if not compiler:
            self.skipTest("there is no C compiler")
        path, library = self.site.root / f"{name}.c", self.site.root / f"{name}.so"
        path.write_text(source)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, path, "-ldl"], check=True)
        return library

    def readiness(self):
        """The status of `GET /readyz`, and its text."""
        try:
            with urllib.request.urlopen(f"http://{self.metrics}/readyz", timeout=patience(10)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()

    def until_stored(self, count):
        until(lambda: sum(1 for _ in stored(self.site.data)) >= count, 30, f"{count} lines are stored")


class LossTests(GroundTest):
    """Files of the data directory are taken away while the receiver runs."""

    def begin(self):
        """A receiver that has acknowledged lines, and a peer connected to it."""
        self.receiver = self.site.receiver("--metrics", self.metrics, exports="csv")
        self.peer = Peer(self.site.port)
        self.addCleanup(self.peer.close)
        self.assertTrue(self.peer.hello().startswith("READY "))
        self.assertTrue(self.peer.open(STREAM).startswith("AT 1 0"))
        self.offset = 0
        for _ in range(3):
            self.assertEqual(self.ship(), "ACK")
        self.until_stored(self.ledger.line_count)

    def ship(self):
        """Sends a batch; returns the first word of the answer, `None` at the end of the connection."""
        lines = self.maker.lines(40)
        raw = b"".join(lines)
        self.peer.batch(STREAM, raw, offset=self.offset)
        answer = self.peer.line()
        if answer and answer.startswith("ACK "):
            self.offset += len(raw)
            self.ledger.add(lines)
        return answer and answer.split()[0]

    def assert_it_ends(self, *texts):
        """Nothing more is acknowledged; the program ends and says why."""
        self.assertIn(self.ship(), ("ERR", None))
        self.assertEqual(self.receiver.wait(), 74)
        for text in ("its files are gone", *texts):
            self.assertIn(text, self.receiver.log())

    def assert_nothing_is_lost(self):
        receiver = self.site.receiver(exports="csv")
        self.until_stored(self.ledger.line_count)
        self.assert_each_once()
        self.assertEqual(receiver.stop(), 0)

    def test_b3_a_journal_that_is_deleted_acknowledges_nothing(self):
        """What was acknowledged before is in the archive, which the message says."""
        self.begin()
        for segment in (self.site.data / "journal").iterdir():
            segment.unlink()
        self.assert_it_ends("open segment", "was deleted or moved", "The archive has read everything")
        self.assert_nothing_is_lost()


@at_night
class ClockTests(GroundTest):
    """The receiver's clock is wrong."""

    def setUp(self):
        super().setUp()
        self.clock = self.site.root / "clock"
        library = self.compiled("clock", CLOCK)
        self.set_clock(0)
        self.env = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self.clock)}

    def set_clock(self, days):
        with open(self.clock, "r+b" if self.clock.exists() else "wb", buffering=0) as file:
            file.write(struct.pack("q", days * DAY))

    def ship(self):
        self.maker.spool(self.site.spool, self.ledger, 60_000)
        self.site.once()

    def received(self):
        """The times of receipt in the archive."""
        return {
            int(line.split()[3]) for path in self.site.data.rglob("*.sources")
            for line in path.read_text().splitlines() if line.startswith("FROM ")}

    def receiver(self):
        return self.site.receiver("--metrics", self.metrics, exports="csv,ga4", env=self.env)

    def doubted(self, receiver):
        until(lambda: self.readiness()[1].count("the clock shows"), 20, "the clock is doubted")
        self.assertEqual(self.readiness()[0], 200)
        self.assertEqual(metric(self.metrics, "waybill_clock_doubted"), [1])
        receiver.until_logged("the clock cannot be trusted")

    def trusted(self, receiver):
        until(lambda: self.readiness() == (200, "ready\n"), 20, "the clock is trusted")
        receiver.until_logged("the clock is trusted again")
        self.assertEqual(metric(self.metrics, "waybill_clock_doubted"), [0])

    def assert_whole(self, receiver):
        self.assertEqual(receiver.stop(), 0)
        self.assert_each_once()
        self.assertEqual(quarantined(self.site.data), {})
        self.assert_verified()

    def test_w3_a_clock_that_was_ahead_waits_for_an_operator(self):
        """Ten years ahead, nothing is wrong to be seen; set back, the clock is doubted until it is accepted, also by a
        receiver that starts again."""
        self.set_clock(3650)
        receiver = self.receiver()
        self.ship()
        self.until_stored(self.ledger.line_count)
        self.set_clock(0)
        self.doubted(receiver)
        self.ship()
        self.assertEqual(receiver.stop(), 0)
        receiver = self.receiver()
        self.doubted(receiver)
        shown = json.loads(run("clock", "--data", self.site.data).stdout)
        self.assertEqual(shown["state"], "doubted")
        self.assertGreater(shown["journal"], shown["clock"])
        accepted = run("clock", "--data", self.site.data, "--accept")
        self.assertEqual((accepted.returncode, json.loads(accepted.stdout)["state"]), (0, "accepted"))
        self.trusted(receiver)
        receiver.until_logged("an operator accepted the clock")
        self.ship()
        self.until_stored(self.ledger.line_count)
        self.assertFalse((self.site.data / "state" / "clock.accepted").exists())
        self.assertEqual(json.loads(run("clock", "--data", self.site.data).stdout)["state"], "trusted")
        self.assertEqual(receiver.stop(), 0)
        receiver = self.receiver()
        until(lambda: self.readiness() == (200, "ready\n"), 20, "the start trusts the clock")
        self.assert_whole(receiver)


class FullDiskTests(GroundTest):
    """The disk of the data directory is full."""

    def fill_up(self, disk):
        ballast = disk / "ballast"
        with open(ballast, "ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass
        return ballast

    def test_w4_agents_are_told_that_the_disk_is_full(self):
        """The agent's log has the cause, readyz and a metric too; a new connection is refused; nothing is cut and written
        over and over; all continues by itself."""
        disk = self.site.mount("disk", "24m")
        data = disk / "data"
        receiver = self.site.receiver("--metrics", self.metrics, exports="csv,ga4,mixpanel", data=data)
        agent = self.site.agent()
        self.maker.spool(self.site.spool, self.ledger, 100_000)
        until(lambda: not any(self.site.spool.iterdir()), 30, "the agent ships while there is room")
        self.assertEqual(metric(self.metrics, "waybill_acks_withheld"), [0])
        ballast = self.fill_up(disk)
        self.maker.spool(self.site.spool, self.ledger, 300_000)
        agent.until_logged("the disk of this receiver is full")
        until(lambda: metric(self.metrics, "waybill_acks_withheld") == [1], 20, "the metric says so")
        status, text = self.readiness()
        self.assertEqual(status, 503)
        self.assertIn("is full", text)
        with Peer(self.site.port) as peer:
            answer = peer.hello("late")
        self.assertRegex(answer, "^ERR unavailable .*disk of this receiver is full")
        time.sleep(5)
        starts = receiver.log().count("projection started")
        self.assertLessEqual(starts, 3 * 4, "the projections start again and again")
        self.assertLess(receiver.log().count("disk-full"), 12)
        told = [json.loads(line) for line in receiver.log().splitlines() if line.startswith("{")]
        self.assertEqual([line for line in told if line["message"] == "projection started" and line["level"] != "info"], [])
        failed = [line for line in told if line.get("id") in ("WB1006", "WB1302")]
        self.assertTrue(failed, "the cause is named")
        self.assertEqual({(line["level"], line["code"]) for line in failed}, {("error", "disk-full")})
        self.assertLessEqual(len(failed), 2 * 5, "once a minute for each")
        ballast.unlink()
        until(lambda: not any(self.site.spool.iterdir()), 60, "the agent continues by itself")
        until(lambda: self.readiness() == (200, "ready\n"), 60, "nothing waits any more")
        self.assertEqual((agent.stop(), receiver.stop()), (0, 0))
        self.assert_each_once(data)

    def test_w4_the_last_space_is_the_journals(self):
        """With a little space left the archive waits where it stands, exports behind it, and agents are acknowledged."""
        disk = self.site.mount("disk", "64m")
        data = disk / "data"
        config = self.site.root / "waybill.yaml"
        config.write_text(
            f"receiver:\n  data: {data}\n  listen: {self.site.address}\n  metrics: {self.metrics}\n"
            "  reserve_mib: 3\n  exports: [{provider: csv}]\n")
        receiver = self.site.configured(config)
        self.maker.spool(self.site.spool, self.ledger, 100_000)
        self.site.once()
        until(lambda: sum(1 for _ in stored(data)) >= self.ledger.line_count, 30, "the lines are archived")
        free = shutil.disk_usage(disk).free
        with open(disk / "ballast", "wb") as ballast:
            ballast.write(bytes(free - (2 << 20)))
        before = sum(1 for _ in stored(data))
        self.maker.spool(self.site.spool, self.ledger, 100_000)
        self.site.once()
        until(lambda: 1 in metric(self.metrics, "waybill_projection_waiting"), 20, "the archive waits")
        status, text = self.readiness()
        self.assertEqual((status, "these wait: archive" in text), (503, True), text)
        self.assertIn("less space is free on the disk than its reserve", text)
        self.assertEqual(sum(1 for _ in stored(data)), before)
        self.assertEqual(receiver.log().count("projection started"), 2)
        (disk / "ballast").unlink()
        until(lambda: sum(1 for _ in stored(data)) >= self.ledger.line_count, 40, "the archive continues")
        until(lambda: self.readiness() == (200, "ready\n"), 40, "the export continues")
        self.assertEqual(receiver.log().count("projection started"), 2, "something was cut and written again")
        self.assertEqual(receiver.stop(), 0)
        self.assert_each_once(data)
        self.assert_verified(data, "--config", config)


class CommandLineTests(GroundTest):
    """A service without its command line."""

    def test_w7_no_command_is_a_mistake(self):
        result = run()
        self.assertEqual(result.returncode, 64)
        self.assertEqual(result.stdout, b"")
        for text in (b"no command was given", b"waybill receiver --data", b"SUBCOMMANDS:"):
            self.assertIn(text, result.stderr)

    def test_w7_a_service_whose_command_line_was_lost_does_not_look_finished(self):
        """The runtime loses it when a library changes the environment at the start; either it is found, or 64 says so."""
        library = self.compiled("lost", LOST)
        process = subprocess.Popen(
            [binary(), "receiver", "--data", str(self.site.data), "--listen", self.site.address],
            env={"LD_PRELOAD": str(library), "PATH": "/usr/bin"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            until(lambda: process.poll() is not None or self.is_listening(), 20, "it starts or ends")
            if process.poll() is not None:
                self.assertEqual(process.returncode, 64, process.stderr.read())
        finally:
            process.kill()
            process.communicate()

    def is_listening(self):
        try:
            socket.create_connection(("127.0.0.1", self.site.port), 1).close()
            return True
        except OSError:
            return False
