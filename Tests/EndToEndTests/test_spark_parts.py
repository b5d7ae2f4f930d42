"""What Tools/spark does without Spark: keys, documents, the plan of a replay."""

import datetime
import pathlib
import sys
import tempfile
import unittest

from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "Tools" / "spark"))

import fleet_formats as formats  # noqa: E402
import fleet_replay as replay  # noqa: E402
import waybill_spark as spark  # noqa: E402


class FormatTests(unittest.TestCase):
    def test_a_document_is_checked_and_written(self):
        text = formats.document_text({"revision": 1, "env": "가", "crc32": "old"})
        self.assertEqual(formats.checked_document(text)["env"], "가")
        for damaged in (text.replace(b'"revision":1', b'"revision":2'), text[:-4], b"[]"):
            with self.assertRaises(formats.Damage):
                formats.checked_document(damaged)

    def test_components_are_those_of_the_format(self):
        page = (REPOSITORY / "Protocol" / "formats" / "archive.md").read_text(encoding="utf-8")
        table = page[page.index("| value | component |"):page.index("Names of up to 100")]
        rows = [line.strip("| ").split("` | `") for line in table.splitlines()[2:] if line]
        self.assertEqual(len(rows), 4)
        for value, component in rows:
            self.assertEqual(formats.component(value.strip("`")), component.strip("`"))


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
