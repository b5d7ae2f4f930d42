"""What reads events leaves out erased people, and reads nothing when it cannot know who they are."""

import json
import shutil
import subprocess

from harness import binary, free_port, patience, request, run, succeed, until
from ledger import archive_files, exported_ids, lines_of
from test_erase import PERSON, ErasureTest

BAD = b'{"ts":"2026-11-20T09:14:15.926Z","name":"n%d","user":"%s"}\n'


class ReaderTests(ErasureTest):
    def setUp(self):
        """A data directory as it was before the erasure, with the record of it: a restored backup."""
        super().setUp()
        receiver = self.site.receiver(exports="mixpanel,csv")
        self.all = self.lines(60)
        users = [PERSON.encode() if number % 3 == 0 else b"other" for number in range(9)]
        self.ship([*self.all, *(BAD % (number, user) for number, user in enumerate(users))])
        self.assertEqual(receiver.stop(), 0)
        self.seal()
        self.backup = self.site.root / "backup"
        shutil.copytree(self.site.data, self.backup)
        self.erase("--user", PERSON)
        for name in ("state/erasures", "archive/_erasures"):
            shutil.copy(self.site.data / name, self.backup / name)

    def transform(self, *arguments, stdin=b""):
        result = succeed("transform", "--provider", "mixpanel", *arguments, stdin=stdin)
        self.assertNotIn(PERSON.encode(), result.stdout)
        return json.loads(result.stderr.splitlines()[-1])

    def test_transform_leaves_out_erased_people(self):
        """Of a file in a data directory by itself; of other input, those of the directory that --data names."""
        counts = self.transform(*archive_files(self.backup))
        self.assertEqual((counts["exported"], counts["erased"]), (48, 12))
        lines = b"".join(line for path in archive_files(self.backup) for line in lines_of(path))
        counts = self.transform("--data", self.site.data, stdin=lines)
        self.assertEqual((counts["exported"], counts["erased"], counts["bad"]), (48, 12, 0))
        # Without a record there is no one to leave out.
        result = run("transform", "--provider", "mixpanel", stdin=lines)
        self.assertIn(PERSON.encode(), result.stdout)
        # The archive alone has its record with it.
        alone = self.site.root / "alone"
        shutil.copytree(self.backup / "archive", alone / "archive")
        self.assertEqual(self.transform(*archive_files(alone))["erased"], 12)

    def test_requeue_leaves_out_erased_people(self):
        """Lines of the quarantine that a backup brought back."""
        result = succeed("requeue", "--data", self.backup, "--output", self.site.root / "again")
        report = json.loads(result.stdout)
        self.assertEqual((report["lines"], report["erased"]), (6, 3))
        published = b"".join(path.read_bytes() for path in (self.site.root / "again").iterdir())
        self.assertEqual(published.count(b"\n"), 6)
        self.assertNotIn(PERSON.encode(), published)

    def test_a_restored_archive_gives_no_reader_the_person(self):
        """A replay, a report and the next erasure, over files from before the erasure."""
        made = self.site.root / "made"
        succeed("replay", "--data", self.backup, "--provider", "mixpanel", "--output", made)
        self.assertEqual(exported_ids(made, "mixpanel"), exported_ids(self.site.data, "mixpanel"))
        counts = []
        for data in (self.backup, self.site.data):
            result = succeed("report", "overview", "--data", data, "--app", "com.example.shop")
            counts.append(result.stdout)
        self.assertEqual(*counts)
        result = run("erase", "--data", self.backup, "--user", PERSON)
        self.assertEqual(json.loads(result.stdout)["lines"], 15, result.stderr)
        self.assert_verified(self.backup)

    def test_what_an_agent_still_sends_is_counted(self):
        """Lines of the person that arrive later: received = archived + quarantined, and nothing is unaccounted for."""
        metrics = free_port()
        receiver = self.site.receiver("--metrics", f"127.0.0.1:{metrics}", exports="mixpanel,csv")
        self.ship(self.lines(20))

        def accounted():
            found = {entry["name"]: entry for entry in json.loads(request(metrics, "/status")[2])["projections"]}
            return found if all(entry["lines"] == 20 for entry in found.values()) else None

        archive = until(accounted, 60, "every line has an outcome")["archive"]
        self.assertEqual((archive["archived"], archive["quarantined"], archive["unaccounted"]), (16, {"erased": 4}, 0))
        self.assertEqual(receiver.stop(), 0)
        self.assert_verified()

    def test_nothing_reads_events_without_the_record(self):
        """Both copies are damaged: every program says so, with the code, the positions and the remedy, and stops."""
        for name in ("state/erasures", "archive/_erasures"):
            path = self.site.data / name
            path.write_bytes(path.read_bytes()[:-2])
        before = {path: path.read_bytes() for path in self.site.data.rglob("*") if path.is_file()}
        commands = [
            ("receiver", "--data", self.site.data, "--listen", self.site.address, "--exports", "mixpanel,csv"),
            ("replay", "--data", self.site.data, "--provider", "csv"),
            ("seal", "--data", self.site.data, "--all"),
            ("requeue", "--data", self.site.data, "--output", self.site.root / "again"),
            ("transform", "--provider", "csv", *archive_files(self.site.data)),
            ("report", "overview", "--data", self.site.data, "--app", "com.example.shop"),
            ("tap", "--data", self.site.data, "--once"),
            ("erase", "--data", self.site.data, "--user", "someone-else"),
            ("inspect", "--verify", self.site.data),
        ]
        for command in commands:
            with self.subTest(command=command[0]):
                self.expect_refusal([binary(), *map(str, command)])
        with self.subTest(command="deliver"):
            command, variables = self.delivery(self.server())
            self.expect_refusal(command, variables)
        for path, content in before.items():
            if path.parent.name == "archive" or path.name == "erasures":
                self.assertEqual(path.read_bytes(), content, path)

    def expect_refusal(self, command, variables=None):
        result = subprocess.run(command, capture_output=True, timeout=patience(60), env=variables)
        text = (result.stdout + result.stderr).decode()
        self.assertNotIn(result.returncode, (0, None), text[-1500:])
        for word in ("no copy is whole", "state/erasures is damaged from byte", "archive/_erasures is damaged from byte",
                     "(damaged)", "restore it from a backup"):
            self.assertIn(word, text, command[1])
