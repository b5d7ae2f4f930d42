"""`waybill report` against the same definitions in DuckDB's SQL.

The forty lines of `archives.Fixture` are stored by a real receiver, sealed, and joined by a late part. Random archives
are written from a seed; each report that both can make must have the same rows.
"""

import csv
import datetime
import io
import json
import pathlib
import random
import re
import subprocess
import tempfile
import unittest

from archives import BUNDLE, Fixture, RandomArchive
from harness import REPOSITORY, Site, run
from ledger import EventMaker
from scale import SEED, amount
from schemas import violations

DUCKDB = REPOSITORY / ".build/python/bin/duckdb"
OPTIONS = ["--from", "2026-11-02", "--to", "2026-11-04", "--screen", "Home", "--before", "login", "--step", "screen=SignUp",
           "--step", "Sign Up Tapped", "--step", "kind=user & user=*"]
# How far two numbers of a unit may be apart: one of them is rounded.
TOLERANCES = {"share": 0.000501, "seconds": 0.0501, "count": 0.0501}


def report(data, names, *options, form="json", code=0):
    """Runs the command and returns what it prints."""
    printed = ["--format", form] if form else []
    result = run("report", names, "--data", data, *options, *printed, "--quiet")
    if result.returncode != code:
        raise AssertionError(f"report {names} {options}: {result.returncode}: {result.stderr.decode()[-1500:]}")
    return result.stdout.decode()


def reports(data, names, *options):
    """The reports by name."""
    return {one["name"]: one for one in json.loads(report(data, names, *options))["reports"]}


def sql_answers(data, names, *options):
    """What DuckDB answers to the text that the command prints, by report."""
    result = run("report", "sql", names, "--data", data, *options)
    if result.returncode:
        raise AssertionError(f"report sql {options}: {result.returncode}: {result.stderr.decode()[-1500:]}")
    text = re.sub(r"^-- report: (\S+)$", r".print \1@", result.stdout.decode(), flags=re.MULTILINE)
    answer = subprocess.run([DUCKDB, "-json"], input=text, capture_output=True, text=True, check=False, timeout=600)
    if answer.returncode or answer.stderr:
        raise AssertionError(f"report sql {names} {options}: {answer.stderr[:1500]}")
    parts = re.split(r"^(\S+)@$", answer.stdout, flags=re.MULTILINE)[1:]
    return {name: json.loads(body.strip() or "[]") for name, body in zip(parts[::2], parts[1::2])}


def widened(answer):
    """Retention as the command prints it: a row for each cohort, a column for each day."""
    cohorts = {}
    for row in answer:
        cohort = cohorts.setdefault(row["cohort"], {"cohort": row["cohort"], "people": row["people"]})
        cohort[f"day {row['number']}"] = row["active"]
    return list(cohorts.values())


def difference(one, answer, without=()):
    """What two answers to a report do not agree on, except in the columns `without`; `None` if nothing."""
    if one["name"].startswith("retention"):
        answer = widened(answer)
    columns = [column["name"] for column in one["columns"]]
    units = [column["unit"] for column in one["columns"]]
    if answer and not set(answer[0]) <= set(columns):
        return f"columns {sorted(answer[0])}, not {columns}"
    if len(one["rows"]) != len(answer):
        return f"{len(one['rows'])} rows {one['rows'][:5]}, not {len(answer)} {answer[:5]}"
    for row, other in zip(one["rows"], answer):
        for name, unit, value in zip(columns, units, row):
            if name in other and name not in without and not is_same(value, other[name], TOLERANCES.get(unit, 0)):
                return f"{name} is {value!r}, not {other[name]!r}, in {row}, {other}"
    return None


def is_same(value, other, tolerance):
    if isinstance(value, (int, float)) and isinstance(other, (int, float)):
        exact = isinstance(value, int) and isinstance(other, int)
        return value == other if exact else abs(value - other) <= tolerance
    return value == other


class FixtureTests(unittest.TestCase):
    """The forty lines, as a real receiver keeps them: sealed days, and the late line in a part of its own.

    The Swift tests of the same name have the numbers that were worked out by hand."""

    @classmethod
    def setUpClass(cls):
        cls.site = Site()
        cls.addClassCleanup(cls.site.close)
        fixture = Fixture()
        cls.store(fixture.lines)
        result = run("seal", "--data", cls.site.data, "--all")
        if result.returncode:
            raise AssertionError(result.stderr)
        cls.store(fixture.late)

    @classmethod
    def store(cls, lines):
        configuration = cls.site.root / "waybill.yaml"
        configuration.write_text(
            f"receiver:\n  data: {cls.site.data}\n  archive: {{zone: Asia/Seoul}}\n", encoding="utf-8")
        receiver = cls.site.receiver("--config", configuration)
        EventMaker(7).segment(cls.site.spool, lines, writer=f"0195505e-0000-7000-8000-{len(lines):012x}")
        cls.site.once()
        if receiver.stop():
            raise AssertionError(receiver.log())

    def test_the_fixture_is_stored_as_it_should_be(self):
        self.assertEqual(Fixture().count, 40)
        names = {path.name for path in self.site.data.glob("archive/env=prod/*/date=2026-11-02/*.ndjson*")}
        self.assertEqual(names, {"part-00001.ndjson.gz", "late-00001.ndjson"})

    def test_the_command_and_sql_agree(self):
        for more in ([], ["--strict-cut-off", "--previous"], ["--rolling", "30"]):
            answers = sql_answers(self.site.data, RandomTests.NAMES, *OPTIONS, *more)
            for name, one in reports(self.site.data, RandomTests.NAMES, *OPTIONS, *more).items():
                self.assertIsNone(difference(one, answers[name]), (name, more))

    def test_files_are_written_instead_of_the_table(self):
        page, names = self.site.root / "week.html", self.site.root / "names.json"
        self.assertEqual(report(self.site.data, "screens", "--html", page, "--names", names, form=None), "")
        self.assertEqual(page.read_text(encoding="utf-8"), report(self.site.data, "screens", form="html"))
        document = json.loads(names.read_text(encoding="utf-8"))
        self.assertEqual(violations("names.schema.json", document), [])
        self.assertEqual((document["v"], document["env"], document["app"]), (1, "prod", BUNDLE))
        login = next(one for one in document["names"] if one["name"] == "login")
        self.assertEqual((login["kind"], login["count"], login["people"]), ("event", 3, 3))
        self.assertEqual(login["properties"], [{
            "path": "data.method", "count": 3, "first": login["first"], "last": login["last"],
            "types": [{"type": "string", "count": 3, "versions": ["1.3.0", "1.4.0"]}], "conflict": False}])
        text = report(self.site.data, "screens", "--names", names, form="csv")
        self.assertEqual(text, report(self.site.data, "screens", form="csv"))
        nowhere = self.site.root / "none" / "week.html"
        self.assertEqual(run("report", "screens", "--data", self.site.data, "--html", nowhere).returncode, 74)
        self.assertEqual(run("report", "sql", "--data", self.site.data, "--names", names).returncode, 64)

    def test_every_format_has_the_same_rows(self):
        made = json.loads(report(self.site.data, "all", *OPTIONS))["reports"]
        self.assertGreaterEqual(len(made), 16)
        tables = report(self.site.data, "all", *OPTIONS, form="csv").split("\r\n\r\n")
        self.assertEqual(len(tables), len(made))
        for one, table in zip(made, tables):
            lines = [line for line in table.split("\r\n") if line and not line.startswith("#")]
            names, *cells = list(csv.reader(io.StringIO("\n".join(lines))))
            self.assertEqual(names, [column["name"] for column in one["columns"]])
            self.assertEqual(cells, [["" if cell is None else str(cell) for cell in row] for row in one["rows"]])
            self.assertIn(f"# {one['definition']}\r\n", table)
        text = report(self.site.data, "all", *OPTIONS, form="table")
        for one in made:
            self.assertIn(f"\n{one['title']}\n", text)
        self.assertIn("  2026-11-02      20       5    4         5     13     1\n", text)


class RandomTests(unittest.TestCase):
    """Archives from seeds: the command and DuckDB agree, and how the days are stored and read changes nothing."""

    NAMES = "overview,screens,next,paths,funnel,retention,active,breakdown,new-returning,versions,os,gaps,sessions"

    def test_the_command_and_sql_agree(self):
        for seed in range(SEED, SEED + amount("WAYBILL_REPORT_ARCHIVES", 8, 200)):
            with self.subTest(seed), tempfile.TemporaryDirectory() as directory:
                archive = RandomArchive(seed)
                archive.write(pathlib.Path(directory))
                chance = random.Random(seed)
                options = self.options(chance, archive)
                self.compare(directory, self.NAMES, options)
                self.compare(directory, "names", [])
                by = chance.choice(["data.method", "traits.tier", "new", "screen", "kind", "version", "os", "on"])
                self.compare(directory, "breakdown", [*options, "--by", by])

    def options(self, chance, archive):
        """Options that ask each report something else every time."""
        pick = chance.choice
        days = sorted(archive.first + datetime.timedelta(days=chance.randrange(archive.day_count)) for _ in range(2))
        screens, names = archive.certain()
        steps = ["screen=" + screen for screen in screens] + names + ["kind=user & user=*", "kind=screen", "data.method=7"]
        options = ["--zone", pick([archive.zone, archive.zone, "UTC", "Asia/Seoul"]),
                   "--screen", pick(screens), "--before", pick(steps), "--within", pick(["1s", "30s", "10m", "2h", "3d"])]
        for step in chance.sample(steps, min(len(steps), chance.randint(2, 4))):
            options += ["--step", step]
        for option, probability in [
                (["--from", str(days[0]), "--to", str(days[1])], 0.7), (["--strict-cut-off"], 0.3), (["--strict"], 0.3),
                (["--previous"], 0.5), (["--event", pick(steps)], 0.7), (["--rolling", pick(["1", "5", "30"])], 0.3),
                (["--where", pick(["version!=1.1", "screen=*", "user=*", "new=yes", "traits.tier=PRO"])], 0.3)]:
            if chance.random() < probability:
                options += option
        if "--rolling" not in options:
            options += ["--rule", pick(steps) + ">=2"]
        return options

    def compare(self, data, names, options):
        """Fails where the command and DuckDB say something different; a range without lines is refused."""
        result = run("report", names, "--data", data, *options, "--format", "json", "--quiet")
        answers = sql_answers(data, names, *options)
        if result.returncode == 65:
            self.assertIn(b"there are no lines from", result.stderr)
            self.assertEqual(answers.get("overview", []), [])
            return
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        made = json.loads(result.stdout)["reports"]
        self.assertGreaterEqual({one["name"] for one in made}, set(names.split(",")))
        wrong = {one["name"]: difference(one, answers[one["name"]]) for one in made}
        self.assertEqual({name: text for name, text in wrong.items() if text}, {}, options)

    def test_sealing_and_jobs_change_nothing(self):
        for seed in range(SEED, SEED + amount("WAYBILL_REPORT_STORES", 2, 20)):
            archive = RandomArchive(seed)
            options = self.options(random.Random(seed), archive)
            with self.subTest(seed), tempfile.TemporaryDirectory() as directory:
                made = {}
                for is_sealed in (True, False, None):
                    data = pathlib.Path(directory) / str(is_sealed)
                    data.mkdir()
                    archive.write(data, is_sealed)
                    for jobs in ("1", "4"):
                        result = run("report", "all", "--data", data, *options, "--format", "json", "--jobs", jobs, "--quiet")
                        made[is_sealed, jobs] = (result.returncode, result.stdout)
                self.assertEqual(len(set(made.values())), 1, made.keys())
