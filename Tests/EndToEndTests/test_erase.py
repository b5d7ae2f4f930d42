"""`erase`: one person's events leave a data directory for good, and no one else's do."""

import json
import os
import shutil
import subprocess

from harness import binary, ended, patience, run, until
from ledger import archived, exported_ids, lines_of
from providers import SECRETS, FalseProvider
from test_replay import ReplayTest

PERSON = "someone-to-erase"
QUICK = ("--env", "prod", "--backoff-max", "0.05", "--timeout", "1", "--rate", "1000000")


class ErasureTest(ReplayTest):
    """A site, a person in it, and what erases them."""

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
        result = ended(expected, "erase", "--data", self.site.data, *arguments)
        return json.loads(result.stdout) if expected == 0 else result.stderr.decode()

    def delivery(self, server, *options):
        """The command that delivers to a server, and its environment."""
        variables = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        command = [
            binary(), "deliver", "--data", str(self.site.data), "--provider", "mixpanel", "--endpoint", server.address,
            *QUICK, *options]
        return command, {**variables, **SECRETS}

    def deliver(self, server, expected=0):
        command, variables = self.delivery(server)
        result = subprocess.run(command, capture_output=True, timeout=patience(60), env=variables)
        self.assertEqual(result.returncode, expected, result.stderr.decode()[-1500:])
        return json.loads(result.stdout.splitlines()[-1]) if expected == 0 else result.stderr.decode()

    def server(self, poison=False):
        server = FalseProvider("mixpanel", (), poison=poison)
        self.addCleanup(server.close)
        return server

    def seal(self):
        self.assertEqual(run("seal", "--data", self.site.data, "--all").returncode, 0)

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


class EraseTest(ErasureTest):
    def test_without_any_checkpoint_no_one_comes_back_and_nothing_is_sent_twice(self):
        """Erased, all checkpoints deleted, started, replayed: still gone, the rest whole, nothing sent twice."""
        server = self.server()
        receiver = self.site.receiver(exports="mixpanel,csv")
        lines = self.lines(400)
        rest = sorted(line for line in lines if PERSON.encode() not in line)
        self.ship(lines)
        self.assertIn("stop that receiver", self.erase("--user", PERSON, expected=75))
        self.assertEqual(receiver.stop(), 0)
        self.seal()
        self.deliver(server)
        sent = dict(server.taken)
        self.assertTrue(self.named())
        counted = self.erase("--user", PERSON, "--dry-run")
        self.assertEqual((counted["lines"], counted["records"]), (80, 160))
        report = self.erase("--user", PERSON)
        self.assertEqual((report["lines"], report["records"], report["journal_lines"]), (80, 160, 80))
        self.assertEqual(self.named(), [])
        self.assert_verified()
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
        self.assert_verified()
        self.replay("csv")
        self.assertEqual(self.named(), [])
        self.assert_verified()
        self.seal()
        self.deliver(server)
        self.assertEqual({key: count for key, count in server.taken.items() if key in sent}, sent)
        self.assertEqual(len(server.taken), len(sent) + 40)
        self.assertEqual(self.erase("--user", PERSON)["lines"], 0)

    def test_a_person_whose_event_shares_an_id(self):
        """Another one's event with the same id stays, in the archive and in each export."""
        receiver = self.site.receiver(exports="mixpanel,csv")
        lines = self.lines(10)
        taken, kept = json.loads(lines[0])["id"].encode(), json.loads(lines[1])["id"].encode()
        lines[1] = lines[1].replace(kept, taken)
        self.ship(lines)
        self.assertEqual(receiver.stop(), 0)
        report = self.erase("--user", PERSON)
        # A row of csv does not say whose it is: two of one id stay until its day is made again.
        self.assertEqual((report["lines"], report["records"], report["shared_ids"]), (2, 3, 1))
        self.assertEqual(exported_ids(self.site.data, "csv")[taken], 2)
        self.replay("csv")
        self.assertEqual(self.named(), [])
        self.assertEqual(sorted(archived(self.site.data)), sorted(line for line in lines if PERSON.encode() not in line))
        for provider in ("mixpanel", "csv"):
            self.assertEqual(exported_ids(self.site.data, provider)[taken], 1, provider)
        self.assert_verified()

    def test_letters_of_a_delivery_name_the_same_records_afterwards(self):
        """A part has fewer records then, and the dead letters of its delivery have their new numbers."""
        server = self.server(poison=True)
        receiver = self.site.receiver(exports="mixpanel")
        self.ship(self.lines(600))
        self.assertEqual(receiver.stop(), 0)
        self.seal()
        self.deliver(server)
        before = self.letters()
        self.assertEqual(self.erase("--user", PERSON)["records"], 120)
        after = self.letters()
        self.assertEqual(self.named(), [])
        self.assertTrue(set(after) < set(before))
        self.assertNotEqual(after, {name: before[name] for name in after})
        self.assert_verified()
        requests = len(server.requests)
        self.deliver(server)
        self.assertEqual(len(server.requests), requests, "a part that was sent is not sent again")

    def letters(self):
        """Event's id → number of its record, which is where the letter says it is."""
        numbers = {}
        for path in sorted(self.site.data.glob("exports/mixpanel/*/*/dead/delivery-*.ndjson.gz")):
            part = path.parent.parent / path.name.replace("delivery-", "part-").replace(".ndjson.gz", ".ids")
            ids = part.read_text().splitlines()
            for line in lines_of(path):
                letter = json.loads(line)
                self.assertEqual(ids[letter["record"]], letter["id"], path)
                numbers[letter["id"]] = letter["record"]
        return numbers

    def test_a_part_that_becomes_empty_is_done_without_a_request(self):
        """Closed or open when the person is erased: a delivery marks it, and sends nothing."""
        for is_open in (False, True):
            with self.subTest(is_open=is_open):
                server = self.server()
                receiver = self.site.receiver(exports="mixpanel")
                self.ship([line for line in self.lines(20) if PERSON.encode() in line])
                self.assertEqual(receiver.stop(), 0)
                if not is_open:
                    self.seal()
                self.assertEqual(self.erase("--user", PERSON)["records"], 4)
                self.seal()
                self.assertEqual(self.deliver(server)["remaining"], 0)
                self.assertEqual(server.requests, [])
                parts = list((self.site.data / "exports" / "mixpanel").rglob("part-*.manifest.json"))
                self.assertTrue(is_open or parts)
                for path in parts:
                    self.assertTrue(path.with_name(path.name.replace(".manifest.json", ".delivered")).exists(), path)
                self.assert_verified()
                for folder in (self.site.data, self.site.state):
                    shutil.rmtree(folder)

    def test_refused_while_a_delivery_runs_or_is_not_finished(self):
        """Nothing is erased while it is unknown which of the person's events a provider has."""
        server = self.server()
        receiver = self.site.receiver(exports="mixpanel")
        self.ship(self.lines(300))
        self.assertEqual(receiver.stop(), 0)
        self.seal()
        command, variables = self.delivery(server, "--rate", "2")
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=variables)
        state = self.site.data / "state" / "deliver-mixpanel.state"
        until(lambda: state.exists() and b"+ part:" in state.read_bytes(), 30, "a part is being delivered")
        self.assertIn("a delivery runs", self.erase("--user", PERSON, expected=75))
        child.kill()
        child.wait()
        self.assertIn("is not finished, and it is unknown", self.erase("--user", PERSON, expected=75))
        self.assertTrue(self.named())
        self.assertFalse((self.site.data / "state" / "erasures").exists())
        self.deliver(server)
        self.erase("--user", PERSON)
        self.assertEqual(self.named(), [])
        # The kill may have repeated a request, by whose ids the provider finds it; the erasure repeats none.
        requests = len(server.requests)
        self.deliver(server)
        self.assertEqual(len(server.requests), requests)

    def test_usage(self):
        """Exactly one person must be named; a folder without an archive is 65."""
        for arguments in ([], ["--user", "u", "--anon", "a"], ["--user", ""]):
            self.erase(*arguments, expected=64)
        self.erase("--user", "u", expected=65)
