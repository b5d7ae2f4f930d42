"""The Debian package: what is in it, what its units may do, and installing, upgrading, removing and purging it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import yaml

from harness import REPOSITORY, SiteTest, binary, free_port, patience, run, until
from ledger import EventMaker, archived
from packages import UNITS, contents, execute, folder, image, members, package, settings
from test_live_api import TOKEN

IS_ROOT = os.geteuid() == 0
# Users and groups that no machine has.
RECEIVER, AGENT, LIVE, APP, SPOOL_GROUP, ADM, RUN_GROUP = 51_021, 51_022, 51_023, 51_024, 54_331, 54_332, 54_333


class ContentTests(unittest.TestCase):
    def test_each_command_has_a_manual_page_that_has_no_faults(self):
        pages = {path.name.removesuffix(".1.gz") for path in (contents() / "usr/share/man/man1").iterdir()}
        shown = run("--help").stdout.decode()
        commands = re.findall(r"^  ([a-z-]+) {2,}", shown[shown.index("SUBCOMMANDS"):], re.MULTILINE)
        self.assertEqual(pages, {"waybill", "waybill-net", *(f"waybill-{name}" for name in commands)})
        for name in pages:
            page = contents() / f"usr/share/man/man1/{name}.1.gz"
            result = subprocess.run(
                ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True, check=False,
                env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"})
            self.assertEqual((result.returncode, result.stderr), (0, b""), name)
        text = execute("man", "-l", contents() / "usr/share/man/man1/waybill-deliver.1.gz", env={
            **os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
        self.assertRegex(text, r"--provider provider\n +Which export: ga4,")

    def test_completions_complete(self):
        share = contents() / "usr/share"
        bash = share / "bash-completion/completions/waybill"
        script = f"""source {bash}; shopt -s extglob
            COMP_LINE='waybill receiver --list' COMP_POINT=23 COMP_WORDS=(waybill receiver --list) COMP_CWORD=2
            $(complete -p waybill | sed 's/.*-F \\([^ ]*\\).*/\\1/') waybill --list receiver; printf '%s\\n' "${{COMPREPLY[@]}}" """
        self.assertEqual(execute("bash", "-c", script).split(), ["--listen"])
        for shell, option, path in (("zsh", "-n", "zsh/vendor-completions/_waybill"),
                                    ("fish", "--no-execute", "fish/vendor_completions.d/waybill.fish")):
            self.assertIn("--listen" if shell == "zsh" else "listen", (share / path).read_text(encoding="utf-8"))
            if shutil.which(shell):
                execute(shell, option, share / path)

    def test_the_configuration_is_good_and_each_default_can_be_uncommented(self):
        for service, count_min in (("receiver", 20), ("agent", 8), ("deliver", 1), ("merge", 10), ("ingest", 8)):
            path = contents() / f"etc/waybill/{service}.yaml"
            self.assertEqual(run("check", path).returncode, 0)
            text, count = re.subn(r"^( *)#(\w+:)", r"\1\2", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            self.assertGreater(count, count_min)
            changed = folder() / f"{service}.yaml"
            changed.write_text(text, encoding="utf-8")
            result = run("check", changed)
            self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_the_pages_are_there_and_their_links_lead_somewhere(self):
        pages = contents() / "usr/share/doc/waybill"
        links = 0
        for page in pages.rglob("*.md"):
            for target in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8")):
                links += 1
                if not re.search(r"Tools/|\.docc/|://|Examples/Shop", target):
                    self.assertTrue((page.parent / target).exists(), f"{page}: {target}")
        self.assertGreater(links, 100)

    def test_alerts_and_dashboard_are_there(self):
        for name in ("alerts.yaml", "dashboard.json"):
            self.assertGreater((contents() / "usr/share/waybill/monitoring" / name).stat().st_size, 1000)

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_is_quiet(self):
        """Programs of a test build are judged by their package alone: what is shipped is judged each night."""
        tags = [] if os.environ.get("WAYBILL_PACKAGE") else ["--suppress-tags", "custom-library-search-path"]
        said = execute("lintian", "--allow-root", "--fail-on", "none", *tags, package())
        self.assertEqual(said, "")


class UnitTests(unittest.TestCase):
    def root(self):
        """A root with the units, and the targets of the machine."""
        root = folder() / "units"
        if not root.exists():
            shutil.copytree(contents() / "usr", root / "usr", symlinks=True)
            for target in pathlib.Path("/usr/lib/systemd/system").glob("*.target"):
                shutil.copy(target, root / "usr/lib/systemd/system")
            (root / "bin").mkdir()
            (root / "bin/sh").symlink_to("/bin/sh")
        return root

    def test_each_unit_may_do_little(self):
        for unit in UNITS:
            said = execute(
                "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15", f"--root={self.root()}", unit)
            self.assertRegex(said, rf"Overall exposure level for {unit}: 1\.\d OK", unit)

    def test_systemd_understands_each_line(self):
        result = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", f"--root={self.root()}", *UNITS], capture_output=True, text=True,
            check=False)
        problems = [line for line in result.stderr.splitlines() if re.search(r"waybill.*(Unknown|Invalid|Failed to parse|ignoring)", line)]
        self.assertEqual(problems, [])

    def test_reload_checks_first_and_commands_exist(self):
        for unit in UNITS:
            text = (contents() / "usr/lib/systemd/system" / unit.replace("@ga4", "@")).read_text(encoding="utf-8")
            command = re.search(r"^ExecStart=/usr/bin/waybill (\w+) (.*)$", text, re.MULTILINE)
            known = run(command[1], "--help").stdout.decode()
            for option in re.findall(r"--[\w-]+", command[2]):
                self.assertIn(option, known, unit)
        for service in ("receiver", "agent", "deliver", "merge", "ingest"):
            text = (contents() / f"usr/lib/systemd/system/waybill-{service}.service").read_text(encoding="utf-8")
            reload = re.findall(r"^ExecReload=(.*)$", text, re.MULTILINE)
            self.assertEqual(
                reload, [f"/usr/bin/waybill check /etc/waybill/{service}.yaml", "/bin/sh -c 'kill -HUP $MAINPID'"])


@unittest.skipUnless(IS_ROOT, "only root can run programs as other users")
class UserTests(SiteTest):
    """The services under the users and groups of their units, which have other numbers here."""

    def setUp(self):
        super().setUp()
        # mkdtemp made it for one user.
        self.site.root.chmod(0o755)
        self.groups = {"waybill-spool": SPOOL_GROUP, "adm": ADM, "waybill": RECEIVER, "waybill-run": RUN_GROUP}
        # As tmpfiles.conf makes it.
        self.sockets = self.folder("run", 0o1775, 0, RUN_GROUP)
        self.users = {"waybill": RECEIVER, "waybill-agent": AGENT, "waybill-live": LIVE}
        if subprocess.run([binary(), "--version"], user=AGENT, group=AGENT, extra_groups=[], check=False,
                          capture_output=True).returncode != 0:
            raise unittest.SkipTest("other users cannot start the program where it was built")

    def folder(self, name, mode, user, group):
        path = self.site.root / name
        path.mkdir(parents=True)
        os.chown(path, user, group)
        path.chmod(mode)
        return path

    def identity(self, unit):
        """The user, the group and the further groups of a unit."""
        unit = settings(unit)
        user = unit["User"]
        group = self.groups.get(unit["Group"], self.users.get(unit["Group"]))
        return {"user": self.users[user], "group": group, "extra_groups": [self.groups[name] for name in members(user)],
                "umask": int(unit["UMask"], 8)}

    def start_unit(self, unit, replacements, log, **changes):
        """What the unit starts, with other paths and addresses, as its user."""
        command = settings(unit)["ExecStart"].replace("/usr/bin/waybill", binary())
        command = command.replace("/run/waybill/", f"{self.sockets}/")
        for old, new in replacements.items():
            self.assertIn(old, command)
            command = command.replace(old, str(new))
        with open(self.site.logs / log, "ab") as output:
            child = subprocess.Popen(
                command.split(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                **{**self.identity(unit), **changes})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def configuration(self, service, replacements):
        """The package's file with other paths and addresses."""
        text = (contents() / f"etc/waybill/{service}.yaml").read_text(encoding="utf-8")
        for old, new in replacements.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.site.root / f"{service}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def start_receiver(self):
        data = self.folder("data", 0o750, RECEIVER, RECEIVER)
        self.metrics = free_port()
        path = self.configuration("receiver", {
            "data: /var/lib/waybill": f"data: {data}", "#listen: 127.0.0.1:4390": f"listen: {self.site.address}",
            "#metrics: none": f"metrics: 127.0.0.1:{self.metrics}"})
        self.start_unit("waybill-receiver.service", {"/etc/waybill/receiver.yaml": path}, "receiver.log")
        until(self.site.is_listening, 30, "the receiver listens")
        return data

    def test_the_agent_ships_and_deletes_the_spool_of_another_user_and_reads_logs_of_adm(self):
        data = self.start_receiver()
        state = self.folder("state", 0o700, AGENT, AGENT)
        self.folder("spools", 0o755, 0, 0)
        spool = self.folder("spools/shop", 0o2770, APP, SPOOL_GROUP)
        maker = EventMaker(7)
        events = maker.lines(300)
        # Three segments of a writer that is gone; what an app writes has its own user and the folder's group.
        for number, first in enumerate(range(0, 300, 100)):
            segment = maker.segment(spool, events[first:first + 100], writer=maker.writer())
            os.chown(segment, APP, SPOOL_GROUP)
            os.chmod(segment, 0o640)
        log = self.site.root / "app.json"
        foreign = maker.foreign(50)
        log.write_bytes(b"".join(foreign))
        os.chown(log, 0, ADM)
        log.chmod(0o640)
        path = self.configuration("agent", {
            "state: /var/lib/waybill-agent": f"state: {state}", "to: [127.0.0.1:4390]": f"to: [{self.site.address}]",
            "    - spool: /var/spool/waybill/*":
                f"    - spool: {self.site.root}/spools/*\n    - {{files: [{log}], env: prod, bundle: com.example.web}}"})
        unit = "waybill-agent.service"
        # Without those groups of the unit it can do neither.
        stranger = self.start_unit(unit, {"/etc/waybill/agent.yaml": path}, "stranger.log", extra_groups=[RUN_GROUP])
        until(lambda: b"app.json" in (self.site.logs / "stranger.log").read_bytes(), 20, "a file that it may not read")
        stranger.terminate()
        stranger.wait(patience(30))
        self.assertEqual(len(list(spool.iterdir())), 3)
        self.start_unit(unit, {"/etc/waybill/agent.yaml": path}, "agent.log")
        until(lambda: not list(spool.iterdir()), 60, "shipped segments are deleted")
        until(lambda: len(list(archived(data))) == 350, 60, "everything is archived")
        self.assertEqual(sorted(archived(data)), sorted(events + foreign))

    def test_the_live_page_reads_the_data_of_its_group_and_writes_nothing(self):
        data = self.start_receiver()
        EventMaker(9).segment(self.site.spool, EventMaker(9).lines(20))
        self.site.once()
        until(lambda: len(list(archived(data))) == 20, 60, "everything is archived")
        unit, port = "waybill-live.service", free_port()
        token = self.site.root / "token"
        token.write_text(TOKEN + "\n")
        os.chown(token, LIVE, RECEIVER)
        token.chmod(0o600)
        identity = self.identity(unit)
        self.assertEqual((identity["group"], settings(unit)["ProtectSystem"]), (RECEIVER, "strict"))
        self.assertNotIn("ReadWritePaths", settings(unit))
        before = self.snapshot(data)
        self.start_unit(unit, {
            "/etc/waybill/receiver.yaml": self.site.root / "receiver.yaml",
            "%S/waybill-live/token": f"{token} --listen 127.0.0.1:{port}"}, "live.log")
        headers = ["-H", f"Authorization: Bearer {TOKEN}"]
        url = f"http://127.0.0.1:{port}/api/events?limit=50"
        found = until(lambda: self.rows(headers, url), 30, "the page has the events")
        self.assertEqual(len(found), 20)
        self.assertEqual(self.snapshot(data), before)
        for path in (data, *data.iterdir()):
            tried = subprocess.run(
                ["sh", "-c", f"touch {path}/x"], check=False, capture_output=True,
                **{name: value for name, value in identity.items() if name != "umask"})
            self.assertNotEqual(tried.returncode, 0, path)

    def rows(self, headers, url):
        result = subprocess.run(["curl", "-fsS", *headers, url], capture_output=True, check=False)
        return json.loads(result.stdout).get("rows") if result.returncode == 0 else None

    def snapshot(self, data):
        return {path: (path.stat().st_size, path.stat().st_mode) for path in data.rglob("*")
                if "journal" not in path.parts and "state" not in path.parts}


class ImageTests(SiteTest):
    def test_it_holds_what_a_container_needs_and_nothing_else(self):
        files = [path.relative_to(image()) for path in image().rglob("*") if not path.is_dir()]
        others = [str(path) for path in files if not re.match(
            r"usr/bin/waybill(-net|-ingest)?$|.*/ld-linux-.*|usr/share/zoneinfo/|etc/(passwd|group|ssl/certs/ca-certificates.crt)$", str(path))]
        self.assertEqual([path for path in others if not re.search(r"lib\w*[.+-].*so|\.so(\.\d+)*$", path)], [])
        self.assertIn("usr/bin/waybill", map(str, files))
        self.assertEqual([path for path in map(str, files) if path.endswith(("/sh", "/bash"))], [])

    def test_the_recipe_is_made_of_what_is_there(self):
        lines = (REPOSITORY / "Containerfile").read_text(encoding="utf-8").splitlines()
        self.assertIn("RUN Tools/package --image /image", lines)
        self.assertIn("COPY --from=build /image /", lines)
        entry = next(line for line in lines if line.startswith("ENTRYPOINT"))
        for program in json.loads(entry.removeprefix("ENTRYPOINT ")):
            self.assertTrue((image() / program.lstrip("/")).exists())
        user = next(line for line in lines if line.startswith("USER")).split()[1]
        self.assertIn(f"waybill:x:{user}:", (image() / "etc/passwd").read_text())

    @unittest.skipUnless(IS_ROOT, "only root can change the root folder")
    def test_an_event_goes_through_two_containers(self):
        """Receiver and agent, each in a root of its own with nothing but the image, as the image's user."""
        data, spool = self.site.root / "data", self.site.root / "spool"
        maker = EventMaker(3)
        lines = maker.lines(40)
        maker.segment(spool, lines)
        roots = {}
        for name, folders in (("receiver", {"var/lib/waybill": data}), ("agent", {"var/spool/waybill": spool})):
            roots[name] = self.site.root / name
            shutil.copytree(image(), roots[name], symlinks=True)
            for inside, outside in folders.items():
                outside.mkdir(exist_ok=True)
                (roots[name] / inside).mkdir(parents=True, exist_ok=True)
                execute("chown", "-R", "65532:65532", outside)
                execute("mount", "--bind", outside, roots[name] / inside)
                self.addCleanup(execute, "umount", roots[name] / inside)
            execute("mount", "--types", "proc", "proc", roots[name] / "proc")
            self.addCleanup(execute, "umount", roots[name] / "proc")
            execute("chown", "65532:65532", roots[name] / "var/lib/waybill-agent")
        self.assertEqual(self.within(roots["agent"], "--version").stdout, run("--version").stdout.decode())
        receiver = self.spawn(
            roots["receiver"], "receiver", "--data", "/var/lib/waybill", "--listen", self.site.address, "--exports", "csv",
            "--zone", "Asia/Seoul")
        until(lambda: self.site.is_listening() or receiver.poll() is not None, 30, "the receiver listens")
        result = self.within(
            roots["agent"], "agent", "--state", "/var/lib/waybill-agent", "--to", self.site.address, "--spool",
            "/var/spool/waybill", "--once")
        self.assertEqual(result.returncode, 0, result.stderr)
        receiver.terminate()
        self.assertEqual(receiver.wait(patience(30)), 0)
        self.assertEqual(sorted(archived(data)), sorted(lines))
        self.assertEqual(list(spool.iterdir()), [])

    def command(self, root, arguments):
        return ["chroot", "--userspec=65532:65532", "--groups=", str(root), "/usr/bin/waybill", *map(str, arguments)]

    def within(self, root, *arguments):
        return subprocess.run(
            self.command(root, arguments), capture_output=True, text=True, check=False, timeout=patience(60))

    def spawn(self, root, *arguments):
        with open(self.site.logs / "receiver.log", "ab") as output:
            child = subprocess.Popen(self.command(root, arguments), stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child


class ManifestTests(unittest.TestCase):
    """What Examples/Kubernetes shows can be run: configurations that are good, and folders that are there."""

    def manifests(self):
        for path in sorted((REPOSITORY / "Examples/Kubernetes").glob("*.yaml")):
            with open(path, encoding="utf-8") as file:
                yield path, {entry["kind"]: entry for entry in yaml.safe_load_all(file)}

    def test_each_configuration_is_good_with_the_variables_of_its_pod(self):
        count = 0
        for path, found in self.manifests():
            pod = self.pod(found)
            for container in self.containers(pod):
                if "waybill" not in container["image"]:
                    continue
                name = pathlib.PurePath(container["args"][container["args"].index("--config") + 1]).name
                written = folder() / name
                written.write_text(found["ConfigMap"]["data"][name], encoding="utf-8")
                variables = {entry["name"]: entry.get("value", "value-1") for entry in container["env"]}
                result = run("check", written, env=variables)
                self.assertEqual((result.returncode, result.stderr), (0, b""), path.name)
                self.assertNotEqual(run("check", written).returncode, 0, f"{path.name}: no variable is used")
                count += 1
        self.assertEqual(count, 3)

    def test_what_must_be_kept_is_on_a_volume_that_outlives_the_pod(self):
        for path, found in self.manifests():
            pod = self.pod(found)
            kept = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
            kept |= {claim["metadata"]["name"] for entry in found.values() if "spec" in entry
                     for claim in entry["spec"].get("volumeClaimTemplates", [])}
            for container in self.containers(pod):
                if "waybill" not in container["image"]:
                    continue
                mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
                text = "".join(found["ConfigMap"]["data"].values())
                for place in re.findall(r"(?:state|data|spool): (/[\w/-]+)", text):
                    mount = max((top for top in mounts if place.startswith(top)), key=len, default=None)
                    self.assertIn(mounts.get(mount), kept, f"{path.name}: {place}")
                self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
            self.assertEqual(pod["securityContext"]["runAsUser"], 65532)

    def pod(self, found):
        return next(entry["spec"]["template"]["spec"] for entry in found.values() if "template" in entry.get("spec", {}))

    def containers(self, pod):
        return pod["containers"] + pod.get("initContainers", [])
