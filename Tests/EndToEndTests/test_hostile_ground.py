"""The ground that a receiver stands on gives way: its files are taken away, its clock is wrong, its disk is full, its
command line is lost.

The names of the tests are those of the findings.
"""

import json
import pathlib
import shutil
import subprocess
import time

from clocks import Clock
from harness import binary, compiled, ended, fill_up, free_port, metric, run, until
from health import ask
from ledger import LedgerTest, quarantined
from scale import at_night
from wire import Peer, let_in

STREAM = "ground-stream"


class GroundTest(LedgerTest):
    def setUp(self):
        super().setUp()
        self.metrics = f"127.0.0.1:{free_port()}"

    def readiness(self):
        """The status of `GET /readyz`, and its text."""
        code, _, text = ask(int(self.metrics.partition(":")[2]), "/readyz")
        return code, text


class LossTests(GroundTest):
    """Files of the data directory are taken away while the receiver runs."""

    def begin(self):
        """A receiver that has acknowledged lines, and a peer connected to it."""
        self.receiver = self.site.receiver("--metrics", self.metrics, exports="csv")
        self.peer = let_in(self, self.site.port)
        self.assertTrue(self.peer.open(STREAM).startswith("AT 1 0"))
        self.offset = 0
        for _ in range(3):
            self.assertEqual(self.ship(), "ACK")
        self.until_stored()

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
        self.until_stored()
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
        self.clock = Clock(self.site.root)

    def ship(self):
        self.maker.spool(self.site.spool, self.ledger, 60_000)
        self.site.once()

    def received(self):
        """The times of receipt in the archive."""
        return {
            int(line.split()[3]) for path in self.site.data.rglob("*.sources")
            for line in path.read_text().splitlines() if line.startswith("FROM ")}

    def receiver(self):
        return self.site.receiver("--metrics", self.metrics, exports="csv,ga4", env=self.clock.environment)

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
        self.clock.set(3650)
        receiver = self.receiver()
        self.ship()
        self.until_stored()
        self.clock.set(0)
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
        self.until_stored()
        self.assertFalse((self.site.data / "state" / "clock.accepted").exists())
        self.assertEqual(json.loads(run("clock", "--data", self.site.data).stdout)["state"], "trusted")
        self.assertEqual(receiver.stop(), 0)
        receiver = self.receiver()
        until(lambda: self.readiness() == (200, "ready\n"), 20, "the start trusts the clock")
        self.assert_whole(receiver)


class FullDiskTests(GroundTest):
    """The disk of the data directory is full."""

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
        ballast = fill_up(disk)
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
        told = receiver.entries()
        self.assertEqual([line for line in told if line["message"] == "projection started" and line["level"] != "info"], [])
        failed = [line for line in told if line.get("id") in ("WB1006", "WB1302")]
        self.assertTrue(failed, "the cause is named")
        self.assertEqual({(line["level"], line["code"]) for line in failed}, {("error", "disk-full")})
        self.assertLessEqual(len(failed), 2 * 5, "once a minute for each")
        ballast.unlink()
        until(lambda: not any(self.site.spool.iterdir()), 60, "the agent continues by itself")
        until(lambda: self.readiness() == (200, "ready\n"), 60, "nothing waits any more")
        self.stop_all(agent, receiver)
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
        self.until_stored(seconds=30, data=data)
        free = shutil.disk_usage(disk).free
        with open(disk / "ballast", "wb") as ballast:
            ballast.write(bytes(free - (2 << 20)))
        before = self.stored_count(data)
        self.maker.spool(self.site.spool, self.ledger, 100_000)
        self.site.once()
        until(lambda: 1 in metric(self.metrics, "waybill_projection_waiting"), 20, "the archive waits")
        status, text = self.readiness()
        self.assertEqual((status, "these wait: archive" in text), (503, True), text)
        self.assertIn("less space is free on the disk than its reserve", text)
        self.assertEqual(self.stored_count(data), before)
        self.assertEqual(receiver.log().count("projection started"), 2)
        (disk / "ballast").unlink()
        self.until_stored(seconds=40, data=data)
        until(lambda: self.readiness() == (200, "ready\n"), 40, "the export continues")
        self.assertEqual(receiver.log().count("projection started"), 2, "something was cut and written again")
        self.assertEqual(receiver.stop(), 0)
        self.assert_each_once(data)
        self.assert_verified(data, "--config", config)


class CommandLineTests(GroundTest):
    """A service without its command line."""

    def test_w7_no_command_is_a_mistake(self):
        result = ended(64)
        self.assertEqual(result.stdout, b"")
        for text in (b"no command was given", b"waybill receiver --data", b"SUBCOMMANDS:"):
            self.assertIn(text, result.stderr)

    def test_w7_a_service_whose_command_line_was_lost_does_not_look_finished(self):
        """The runtime loses it when a library changes the environment at the start; either it is found, or 64 says so."""
        library = compiled(pathlib.Path(__file__).with_name("lost_arguments.c"), self.site.root)
        process = subprocess.Popen(
            [binary(), "receiver", "--data", str(self.site.data), "--listen", self.site.address],
            env={"LD_PRELOAD": str(library), "PATH": "/usr/bin"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            until(lambda: process.poll() is not None or self.site.is_listening(), 20, "it starts or ends")
            if process.poll() is not None:
                self.assertEqual(process.returncode, 64, process.stderr.read())
        finally:
            process.kill()
            process.communicate()
