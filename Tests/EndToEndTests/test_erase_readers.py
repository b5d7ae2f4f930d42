"""What reads events leaves out erased people, and reads nothing when it cannot know who they are."""

import hmac
import http.client
import json
import shutil
import subprocess
import unittest

from harness import binary, free_port, patience, run, until
from ledger import archive_files, exported_ids, lines_of
from test_erase import PERSON, ErasureTest

BAD = b'{"ts":"2026-11-20T09:14:15.926Z","name":"n%d","user":"%s"}\n'


def siphash(key, message):
    """SipHash-2-4, written from its paper."""
    mask = (1 << 64) - 1
    low, high = (int.from_bytes(key[at:at + 8], "little") for at in (0, 8))
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]

    def rotated(word, count):
        return (word << count | word >> 64 - count) & mask

    def rounds(count):
        for _ in range(count):
            for first, second, turn in ((0, 1, 13), (2, 3, 16)):
                v[first] = (v[first] + v[second]) & mask
                v[second] = rotated(v[second], turn) ^ v[first]
            v[0] = rotated(v[0], 32)
            for first, second, turn in ((0, 3, 21), (2, 1, 17)):
                v[first] = (v[first] + v[second]) & mask
                v[second] = rotated(v[second], turn) ^ v[first]
            v[2] = rotated(v[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at:at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


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
        result = run("transform", "--provider", "mixpanel", *arguments, stdin=stdin)
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        self.assertNotIn(PERSON.encode(), result.stdout)
        return json.loads(result.stderr.splitlines()[-1])

    def test_transform_leaves_out_erased_people(self):
        """Of a file in a data directory by itself; of other input, those of the directory that --data names."""
        counts = self.transform(*archive_files(self.backup))
        self.assertEqual((counts["exported"], counts["erased"]), (48, 12))
        lines = b"".join(line for path in archive_files(self.backup) for line in lines_of(path))
        counts = self.transform("--data", self.site.data, stdin=lines)
        self.assertEqual((counts["exported"], counts["erased"], counts["bad"]), (48, 12, 0))
        # Without a record there is nobody to leave out.
        result = run("transform", "--provider", "mixpanel", stdin=lines)
        self.assertIn(PERSON.encode(), result.stdout)
        # The archive alone has its record with it.
        alone = self.site.root / "alone"
        shutil.copytree(self.backup / "archive", alone / "archive")
        self.assertEqual(self.transform(*archive_files(alone))["erased"], 12)

    def test_requeue_leaves_out_erased_people(self):
        """Lines of the quarantine that a backup brought back."""
        result = run("requeue", "--data", self.backup, "--output", self.site.root / "again", "--quarantine")
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        report = json.loads(result.stdout)
        self.assertEqual((report["lines"], report["erased"]), (6, 3))
        published = b"".join(path.read_bytes() for path in (self.site.root / "again").iterdir())
        self.assertEqual(published.count(b"\n"), 6)
        self.assertNotIn(PERSON.encode(), published)

    def test_a_restored_archive_gives_no_reader_the_person(self):
        """A replay, a report and the next erasure, over files from before the erasure."""
        made = self.site.root / "made"
        result = run("replay", "--data", self.backup, "--provider", "mixpanel", "--output", made)
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
        self.assertEqual(exported_ids(made, "mixpanel"), exported_ids(self.site.data, "mixpanel"))
        counts = []
        for data in (self.backup, self.site.data):
            result = run("report", "overview", "--data", data, "--app", "com.example.shop")
            self.assertEqual(result.returncode, 0, result.stderr.decode()[-1500:])
            counts.append(result.stdout)
        self.assertEqual(*counts)
        result = run("erase", "--data", self.backup, "--user", PERSON)
        self.assertEqual(json.loads(result.stdout)["lines"], 15, result.stderr)
        result = run("inspect", "--verify", self.backup)
        self.assertEqual(result.returncode, 0, result.stdout.decode()[-3000:])

    def test_the_record_is_as_specified(self):
        """Digest and mark of the person, by the text of `Protocol/formats/erasures.md`; both copies are equal."""
        self.assertEqual(siphash(bytes(range(16)), bytes(range(15))), 0xA129CA6149BE45E5)
        states = []
        for name in ("state/erasures", "archive/_erasures"):
            entries = {}
            for line in (self.site.data / name).read_text().splitlines():
                word, _, rest = line.partition(" ")
                key, _, value = rest.partition(" ")
                if word == "+":
                    entries[key] = value
                elif word == "-":
                    del entries[key]
            states.append(entries)
        self.assertEqual(*states)
        key = bytes.fromhex(states[0].pop("key"))
        self.assertEqual(len(key), 32)
        digest = hmac.new(key, b"user\0" + PERSON.encode(), "sha256").hexdigest()
        self.assertEqual(list(states[0]), [f"person:{digest}"])
        fields = dict(field.split("=") for field in states[0][f"person:{digest}"].split())
        mark = siphash(hmac.new(key, b"user\0", "sha256").digest()[:16], PERSON.encode())
        self.assertEqual((fields["kind"], fields["state"], fields["mark"]), ("user", "done", f"{mark:016x}"))
        self.assertEqual((fields["lines"], fields["records"]), ("15", "24"))

    def test_what_an_agent_still_sends_is_counted(self):
        """Lines of the person that arrive later: received = archived + quarantined, and nothing is unaccounted for."""
        metrics = free_port()
        receiver = self.site.receiver("--metrics", f"127.0.0.1:{metrics}", exports="mixpanel,csv")
        self.ship(self.lines(20))

        def accounted():
            connection = http.client.HTTPConnection("127.0.0.1", metrics, timeout=patience(20))
            try:
                connection.request("GET", "/status")
                found = {entry["name"]: entry for entry in json.loads(connection.getresponse().read())["projections"]}
            finally:
                connection.close()
            return found if all(entry["lines"] == 20 for entry in found.values()) else None

        archive = until(accounted, 60, "every line has an outcome")["archive"]
        self.assertEqual((archive["archived"], archive["quarantined"], archive["unaccounted"]), (16, {"erased": 4}, 0))
        self.assertEqual(receiver.stop(), 0)
        result = run("inspect", "--verify", self.site.data)
        self.assertEqual(result.returncode, 0, result.stdout.decode()[-3000:])

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
            ("requeue", "--data", self.site.data, "--output", self.site.root / "again", "--quarantine"),
            ("transform", "--provider", "csv", *archive_files(self.site.data)),
            ("report", "overview", "--data", self.site.data, "--app", "com.example.shop"),
            ("tap", "--data", self.site.data, "--once"),
            ("erase", "--data", self.site.data, "--user", "somebody-else"),
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


if __name__ == "__main__":
    unittest.main()
