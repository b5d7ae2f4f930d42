"""`waybill erase` is killed around its calls to the disk, and the same command then completes the erasure.

Before and after: what a delivery had sent is not sent again, no one else's event is lost, and no reader gets the person's.
"""

import collections
import json
import os
import re
import subprocess


from faults import armed, copy, counted
from test_crash_points import CrashTest, DAY, PART, RECEIVER_KINDS, Point

from harness import binary, failure, patience, run, succeed
from ledger import EventMaker, archived, exported_ids, lines_of, quarantined
from providers import SECRETS, FalseProvider
from scale import SEED

PERSON = b"someone-to-erase"
PROVIDERS = ("mixpanel", "csv")
ERASE_KINDS = (
    "*/state/erasures-export-*", "*/state/erasures*", "*/archive/_erasures*", "*/state/*.lock", "*/state/export-*",
    "*/state/archive.state*", "*/archive/*.ndjson.erase*", "*/archive/*.sources*", "*/archive/*manifest.json*",
    "*/quarantine/*/erased.ndjson*", "*/quarantine/*/erased.sources*", "*/quarantine/*.sources*",
    "*/exports/*.ids*", "*/exports/*.delivered*", "*/exports/*/part-*.manifest.json*", f"*/exports/*/{DAY}/manifest.json*",
    f"*/exports/*/{DAY}/{PART}*", "*/exports/.previous-*") + RECEIVER_KINDS


class ErasureCrashTests(CrashTest):
    """Killed around any of its calls, `waybill erase` has erased no one but the person, and once."""

    def setUp(self):
        """Sealed and delivered days, lines that came after it, bad lines, and a day that was made again."""
        super().setUp()
        self.maker = EventMaker(23, days=1)
        self.kept, self.bad = collections.Counter(), collections.Counter()
        self.server = self.provider()
        self.ship(60)
        self.assertEqual(run("seal", "--data", self.site.data, "--all").returncode, 0)
        self.assertEqual(self.deliver(self.server).returncode, 0)
        succeed("replay", "--data", self.site.data, "--provider", "csv")
        self.ship(20)
        self.snapshot = self.site.root / "snapshot"
        copy(self.site.data, self.snapshot)

    def provider(self):
        server = FalseProvider("mixpanel", (), poison=False)
        self.addCleanup(server.close)
        return server

    def ship(self, count):
        receiver = self.site.receiver(exports=",".join(PROVIDERS))
        lines = self.maker.lines(count, env="prod", bundle="com.example.shop")
        bad = [b'{"ts":"2026-11-20T09:14:15.926Z","name":"n%d","user":"other"}\n' % number for number in range(4)]
        for number in range(0, count, 5):
            lines[number] = lines[number].replace(b'"anon":', b'"user":"%s","anon":' % PERSON)
        bad[0] = bad[0].replace(b"other", PERSON)
        self.kept.update(line for line in lines if PERSON not in line)
        self.bad.update(bad[1:])
        self.maker.segment(self.site.spool, lines + bad)
        self.site.once()
        self.assertEqual(receiver.stop(), 0)

    def erase(self, **variables):
        return self.site.start(
            "erase", "--data", self.site.data, "--user", PERSON.decode(), log="erase.log",
            env=armed(self.site.data, **variables) if variables else None).wait()

    def deliver(self, server):
        variables = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        return subprocess.run(
            [binary(), "deliver", "--data", self.site.data, "--provider", "mixpanel", "--env", "prod", "--endpoint",
             server.address, "--backoff-max", "0.05", "--timeout", "1", "--rate", "1000000"],
            capture_output=True, timeout=patience(60), env={**variables, **SECRETS})

    def is_begun(self):
        """Whether an erasure is recorded, and not as done."""
        record = self.site.data / "state" / "erasures"
        states = re.findall(rb"\+ person:.* state=(\w+)", record.read_bytes()) if record.exists() else []
        return states[-1:] == [b"begun"]

    def check(self, message, server):
        """The person is gone, the rest whole, and a delivery sends what it had not sent, once."""
        for path in self.site.data.rglob("*"):
            if path.is_file() and "journal" not in path.parts:
                self.assertNotIn(PERSON, b"".join(lines_of(path)), f"{message}: {path}")
                self.assertNotIn(".erase", path.name, f"{message}: {path}")
        self.assertEqual(collections.Counter(archived(self.site.data)), self.kept, message)
        self.assertEqual(collections.Counter(quarantined(self.site.data)["no-env"]), self.bad, message)
        ids = collections.Counter(json.loads(line)["id"].encode() for line in self.kept)
        for provider in PROVIDERS:
            self.assertEqual(exported_ids(self.site.data, provider), ids, f"{message}: {provider}")
        succeed("inspect", "--verify", self.site.data)
        self.assertEqual(run("seal", "--data", self.site.data, "--all").returncode, 0, message)
        result = self.deliver(server)
        self.assertEqual(result.returncode, 0, f"{message}: {result.stderr.decode()[-500:]}")
        self.assertEqual([name for name in server.taken if name in self.server.taken], [], f"{message}: sent twice")
        # 16 of the 20 that came after the first delivery.
        self.assertEqual(sorted(server.taken.values()), [1] * 16, message)

    def test_an_erasure_dies_at_any_call(self):
        """Then it is run again, sometimes after a receiver that found it; `inspect --verify` is clean each time."""
        count = self.site.root / "count"
        self.assertEqual(self.erase(count=count), 0)
        calls = counted(count)
        self.check("undisturbed", self.provider())
        for point in self.points_of(calls, ERASE_KINDS):
            message = f"seed {SEED}, {point}"
            copy(self.snapshot, self.site.data)
            self.died(self.erase(kill=point), point)
            server = self.provider()
            if self.is_begun():
                result = self.deliver(server)
                self.assertEqual((result.returncode, server.requests), (75, []), message)
                self.assertIn(b"is not finished", result.stderr, message)
            if self.chance.random() < 0.4:
                receiver = self.site.receiver(exports=",".join(PROVIDERS))
                self.assertEqual(receiver.stop(), 0, message)
            self.assertEqual(self.erase(), 0, message)
            self.check(message, server)
        self.report("erasure")


class RefusalTests(CrashTest):
    """`waybill erase` leaves alone what another command has begun, and says which one completes it."""

    def setUp(self):
        super().setUp()
        self.maker = EventMaker(23, days=1)
        receiver = self.site.receiver(exports=",".join(PROVIDERS))
        lines = self.maker.lines(40, env="prod", bundle="com.example.shop")
        lines[7] = lines[7].replace(b'"anon":', b'"user":"%s","anon":' % PERSON)
        self.maker.segment(self.site.spool, lines)
        self.site.once()
        self.assertEqual(receiver.stop(), 0)

    def interrupt(self, point, *command):
        code = self.site.start(*command, log="killed.log", env=armed(self.site.data, kill=point)).wait()
        self.assertTrue(self.died(code, point), point)

    def erase(self, expected):
        return failure(expected, "erase", "--data", self.site.data, "--user", PERSON.decode())

    def test_an_unfinished_seal(self):
        seal = ("seal", "--data", self.site.data, "--all")
        for folder in ("archive", "exports"):
            self.interrupt(Point(1, "before", "rename", f"*/{folder}/*.gz*"), *seal)
            text = self.erase(75)
            self.assertIn("has a step that is not finished", text)
            self.assertIn("start the receiver until it has nothing to seal", text)
            self.assertFalse((self.site.data / "state" / "erasures").exists())
        self.assertEqual(run(*seal).returncode, 0)
        self.erase(0)

    def test_an_unfinished_replay(self):
        replay = ("replay", "--data", self.site.data, "--provider", "csv")
        self.interrupt(Point(1, "before", "write", "*/exports/.replay-*.ids"), *replay)
        self.assertIn("a replay is not finished; run the same waybill replay again", self.erase(75))
        self.assertFalse((self.site.data / "state" / "erasures").exists())
        self.assertEqual(run(*replay).returncode, 0)
        self.erase(0)
