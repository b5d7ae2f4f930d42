"""Disks that fill up, turn read-only or report errors under processes that run, and are well again later.

The full disks are real ones (a small tmpfs, where this user may mount one); errors come from the fault shim, which a
file switches on and off while the process runs.
"""

import json
import select
import subprocess
import time

from faults import PROVIDERS, Batches, Shipper, armed

from harness import SiteTest, fill_up, free_port, metric, run, succeed, until
from ledger import EventMaker, Ledger, exported_ids, lines_of, stored
from wire import Peer, batch

EXPORTS = ",".join(PROVIDERS)
WITHHELD = "acks are withheld"


class DiskTest(SiteTest):
    """A switch for errors, ballast for disks."""

    def setUp(self):
        super().setUp()
        self.switch = self.site.root / "switch"

    def armed(self, error, *roots):
        """The shim with these errors, switched off."""
        return armed(*(roots or [self.site.data]), error=error, switch=self.switch)

    def assert_silent(self, peer, seconds=0.2):
        """Nothing is acknowledged, however often the write is tried again."""
        self.assertFalse(select.select([peer.socket], [], [], seconds)[0], "the receiver says something")

    def until_said(self, process, text, count=1, seconds=30):
        until(lambda: process.log().count(text) >= count, seconds, f"'{text}' {count} times in {process.log_path.name}")


class FullDiskTests(DiskTest):
    """A disk that fills up in the middle of the work, and has room again."""

    def test_a_disk_fills_up_again_and_again(self):
        """Nothing is acknowledged while the disk is full, the log says why, and all continues by itself (T5, T37)."""
        disk = self.site.mount("disk", "24m")
        maker, ledger = EventMaker(31), Ledger()
        address = f"127.0.0.1:{free_port()}"
        receiver = self.site.receiver("--metrics", address, exports="csv", data=disk / "data")
        agent = self.site.agent()

        def refused():
            return sum(metric(address, "waybill_journal_commit_failures_total"))

        for _ in range(3):
            maker.spool(self.site.spool, ledger, 100_000)
            until(lambda: not any(self.site.spool.iterdir()), 30, "the agent ships while there is room")
            before, ballast = refused(), fill_up(disk)
            # Enough that a full page at the end of a segment does not take it.
            maker.spool(self.site.spool, ledger, 300_000)
            until(lambda: refused() > before, 30, "the disk refuses a group")
            self.assertTrue(any(self.site.spool.iterdir()))
            ballast.unlink()
            until(lambda: not any(self.site.spool.iterdir()), 30, "both continue by themselves")
        for text in (WITHHELD, "disk-full", "writing resumed"):
            self.assertIn(text, receiver.log())
        self.stop_all(agent, receiver)
        comparison = ledger.compare(stored(disk / "data"))
        self.assertTrue(comparison.is_clean, str(comparison))
        self.assertEqual(sum(exported_ids(disk / "data", "csv").values()), ledger.line_count)

    def test_a_client_on_a_full_disk_counts_what_it_could_not_keep(self):
        """What `track()` called stored is there, and an event with the numbers tells of the rest (T28, T40)."""
        disk = self.site.mount("spool-disk", "32m")
        spool, ledger, count = disk / "spool", self.site.root / "ledger.txt", 30_000
        ballast = fill_up(disk)
        app = self.site.start(
            "demo-app", "--spool", spool, "--ledger", ledger, "--app", 1, "--events", count, log="app.log")
        until(ledger.exists, 20, "the app runs")
        for _ in range(2):
            time.sleep(0.2)
            ballast.unlink()
            before = ledger.stat().st_size
            until(lambda: ledger.stat().st_size > before or not app.is_running, 20, "the app stores events again")
            time.sleep(0.1)
            fill_up(disk)
        time.sleep(0.2)
        ballast.unlink()
        self.assertEqual(app.wait(60), 0)
        self.check_client(spool, ledger, count)

    def test_a_client_over_its_quota_counts_what_it_could_not_keep(self):
        """A quota is met as a full disk is: counted as such, told of, and gone on after (T28)."""
        ledger, count = self.site.root / "ledger.txt", 2_000
        succeed(
            "demo-app", "--spool", self.site.spool, "--ledger", ledger, "--app", 1, "--events", count,
            env=armed(self.site.spool, error="write:EDQUOT:.ndjson:500-1700;open:EDQUOT:.ndjson:1-3"))
        told = self.check_client(self.site.spool, ledger, count)
        self.assertEqual({reason for event in told for reason in event if reason != "count"}, {"disk_full"})

    def check_client(self, spool, ledger, count):
        """Returns what the client told of what it dropped."""
        events = [json.loads(line) for path in sorted(spool.glob("*.ndjson")) for line in lines_of(path) if line.endswith(b"\n")]
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        kept = [event["data"]["number"] for event in events if event["kind"] in ("screen", "action")]
        # What was held in memory while the disk refused is there, too, in its place.
        self.assertEqual(kept, sorted(set(kept)))
        self.assertLessEqual({int(line.split()[1]) for line in ledger.read_text().splitlines()}, set(kept))
        told = [event["data"] for event in events if event["name"] == "wb.dropped"]
        users = sum(event["kind"] == "user" for event in events)
        self.assertLess(len(kept), count, "the disk was never full")
        self.assertEqual(sum(event["count"] for event in told), count + 1 - len(kept) - users)
        return told


class ReadOnlyTests(DiskTest):
    """A file system that turns read-only."""

    def test_a_disk_turns_read_only_and_back(self):
        """Nothing is acknowledged meanwhile; it continues by itself, and exact (T5)."""
        batches = Batches(33)
        receiver = self.site.receiver(exports=EXPORTS, env=self.armed("*:EROFS:*"))
        Shipper(self.site.port, batches.streams()).ship()
        self.switch.touch()
        streams = batches.streams()
        with Peer(self.site.port) as peer:
            peer.hello("peer")
            peer.open(streams[0].name)
            peer.batch(streams[0].name, streams[0].batches[0])
            self.until_said(receiver, WITHHELD)
            self.assertIn("read-only", receiver.log())
            self.assert_silent(peer)
            self.switch.unlink()
            self.assertEqual(peer.line(), f"ACK 1 {streams[0].ends[1]}")
        Shipper(self.site.port, streams).ship()
        self.assertEqual(receiver.stop(), 0)
        batches.check(self, self.site.data, "after it was read-only")

    def test_a_start_on_a_disk_that_has_turned_read_only(self):
        """A kill, a remount as read-only, a start that says why it cannot, a remount: exact (T4, T5)."""
        disk = self.site.mount("disk", "24m")
        data = disk / "data"
        batches = Batches(34)
        receiver = self.site.receiver(exports=EXPORTS, data=data)
        Shipper(self.site.port, batches.streams()).ship()
        receiver.kill()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        result = run("receiver", "--data", data, "--listen", self.site.address, "--exports", EXPORTS, timeout=20)
        self.assertIn(result.returncode, (74, 78))
        self.assertIn("read-only", result.stderr.decode().lower())
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        receiver = self.site.receiver(exports=EXPORTS, data=data)
        Shipper(self.site.port, batches.streams()).ship()
        self.assertEqual(receiver.stop(), 0)
        batches.check(self, data, "after the remount")


class JournalErrorTests(DiskTest):
    """Errors of the journal's disk."""

    def segments(self):
        return {path.name: path.read_bytes() for path in (self.site.data / "journal").glob("*.journal")}

    def test_a_batch_whose_sync_failed_goes_to_another_file(self):
        """After one failed sync the kernel would call the next one good: the batch is written elsewhere first (T8)."""
        raw, more = (b"".join(EventMaker(seed).lines(20)) for seed in (35, 36))
        payload = batch("stream", more)[1]
        receiver = self.site.receiver(exports="csv", env=self.armed("sync:EIO:/journal/:1-1"))
        with Peer(self.site.port) as peer:
            peer.hello("peer")
            peer.open("stream")
            peer.batch("stream", raw)
            self.assertEqual(peer.line(), f"ACK 1 {len(raw)}")
            before = self.segments()
            self.switch.touch()
            peer.batch("stream", more, offset=len(raw))
            self.until_said(receiver, WITHHELD)
            self.assertEqual(peer.line(), f"ACK 1 {len(raw) + len(more)}")
        after = self.segments()
        self.assertEqual(after.keys() & before.keys(), before.keys())
        for name, content in before.items():
            self.assertTrue(after[name].startswith(content), "what was acknowledged stays")
            self.assertNotIn(payload, after[name], "the file whose sync failed is trusted again")
        self.assertTrue(any(payload in content for name, content in after.items() if name not in before))
        # The disk says nothing of it any more; what counts is what a new process finds.
        receiver.kill()
        receiver = self.site.receiver(exports="csv")
        with Peer(self.site.port) as peer:
            peer.hello("peer")
            self.assertEqual(peer.open("stream"), f"AT 1 {len(raw) + len(more)}")
        self.assertEqual(receiver.stop(), 0)
        ledger = Ledger()
        ledger.add((raw + more).splitlines(True))
        comparison = ledger.compare(stored(self.site.data))
        self.assertTrue(comparison.is_clean, str(comparison))

    def test_a_kill_while_the_disk_reports_errors(self):
        """Killed and started over a failing disk, it holds everything acknowledged once the disk is well (T4, T8)."""
        batches = Batches(38)
        for error in ("sync,write:EIO:*", "*:ENOSPC:*"):
            receiver = self.site.receiver(exports=EXPORTS, env=self.armed(error))
            streams = batches.streams()
            Shipper(self.site.port, streams[:1]).ship()
            self.switch.touch()
            with Peer(self.site.port) as peer:
                peer.hello("peer")
                peer.open(streams[1].name)
                peer.batch(streams[1].name, streams[1].batches[0])
                self.until_said(receiver, WITHHELD)
                receiver.kill()
            over = self.site.start(
                "receiver", "--data", self.site.data, "--listen", self.site.address, "--exports", EXPORTS,
                log="over.log", env=self.armed(error))
            until(lambda: not over.is_running or self.site.is_listening(), 20, "it starts or says why not")
            if over.is_running:
                over.kill()
            else:
                self.assertRegex(over.log(), "disk-full|disk-error")
            self.switch.unlink()
            receiver = self.site.receiver(exports=EXPORTS)
            Shipper(self.site.port, streams).ship()
            self.assertEqual(receiver.stop(), 0)
            batches.check(self, self.site.data, error)
