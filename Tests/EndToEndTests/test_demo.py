"""`Tools/demo`: what it prints, the page that it ends with, and data that every report has an answer for."""

import json
import os
import pathlib
import pty
import re
import shlex
import signal
import subprocess
import tempfile
import unittest
import urllib.request

from harness import REPOSITORY, binary, patience, succeed, until

DEMO = REPOSITORY / "Tools/demo"
SMALL = ["--events", "4000", "--kills", "1"]


class DemoTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        cls.data = cls.root / "demo/data"
        cls.environment = {**os.environ, "WAYBILL": os.path.abspath(binary())}
        cls.result = subprocess.run(
            [DEMO, "demo", *SMALL], cwd=cls.root, env=cls.environment, capture_output=True, text=True,
            timeout=patience(120), check=False)

    def report(self, name, *options):
        """The rows of a report of the demo's data."""
        return self.reports(name, *options)[0]["rows"]

    def reports(self, name, *options):
        result = succeed("report", name, "--data", self.data, *options, "--format", "json", "--quiet")
        return json.loads(result.stdout)["reports"]

    def test_it_ends_with_the_days_in_numbers_and_the_command_for_the_page(self):
        self.assertEqual((self.result.returncode, self.result.stderr), (0, ""))
        *_, head, rule, first, second, empty, last = self.result.stdout.splitlines()
        self.assertEqual(head.split(), ["day", "events", "people", "new", "sessions", "views", "late"])
        self.assertRegex(rule, r"^ +-[- ]+$")
        self.assertEqual([line.split() for line in (first, second)],
                         [list(map(str, row)) for row in self.report("overview")])
        self.assertEqual(empty, "")
        said, _, command = last.partition(": ")
        self.assertEqual(said, "See the events in the browser")
        self.assertEqual(shlex.split(command), [os.path.abspath(binary()), "live", "--data", "demo/data"])

    def test_at_a_terminal_it_shows_the_page_until_control_c(self):
        terminal, slave = pty.openpty()
        process = subprocess.Popen(
            [DEMO, "shown", *SMALL], cwd=self.root, env=self.environment, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True)
        os.close(slave)
        self.addCleanup(os.close, terminal)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        printed = bytearray()

        def address():
            printed.extend(os.read(terminal, 4096))
            return re.search(rb"(http://127\.0\.0\.1:\d+)/#t=(\S+)\r\n", printed)

        found = until(address, 120, "the demo prints the page's address")
        self.assertIn(b"until you press Ctrl-C", printed.splitlines()[-2])
        request = urllib.request.Request(
            found[1].decode() + "/api/events?limit=5", headers={"Authorization": f"Bearer {found[2].decode()}"})
        with urllib.request.urlopen(request, timeout=patience(20)) as answer:
            self.assertEqual(len(json.load(answer)["rows"]), 5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(patience(20)), 0)

    def test_every_report_has_an_answer(self):
        days = [row[0] for row in self.report("overview")]
        self.assertEqual(len(days), 2)
        self.assertEqual([row[2] > 0 for row in self.report("new-returning")], [False, True])
        # No one knows who returned on the second day before its cut-off, which may be to come.
        returned = self.reports("retention")[0]
        is_open = any(days[1] in note for note in returned["notes"])
        self.assertEqual(returned["rows"][0][3] is None, is_open)
        self.assertGreater(is_open or returned["rows"][0][3], 0)
        self.assertEqual({row[0] for row in self.report("breakdown", "--event", "login", "--by", "data.method")},
                         {"apple", "email", "kakao"})
        self.assertEqual({row[0] for row in self.report("breakdown", "--event", "set_user", "--by", "traits.tier")},
                         {"FREE", "PREMIUM", None})
        versions = [row[:2] for row in self.report("versions")]
        self.assertEqual(versions, [[days[0], "1.4.2"], [days[1], "1.4.2"], [days[1], "1.5.0"]])
        self.assertEqual({row[0] for row in self.report("os")}, {"17", "18", "26"})
        paths = [row[0] for row in self.report("paths", "--before", "error")]
        self.assertIn("Product > Cart > Checkout", paths)
        steps = self.report("funnel", "--step", "screen=SignUp", "--step", "Sign Up Tapped", "--step", "login")
        self.assertTrue(steps[0][2] > steps[1][2] > steps[2][2] > 0, steps)
        conflicts = {(row[0], row[2]): row[8] for row in self.report("names") if row[9] == "yes"}
        self.assertEqual(conflicts, {("error", "code"): "string: 1.5.0, integer: 1.4.2"})
        for name in ["screens", "next", "active", "sessions", "arrival", "providers"]:
            self.assertTrue(self.report(name, *(["--screen", "Home"] if name == "next" else [])), name)

    def test_people_share_devices_and_no_event_is_later_than_its_days(self):
        people, times = {}, []
        for path in self.data.glob("archive/env=prod/*/*/*.ndjson"):
            for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                times.append(line["ts"][:10])
                people.setdefault(line["anon"], set()).add(line.get("user"))
        self.assertGreater(sum(1 for users in people.values() if len(users - {None}) > 1), 10)
        self.assertEqual(sorted(set(times)), [row[0] for row in self.report("overview")])
