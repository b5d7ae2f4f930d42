"""What a benchmark may call a figure: python3 -m unittest discover --start-directory Tools/Benchmarks

Needs no binary. Shows that a lost, a repeated and an alien line each leave a run without a figure, that events are made
the same way from the same seed, and that tables say which rows have none.
"""
import argparse
import contextlib
import http.client
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest
import zlib

import bench
import crowd
import fleet
import fleet_tables
import latency
import throughput

HERE = pathlib.Path(__file__).resolve().parent
START = 1_760_000_000_000


def program(name):
    """A program without an ending, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, lines):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(b"".join(lines))
        return path


class LedgerTests(Folder):
    def setUp(self):
        super().setUp()
        _, self.lines = bench.Events(7, START).segment(20_000)
        self.ledger = bench.Ledger()
        self.ledger.add(self.lines)

    def figures(self, *files):
        paths = [self.write(f"{number}.ndjson", lines) for number, lines in enumerate(files)]
        return bench.figures(self.ledger.compare(paths), {"mb_per_s": 100})

    def test_every_line_once_has_a_figure_in_whatever_order_and_files(self):
        self.assertEqual(self.figures(self.lines[20:], self.lines[:20]), {"mb_per_s": 100, "ledger": "clean"})

    def test_a_lost_line_leaves_no_figure(self):
        self.assertEqual(
            self.figures(self.lines[:5] + self.lines[6:]), {"ledger": "failed", "lost": 1, "twice": 0, "alien": 0})

    def test_a_repeated_line_leaves_no_figure(self):
        self.assertEqual(
            self.figures(self.lines, self.lines[3:4]), {"ledger": "failed", "lost": 0, "twice": 1, "alien": 0})

    def test_an_alien_line_leaves_no_figure(self):
        self.assertEqual(
            self.figures(self.lines + [b'{"v":1}\n']), {"ledger": "failed", "lost": 0, "twice": 0, "alien": 1})

    def test_as_many_lines_are_not_the_same_lines(self):
        self.assertEqual(
            self.figures(self.lines[1:] + self.lines[-1:]), {"ledger": "failed", "lost": 1, "twice": 1, "alien": 0})

    def test_a_line_cut_in_two_is_lost_and_alien(self):
        cut = self.lines[0][:50] + b"\n" + self.lines[0][50:]
        self.assertEqual(
            self.figures(self.lines[1:] + [cut]), {"ledger": "failed", "lost": 1, "twice": 0, "alien": 2})

    def test_a_line_that_was_made_twice_must_be_there_twice(self):
        self.ledger.add(self.lines[:1])
        self.assertEqual(self.figures(self.lines), {"ledger": "failed", "lost": 1, "twice": 0, "alien": 0})
        self.assertEqual(self.figures(self.lines, self.lines[:1])["ledger"], "clean")

    def test_joined_ledgers_want_the_lines_of_both(self):
        other = bench.Ledger()
        other.add([b"x\n"])
        self.ledger.join(other)
        self.assertEqual(self.figures(self.lines)["lost"], 1)
        self.assertEqual(self.ledger.line_count, len(self.lines) + 1)
        self.assertEqual(self.ledger.byte_count, sum(map(len, self.lines)) + 2)


class AttemptTests(Folder):
    """A run that cannot end leaves a record, and nothing behind."""

    def test_a_failure_is_a_record_without_a_figure_and_children_are_gone(self):
        children = []

        def work(place):
            children.append(place.start(["sleep", "60"]))
            raise bench.Failure("it never listened")

        with contextlib.redirect_stderr(io.StringIO()):
            record = bench.attempt(self.options(), {"benchmark": "x", "row": "y", "run": 1}, work)
        self.assertEqual(record["failed"], "it never listened")
        self.assertNotIn("ledger", record)
        self.assertEqual(record["commands"], ["sleep 60"])
        self.assertFalse(children[0].is_running)
        sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(self.folder) for name in names]
        self.assertEqual(sizes, [0])
        bench.remove_discarded()
        self.assertEqual(os.listdir(self.folder), [])

    def test_waiting_is_bounded(self):
        with self.assertRaisesRegex(bench.Failure, "the moon: not within 0.05 s"):
            bench.until(lambda: False, 0.05, "the moon")

    def test_what_does_not_come_is_not_awaited_for_ever(self):
        with bench.Workplace(self.options(), "x") as place:
            place.folder("days")
            self.assertIsNone(place.settle(1, "days", patience=0.05))

    def test_recorded_commands_name_no_place_of_the_machine(self):
        with bench.Workplace(self.options(), "x") as place:
            place.start(["true", place.path("data"), self.folder, str(bench.BINARY), sys.executable])
            self.assertEqual(place.commands, ["true $PLACE/data $DIRECTORY .build/release/waybill python3"])

    def options(self):
        return argparse.Namespace(directory=self.folder, binary=str(bench.BINARY))


class EventsTests(Folder):
    def backlog(self, name, seed, **changes):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        bench.Events(seed, START, **changes).backlog(folder, 300_000, segment_byte_count=50_000)
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}

    def test_the_same_seed_makes_the_same_bytes_and_another_seed_others(self):
        first = self.backlog("first", 1)
        self.assertEqual(first, self.backlog("again", 1))
        self.assertNotEqual(first, self.backlog("other", 2))

    def test_events_are_valid_distinct_and_numbered_from_one(self):
        segments = self.backlog("spool", 3, has_vendor_ids=True)
        self.assertEqual(len(segments), 6)
        seen = set()
        for name, text in segments.items():
            events = [json.loads(line) for line in text.splitlines()]
            self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
            self.assertEqual({event["writer"] for event in events}, {name[:36]})
            seen.update(event["id"] for event in events)
            self.assertTrue(all(event["ids"]["ga4"] for event in events))
        self.assertEqual(len(seen), sum(text.count(b"\n") for text in segments.values()))

    def test_segments_go_round_days_and_kinds(self):
        places = set()
        events = bench.Events(1, START, days=3, kinds=9)
        for _ in range(27):
            event = json.loads(events.segment(500)[1][0])
            places.add((event["env"], event["bundle"], event["ts"][:10]))
        self.assertEqual(len(places), 27)

    def test_mixed_lines_of_one_segment_are_of_every_day(self):
        _, lines = bench.Events(1, START, days=5, is_mixed=True).segment(100_000)
        self.assertEqual(len({json.loads(line)["ts"][:10] for line in lines}), 5)

    def test_rivals_find_the_date_in_the_sixteenth_field(self):
        _, lines = bench.Events(1, START).segment(2_000)
        for line in lines:
            self.assertEqual(line.decode().split('"')[15], json.loads(line)["ts"])


class FrameTests(Folder):
    def test_frames_are_the_segments_bytes_in_whole_lines(self):
        _, lines = bench.Events(1, START).segment(600_000)
        path = self.write("segment.ndjson", lines)
        offset, raw = 0, b""
        for end, frame in crowd.frames("s", path, 1):
            head, _, payload = frame.partition(b"\n")
            words = head.split()
            text = zlib.decompress(payload)
            self.assertEqual(words[:6], [b"BATCH", b"1", b"%d" % offset, b"%d" % len(text), b"%d" % text.count(b"\n"),
                                         b"%d" % len(payload)])
            self.assertTrue(text.endswith(b"\n"))
            offset, raw = end, raw + text
        self.assertEqual(raw, b"".join(lines))

    def test_the_checksum_is_that_of_the_protocol(self):
        # Protocol/protocol.md, section 7: over the stream's id in the place of its number, then the payload.
        payload = bytes.fromhex("78da ab56 4a54 b232 ace5 aa56 4a52 b232 aae5 0200 2513 0427")
        head = b"8f14e45fceea167a-00000000000000000001 0 16 2 24\n"
        self.assertEqual(zlib.crc32(payload, zlib.crc32(head)), 0xAF4EF970)
        path = self.write("a.ndjson", [b'{"a":1}\n{"b":2}\n'])
        (_, frame), = crowd.frames("8f14e45fceea167a-00000000000000000001", path, 1)
        own = frame.partition(b"\n")[2]
        words = frame.split(b"\n")[0].split()
        head = b"8f14e45fceea167a-00000000000000000001 0 16 2 %d\n" % len(own)
        self.assertEqual(int(words[6], 16), zlib.crc32(own, zlib.crc32(head)))

    def test_a_stamped_line_is_an_event_and_found_again(self):
        _, lines = bench.Events(1, START).segment(500)
        stamped = lines[0][:-3] + b',"sent":%d}}\n' % 17
        self.assertEqual(json.loads(stamped)["data"]["sent"], 17)
        self.assertEqual(latency.SENT.findall(stamped), [b"17"])


class TablesTests(unittest.TestCase):
    """`sample/` holds invented figures."""

    @classmethod
    def setUpClass(cls):
        cls.text = program("tables").render(HERE / "sample")

    def line(self, start):
        return next(line for line in self.text.splitlines() if line.startswith("| " + start))

    def test_medians_ranges_and_every_run(self):
        self.assertIn("| 110 (100–120) | 100 · 120 · 110 | 1 |", self.line("waybill |"))

    def test_a_run_that_lost_a_line_stands_without_a_figure(self):
        line = self.line("**rsyslog-safe (0.0)**")
        self.assertIn("| 42.5 (40–45) | 40 · ✗ · 45 | 2.59 |", line)
        self.assertIn("run 2: lost 3, twice 1, alien 0", line)

    def test_a_run_that_failed_has_no_figure_at_all(self):
        self.assertIn("| – | ✗ | – |", self.line("syslog-ng (0.0)"))
        self.assertIn("a process ended in the middle", self.line("syslog-ng (0.0)"))

    def test_rows_in_which_a_rival_wins_are_marked_with_what_in(self):
        self.assertIn("ahead in sender memory |", self.line("**rsyslog-safe (0.0)**"))
        self.assertIn("ahead in p50, sender memory, receiver memory |", self.text)

    def test_ways_to_store_an_event_have_a_table_for_each_number_of_threads(self):
        one, four = self.text.partition("Threads: 1")[2].split("Threads: 4")
        self.assertIn("**swift-log (1.0)**: ahead in max | 20,000 (10,000–30,000) |", one)
        self.assertIn("| waybill | 2,000 | 1,500 | 5,000 | 300,000 | 500,000 | 2 | 0 | 0 | 1,276 | 124 | 586 |", one)
        self.assertIn("run 1: lost 3, twice 0, alien 0", four)

    def test_what_was_not_run_is_left_out_and_what_was_skipped_is_said(self):
        self.assertNotIn("Partitions", self.text)
        self.assertIn("skipped: there is no program", self.text)


class FleetTests(unittest.TestCase):
    """What fleet.py makes of its records, and which sizes it takes."""

    def record(self, row, rate, ledger="clean"):
        return {"benchmark": "upload", "row": row, "mb_per_s": rate, "ledger": ledger}

    def test_the_ratio_is_of_medians_and_of_clean_runs_alone(self):
        records = [self.record("receiver", rate) for rate in (100, 120, 300)]
        records += [self.record("receiver-and-uploader", rate) for rate in (90, 114, 119)]
        self.assertEqual(fleet.ratio(records), 0.95)
        records.append({"benchmark": "upload", "row": "receiver", "ledger": "failed", "lost": 1, "twice": 0, "alien": 0})
        self.assertEqual(fleet.ratio(records), 0.95)
        self.assertIsNone(fleet.ratio(records[:3]))

    def test_the_ratio_of_merging_is_of_cpu_seconds(self):
        records = [
            {**self.record("receiver-and-uploader", 100), "merging_mb_per_cpu_s": 900, "receiver_mb_per_cpu_s": cost}
            for cost in (200, 300, 1000)]
        self.assertEqual(fleet.merge_ratio(records), 3)
        self.assertIsNone(fleet.merge_ratio([{**record, "ledger": "failed"} for record in records]))

    def test_the_time_of_threads_is_kept_by_name_after_their_end(self):
        used = []

        def work():
            pathlib.Path("/proc/thread-self/comm").write_text("busy")
            while time.thread_time() < 0.1:
                pass
            # It ends only once it was looked at, however late a busy machine lets the follower run.
            while threads.seconds("busy") < 0.1:
                time.sleep(0.001)
            used.append(time.thread_time())

        threads = bench.Threads(os.getpid(), pause=0.001)
        busy = threading.Thread(target=work, daemon=True)
        busy.start()
        busy.join(60)
        self.assertFalse(busy.is_alive())
        self.assertGreaterEqual(threads.seconds("busy"), 0.1)
        self.assertLess(threads.seconds("busy"), used[0] + 0.05)
        self.assertEqual(threads.seconds("idle"), 0)
        threads.folder = "/proc/none/task"
        threads.join(5)
        self.assertFalse(threads.is_alive())

    def test_a_plain_request_is_signed_as_a_bucket_checks_it(self):
        sys.path.insert(0, str(fleet.TESTS))
        import buckets
        store = buckets.SmallStore()
        self.addCleanup(store.close)
        told = {"url": store.url, "key": buckets.KEY, "secret": buckets.SECRET, "region": buckets.REGION}
        connection = http.client.HTTPConnection("127.0.0.1", store.server.server_port)
        requests = fleet.requests_to(told, "events")
        self.addCleanup(connection.close)
        fleet.put(connection, requests, "w/journal/a~0/1", b"bytes")
        self.assertEqual(requests.get("w/journal/a~0/1"), b"bytes")
        with self.assertRaises(bench.Failure):
            fleet.put(connection, requests, "w/journal/a~0/1", b"others")
        with self.assertRaises(bench.Failure):
            fleet.put(connection, fleet.requests_to({**told, "secret": "another"}, "events"), "x", b"")

    def test_shares_are_of_the_sorted_values(self):
        self.assertEqual([fleet.share([3, 1, 2, 4], part) for part in (0, 0.5, 0.99)], [1, 3, 4])
        self.assertIsNone(fleet.share([], 0.5))

    def test_a_line_is_stored_when_its_last_byte_is(self):
        lines = [b'{"data":{"n":%d,"sent":%d}}\n' % (number, number * 10**9) for number in range(4)]
        ends = [sum(map(len, lines[:count])) for count in range(1, 5)]
        moments = [int(second * 1e9) for second in (5, 7)]
        # The first second is left out; the third line is not stored while its last byte is missing.
        self.assertEqual(fleet.stored_delays(lines, [ends[2] - 1, ends[3]], moments), [4000, 5000, 4000])

    def test_quick_sizes_are_tiny_and_options_go_before_them(self):
        quick, usual = fleet.arguments(["--quick"]), fleet.arguments(["--megabytes", "7", "--only", "growth"])
        self.assertLess(quick.megabytes, 10)
        self.assertEqual((usual.megabytes, usual.names), (7, ["growth"]))
        self.assertEqual({len(sizes) for sizes in quick.growth + usual.growth}, {4})


class FleetPageTests(unittest.TestCase):
    """Documentation/fleet.md has the tables of the committed results, figure by figure."""
    RESULTS = HERE / "results/2026-11-26-2core-epyc"

    def test_the_page_has_the_tables_of_the_results(self):
        page = (bench.REPOSITORY / "Documentation/fleet.md").read_text(encoding="utf-8")
        for name, text in fleet_tables.render(self.RESULTS).items():
            self.assertIn(text, page, f"{name}: as Tools/Benchmarks/fleet_tables.py {self.RESULTS.name} prints it")
        self.assertIn(f"Tools/Benchmarks/results/{self.RESULTS.name}/fleet.png", page)

    def test_the_model_follows_the_figures(self):
        records = fleet_tables.load(self.RESULTS / "fleet.ndjson")

        def fleets(cost):
            slower = [{**record, "merge_cpu_s_per_gb": record["merge_cpu_s_per_gb"] * cost} if "merge_cpu_s_per_gb" in record
                      else record for record in records]
            lines = fleet_tables.Model(slower, fleet_tables.load(fleet_tables.SIZING)).lines()
            return next(int(value) for what, value, _ in lines if what == "fleets")

        self.assertGreater(fleets(4), fleets(1))

    def test_a_row_without_a_clean_ledger_has_no_figure(self):
        row = {"benchmark": "delay", "row": "1-second-pieces", "run": 1, "stored_p50_ms": 5.0, "lost": 1, "twice": 0, "alien": 0}
        self.assertNotIn("5", fleet_tables.delays([{**row, "ledger": "failed"}]).splitlines()[-1])
        self.assertIn("5", fleet_tables.delays([{**row, "ledger": "clean"}]).splitlines()[-1])


class RateTests(unittest.TestCase):
    def test_a_megabyte_is_a_million_bytes(self):
        self.assertEqual(throughput.rate(485_000_000, 2), 242.5)
