"""The recipes of Documentation/ask.md: what they load is what the archive has, also when a revision comes twice."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import unittest

from harness import REPOSITORY, ended, patience
from ledger import archived
from test_readme import ROOT, page_files
from test_sealed import SealedTest

PAGE = REPOSITORY / "Documentation" / "ask.md"
DUCKDB = ROOT / ".build" / "python" / "bin"
POSTGRESQL = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class RecipeTest(SealedTest):
    def setUp(self):
        super().setUp()
        self.folder = self.site.root / "recipes"
        self.folder.mkdir()
        for name, text in page_files(PAGE).items():
            (self.folder / name).write_text(text)

    def load(self, recipe, cursor, **variables):
        """Runs `waybill sealed --exec` as the page does."""
        result = subprocess.run(
            [os.environ.get("WAYBILL", ROOT / ".build/release/waybill"), "sealed", "--data", self.site.data, "--cursor",
             self.site.root / cursor, "--exec", f"bash ./{recipe}"],
            cwd=self.folder, capture_output=True, timeout=patience(120), text=True,
            env={**os.environ, "PATH": f"{DUCKDB}:{os.environ['PATH']}", "DATA": str(self.site.data), **variables})
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)

    def assert_loaded(self, count):
        """`count()` events are there after one load, a second one from nothing, and one of late lines."""
        for arguments, cursor in (((), "a"), (("again",), "b"), ((), "a")):
            if not arguments:
                self.ship(byte_count=60_000)
            self.load_all(cursor)
            self.assertEqual(count(), sum(1 for _ in archived(self.site.data)))


class ParquetTests(RecipeTest):
    def load_all(self, cursor):
        self.load("parquet.sh", cursor)

    def test_each_event_is_in_one_parquet_file(self):
        def count():
            result = subprocess.run(
                [DUCKDB / "duckdb", "-csv", "-noheader", "-c", "SELECT count(*) FROM read_parquet('parquet/*/*/*.parquet')"],
                cwd=self.folder, capture_output=True, text=True, check=True)
            self.assertEqual(list(self.folder.rglob("*.new")), [])
            return int(result.stdout)
        self.assert_loaded(count)

    def test_a_refused_load_is_tried_again(self):
        self.ship(byte_count=60_000)
        ended(75, "sealed", "--data", self.site.data, "--cursor", self.site.root / "a", "--exec", "exit 3")
        self.load_all("a")
        self.assertTrue(list(self.folder.rglob("*.parquet")))


@unittest.skipUnless(POSTGRESQL and shutil.which("psql"), "PostgreSQL is not installed")
class PostgreSQLTests(RecipeTest):
    """A server in a folder of its own, reached by a socket there."""

    def setUp(self):
        super().setUp()
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="waybill-pg-"))
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        # PostgreSQL does not run as root.
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(self.base, self.user)
        self.server("initdb", "--pgdata", self.base / "db", "--auth", "trust", "--no-sync", "--username", "loader")
        options = f"-c listen_addresses='' -k {self.base} -c fsync=off"
        self.server("pg_ctl", "--pgdata", self.base / "db", "--wait", "--log", self.base / "log", "--options", options, "start")
        self.addCleanup(self.server, "pg_ctl", "--pgdata", self.base / "db", "--mode", "immediate", "stop")
        self.variables = {"PGHOST": str(self.base), "PGUSER": "loader", "PGDATABASE": "postgres"}
        self.psql("--file", self.folder / "events.sql")

    def server(self, program, *arguments):
        prefix = ["runuser", "-u", self.user, "--"] if os.getuid() == 0 else []
        subprocess.run(
            [*prefix, POSTGRESQL / program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=patience(60), cwd="/")

    def psql(self, *arguments):
        return subprocess.run(
            ["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1", *map(str, arguments)],
            check=True, capture_output=True, text=True, timeout=patience(60), env={**os.environ, **self.variables}).stdout

    def load_all(self, cursor):
        self.load("postgresql.sh", cursor, **self.variables)

    def test_each_event_is_one_row(self):
        self.assert_loaded(lambda: int(self.psql("--command", "SELECT count(*) FROM events")))
        counts = self.psql("--command", "SELECT sum(records), max(revision) FROM days").strip()
        self.assertEqual(counts, f"{sum(1 for _ in archived(self.site.data))}|2")
        self.assertEqual(self.psql("--command", "SELECT count(*) FROM events WHERE id IS NULL OR ts IS NULL").strip(), "0")
