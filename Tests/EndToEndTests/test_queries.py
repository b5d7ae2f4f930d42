"""The queries of Documentation/ask.md against lines whose answers were counted by hand.

Two people share a device, steps are repeated or come in the wrong order, one person signs up a day later, another at the
second attempt, a line came twice, and a device did nothing.
"""
import json
import pathlib
import subprocess
import tempfile
import unittest

from test_readme import ROOT, page_files

ARCHIVE = "waybill-demo/data/archive/env=prod/bundle=com.example.shop"
TAP = "Sign Up Tapped"


def screen(anon, ts, name, prev=None, prev_ms=None, user=None):
    return {"anon": anon, "ts": ts, "kind": "screen", "name": "screen_view", "screen": name, "prev": prev,
            "prev_ms": prev_ms, "user": user}


def tap(anon, ts, user=None):
    return {"anon": anon, "ts": ts, "kind": "action", "name": TAP, "screen": "SignUp", "user": user}


def account(anon, ts, user):
    return {"anon": anon, "ts": ts, "kind": "user", "name": "set_user", "user": user}


LINES = [
    # Ana signs up, and later Ben signs in on the same device.
    screen("shared", "2026-11-20T09:00:00.000Z", "Home"),
    {**tap("shared", "2026-11-20T09:01:00.000Z"), "screen": "Home"},
    screen("shared", "2026-11-20T09:02:00.000Z", "SignUp", "Home", 4_000),
    tap("shared", "2026-11-20T09:03:00.000Z"),
    account("shared", "2026-11-20T09:04:00.000Z", "ana"),
    screen("shared", "2026-11-20T09:05:00.000Z", "Home", "SignUp", 20_000, "ana"),
    screen("shared", "2026-11-20T09:10:00.000Z", "SignUp", "Home", 8_000),
    account("shared", "2026-11-20T09:11:00.000Z", "ben"),
    # Never signs up, and comes back.
    screen("guest", "2026-11-20T10:00:00.000Z", "SignUp"),
    tap("guest", "2026-11-20T10:01:00.000Z"),
    screen("guest", "2026-11-21T09:00:00.000Z", "Home"),
    # Signs up a day after the tap, with another version.
    screen("late", "2026-11-20T11:00:00.000Z", "SignUp"),
    tap("late", "2026-11-20T11:01:00.000Z"),
    {**account("late", "2026-11-21T08:00:00.000Z", "cleo"), "app": "1.1"},
    # Was signed in before, and taps twice: no new account.
    account("early", "2026-11-20T12:00:00.000Z", "dan"),
    screen("early", "2026-11-20T12:01:00.000Z", "SignUp", user="dan"),
    tap("early", "2026-11-20T12:02:00.000Z", "dan"),
    tap("early", "2026-11-20T12:03:00.000Z", "dan"),
    # Leaves the sign-up screen, and comes back after an hour.
    screen("again", "2026-11-20T13:00:00.000Z", "SignUp"),
    screen("again", "2026-11-20T14:00:00.000Z", "SignUp"),
    tap("again", "2026-11-20T14:01:00.000Z"),
    account("again", "2026-11-20T14:02:00.000Z", "eve"),
    # The same line twice; the time on the last screen; a notice of a device on which no one did anything.
    *[{**screen("again", "2026-11-20T14:03:00.000Z", "Welcome", "SignUp", 35_000, "eve"), "id": "1"}] * 2,
    {"anon": "again", "ts": "2026-11-20T14:05:00.000Z", "kind": "event", "name": "screen_end", "screen": "Welcome",
     "user": "eve", "data": {"duration_ms": 120_000}},
    {"anon": "idle", "ts": "2026-11-21T15:00:00.000Z", "kind": "meta", "name": "wb.dropped"},
    # A line of a server, about no one.
    {"ts": "2026-11-21T16:00:00.000Z", "name": "request"},
]
ANSWERS = [
    ["date", "active"], ["2026-11-20", "6"], ["2026-11-21", "2"],
    ["version", "active"], ["1.0", "6"], ["1.1", "1"],
    ["screen", "views", "seconds"], ["SignUp", "7", "27.5"], ["Home", "3", "6.0"], ["Welcome", "1", "120.0"],
    ["saw_screen", "tapped", "joined"], ["6", "5", "2"],
]


class QueryTests(unittest.TestCase):
    def test_the_answers_are_those_of_a_count_by_hand(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for day in ("2026-11-20", "2026-11-21"):
                folder = root / ARCHIVE / f"date={day}"
                folder.mkdir(parents=True)
                lines = [{"app": "1.0", **line} for line in LINES if line["ts"].startswith(day)]
                text = "".join(json.dumps({k: v for k, v in line.items() if v is not None}) + "\n" for line in lines)
                (folder / "part-00001.ndjson").write_text(text, encoding="utf-8")
            result = subprocess.run(
                [ROOT / ".build/python/bin/duckdb", "-markdown"], cwd=root, capture_output=True, text=True,
                input=page_files(ROOT / "Documentation/ask.md")["product.sql"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in result.stdout.splitlines()]
        self.assertEqual([row for row in rows if not row[0].startswith("-")], ANSWERS)
