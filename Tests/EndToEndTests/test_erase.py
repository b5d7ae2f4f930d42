"""`erase`: one person's events leave a data directory for good, and no one else's do."""

import json
import os
import subprocess
import unittest

from harness import binary, run
from ledger import archived
from providers import SECRETS, FalseProvider
from test_replay import ReplayTest

PERSON = "someone-to-erase"
QUICK = ("--env", "prod", "--backoff-max", "0.05", "--timeout", "1", "--rate", "1000000")


class EraseTest(ReplayTest):
    def lines(self, count):
        """Events of prod, every fifth of which is the person's."""
        lines = self.maker.lines(count, env="prod", bundle="com.example.shop")
        for number in range(0, count, 5):
            lines[number] = lines[number].replace(b'"anon":', b'"user":"%s","anon":' % PERSON.encode())
        return lines

    def ship(self, lines):
        self.maker.segment(self.site.spool, lines)
        self.site.once()

    def erase(self, *arguments, expected=0):
        result = run("erase", "--data", self.site.data, *arguments)
        self.assertEqual(result.returncode, expected, result.stderr.decode()[-1500:])
        return json.loads(result.stdout) if expected == 0 else result.stderr.decode()

    def deliver(self, server):
        variables = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        result = subprocess.run(
            [binary(), "deliver", "--data", self.site.data, "--provider", "mixpanel", "--endpoint", server.address, *QUICK],
            capture_output=True, timeout=60, env={**variables, **SECRETS})
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        return json.loads(result.stdout.splitlines()[-1])

    def named(self):
        """The files outside the journal that name the person."""
        found = []
        for path in sorted(self.site.data.rglob("*")):
            if not path.is_file() or "journal" in path.parts:
                continue
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = subprocess.run(["gzip", "-dc", path], capture_output=True, check=True).stdout
            if PERSON.encode() in content:
                found.append(str(path.relative_to(self.site.data)))
        return found

    def verify(self):
        result = run("inspect", "--verify", self.site.data)
        self.assertEqual(result.returncode, 0, (result.stdout + result.stderr).decode()[-3000:])

    def test_without_any_checkpoint_no_one_comes_back_and_nothing_is_sent_twice(self):
        """Erased, all checkpoints deleted, started, replayed: still gone, the rest whole, nothing sent twice."""
        server = FalseProvider("mixpanel", (), poison=False)
        self.addCleanup(server.close)
        receiver = self.site.receiver(exports="mixpanel,csv")
        lines = self.lines(400)
        rest = sorted(line for line in lines if PERSON.encode() not in line)
        self.ship(lines)
        self.assertIn("stop that receiver", self.erase("--user", PERSON, expected=75))
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(run("seal", "--data", self.site.data, "--all").returncode, 0)
        self.deliver(server)
        sent = dict(server.taken)
        self.assertTrue(self.named())
        counted = self.erase("--user", PERSON, "--dry-run")
        self.assertEqual((counted["lines"], counted["records"]), (80, 160))
        report = self.erase("--user", PERSON)
        self.assertEqual((report["lines"], report["records"], report["journal_lines"]), (80, 160, 80))
        self.assertEqual(self.named(), [])
        self.verify()
        for path in (self.site.data / "state").glob("*.state*"):
            if "deliver-" not in path.name:
                path.unlink()
        receiver = self.site.receiver(exports="mixpanel,csv")
        late = self.lines(50)
        rest = sorted([*rest, *(line for line in late if PERSON.encode() not in line)])
        self.ship(late)
        self.assertEqual(receiver.stop(), 0)
        self.assertEqual(self.named(), [])
        self.assertEqual(sorted(archived(self.site.data)), rest)
        self.verify()
        self.replay("csv")
        self.assertEqual(self.named(), [])
        self.verify()
        self.assertEqual(run("seal", "--data", self.site.data, "--all").returncode, 0)
        self.deliver(server)
        self.assertEqual({key: count for key, count in server.taken.items() if key in sent}, sent)
        self.assertEqual(len(server.taken), len(sent) + 40)
        self.assertEqual(self.erase("--user", PERSON)["lines"], 0)

    def test_killed_at_any_moment_the_same_command_completes_it(self):
        """SIGKILL while it works, and again; then nothing of the person is left, and all else is whole."""
        receiver = self.site.receiver(exports="mixpanel,csv")
        lines = self.lines(4000)
        self.ship(lines)
        self.assertEqual(receiver.stop(), 0)
        for number in range(6):
            child = subprocess.Popen(
                [binary(), "erase", "--data", self.site.data, "--user", PERSON], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            try:
                child.wait(0.02 * (number + 1))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.erase("--user", PERSON)
        self.assertEqual(self.named(), [])
        self.verify()
        self.assertEqual(sorted(archived(self.site.data)), sorted(line for line in lines if PERSON.encode() not in line))

    def test_usage(self):
        """Exactly one person must be named; a folder without an archive is 65."""
        for arguments in ([], ["--user", "u", "--anon", "a"], ["--user", ""]):
            self.erase(*arguments, expected=64)
        self.erase("--user", "u", expected=65)


if __name__ == "__main__":
    unittest.main()
