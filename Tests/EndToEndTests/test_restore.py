"""A receiver with a bucket loses its disk and comes back: every line that was written is in its archive once.

Over moto where processes run side by side, and over a bucket of this test's own where a request is the moment at which a
restore is killed.
"""

import json
import re
import shutil
import subprocess

import buckets
from harness import REPOSITORY, binary, failure, free_port, run, succeed, until
from ledger import LedgerTest, exported_ids, parts, stored
from providers import SECRETS, FalseProvider
from scale import SEED, THOROUGH, at_night

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET}
LISTENS = "the journal goes to the bucket"


class RestoreTest(LedgerTest):
    """One receiver, `collector-1`, with a bucket, and one agent with a spool and logs of other programs."""

    LINES = SEED

    region = "us-east-1"

    def setUp(self):
        super().setUp()
        self.port, self.data = free_port(), self.site.root / "data"
        self.folder = self.site.root / "applogs"
        self.folder.mkdir()
        self.url = self.open_bucket()
        self.config = self.site.root / "receiver.yaml"
        self.configure("{provider: csv}, {provider: mixpanel}")
        init = self.fleet("store", "init")
        self.assertEqual(init.returncode, 0, init.stderr)

    def open_bucket(self):
        moto = buckets.Moto(self.site.root / "moto.txt")
        self.addCleanup(moto.close)
        moto.make("events")
        return moto.url

    def configure(self, exports, name="collector-1"):
        self.config.write_text(
            f"store: {{url: 's3://events/w', endpoint: '{self.url}', region: {self.region}}}\n"
            f"receiver: {{data: {self.data}, listen: '127.0.0.1:{self.port}', name: {name}, exports: [{exports}], "
            "piece: {seconds: 1, mib: 1}, stop_seconds: 60}\n")

    def fleet(self, *arguments, **options):
        return run(*arguments, "--config", self.config, env=ENVIRONMENT, timeout=120, **options)

    # Processes

    def receiver(self):
        process = self.site.start("receiver", "--config", self.config, log="receiver.log", env=ENVIRONMENT)
        process.until_logged(LISTENS, 60)
        return process

    def agent(self, *arguments):
        return self.site.start(
            "agent", "--name", "web", "--state", self.site.state, "--to", f"127.0.0.1:{self.port}", "--spool", self.site.spool,
            "--glob", f"{self.folder}/*.json", "--env", "prod", "--bundle", "com.example.web", *arguments, log="agent.log")

    def again(self, agent):
        """The agent, started again: one that runs takes an unknown receiver once a minute, which a night waits for."""
        if THOROUGH:
            return agent
        agent.kill()
        return self.agent()

    def restore(self, *arguments, expected=0):
        result = self.fleet("restore", "--json", *arguments)
        self.assertEqual(result.returncode, expected, result.stdout + result.stderr)
        return json.loads(result.stdout), result.stderr.decode()

    def lose(self):
        shutil.rmtree(self.data)

    # Lines

    def write_segment(self, count=60):
        self.maker.segment(self.site.spool, self.made(count))

    def write(self, count=60):
        self.write_segment(count)
        self.write_log(self.folder / "app.json", count)

    def until_stored(self):
        until(lambda: self.ledger.compare(stored(self.data)).is_clean, 120, "every line is stored once")

    def until_uploaded(self):
        """The agent deletes a segment when the bucket has it."""
        until(lambda: not list(self.site.spool.glob("*.ndjson")), 60, "the bucket has every segment")

    def assert_whole(self, exports=("csv", "mixpanel")):
        self.assert_each_once(self.data)
        for provider in exports:
            counts = exported_ids(self.data, provider)
            self.assertEqual([name for name, count in counts.items() if name != b"-" and count > 1], [], provider)
        self.assert_verified(self.data)

    def rows(self):
        """The number of rows of the CSV export; each line that is an event has one."""
        return sum(content.count(b"\n") - content.startswith(b"\xef\xbb\xbf") for content in parts(self.data, "csv").values())


class LossTests(RestoreTest):
    def test_a_lost_disk_comes_back_twice_in_a_row_while_agents_write(self):
        receiver, agent = self.receiver(), self.agent()
        self.write()
        self.until_stored()
        reports = []
        for _ in range(2):
            self.until_uploaded()
            self.write()
            receiver.kill()
            self.lose()
            self.write()
            report, _ = self.restore()
            self.assertTrue(report["complete"])
            self.assertEqual((report["troubles"], report["others"]), ([], []))
            reports.append(report)
            agent = self.again(agent)
            receiver = self.receiver()
            self.write()
            self.until_stored()
        # It is one chain from the beginning to the end.
        self.assertEqual(reports[0]["chains"], reports[1]["chains"])
        self.assertGreater(reports[1]["end"], reports[0]["end"])
        self.assertNotIn("diverged", receiver.log())
        self.until_uploaded()
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(receiver.stop(120), 0)
        self.assert_whole()
        ids = exported_ids(self.data, "mixpanel")
        self.assertEqual(sum(ids.values()), self.ledger.line_count)

    def test_an_export_that_was_sent_is_not_sent_again(self):
        self.configure("{provider: ga4, close_after: 1s}")
        server = FalseProvider("ga4", poison=False)
        self.addCleanup(server.close)
        receiver, agent = self.receiver(), self.agent()

        def deliver(*arguments, expected):
            result = subprocess.run(
                [binary(), "deliver", "--data", self.data, "--provider", "ga4", "--env", "prod", "--endpoint", server.address,
                 "--backoff-max", "0.05", "--rate", "100000", *arguments], capture_output=True, timeout=240, env=SECRETS)
            self.assertEqual(result.returncode, expected, result.stdout + result.stderr)
            return json.loads(result.stdout)

        def until_closed(count):
            """As many events of prod are in closed parts as were written of it."""
            manifests = lambda: (self.data / "exports" / "ga4" / "env=prod").rglob("part-*.manifest.json")
            until(lambda: sum(json.loads(path.read_text())["events"] for path in manifests()) >= count, 60, "parts are closed")

        def segment(count):
            self.maker.segment(self.site.spool, self.made(count, env="prod"))

        segment(40)
        until_closed(40)
        self.assertEqual(deliver(expected=0)["sent"], 40)
        self.until_uploaded()
        receiver.kill()
        self.lose()
        report, _ = self.restore()
        agent = self.again(agent)
        receiver = self.receiver()
        until_closed(40)
        taken = sum(server.taken.values())
        self.assertGreater(taken, 0)
        # Nothing is sent before someone says what was.
        summary = deliver(expected=65)
        self.assertGreater(summary["doubtful_days"], 0)
        self.assertEqual(sum(server.taken.values()), taken)
        summary = deliver("--sent-before", "2100-01-01", expected=0)
        self.assertEqual((summary["sent"], summary["remaining"]), (0, 0))
        # What comes later for these days is still in doubt, since an open part may have had lines of both.
        segment(10)
        until_closed(50)
        self.assertEqual(deliver(expected=65)["sent"], 0)
        self.assertEqual(sum(server.taken.values()), taken)
        self.assertEqual(deliver("--force", expected=0)["sent"], 10)
        self.assertGreater(sum(server.taken.values()), taken)
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(receiver.stop(120), 0)
        self.assertEqual(report["lines"], 40)
        refused = subprocess.run(
            [binary(), "deliver", "--data", self.site.root / "other", "--provider", "ga4", "--sent-before", "soon"],
            capture_output=True, timeout=60, env=SECRETS)
        self.assertEqual(refused.returncode, 64, refused.stderr)


class BucketTests(RestoreTest):
    """Over a bucket of this test's own, whose requests and objects it has in its hands."""

    region = buckets.REGION

    def open_bucket(self):
        self.store = buckets.SmallStore()
        self.addCleanup(self.store.close)
        return self.store.url

    def live(self, rounds=4):
        """A receiver with so many pieces and more in the bucket, which then has lost its disk."""
        receiver, agent = self.receiver(), self.agent()
        for _ in range(rounds):
            self.write(20)
            self.until_stored()
            self.until_uploaded()
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(receiver.stop(120), 0)
        self.lose()

    def pieces(self):
        with self.store.lock:
            return sorted(key for key in self.store.objects if key.endswith(".wbj"))

    def finish(self):
        """Starts the receiver, lets the agent ship what it has, and stops both."""
        receiver, agent = self.receiver(), self.agent()
        self.write(20)
        self.until_stored()
        self.until_uploaded()
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(receiver.stop(120), 0)
        self.assert_whole()

    def killed_at(self, number):
        """A restore that is killed when it asks for a piece for the so manieth time."""
        process = self.site.start("restore", "--config", self.config, log="restore.log", env=ENVIRONMENT)
        seen = []

        def kill(command, path):
            if command == "GET" and ".wbj" in path:
                seen.append(path)
                if len(seen) == number:
                    process.child.kill()

        self.store.fault = kill
        process.child.wait(240)
        self.store.fault = None
        return process.child.returncode

    @at_night
    def test_a_restore_that_is_killed_again_and_again_is_continued(self):
        self.live()
        count = len(self.pieces())
        self.assertGreater(count, 3)
        for number in (2, 3, count // 2 + 1, count + 1):
            self.assertEqual(self.killed_at(number), -9)
            # Nothing starts on a part of a journal.
            told = failure(74, "receiver", "--config", self.config, env=ENVIRONMENT)
            self.assertIn("waybill restore has not finished", told)
        report, _ = self.restore()
        self.assertTrue(report["continued"] and report["complete"])
        self.assertEqual(report["pieces"], count)
        self.assertFalse([*self.data.glob("restore.state*")])
        again = self.fleet("restore")
        self.assertEqual(again.returncode, 74)
        self.assertIn(b"is not empty", again.stderr)
        self.finish()

    def test_the_steps_of_the_page(self):
        """What Documentation/fleet.md says of one machine with a bucket: its configuration, and the commands of a restore."""
        page = (REPOSITORY / "Documentation" / "fleet.md").read_text(encoding="utf-8")
        section = page[page.index("## One machine with a bucket"):]
        section = section[:section.index("\n## ", 5)]
        yaml = re.search(r"```yaml\n(.*?)```", section, re.DOTALL).group(1)
        example = self.site.root / "page.yaml"
        example.write_text(yaml)
        succeed("check", example)
        self.live(1)
        commands = [
            line.strip() for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) for line in block.splitlines()
            if line.strip().startswith("waybill restore")]
        self.assertGreater(len(commands), 1)
        for number, line in enumerate(commands):
            words = line.split("#")[0].split()[1:]
            chain = self.pieces()[0].split("/")[2]
            words = [{"/etc/waybill/receiver.yaml": str(self.config), "s3://example-events/waybill": "s3://events/w",
                      "/var/lib/waybill": str(self.data)}.get(word, word) for word in words]
            words = [chain if re.fullmatch(r"collector-1~[0-9a-f]{16}", word) else word for word in words]
            if number:
                words += ["--endpoint", self.url, "--region", self.region]
            succeed(*words, env=ENVIRONMENT)
            if number + 1 < len(commands):
                self.lose()
        self.finish()
