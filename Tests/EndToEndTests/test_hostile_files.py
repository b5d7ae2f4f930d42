"""What a user who can write to a spool, a log folder or a data directory makes an agent or a receiver read, show or change.

The names of the tests carry the letters of the findings that they answer. An agent usually runs as root, and so do these
tests where they can: root may read every file, so that only Waybill's own rules keep it from doing so.
"""

import contextlib
import datetime
import json
import os
import stat
import subprocess
import unittest

from harness import binary, patience, run, succeed, until
from ledger import LedgerTest, archived, exported_ids, quarantined, stored

FOREIGN = ["--env", "prod", "--bundle", "com.example.web"]
IS_ROOT = os.geteuid() == 0
# A user that owns nothing, where the tests may give files away; else their own.
STRANGER = 65534 if IS_ROOT else os.geteuid()
# A group that no machine has, so that only the tests' processes are in it.
GROUP = 54_321


@contextlib.contextmanager
def umask(mask):
    """The mask of the processes that are started meanwhile."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(*folders):
    """The permissions of every folder and every file at and below these, each with an example."""
    found = {}
    for top in folders:
        for path in [top, *sorted(top.rglob("*"))]:
            status = path.lstat()
            kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
            found.setdefault((kind, oct(stat.S_IMODE(status.st_mode))), str(path))
    return found


class HostileTest(LedgerTest):
    def give(self, path, follow_symlinks=False):
        """What a stranger has planted belongs to the stranger."""
        os.chown(path, STRANGER, os.stat(path, follow_symlinks=False).st_gid, follow_symlinks=follow_symlinks)

    def refusals(self, log):
        """Path → reason of what the agent refused, and the number of the messages."""
        said = [json.loads(line) for line in log.splitlines() if b"is not followed" in line]
        for entry in said:
            self.assertTrue(entry.get("reason") == "" or entry["remedy"], entry)
        return {entry["path"]: entry["reason"] for entry in said}, len(said)

    def once(self, *arguments):
        result = succeed(*self.site.agent_arguments("--once", *arguments))
        return self.refusals(result.stderr)

    def assert_stored(self, receiver):
        super().assert_stored(receiver)
        self.assertEqual(quarantined(self.site.data), {})


@unittest.skipUnless(IS_ROOT, "only root can give files to other users")
class OwnerTests(HostileTest):
    """Segments of several users."""

    def setUp(self):
        super().setUp()
        # Other users find the way to their folders.
        self.site.root.chmod(0o755)

    def start_as(self, user, groups, arguments, log):
        with open(self.site.logs / log, "ab") as output:
            child = subprocess.Popen(
                [binary(), *map(str, arguments)], user=user, group=user, extra_groups=groups, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def require_programs_of(self, user):
        result = subprocess.run(
            [binary(), "--version"], user=user, group=user, extra_groups=[], check=False, capture_output=True)
        if result.returncode != 0:
            raise unittest.SkipTest("other users cannot start the program where it was built")

    def test_b5_a_segment_of_another_user(self):
        """A file of root in a stranger's spool, and a stranger's in root's, are refused until the owners agree."""
        receiver = self.site.receiver()
        folders = {}
        for owner, other in ((STRANGER, 0), (0, STRANGER)):
            folder = self.site.root / f"spool-{owner}"
            folder.mkdir(mode=0o777)
            os.chown(folder, owner, owner)
            own, foreign = (self.maker.segment(folder, lines) for lines in (self.made(20), self.maker.lines(5)))
            os.chown(own, owner, owner)
            os.chown(foreign, other, other)
            folders[folder] = foreign
        spools = [argument for folder in folders for argument in ("--spool", folder)]
        refused, _ = self.once(*spools)
        self.assertEqual(refused, {foreign: "owner" for foreign in folders.values()})
        for folder, foreign in folders.items():
            self.assertEqual([str(path) for path in folder.iterdir()], [foreign])
            with open(foreign, "rb") as file:
                self.ledger.add(file.readlines())
            os.chown(foreign, folder.stat().st_uid, folder.stat().st_gid)
        self.assertEqual(self.once(*spools), ({}, 0))
        self.assert_stored(receiver)

    def test_b5_a_group_shares_a_spool(self):
        """An agent and an app of different users: the agent makes the folder for their group, the app's library writes
        segments for it, and the agent ships and deletes them. Outsiders are refused."""
        app, agent_user = 51_001, 51_002
        self.require_programs_of(agent_user)
        receiver = self.site.receiver()
        home = {}
        for user in (app, agent_user):
            home[user] = self.site.root / str(user)
            home[user].mkdir()
            os.chown(home[user], user, user)
        spool = home[agent_user] / "spool"
        agent = self.start_as(
            agent_user, [GROUP],
            ["agent", "--state", home[agent_user] / "state", "--to", self.site.address, "--spool", spool,
             "--group", GROUP], "agent.log")
        until(spool.exists, 20, "the agent makes the spool")
        until(lambda: stat.S_IMODE(spool.stat().st_mode) == 0o2770, 20, "for the group")
        self.assertEqual(spool.stat().st_gid, GROUP)
        count = 2_000
        writer = self.start_as(
            app, [GROUP],
            ["demo-app", "--spool", spool, "--ledger", home[app] / "ledger", "--app", 1, "--events", count, "--group",
             GROUP], "app.log")
        names = lambda: [path for path in spool.glob("*.ndjson")]
        segment = until(names, 20, "the app writes")[0]
        with contextlib.suppress(FileNotFoundError):
            self.assertEqual(stat.S_IMODE(segment.stat().st_mode), 0o640)
            self.assertEqual((segment.stat().st_uid, segment.stat().st_gid), (app, GROUP))
        self.assertEqual(writer.wait(patience(60)), 0)
        until(lambda: not names(), 30, "the agent ships and deletes the app's segments")
        # A file that no member of the group has made.
        planted = self.maker.segment(spool, self.maker.lines(5))
        os.chown(planted, STRANGER, STRANGER)
        until(lambda: planted in (self.site.logs / "agent.log").read_text(), 20, "the agent names the outsider's file")
        self.assertTrue(os.path.exists(planted))
        agent.terminate()
        self.assertEqual(agent.wait(patience(30)), 0)
        self.assertEqual(receiver.stop(), 0)
        tracked = len((home[app] / "ledger").read_bytes().splitlines())
        self.assertEqual(tracked, count)
        self.assertGreaterEqual(sum(1 for _ in archived(self.site.data)), count)


class PermissionTests(HostileTest):
    """The permissions of everything that is written."""

    def test_b6_permissions_whatever_the_mask(self):
        """Data 0640 in folders of 0750 and the agent's state 0600 in 0700, with a mask that takes nothing, the usual one
        and one that takes all."""
        for mask in (0, 0o022, 0o077):
            with self.subTest(umask=oct(mask)):
                self.use_everything(mask)

    def use_everything(self, mask):
        root = self.site.root / f"mask-{mask:o}"
        root.mkdir()
        self.site.data, self.site.state, spool = root / "data", root / "agent", root / "apps" / "spool"
        logs = root / "log"
        logs.mkdir()
        # A long line in a file that only its owner may read.
        (logs / "a.json").write_bytes(b'{"long":"' + b"x" * (2 << 20) + b'"}\n' + b"".join(self.maker.foreign(20)) + b"{\n")
        (logs / "a.json").chmod(0o600)
        with umask(mask):
            receiver = self.site.receiver(exports="csv,ga4")
            succeed("demo-app", "--spool", spool, "--ledger", root / "ledger", "--app", 1, "--events", 300, "--unpaused")
            self.assertEqual(
                set(modes(root / "apps")),
                {("folder", oct(0o750 & ~mask)), ("file", oct(0o640 & ~mask))})
            self.site.once("--spool", spool, "--glob", logs / "*.json", *FOREIGN)
            self.assertEqual(len(list((self.site.state / "quarantine").iterdir())), 1)
            until(lambda: sum(exported_ids(self.site.data, "csv").values()) >= 300, 20, "the events are exported")
            self.assertEqual(receiver.stop(), 0)
            self.assertTrue(quarantined(self.site.data))
            outside = root / "replayed"
            for command in (
                ["seal", "--data", self.site.data, "--all"],
                ["replay", "--data", self.site.data, "--provider", "csv", "--quiet"],
                ["replay", "--data", self.site.data, "--provider", "csv", "--quiet", "--output", outside],
                ["requeue", "--data", self.site.data, "--output", root / "requeued"],
            ):
                succeed(*command)
        data = modes(self.site.data, outside, root / "requeued")
        self.assertEqual(set(data), {("folder", "0o750"), ("file", "0o640")}, data)
        state = modes(self.site.state)
        self.assertEqual(set(state), {("folder", "0o700"), ("file", "0o600")}, state)

    def test_b6_what_exists_is_closed_to_others_and_kept_otherwise(self):
        """Folders of an older version lose the permissions of others, which is said once; the rest is the operator's."""
        for path, mode in ((self.site.data, 0o755), (self.site.data / "archive", 0o755),
                           (self.site.data / "exports", 0o2775), (self.site.state, 0o755),
                           (self.site.state / "quarantine", 0o755)):
            path.mkdir()
            path.chmod(mode)
        receiver = self.site.receiver()
        self.maker.spool(self.site.spool, self.ledger, 50_000)
        result = succeed(*self.site.agent_arguments("--once"))
        self.assertEqual(result.stderr.count(b"its permissions were narrowed"), 1)
        said = [entry for entry in receiver.entries() if "could read this folder" in entry["message"]]
        self.assertEqual({entry["path"]: entry["found"] for entry in said},
                         {str(self.site.data / "archive"): "755", str(self.site.data / "exports"): "2775"})
        for path, mode in ((self.site.data, 0o755), (self.site.data / "archive", 0o750),
                           (self.site.data / "exports", 0o2770), (self.site.data / "exports" / "csv", 0o2750),
                           (self.site.state, 0o755), (self.site.state / "quarantine", 0o700)):
            until(path.exists, 20, path)
            self.assertEqual(oct(stat.S_IMODE(path.stat().st_mode)), oct(mode), path)
        self.assert_stored(receiver)
        again = self.site.receiver()
        self.assertEqual(again.stop(), 0)
        self.assertNotIn("could read this folder", again.log())

    def test_b6_a_copy_is_not_wider_than_its_source(self):
        """A part of the archive that the operator has closed to the group is sealed and set aside as closed as it was."""
        receiver = self.site.receiver()
        self.maker.spool(self.site.spool, self.ledger, 50_000)
        self.site.once()
        until(lambda: self.ledger.compare(stored(self.site.data)).is_clean, 20, "all is archived")
        self.assertEqual(receiver.stop(), 0)
        for path in self.site.data.rglob("*.ndjson"):
            path.chmod(0o600)
        self.assertEqual(run("seal", "--data", self.site.data, "--all").returncode, 0)
        sealed = list(self.site.data.rglob("*.ndjson.gz"))
        self.assertTrue(sealed)
        self.assertEqual({oct(stat.S_IMODE(path.stat().st_mode)) for path in sealed}, {"0o600"})


class LinkedDataTests(HostileTest):
    """Links inside a data directory."""

    def lines_of(self, day):
        now = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=day, hours=1)
        return self.maker.lines(
            30, ts=now.strftime("%Y-%m-%dT12:00:00.000Z"), env="prod", bundle="com.example.shop")

    def ship(self, lines):
        self.ledger.add(lines)
        self.maker.segment(self.site.spool, lines)
        self.site.once()

    def test_w5_a_link_for_a_days_folder(self):
        """A link where a day's folder of archive or export comes: nothing is written to where it leads, the error names
        it, and everything else is stored meanwhile."""
        receiver = self.site.receiver()
        self.ship(self.lines_of(3))
        until(lambda: sum(exported_ids(self.site.data, "csv").values()) == 30, 20, "the first day")
        outside = self.site.root / "outside"
        planted = []
        for top in ("archive", "exports"):
            folder = next(path for path in sorted((self.site.data / top).rglob("date=*")) if path.is_dir())
            day = datetime.date.fromisoformat(folder.name.removeprefix("date=")) + datetime.timedelta(days=1)
            target = outside / top
            target.mkdir(parents=True)
            link = folder.parent / f"date={day}"
            link.symlink_to(target)
            planted.append(link)
        self.ship(self.lines_of(2))
        receiver.until_logged("remove the symbolic link")
        self.ship(self.lines_of(1))
        for link in planted:
            if link.is_symlink():
                link.unlink()
        until(lambda: self.ledger.compare(stored(self.site.data)).is_clean, 30, "everything is archived")
        until(lambda: sum(exported_ids(self.site.data, "csv").values()) == 90, 30, "everything is exported")
        self.assertEqual([path for path in outside.rglob("*") if not path.is_dir()], [])
        self.assert_stored(receiver)
        self.assertEqual(run("inspect", "--verify", self.site.data).returncode, 0)
