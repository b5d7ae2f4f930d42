"""The package in a Debian of its own, with its systemd: services that are started, reloaded, watched, upgraded, removed.

It needs root, a mirror of Debian, debootstrap and systemd-nspawn, and the package that is shipped ($WAYBILL_PACKAGE), which
a nightly run makes. $WAYBILL_OLD_PACKAGE is the package to upgrade from; without it, one that has the programs alone.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import patience, until
from ledger import EventMaker, archived
from packages import UNITS, execute, package, repacked

# What the package needs, and what a small Debian lacks.
INCLUDED = "systemd,systemd-sysv,dbus,procps,libyaml-0-2,libisal2,libssl3,libstdc++6,tzdata,ca-certificates"


def require():
    """Skips what this machine cannot run."""
    if os.geteuid() != 0 or not os.environ.get("WAYBILL_PACKAGE"):
        raise unittest.SkipTest("needs root, and the package that is shipped in $WAYBILL_PACKAGE")
    for program in ("debootstrap", "systemd-nspawn", "nsenter"):
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program} is not installed")


class Debian:
    """A Debian that has booted, without a network."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="waybill-debian-"))
        self.root = self.folder / "root"
        release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
        codename = re.search(r"^VERSION_CODENAME=(\w+)", release, re.MULTILINE)[1]
        execute("debootstrap", "--variant=minbase", f"--include={INCLUDED}", codename, self.root)
        self.machine = None

    def boot(self):
        with open(self.folder / "boot.log", "ab") as log:
            self.machine = subprocess.Popen(
                ["systemd-nspawn", "--directory", self.root, "--register=no", "--keep-unit", "--private-network", "--boot",
                 "--console=pipe"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.leader = until(self.find_leader, 30, "the machine starts")
        until(lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() == "running", 60, "it has booted")

    def find_leader(self):
        result = subprocess.run(["pgrep", "--parent", str(self.machine.pid)], capture_output=True, text=True, check=False)
        return result.stdout.split()[0] if result.stdout.split() else None

    def run(self, *command, check=True):
        result = subprocess.run(
            ["nsenter", "--target", self.leader, "--all", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, timeout=patience(120), env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"})
        if check and result.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {result.returncode}\n{result.stdout}\n{self.journal()}")
        return result

    def journal(self):
        return self.run("journalctl", "--no-pager", "--lines=60", "--unit=waybill-*", check=False).stdout

    def close(self):
        if self.machine and self.machine.poll() is None:
            self.run("systemctl", "poweroff", check=False)
            try:
                self.machine.wait(patience(30))
            except subprocess.TimeoutExpired:
                self.machine.kill()
                self.machine.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class ServiceTests(unittest.TestCase):
    """One life of an installation."""

    @classmethod
    def setUpClass(cls):
        require()
        cls.debian = Debian()
        cls.addClassCleanup(cls.debian.close)
        cls.debian.boot()
        cls.root = cls.debian.root
        cls.maker, cls.lines = EventMaker(21), []

    def run_in(self, *command, check=True):
        return self.debian.run(*command, check=check).stdout

    def install(self, path):
        shutil.copy(path, self.root / "root/waybill.deb")
        return self.run_in(
            "sh", "-c", "DEBIAN_FRONTEND=noninteractive apt-get install --yes --allow-downgrades -o Dpkg::Options::=--force-confold "
            "/root/waybill.deb 2>&1")

    def shown(self, unit, name):
        return self.run_in("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def assert_running(self, *units):
        for unit in units:
            self.assertEqual(self.shown(unit, "ActiveState"), "active", self.debian.journal())

    def send(self, count):
        """An app of its own user writes a segment; the agent ships and deletes it."""
        spool = self.root / "var/spool/waybill/shop"
        lines = self.maker.lines(count)
        self.lines += lines
        # It gets its place when it is whole.
        made = self.maker.segment(self.root / "root", lines, writer=self.maker.writer())
        status = spool.stat()
        os.chown(made, status.st_uid, status.st_gid)
        os.chmod(made, 0o640)
        os.rename(made, spool / pathlib.Path(made).name)
        until(lambda: not list(spool.iterdir()), 60, "the segment is shipped and deleted")
        until(lambda: len(list(archived(self.root / "var/lib/waybill"))) == len(self.lines), 60, "the events are archived")
        self.assertEqual(sorted(archived(self.root / "var/lib/waybill")), sorted(self.lines))

    def test_a_year(self):
        self.upgrade_from_programs_alone()
        self.two_commands_start_both()
        self.reload_checks_first()
        self.a_thread_that_hangs_is_noticed()
        self.each_unit_starts()
        self.an_upgrade_starts_them_again()
        self.remove_and_purge()

    def upgrade_from_programs_alone(self):
        """A version without services, whose receiver was started by hand with data in the usual place."""
        def strip(root):
            for path in ("etc", "usr/lib"):
                shutil.rmtree(root / path)
            for path in ("conffiles", "postinst", "prerm", "postrm", "md5sums"):
                (root / "DEBIAN" / path).unlink()
        named = os.environ.get("WAYBILL_OLD_PACKAGE")
        self.install(pathlib.Path(named) if named else repacked("0.0.1", strip))
        self.run_in("useradd", "--system", "--user-group", "shop")
        for path in ("var/lib/waybill", "root/spool"):
            (self.root / path).mkdir(exist_ok=True, parents=True)
        self.lines += self.maker.lines(100)
        self.maker.segment(self.root / "root/spool", self.lines)
        self.run_in(
            "sh", "-ec", "waybill receiver --data /var/lib/waybill --exports csv --stop-seconds 60 2>/root/receiver.log & "
            "waybill agent --state /root/agent --to 127.0.0.1:4390 --spool /root/spool --once 2>/root/agent.log; "
            "kill $!; wait $!")
        self.assertEqual(sorted(archived(self.root / "var/lib/waybill")), sorted(self.lines))
        self.install(package())
        self.run_in("chown", "--recursive", "waybill:waybill", "/var/lib/waybill")
        self.run_in("chmod", "0750", "/var/lib/waybill")

    def two_commands_start_both(self):
        services = ("waybill-receiver", "waybill-agent")
        for service in services:
            self.assertEqual(self.shown(service, "ActiveState"), "inactive", "nothing starts unasked")
        # It returns when both are ready.
        self.run_in("systemctl", "enable", "--now", *services)
        self.assert_running(*services)
        self.assertRegex(self.shown("waybill-receiver", "StatusText"), r"^listening on .*127\.0\.0\.1.*4390$")
        until(lambda: self.shown("waybill-agent", "StatusText").startswith("connected to "), 30, "the agent is connected")
        self.run_in("install", "-d", "-o", "shop", "-g", "waybill-spool", "-m", "2770", "/var/spool/waybill/shop")
        self.send(300)

    def reload_checks_first(self):
        path = self.root / "etc/waybill/receiver.yaml"
        good = path.read_text(encoding="utf-8").replace("  #retention:", "  retention:").replace("    #days: none", "    days: 400")
        # It waits for the next start.
        good = good.replace("  #exports: []", "  exports: [{provider: mixpanel}]")
        path.write_text(good, encoding="utf-8")
        main = self.shown("waybill-receiver", "MainPID")
        self.run_in("systemctl", "reload", "waybill-receiver")
        self.assertIn("retention.days: keep all -> 400", self.debian.journal())
        path.write_text(good.replace("days: 400", "day: 400"), encoding="utf-8")
        self.assertNotEqual(self.debian.run("systemctl", "reload", "waybill-receiver", check=False).returncode, 0)
        self.assertIn("did you mean days?", self.debian.journal())
        self.assert_running("waybill-receiver")
        self.assertEqual(self.shown("waybill-receiver", "MainPID"), main)
        path.write_text(good, encoding="utf-8")
        agent = self.root / "etc/waybill/agent.yaml"
        agent.write_text(
            agent.read_text(encoding="utf-8").replace("  #drain_seconds: 10", "  drain_seconds: 11"), encoding="utf-8")
        self.run_in("systemctl", "reload", "waybill-agent")
        until(lambda: "agent.drain_seconds: 10 -> 11" in self.debian.journal(), 30, "the agent says what has changed")
        self.assert_running("waybill-agent")

    def a_thread_that_hangs_is_noticed(self):
        self.run_in("mkdir", "--parents", "/run/systemd/system/waybill-receiver.service.d")
        self.run_in("sh", "-c", "printf '[Service]\\nWatchdogSec=2\\nTimeoutAbortSec=1\\n' "
                    ">/run/systemd/system/waybill-receiver.service.d/short.conf; systemctl daemon-reload")
        self.run_in("systemctl", "restart", "waybill-receiver")
        time.sleep(5)
        self.assertEqual(self.shown("waybill-receiver", "NRestarts"), "0", "it says in time that it continues")
        self.run_in("kill", "-STOP", self.shown("waybill-receiver", "MainPID"))
        until(lambda: self.shown("waybill-receiver", "NRestarts") == "1", 30, "it is started again")
        until(lambda: self.shown("waybill-receiver", "ActiveState") == "active", 30, "it runs")
        self.send(50)

    def each_unit_starts(self):
        self.run_in("systemctl", "start", "waybill-live")
        self.assert_running("waybill-live")
        self.assertEqual(self.run_in("stat", "--format=%U %a", "/var/lib/waybill-live/token").strip(), "waybill-live 600")
        self.assertNotIn("#t=", self.debian.journal())
        # It has nothing to send, and says so; without its file it does not start.
        self.assertNotEqual(self.debian.run("systemctl", "start", "waybill-deliver@mixpanel", check=False).returncode, 0)
        (self.root / "etc/waybill/deliver-mixpanel.env").write_text(
            "WAYBILL_MIXPANEL_PROJECT_ID_PROD=1\nWAYBILL_MIXPANEL_SERVICE_ACCOUNT_PROD=a\nWAYBILL_MIXPANEL_SERVICE_SECRET_PROD=bbbbbbbbbb\n"
            "DELIVER_OPTIONS=--endpoint http://127.0.0.1:9 --backoff-max 1\n")
        self.run_in("systemctl", "start", "waybill-deliver@mixpanel")
        self.assert_running("waybill-deliver@mixpanel")
        for unit in UNITS:
            said = self.run_in("systemd-analyze", "security", "--threshold=15", "--no-pager", unit.replace("ga4", "mixpanel"))
            self.assertIn("OK", said)
        self.run_in("systemctl", "stop", "waybill-deliver@mixpanel")

    def an_upgrade_starts_them_again(self):
        before = {unit: self.shown(unit, "MainPID") for unit in ("waybill-receiver", "waybill-agent")}
        configuration = (self.root / "etc/waybill/receiver.yaml").read_text(encoding="utf-8")
        self.install(repacked("99.0-1"))
        for unit, process in before.items():
            self.assert_running(unit)
            self.assertNotEqual(self.shown(unit, "MainPID"), process, unit)
        self.assertEqual((self.root / "etc/waybill/receiver.yaml").read_text(encoding="utf-8"), configuration)
        self.send(50)
        self.assertEqual(self.run_in("waybill", "inspect", "--verify", "/var/lib/waybill").splitlines()[-1], "whole")

    def remove_and_purge(self):
        self.run_in("apt-get", "remove", "--yes", "waybill")
        for unit in ("waybill-receiver", "waybill-agent", "waybill-live"):
            self.assertEqual(self.shown(unit, "ActiveState"), "inactive")
        self.assertTrue((self.root / "etc/waybill/receiver.yaml").exists())
        said = self.run_in("dpkg", "--purge", "waybill")
        self.assertIn("waybill: /var/lib/waybill is kept", said)
        self.assertIn("waybill: /etc/waybill is kept", said)
        self.assertFalse((self.root / "etc/waybill/receiver.yaml").exists())
        self.assertEqual(list((self.root / "etc/systemd/system").rglob("waybill*")), [])
        self.assertEqual(sorted(archived(self.root / "var/lib/waybill")), sorted(self.lines))
