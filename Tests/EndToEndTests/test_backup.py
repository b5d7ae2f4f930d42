"""Copies of a data directory that are made while its receiver works: each is whole, and
after it is put back every line is stored exactly once."""

import random
import shutil
import subprocess
import threading
import time

from harness import SiteTest, run, until
from ledger import EventMaker, Ledger, exported_ids, stored
from scale import SEED, amount

COPIES = amount("WAYBILL_BACKUPS", 4, 40)
# The order of the page: no checkpoint is ahead of its files, and what moves on from the journal meanwhile is in both.
PARTS = ("state", "exports", "archive", "quarantine", "journal")
EXPORTS = "mixpanel,csv"


class BackupTests(SiteTest):
    def setUp(self):
        super().setUp()
        self.maker, self.ledger, self.chance = EventMaker(SEED), Ledger(), random.Random(SEED)
        self.sources = ("--glob", str(self.site.root / "logs" / "*.json"), "--env", "prod", "--bundle", "com.example.web")

    def write(self, lines):
        self.ledger.add(lines)
        # Not where the processes' own logs are.
        with open(self.site.logs / f"app-{self.chance.randrange(8)}.json", "ab") as file:
            file.write(b"".join(lines))

    def write_until(self, ended):
        while not ended.is_set():
            self.write(self.maker.lines(40) + [b"not JSON\n"])
            time.sleep(0.002)

    def copy(self, number):
        """A whole copy: one in which a part was closed meanwhile is not whole, and is made again."""
        target = self.site.root / f"copy-{number}"
        until(lambda: self.is_whole(target), 120, "a copy is whole")
        return target

    def is_whole(self, target):
        """Copies as `cp --archive` does; what is deleted meanwhile is left out."""
        shutil.rmtree(target, ignore_errors=True)
        for part in PARTS:
            if (self.site.data / part).exists():
                result = run_copy(self.site.data / part, target / part)
                self.assertTrue(result, f"{part} was copied")
        return run("inspect", "--verify", target, timeout=300).returncode == 0

    def test_a_copy_of_a_busy_receiver_is_whole_and_gets_back_what_it_lacks(self):
        receiver = self.site.receiver(exports=EXPORTS)
        agent = self.site.agent(*self.sources)
        ended = threading.Event()
        writer = threading.Thread(target=self.write_until, args=(ended,))
        writer.start()
        self.addCleanup(ended.set)
        copies = []
        for number in range(COPIES):
            before = sum(1 for _ in stored(self.site.data))
            until(lambda before=before: sum(1 for _ in stored(self.site.data)) > before, 60, "lines arrive")
            time.sleep(self.chance.random() / 5)
            copies.append(self.copy(number))
        ended.set()
        writer.join()
        # Everything is stored, so the agent remembers more than each copy has.
        until(lambda: self.ledger.compare(stored(self.site.data)).is_clean, 120, "everything is stored")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(receiver.stop(120), 0)
        shutil.copytree(self.site.state, self.site.root / "agent-then")
        for copy in copies:
            with self.subTest(copy.name):
                self.put_back(copy)

    def put_back(self, copy):
        shutil.rmtree(self.site.data)
        shutil.rmtree(self.site.state)
        shutil.copytree(copy, self.site.data)
        shutil.copytree(self.site.root / "agent-then", self.site.state)
        receiver = self.site.receiver(exports=EXPORTS)
        self.site.once(*self.sources)
        self.assertEqual(receiver.stop(120), 0, receiver.log()[-2000:])
        comparison = self.ledger.compare(stored(self.site.data))
        self.assertTrue(comparison.is_clean, f"seed {SEED}: {comparison}")
        for provider in EXPORTS.split(","):
            repeated = [name for name, count in exported_ids(self.site.data, provider).items() if name != "-" and count > 1]
            self.assertEqual(repeated, [], provider)
        self.assert_verified()


def run_copy(source, target):
    """Like `cp --archive`: a file that is gone when its turn comes is no failure."""
    target.parent.mkdir(exist_ok=True)
    result = subprocess.run(["cp", "--archive", source, target], check=False, capture_output=True, text=True)
    return result.returncode == 0 or "No such file" in result.stderr
