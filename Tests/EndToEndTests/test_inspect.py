"""What a start makes of damaged files, and what `waybill inspect` finds in them.

By default one file of each kind is damaged in three ways; WAYBILL_THOROUGH=1 damages every file in six.
"""

import json
import os
import pathlib
import shutil
import subprocess
import time

from harness import Site, SiteTest, run, succeed
from ledger import EventMaker, Ledger, exported_ids, stored
from scale import THOROUGH
from wire import Peer

EXPORTS = "mixpanel,csv"


class DataTest(SiteTest):
    """A stopped receiver's data directory, made once; each test works on a copy of it."""

    @classmethod
    def setUpClass(cls):
        cls.source = Site()
        cls.addClassCleanup(cls.source.close)
        cls.maker, cls.ledger = EventMaker(29, days=1), Ledger()
        cls.positions = {}
        # Two runs: two segments of the journal, and checkpoints with a file before the last rewrite.
        for turn in range(2):
            receiver = cls.source.receiver(exports=EXPORTS)
            with Peer(cls.source.port) as peer:
                peer.hello("maker")
                for number in range(1, 5):
                    stream = f"stream-{turn}-{number}"
                    lines = cls.maker.lines(1100, env="prod" if number > 1 else None) + [f"no event {turn} {number}\n".encode()]
                    raw = b"".join(lines)
                    cls.ledger.add(lines)
                    assert peer.open(stream, number) == f"AT {number} 0"
                    peer.batch(stream, raw, number=number)
                    assert peer.line() == f"ACK {number} {len(raw)}"
                    cls.positions[stream] = len(raw)
            assert receiver.stop() == 0, receiver.log()

    def setUp(self):
        super().setUp()
        shutil.copytree(self.source.data, self.site.data)

    def renew(self):
        shutil.rmtree(self.site.data)
        shutil.copytree(self.source.data, self.site.data)

    def file(self, pattern):
        return sorted(self.site.data.glob(pattern))[0]

    def verify(self):
        result = run("inspect", "--verify", "--json", self.site.data)
        items = [json.loads(line) for line in result.stdout.decode().splitlines()]
        return result.returncode, [item for item in items if item["kind"] == "problem"], items


class VerifyTests(DataTest):
    """`waybill inspect --verify` finds what is lost, repeated or changed, and says where."""

    def test_a_healthy_directory_is_whole(self):
        """What went in is what is counted, stopped and beside a running receiver (T40)."""
        returncode, problems, items = self.verify()
        self.assertEqual((returncode, problems), (0, []))
        totals = {item["name"]: item["count"] for item in items if item["kind"] == "total"}
        self.assertEqual(totals["archive_lines"], self.ledger.line_count)
        self.assertEqual(totals["journal_lines_compared"], self.ledger.line_count)
        for provider in EXPORTS.split(","):
            parts = [totals[f"{provider}_{fate}"] for fate in ("events", "refused", "skipped")]
            self.assertEqual(sum(parts), self.ledger.line_count - 8, provider)
        receiver = self.site.receiver(exports=EXPORTS)
        result = succeed("inspect", "--verify", self.site.data)
        self.assertIn(f"in use by process {receiver.child.pid}".encode(), result.stdout)


class InspectTests(DataTest):
    """`waybill inspect` tells files by their content, names damage, and writes nothing."""

    def items(self, *arguments):
        result = run("inspect", "--json", *arguments)
        return result.returncode, [json.loads(line) for line in result.stdout.decode().splitlines()]

    def test_files_are_told_by_their_content(self):
        """Each file is recognised under a name that says nothing, and its whole state changes nothing on disk."""
        before = {path: path.stat().st_mtime_ns for path in self.site.data.rglob("*")}
        for pattern, kind in {
                "journal/*0.journal": "journal-segment", "state/archive.state": "state-store",
                "archive/env=prod/*/*/*.sources": "sources", "archive/env=prod/*/*/*.ndjson": "lines",
                "exports/mixpanel/env=prod/*/*.manifest.json": "export-manifest",
                "exports/csv/env=prod/*/part-00000.ids": "ids"}.items():
            copy = self.site.root / "file"
            shutil.copyfile(self.file(pattern), copy)
            returncode, items = self.items(copy)
            self.assertEqual((returncode, items[0]["type"]), (0, kind), pattern)
            self.assertGreater(len(items), 1, pattern)
        returncode, items = self.items(self.site.data)
        self.assertEqual((returncode, items[0]["type"]), (0, "data-directory"))
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.site.data.rglob("*")}, before)

    def test_damage_has_an_offset_and_a_meaning(self):
        """A bit in a journal, a torn checkpoint and a cut spool segment are named with offset and length (T29)."""
        journal = self.file("journal/*0.journal")
        data = bytearray(journal.read_bytes())
        data[len(data) // 2] ^= 4
        journal.write_bytes(data)
        returncode, items = self.items("--all", self.site.data / "journal")
        damage = [item for item in items if item["kind"] == "damage"]
        self.assertEqual((returncode, len(damage)), (65, 1), damage)
        self.assertLessEqual(damage[0]["offset"], len(data) // 2)
        self.assertGreater(damage[0]["offset"] + damage[0]["bytes"], len(data) // 2)
        state = self.site.data / "state/archive.state"
        state.write_bytes(state.read_bytes()[:-3])
        self.assertEqual(self.items(state)[0], 65)
        lines = EventMaker(1).lines(5)
        segment = pathlib.Path(EventMaker(1).segment(self.site.spool, lines[:3] + lines[4:] + [b'{"half'], lines[0].decode().split('"')[9]))
        returncode, items = self.items(segment)
        reasons = [item["reason"] for item in items if item["kind"] == "damage"]
        self.assertEqual((returncode, reasons), (65, ["seq is 5, expected 4", "the last line is cut off"]))

    def test_a_segment_may_have_any_numbers(self):
        """The greatest one, too, in the name and in a line: nothing ends the program."""
        lines = EventMaker(1).lines(2)
        segment = pathlib.Path(EventMaker(1).segment(self.site.spool, lines, lines[0].decode().split('"')[9]))
        greatest = segment.with_name(f"{segment.name[:37]}{2 ** 64 - 1}.ndjson")
        greatest.write_bytes(lines[0].replace(b'"seq":1,', b'"seq":%d,' % (2 ** 64 - 1)) + lines[1])
        returncode, items = self.items(greatest)
        reasons = [item["reason"] for item in items if item["kind"] == "damage"]
        self.assertEqual((returncode, reasons), (65, ["seq is 2, expected 0"]))

    def test_what_cannot_be_read_is_named(self):
        """Garbage is damage, a missing file and a forbidden one are 66, no path is usage."""
        garbage = self.site.root / "garbage"
        garbage.write_bytes(os.urandom(100_000))
        self.assertEqual(self.items(garbage)[0], 65)
        self.assertEqual(self.items(self.site.root / "nothing")[0], 66)
        self.assertEqual(self.items("/dev/null")[0], 66)
        self.assertEqual(run("inspect").returncode, 64)
        self.assertEqual(run("inspect", "--verify", self.site.spool).returncode, 66)

    def test_large_files_and_folders_take_little_memory(self):
        """A folder of 20,000 files and a sparse file of 20 GB are read in bounded memory (T27, T30)."""
        folder = self.site.root / "many"
        folder.mkdir()
        for number in range(20_000):
            (folder / f"f{number}.ndjson").write_bytes(b'{"a":1}\n')
        with open(self.site.root / "large.ndjson", "wb") as file:
            file.write(b'{"a":1}\n')
            file.truncate((20 << 30) if THOROUGH else (1 << 30))
        for path in (folder, self.site.root / "large.ndjson"):
            child = subprocess.run(
                ["bash", "-c", 'ulimit -v 1500000; exec "$0" inspect "$1"', os.environ.get("WAYBILL") or run.__globals__["binary"](), path],
                capture_output=True, timeout=300)
            self.assertIn(child.returncode, (0, 65), child.stderr)
            self.assertLess(len(child.stdout), 100_000)


class RecoveryTests(DataTest):
    """A receiver starts whatever became of its files, says so, serves on, and neither loses nor repeats a line (T29)."""

    def damages(self, path, data):
        """Name and bytes of each way to damage a file; `None` deletes it."""
        middle = len(data) // 2
        flip = lambda index: data[:index] + bytes([data[index] ^ 1]) + data[index + 1:]
        ways = {"deleted": None, "cut": data[:middle], "flipped": flip(middle)}
        if not THOROUGH and path.suffix in (".previous", ".sources"):
            return {"cut": ways["cut"]}
        if THOROUGH:
            ways.update({"emptied": b"", "zeroed": bytes(len(data)), "first bit": flip(0)})
        return ways

    def restart(self, what):
        """Starts, asks for every stream's position, ships more, stops; returns positions and the log."""
        receiver = self.site.receiver(exports=EXPORTS)
        positions, extra = {}, Ledger()
        extra.counts.update(self.ledger.counts)
        with Peer(self.site.port) as peer:
            self.assertTrue(peer.hello("asker").startswith("READY "), what)
            for number, stream in enumerate(self.positions, 1):
                positions[stream] = int(peer.open(stream, number).split()[2])
            lines = EventMaker(hash(what) & 0xFFFF).lines(50)
            extra.add(lines)
            self.assertEqual(peer.open("more", 99), "AT 99 0", what)
            peer.batch("more", b"".join(lines), number=99)
            self.assertEqual(peer.line(), f"ACK 99 {len(b''.join(lines))}", what)
        self.assertEqual(receiver.stop(30), 0, what)
        log = receiver.log()
        self.assertNotIn("tries again every second", log, what)
        return positions, extra.compare(stored(self.site.data)), log

    def victims(self):
        files = sorted(path.relative_to(self.source.data) for path in self.source.data.rglob("*") if path.is_file())
        if THOROUGH:
            return files
        kinds = {}
        for path in files:
            kind = (path.parts[0], path.parts[1] if path.parts[0] in ("exports", "journal", "state") else "", path.suffix,
                    path.name.startswith("part-00000") and path.parts[0] == "exports")
            if "csv" not in path.parts[1]:
                kinds.setdefault(kind, path)
        return list(kinds.values())

    def test_any_file_may_be_deleted_cut_or_flipped(self):
        """Nothing is lost but what was in the damaged bytes alone, nothing is twice, and the log says what was done (T29)."""
        started = time.monotonic()
        count = 0
        for path in self.victims():
            data = (self.source.data / path).read_bytes()
            if not data:
                continue
            for way, damaged in self.damages(path, data).items():
                what = f"{path} {way}"
                with self.subTest(what):
                    self.renew()
                    count += 1
                    if damaged is None:
                        (self.site.data / path).unlink()
                    else:
                        (self.site.data / path).write_bytes(damaged)
                    self.check(path, way, what)
        print(f"{count} damages in {time.monotonic() - started:.0f} s", flush=True)

    def check(self, path, way, what):
        positions, comparison, log = self.restart(what)
        self.assertEqual(positions, self.positions, f"{what}: a stream continues elsewhere\n{log[-1500:]}")
        self.assertEqual(comparison.twice, 0, f"{what}: {comparison}")
        is_content = path.parts[0] in ("archive", "quarantine") and path.suffix == ".ndjson"
        if is_content and way in ("flipped", "first bit", "zeroed"):
            # No one reads what is archived; a verification finds it.
            self.assertEqual(self.verify()[0], 65, what)
            self.assertEqual(comparison.lost, comparison.alien if way != "zeroed" else comparison.lost, what)
        else:
            self.assertTrue(comparison.is_clean, f"{what}: {comparison}\n{log[-2000:]}")
        if way in ("deleted", "cut", "emptied") and self.is_read_at_start(path):
            self.assertIn(path.name.split(".")[0], log, f"{what}: the log does not name it")
        if path.parts[0] == "exports":
            if way in ("deleted", "cut", "emptied") and self.is_read_at_start(path):
                self.assertIn(f"--provider {path.parts[1]}", log, f"{what}: the log does not say what fixes it")
            self.mend_export(path, what)
        if path.parts[0] == "state" and path.suffix == ".state":
            for provider in EXPORTS.split(","):
                self.assert_exported(provider, what)

    def is_read_at_start(self, path):
        if path.parts[0] in ("archive", "quarantine"):
            return True
        stem = path.name.split(".")[0]
        closed = (self.source.data / path.parent / f"{stem}.manifest.json").exists()
        return path.parts[0] == "exports" and path.name.startswith("part-") and not closed

    def assert_exported(self, provider, what):
        ids = exported_ids(self.site.data, provider)
        self.assertEqual([name for name, count in ids.items() if count > 1], [], f"{what}: {provider} repeats events")
        self.assertEqual(sum(ids.values()), self.ledger.line_count - 8 + 50, f"{what}: {provider}")

    def mend_export(self, path, what):
        """The archive has everything: a replay makes the export whole."""
        provider = path.parts[1]
        succeed("replay", "--data", self.site.data, "--provider", provider)
        self.assert_exported(provider, what)

    def test_lost_parts_of_the_journal_are_named(self):
        """Without its last segment the journal is no reason to ship or store anything twice."""
        for name in sorted(os.listdir(self.site.data / "journal")):
            self.renew()
            (self.site.data / "journal" / name).unlink()
            positions, comparison, log = self.restart(name)
            self.assertEqual(positions, self.positions, log)
            self.assertTrue(comparison.is_clean, comparison)
            self.assertIn("journal: a range cannot be read" if name != "0" * 20 + ".journal" else "started", log)
