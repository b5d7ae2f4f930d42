"""What Tools/spark reads without Spark: pieces, sources, manifests, times, and the sweep over ranges."""

import datetime
import gzip
import io
import itertools
import json
import pathlib
import random
import sys
import tempfile
import types
import unittest
import zlib

from harness import REPOSITORY
from scale import SEED

sys.path.insert(0, str(REPOSITORY / "Tools" / "spark"))

import fleet_audit as audit  # noqa: E402
import fleet_formats as formats  # noqa: E402
import fleet_replay as replay  # noqa: E402
import waybill_spark as spark  # noqa: E402

OPENED = {"stream": "s1", "source": "/a.ndjson", "env": "prod", "bundle": "com.example.shop", "format": "ndjson"}


def marked(lines, position, time):
    mark = f"MARK {position + len(lines)} {time} ".encode()
    return lines + mark + f"{zlib.crc32(lines + mark):08x}\n".encode()


def batch(stream, number, offset, raw):
    payload, count = zlib.compress(raw), raw.count(b"\n")
    header = f"{stream} {offset} {len(raw)} {count} {len(payload)}\n".encode()
    crc = zlib.crc32(payload, zlib.crc32(header))
    return f"BATCH {number} {offset} {len(raw)} {count} {len(payload)} {crc:08x}\n".encode() + payload


def piece(*contents, base=5000):
    """A piece with a head, and a group for each content of stream 1."""
    text = marked(b"OPEN 1 " + json.dumps(OPENED, separators=(",", ":")).encode() + b"\n", base, 1000)
    offset = 0
    for number, content in enumerate(contents):
        text += marked(b"", base + len(text), 2000 + number) + batch("s1", 1, offset, content)
        offset += len(content)
    return text


class PieceTests(unittest.TestCase):
    def test_batches_are_read_with_their_times(self):
        contents = [b"one\n", b"two\nthree\n"]
        text = piece(*contents)
        found = list(formats.PieceReader(text).batches())
        self.assertEqual([(each.stream, each.offset, each.raw, each.received) for each in found],
                         [(" s1", 0, 4, 2000), (" s1", 4, 10, 2001)])
        self.assertEqual([formats.inflated(text[each.at:each.at + each.wire], each.raw) for each in found], contents)

    def test_the_example_of_the_format_is_read(self):
        page = (REPOSITORY / "Protocol" / "formats" / "journal.md").read_text(encoding="utf-8")
        example = page[page.index("## 3. Example"):page.index("The receiver starts again")]
        text = b""
        for line in example.splitlines():
            position, _, rest = line.strip().partition("  ")
            if position.isdigit() and line.startswith("     "):
                self.assertEqual(int(position), len(text))
                text += bytes.fromhex(rest.split(") ")[1]) if rest.startswith("(") else rest.encode() + b"\n"
        self.assertEqual(len(text), 612)
        reader = formats.PieceReader(text)
        self.assertEqual([(each.offset, each.lines) for each in reader.batches()], [(0, 2), (16, 2)])
        self.assertEqual(reader.damaged_bytes, 0)

    def test_no_changed_byte_gives_a_batch_that_was_not_sent(self):
        text = piece(b"one\n", b"two\n", b"three\n")
        whole = {(each.offset, each.raw) for each in formats.PieceReader(text).batches()}
        for at in range(len(text)):
            changed = bytearray(text)
            changed[at] ^= 1
            reader = formats.PieceReader(bytes(changed))
            found = {(each.offset, each.raw) for each in reader.batches()}
            self.assertLessEqual(found, whole, at)
            self.assertLess(len(found), 4)
            self.assertGreater(reader.damaged_bytes, 0, at)
        for length in range(len(text)):
            self.assertLessEqual({(each.offset, each.raw) for each in formats.PieceReader(text[:length]).batches()}, whole)

    def test_reading_resumes_after_damage(self):
        text = bytearray(piece(b"one\n", b"two\n", b"three\n"))
        first = next(formats.PieceReader(bytes(text)).batches())
        text[first.at] ^= 1
        self.assertEqual([each.offset for each in formats.PieceReader(bytes(text)).batches()], [4, 8])

    def test_a_batch_that_grows_too_much_is_damage(self):
        payload = zlib.compress(bytes(10_000_000))
        for raw in (10, 9_999_999, 10_000_001, 1 << 50):
            with self.assertRaises(formats.Damage):
                formats.inflated(payload, raw)


class SourceTests(unittest.TestCase):
    TEXT = (b'OPEN 1 {"stream":"a","principal":"p q"}\nFROM 1 0 5 0 48 6\nOPEN 1 {"stream":"b"}\nFROM 1 0 5 48 16 2\n'
            b"FROM 1 80 5 64 0 3 3\nERASED 1 90 5 0 12 1\nSHIFTED 1 102 5 64 8 1 4711\n")

    def test_runs(self):
        found = [(each.stream, each.offset, each.start, each.length, each.lines, each.is_erased)
                 for each in formats.runs(self.TEXT)]
        self.assertEqual(found, [("p q a", 0, 0, 48, 6, False), (" b", 0, 48, 16, 2, False),
                                 (" b", 80, 64, 3, 3, False), (" b", 90, 0, 12, 1, True), (" b", 102, 64, 8, 1, False)])
        self.assertEqual(audit.name_of("p q a", 3), {"principal": "p q", "stream": "a", "offset": 3})

    def test_an_invalid_line_is_named(self):
        for text in (b"FROM 2 0 5 0 48 6\n", b"FROM 1\n", b"OPEN x {}\n", b"OPEN 1 {}\n", b"AWAY 1 0 5 0 48 6\n",
                     b"SHIFTED 1 0 5 0 48 6\n"):
            with self.assertRaises(formats.Damage, msg=text):
                list(formats.runs(b'OPEN 1 {"stream":"a"}\n' + text))

    def test_runs_must_cover_their_file_once(self):
        runs = list(formats.runs(self.TEXT))[:2]
        self.assertEqual(formats.problems_of_runs(runs, 64, 8), [])
        self.assertEqual(len(formats.problems_of_runs(runs, 65, 8)), 1)
        self.assertEqual(len(formats.problems_of_runs(runs, 64, 7)), 1)
        self.assertEqual(len(formats.problems_of_runs(runs[1:], 16, 2)), 1)

    def test_a_document_is_checked_and_written(self):
        text = formats.document_text({"revision": 1, "env": "가", "crc32": "old"})
        self.assertEqual(formats.checked_document(text)["env"], "가")
        for damaged in (text.replace(b'"revision":1', b'"revision":2'), text[:-4], b"[]"):
            with self.assertRaises(formats.Damage):
                formats.checked_document(damaged)


class LineTests(unittest.TestCase):
    def test_times_are_those_of_the_archive(self):
        moment = 1_740_820_455_926
        for value in ("2025-03-01T09:14:15.926Z", "2025-03-01 18:14:15.926+09:00", "2025-03-01t05:44:15.926999-0330",
                      moment, str(moment), moment * 1000, moment * 1_000_000, "1740820455.926"):
            self.assertEqual(formats.milliseconds(value), moment, value)
        self.assertEqual(formats.milliseconds("2024-12-31T23:59:60Z"), 1_735_689_600_000)
        for value in (None, True, "soon", "2025-02-30T00:00:00Z", "2025-01-01T24:00:00Z", "NaN", "1e999", [], "2025-01-01"):
            self.assertIsNone(formats.milliseconds(value), value)

    def test_a_line_has_a_place_or_belongs_in_the_quarantine(self):
        own = {"v": 1, "ts": "2025-03-01T09:14:15.926Z", "name": "a", "env": "prod", "bundle": "b"}

        def place(event, opened):
            return formats.event_place(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\r\n", opened)
        waybill, foreign = {**OPENED, "format": "waybill"}, {**OPENED, "time": "at"}
        self.assertEqual(place(own, waybill), formats.Place("prod", "b", 1_740_820_455_926))
        self.assertEqual(place({"at": 1_740_820_455, "ts": "x", "env": "dev"}, foreign),
                         formats.Place("prod", "com.example.shop", 1_740_820_455_000))
        self.assertEqual(place({"timestamp": "1740820455"}, foreign).time, 1_740_820_455_000)
        for change in ({"v": 2}, {"ts": 5}, {"ts": "1999-12-31T23:59:59.999Z"}, {"name": ""}, {"env": "x"}, {"bundle": None}):
            self.assertIsNone(place({**own, **change}, waybill), change)
        for line in (b"not json\n", b"[]\n", b"\n", b"\xff\n", b'{"ts":"2025-03-01T09:14:15Z"}\0\n'):
            self.assertIsNone(place(line, foreign), line)

    def test_erased_people_are_known_by_id_and_by_digest(self):
        key = bytes(range(32)).hex()
        # From the table of erasures.md.
        digest = "ed79f59d5dc592da8cbca991eb63181adca691dd13059f475906b01b119f2254"
        page = (REPOSITORY / "Protocol" / "formats" / "erasures.md").read_text(encoding="utf-8")
        self.assertIn(f"| `anon` | `u-4711` | `{digest}` |", page)
        people = formats.ErasedPeople([{"kind": "user", "id": "u 1", "key": key}, {"kind": "anon", "digest": digest, "key": key}])
        waybill, foreign = {"format": "waybill"}, {"format": "ndjson", "user": "login"}
        for line, opened, is_erased in (
                ({"user": "u 1"}, waybill, True), ({"user": "u 1"}, foreign, False), ({"login": "u 1"}, foreign, True),
                ({"anon": "u-4711"}, waybill, True), ({"anon": "u-4711"}, foreign, True), ({"user": "u-4711"}, waybill, False),
                ({"user": None, "anon": True}, waybill, False)):
            self.assertEqual(people.has(json.dumps(line).encode() + b"\n", opened), is_erased, line)

    def test_components_are_those_of_the_format(self):
        page = (REPOSITORY / "Protocol" / "formats" / "archive.md").read_text(encoding="utf-8")
        table = page[page.index("| value | component |"):page.index("Names of up to 100")]
        rows = [line.strip("| ").split("` | `") for line in table.splitlines()[2:] if line]
        self.assertEqual(len(rows), 4)
        for value, component in rows:
            self.assertEqual(formats.component(value.strip("`")), component.strip("`"))

    def test_lines_in_a_range_begin_there(self):
        found = list(formats.lines_in(b"one\ntwo\nthree", 100, 104, 113))
        self.assertEqual(found, [(104, b"two\n"), (108, b"three")])

    def test_a_window_of_a_file_is_read(self):
        raw = bytes(range(256)) * 20_000
        file = gzip.compress(raw[:3_000_000]) + gzip.compress(raw[3_000_000:])
        for start, length in ((0, 10), (2_999_990, 20), (len(raw) - 3, 10)):
            with tempfile.SpooledTemporaryFile(1 << 20) as spooled:
                spooled.write(file)
                for each in (spooled, io.BytesIO(file)):
                    each.seek(0)
                    self.assertEqual(audit.window(each, start, length), raw[start:start + length])
        self.assertEqual(audit.window(io.BytesIO(file[:1000]), 4_000_000, 10), b"")


class GapTests(unittest.TestCase):
    """The sweep against a model that counts each byte."""

    def test_gaps_are_those_of_a_model(self):
        dice = random.Random(SEED)
        for _ in range(300):
            held = [self.some_range(dice) for _ in range(dice.randrange(6))]
            filed = [self.some_range(dice) for _ in range(dice.randrange(6))]
            rows = [row for is_held, ranges in ((True, held), (False, filed))
                    for number, (stream, start, end) in enumerate(ranges)
                    for row in formats.edges(stream, start, end, f"{is_held} {number}", is_held, (number,))]
            found = {(gap.kind, gap.stream, at) for gap in formats.gaps(sorted(rows, key=lambda row: row[0]))
                     for at in range(gap.start, gap.end)}
            self.assertEqual(found, self.expected(held, filed), (held, filed))

    @staticmethod
    def some_range(dice):
        # Even bounds: a single byte after a held range is the LF that the archive adds.
        start = 2 * dice.randrange(10)
        return dice.choice("ab"), start, start + 2 * dice.randrange(1, 6)

    @staticmethod
    def expected(held, filed):
        result = set()
        for stream, at in itertools.product("ab", range(40)):
            counts = [sum(name == stream and start <= at < end for name, start, end in ranges) for ranges in (held, filed)]
            if counts[0] and not counts[1]:
                result.add(("missing", stream, at))
            elif counts[1] and not counts[0]:
                result.add(("foreign", stream, at))
            elif counts[1] > 1:
                result.add(("twice", stream, at))
        return result

    def test_the_line_end_that_the_archive_adds_is_not_foreign(self):
        def kinds(held, filed):
            rows = [*formats.edges("a", 0, held, "p", True, ()), *formats.edges("a", 0, filed, "s", False, ())]
            return [gap.kind for gap in formats.gaps(sorted(rows, key=lambda row: row[0]))]
        self.assertEqual(kinds(10, 11), [])
        self.assertEqual(kinds(10, 12), ["foreign"])
        self.assertEqual(kinds(10, 10), [])
        self.assertEqual(kinds(10, 9), ["missing"])


class JudgeTests(unittest.TestCase):
    HOUR = 3_600_000

    def judge(self, rounds, days, **changes):
        values = {"first": "2025-03-01", "last": "2025-03-02", "cut_off": 4 * self.HOUR, "rounds": formats.Rounds(rounds),
                  "days": days, "is_whole": True, "address": None,
                  "people": formats.ErasedPeople([]), **changes}
        return audit.Judge(**values)

    def kind(self, judge, day, number, received=0):
        line = json.dumps({"ts": f"{day}T10:00:00Z"}).encode() + b"\n"
        return judge.kind(line, types.SimpleNamespace(opened=OPENED), number, received)[0]

    def test_what_is_rightly_absent(self):
        sealed_at = 1_740_900_000_000
        days = {("prod", "com.example.shop", "2025-03-01"): {"sealed_at": sealed_at, "zone": "UTC"}}
        rounds = [(1, sealed_at - 5, 0), (2, sealed_at, 0), (3, sealed_at + 5, sealed_at)]
        judge = self.judge(rounds, days)
        self.assertEqual(self.kind(judge, "2025-03-01", 2), "missing")
        self.assertEqual(self.kind(judge, "2025-03-01", 3), "late")
        self.assertEqual(self.kind(judge, "2025-03-01", audit.NOT_MERGED), "late")
        self.assertEqual(self.kind(judge, "2025-03-02", 2), "unsealed")
        self.assertEqual(self.kind(judge, "2025-03-03", 2), "outside")
        self.assertEqual(judge.kind(b"{}\n", types.SimpleNamespace(opened=OPENED), 1, 0)[0], "quarantined")

    def test_a_range_of_a_file_that_cannot_be_read_is_named(self):
        key = "archive/env=prod/bundle=b/date=2025-03-01/part-00001.ndjson.gz"
        judge = self.judge([(1, 0, 0)], {})
        for kind, texts in (("foreign", [b""]), ("twice", [b"one\ntwo\n", b"one\n"])):
            found = list(judge.compared(formats.Gap(kind, " s1", 10, 18, ()), texts, [key]))
            self.assertEqual(found, [(kind, {
                "kind": kind, "stream": "s1", "offset": 10, "bytes": 8, "env": "prod", "bundle": "b", "day": "2025-03-01",
                "objects": [key]})])

    def test_equal_lines_are_twice_and_others_a_conflict(self):
        key = "archive/env=prod/bundle=b/date=2025-03-01/part-00001.ndjson.gz"
        gap = formats.Gap("twice", " s1", 10, 18, ())
        found = self.judge([(1, 0, 0)], {}).compared(gap, [b"one\ntwo\n", b"one\nTWO\n"], [key, key])
        self.assertEqual([(kind, line and line["offset"]) for kind, line in found], [("twice", 10), ("conflict", None)])

    def test_a_line_of_an_erased_person_is_rightly_absent(self):
        days = {("prod", "com.example.shop", "2025-03-01"): {"sealed_at": 5, "zone": "UTC"}}
        line = json.dumps({"ts": "2025-03-01T10:00:00Z", "user": "u1"}).encode() + b"\n"
        for people, kind in (([], "missing"), ([{"kind": "user", "id": "u1"}], "erased")):
            judge = self.judge([(1, 5, 0)], days, people=formats.ErasedPeople(people))
            self.assertEqual(judge.kind(line, types.SimpleNamespace(opened=OPENED), 1, 0)[0], kind)

    def test_a_day_that_must_be_sealed_and_is_not_is_missing(self):
        end = 1_740_873_600_000    # 2025-03-02T00:00:00Z
        for through, received, kind in (
                (end + 6 * self.HOUR, 0, "missing"), (end + 4 * self.HOUR, 0, "unsealed"),
                # It came a week later: the first cut-off after that counts.
                (end + 170 * self.HOUR, end + 165 * self.HOUR, "unsealed"),
                (end + 200 * self.HOUR, end + 165 * self.HOUR, "missing")):
            judge = self.judge([(1, through, through)], {})
            self.assertEqual(self.kind(judge, "2025-03-01", 1, received), kind, (through, received))

    def test_the_round_of_a_seal(self):
        rounds = formats.Rounds([(1, 10, 0), (2, 20, 0), (3, 20, 0), (4, 30, 7)])
        self.assertEqual([rounds.sealing(time) for time in (9, 10, 15, 20, 25, 99)], [0, 1, 1, 2, 3, 4])
        self.assertEqual((rounds.through, formats.Rounds([]).sealing(5)), (7, 0))

    def test_the_oldest_pieces_may_be_gone_and_a_hole_may_not(self):
        chain = "a~0123456789abcdef"
        keys = [formats.piece_key(chain, position) for position in (0, 10, 20, 30)]
        self.assertEqual(audit.absent_pieces(keys[:2], keys[2:]), ([], False))
        problems, is_whole = audit.absent_pieces([keys[2]], [keys[0], keys[1], keys[3]])
        self.assertEqual(([row["object"] for row in problems], is_whole), ([keys[2]], False))
        self.assertEqual(audit.absent_pieces([], keys), ([], True))


    def test_the_round_of_a_piece_may_have_been_deleted(self):
        key = formats.piece_key("a~0123456789abcdef", 10)
        self.assertEqual(audit.round_of(key, (7, 1, "…"), {}), 7)
        self.assertEqual(audit.round_of(key, None, {"a~0123456789abcdef": 11}), 0)
        self.assertEqual(audit.round_of(key, None, {"a~0123456789abcdef": 10}), audit.NOT_MERGED)
        self.assertEqual(audit.round_of(key, None, {}), audit.NOT_MERGED)


class PlanTests(unittest.TestCase):
    def day(self, day, bundle="b", env="prod", times=None):
        return replay.Day(env, bundle, day, 1, "UTC", times, 10)

    def request(self, **changes):
        address = spark.Address("events", "w", None, None)
        values = {"store": address, "out": address, "first": "2025-03-02", "last": "2025-03-02", "provider": "csv",
                  "zone": "UTC", "environments": (), "bundles": (), "names": (), "kinds": (), "program": "waybill",
                  "config": None, "files": (), "cut_off": 4 * 3_600_000, **changes}
        return replay.Request(**values)

    def days_of(self, zone):
        days = []
        for number in range(-3, 4):
            day = datetime.date(2025, 3, 2) + datetime.timedelta(number)
            start = int(datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp()) * 1000
            days.append(self.day(day.isoformat(), times=(start + 7_200_000, start + 79_200_000)))
        return [day.day[-5:] for unit in replay.plan(days, self.request(zone=zone)) for day in unit.inputs]

    def test_a_unit_reads_the_days_that_its_zone_needs(self):
        self.assertEqual(self.days_of("UTC"), ["03-02"])
        self.assertEqual(self.days_of("Asia/Seoul"), ["03-01", "03-02"])
        self.assertEqual(self.days_of("America/Los_Angeles"), ["03-02", "03-03"])
        self.assertEqual(self.days_of(None), ["02-28", "03-01", "03-02", "03-03", "03-04"])

    def test_shifted_lines_are_looked_for_next_to_the_day_of_receipt(self):
        days = [self.day("2025-03-01", bundle, times=(0, 1)) for bundle in ("b", "_overflow")]
        units = replay.plan(days, self.request(zone="UTC"))
        self.assertEqual([[day.bundle for day in unit.inputs] for unit in units], [["_overflow"]])

    def test_bundles_and_environments_are_chosen(self):
        days = [self.day("2025-03-02", bundle, env) for bundle in ("b", "c", "_overflow") for env in ("prod", "dev")]
        units = replay.plan(days, self.request(bundles=("b",), environments=("prod",)))
        self.assertEqual([[day.bundle for day in unit.inputs] for unit in units], [["_overflow", "b"]])
        self.assertEqual([unit.env for unit in replay.plan(days, self.request())], ["dev", "prod"])

    def test_a_range_is_sealed_when_the_last_day_that_it_needs_is(self):
        hour, end = 3_600_000, 1_740_960_000_000    # 2025-03-03T00:00:00Z
        for zone, hours in (("UTC", 4), ("Asia/Seoul", 4), ("America/Los_Angeles", 28), (None, 28)):
            self.assertEqual(replay.sealed_after(self.request(zone=zone), "UTC"), end + hours * hour, zone)

    def test_days_without_success_are_not_sealed(self):
        folder = "archive/env=prod/bundle=b/date=2025-03-0"
        keys = [f"{folder}1/manifest.json", f"{folder}1/_SUCCESS", f"{folder}2/part-00001.ndjson.gz",
                "archive/_deleted.ndjson"]
        self.assertEqual(replay.sealed_and_open(keys), ([("prod", "b", "2025-03-01")], ["prod/b/2025-03-02"]))

    def test_a_generation_is_not_written_over_the_fleet(self):
        program = pathlib.Path(tempfile.mkdtemp()) / "waybill"
        self.addCleanup(program.parent.rmdir)
        program.touch()
        self.addCleanup(program.unlink)
        base = ["replay", "--store", "s3://b/w", "--from", "2025-03-01", "--to", "2025-03-02", "--provider", "csv",
                "--program", str(program), "--out"]
        for out in ("s3://b/w", "s3://b/w/exports", "s3://b/w/archive/x", "s3://b/w/journal"):
            with self.assertRaises(replay.Refusal, msg=out):
                spark.request_of(spark.parser().parse_args([*base, out]))
        for out in ("s3://b/w/generations/1", "s3://b/other", "s3://c/exports"):
            request, shipped = spark.request_of(spark.parser().parse_args([*base, out]))
            self.assertEqual((request.zone, shipped), ("UTC", [str(program)]))

    def test_the_message_of_a_failed_task_is_the_programs(self):
        error = Exception(
            "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
            ": org.apache.spark.SparkException: Job aborted\nTraceback (most recent call last):\n"
            '  File "x.py", line 1, in make\nfleet_replay.Refusal: prod 2025-03-01: waybill replay ended with 65: no\n\n'
            "\tat org.x\n")
        self.assertEqual(spark.message_of(error), "prod 2025-03-01: waybill replay ended with 65: no")


if __name__ == "__main__":
    unittest.main()
