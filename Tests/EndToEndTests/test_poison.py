"""A line that ends the program which reads it: it is set aside, and everything else arrives.

The defect is not in the program: a library that is loaded before it has a fault when a thread reads the line.
"""

import json
import pathlib
import re
import shutil

from harness import SiteTest, compiled, ended, run, succeed, until
from ledger import EventMaker, exported_ids
from test_fleet import ENVIRONMENT, Fleet

TEXT = "ends-the-program"
# The thread of a command, as Dispatch names it.
COMMAND = "oot.default-qos"


class PoisonTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.maker = EventMaker(7)
        self.library = compiled(pathlib.Path(__file__).with_name("poison.c"), self.site.root)

    def write(self, name, marked):
        """Twenty lines in a log; those with these numbers end the program. Returns them."""
        lines = []
        for number in range(20):
            line = {"time": "2026-11-20T09:15:00.000Z", "event": "e", "n": number}
            if number in marked:
                line[TEXT + "A"] = 1
            # The name of the member has an escape, so that whoever compares it copies the text before that.
            lines.append(json.dumps(line).replace(TEXT + "A", TEXT + "\\u0041") + "\n")
        (self.site.root / name).write_text("".join(lines))
        return lines

    def ship(self, name):
        return self.site.once("--glob", self.site.root / name, "--env", "prod", "--bundle", "com.example.web")

    def defect(self, thread, **variables):
        """The environment of a program whose thread has the defect."""
        return {
            "LD_PRELOAD": str(self.library), "POISON_TEXT": TEXT, "POISON_THREAD": thread, "SWIFT_BACKTRACE": "enable=no", **variables}

    def start(self, thread, *arguments, exports, **variables):
        return self.site.start(
            "receiver", "--data", self.site.data, "--listen", self.site.address, "--exports", exports, "--stop-seconds", "60",
            *arguments, log="receiver.log", env=self.defect(thread, **variables))

    def live_until_it_stays(self, thread, exports, deaths):
        """Starts the receiver again after each death, as its supervisor does; returns the one that continues."""
        for _ in range(deaths):
            receiver = self.start(thread, exports=exports)
            code = receiver.wait()
            self.assertLess(code, 0, receiver.log())
            self.assertEqual(-code, 11)
        receiver = self.start(thread, exports=exports)
        receiver.until_logged("receiver started", 60)
        return receiver

    def archived(self):
        lines = []
        for path in sorted(self.site.data.glob("archive/**/*.ndjson")):
            lines += path.read_text().splitlines(keepends=True)
        return lines

    def ship_and_die(self, thread, exports, name, marked):
        """Ships a log while the receiver dies of it; returns its lines."""
        lines = self.write(name, marked)
        receiver = self.start(thread, exports=exports)
        receiver.until_logged("receiver started", 60)
        agent = self.site.agent(
            "--glob", self.site.root / name, "--env", "prod", "--bundle", "com.example.web")
        self.assertEqual(receiver.wait(), -11)
        agent.kill()
        return lines


class ArchiveTests(PoisonTest):
    def test_the_archives_line_goes_to_the_quarantine(self):
        lines = self.ship_and_die("waybill-archive", "csv", "a.ndjson", {7})
        receiver = self.live_until_it_stays("waybill-archive", "csv", 1)
        until(lambda: len(self.archived()) == 19, 30, "everything else is archived")
        self.assertEqual(receiver.stop(), 0)
        self.assertIn("a line that ended the program twice was set aside", receiver.log())
        self.assertEqual(self.archived(), lines[:7] + lines[8:])
        [path] = self.site.data.glob("quarantine/date=*/poison.ndjson")
        self.assertEqual(path.read_text(), lines[7])
        [runs] = [line.split() for line in path.with_suffix(".sources").read_text().splitlines() if line.startswith("POISON ")]
        self.assertEqual(int(runs[2]), sum(map(len, lines[:7])))

        # A program without the defect decides alike, and so does one that verifies or exports again.
        self.assert_verified()
        for command in (["requeue", "--reason", "poison"],
                        ["requeue", "--after-version", "99.0.0"],
                        ["requeue", "--after-version", "new"]):
            ended(64, *command, "--data", self.site.data, "--output", self.site.root / "again")
        kept = run("requeue", "--data", self.site.data, "--output", self.site.root / "again")
        self.assertEqual((kept.returncode, json.loads(kept.stdout)["lines"]), (0, 0), kept.stderr)

    def test_kills_set_nothing_aside_and_are_reported_with_the_line(self):
        lines = self.write("a.ndjson", {7})
        # Everything is in the journal before the archive reads it.
        receiver = self.site.receiver()
        self.ship("a.ndjson")
        until(lambda: len(self.archived()) == 20, 30, "the lines are archived")
        self.assertEqual(receiver.stop(), 0)
        for path in self.site.data.glob("state/archive.state*"):
            path.unlink()
        shutil.rmtree(self.site.data / "archive")
        (self.site.data / "state" / "readers").unlink()
        for _ in range(5):
            receiver = self.start("waybill-archive", exports="csv", POISON_KILL="1")
            self.assertEqual(receiver.wait(), -9)
        self.assertFalse((self.site.data / "quarantine" / "_poison").exists())
        [told] = [entry for entry in receiver.entries() if entry.get("id") == "WB1318"]
        self.assertEqual(told["offset"], sum(map(len, lines[:7])))

        # The command that the message names.
        succeed("set-aside", "--data", self.site.data, "--stream", told["stream"], "--offset", told["offset"])
        receiver = self.start("waybill-archive", exports="csv", POISON_KILL="1")
        until(lambda: len(self.archived()) == 19, 30, "everything else is archived")
        self.assertEqual(receiver.stop(), 0, receiver.log())
        [path] = self.site.data.glob("quarantine/date=*/poison.ndjson")
        self.assertEqual(path.read_text(), lines[7])


class ExportTests(PoisonTest):
    def letters(self, provider):
        return [json.loads(line) for path in sorted(self.site.data.glob(f"exports/{provider}/**/dead/*.ndjson"))
                for line in path.read_text().splitlines()]

    def test_what_several_exports_read_together_is_a_dead_letter_of_each_and_stays_in_the_archive(self):
        providers = ("csv", "mixpanel", "segment")
        lines = self.ship_and_die("wb-exports-0", ",".join(providers), "a.ndjson", {7})
        receiver = self.live_until_it_stays("wb-exports-0", ",".join(providers), 1)
        until(lambda: len(self.archived()) == 20, 30, "everything is archived")
        until(lambda: all(self.letters(provider) for provider in providers), 30, "each export has its dead letter")
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(self.archived(), lines)
        for provider in providers:
            [letter] = [letter for letter in self.letters(provider) if letter["reason"] == "poison"]
            self.assertEqual(letter["offset"], sum(map(len, lines[:7])))
        self.assertEqual(list(self.site.data.glob("quarantine/date=*/poison.*")), [])
        self.assert_verified()


class ReplayTests(PoisonTest):
    def replay(self, *arguments, thread=None):
        """With the defect in a thread; returns the status and what was said."""
        done = run(
            "replay", "--data", self.site.data, "--provider", "csv", "--jobs", "1", *arguments, env=self.defect(thread) if thread else None)
        return done.returncode, done.stderr.decode()

    def ship_all(self):
        """A data directory with twenty lines of which one will end a replay; returns the lines and what the directory has."""
        lines = self.write("a.ndjson", {7})
        receiver = self.site.receiver(exports="csv")
        self.ship("a.ndjson")
        until(lambda: len(self.archived()) == 20, 30, "the lines are archived")
        self.assertEqual(receiver.stop(), 0)
        return lines, self.contents()

    def contents(self):
        return {path.relative_to(self.site.data): path.read_bytes() for path in self.site.data.rglob("*") if path.is_file()}

    def letters(self, root):
        return [json.loads(line) for path in sorted(root.glob("exports/csv/**/dead/*.ndjson")) for line in path.read_text().splitlines()]

    def check_generation(self, root, lines):
        [letter] = self.letters(root)
        self.assertEqual((letter["reason"], letter["offset"]), ("poison", sum(map(len, lines[:7]))))
        self.assertEqual(exported_ids(root, "csv").total(), 19)

    def test_a_replay_elsewhere_leaves_the_line_out_and_remembers_it_there(self):
        lines, before = self.ship_all()
        # With repetitions dropped, all lines are read once before.
        for output, *more in ((self.site.root / "again",), (self.site.root / "distinct", "--distinct")):
            for _ in range(2):
                self.assertEqual(self.replay("--output", output, *more, thread=COMMAND)[0], -11)
            code, said = self.replay("--output", output, *more, thread=COMMAND)
            self.assertEqual(code, 0, said)
            self.assertIn("ended the program twice", said)
            self.check_generation(output, lines)
            # Its places are of no use any more; what it left out is remembered.
            self.assertEqual([path.name for path in (output / "state").glob("readers.replay*")], ["readers.replay.lines"])
            self.assertEqual(self.contents(), before)
        # With the program mended and the folder gone, nothing is left out.
        shutil.rmtree(output)
        self.assertEqual(self.replay("--output", output)[0], 0)
        self.assertEqual(self.letters(output), [])

    def test_a_replay_in_place_leaves_it_to_the_operator_what_is_left_out(self):
        lines, before = self.ship_all()
        for _ in range(2):
            self.assertEqual(self.replay(thread=COMMAND)[0], -11)
        code, said = self.replay(thread=COMMAND)
        self.assertEqual(code, 65, said)
        outputs = {path: data for path, data in before.items() if path.parts[0] in ("archive", "exports")}
        self.assertEqual({path: data for path, data in self.contents().items() if path in outputs}, outputs)
        # The command that it names.
        [command] = re.findall(r"run waybill (set-aside .*), and the replay again", said)
        self.assertEqual(run(*command.split()).returncode, 0)
        code, said = self.replay(thread=COMMAND)
        self.assertEqual(code, 0, said)
        self.check_generation(self.site.data, lines)
        self.assertEqual(list((self.site.data / "state").glob("readers.replay*")), [])
        # The data directory says what was left out of it.
        self.assert_verified()


class FleetTests(PoisonTest):
    def setUp(self):
        super().setUp()
        self.fleet = Fleet(self.site)
        self.addCleanup(self.fleet.close)

    def poison(self, merger):
        paths = list((self.site.root / merger).glob("quarantine/date=*/poison.ndjson"))
        return [path.read_text() for path in paths]

    def test_all_mergers_leave_the_line_out_also_one_that_had_read_it(self):
        self.fleet.write("n", 10)
        [line] = [line for line in self.write("marked.ndjson", {7}) if TEXT in line]
        line = line.replace('"time"', '"ts"').replace('"event"', '"name"')
        with open(self.site.root / "logs-n" / "app.ndjson", "a", encoding="utf-8") as file:
            file.write(line)
        self.fleet.write("n", 10)
        self.fleet.receiver("a")
        self.assertEqual(self.fleet.agent("n", "--once", to=["a"]).wait(120), 0)
        # Its version reads the line.
        reader = self.fleet.merger("m2")
        until(lambda: len(self.fleet.merged("m2")) == 21, 90, "m2 has read every line")
        for _ in range(2):
            self.assertEqual(self.fleet.merger("m1", env=self.defect("waybill-archive")).wait(90), -11)
        stopped = self.fleet.merger("m1", env=self.defect("waybill-archive"))
        stopped.until_logged("this reader stands still", 60)
        [told] = [entry for entry in stopped.entries() if entry.get("id") == "WB1317"]
        refused = run("set-aside", "--data", self.site.root / "m1", "--stream", told["stream"], "--offset", told["offset"])
        self.assertNotEqual(refused.returncode, 0)

        for is_repeated in (False, True):
            asked = succeed(
                "set-aside", "--store", self.fleet.url, "--endpoint", self.fleet.server.url, "--stream", told["stream"],
                "--offset", told["offset"], env=ENVIRONMENT)
            self.assertEqual(json.loads(asked.stdout)["repeated"], is_repeated)
        stopped.until_logged("a line was set aside for the whole fleet", 60)
        self.assertNotEqual(reader.wait(90), 0)
        self.assertIn("was set aside for the whole fleet after this merger had read it", reader.log())
        self.fleet.merger("m2")
        self.fleet.merger("m3", env=self.defect("waybill-archive"))
        for name in ("m1", "m2", "m3"):
            until(lambda name=name: sorted(self.fleet.merged(name)) == sorted(self.fleet.written), 90, f"{name} has the rest")
            until(lambda name=name: self.poison(name) == [line], 30, f"{name} has the line in its quarantine")
