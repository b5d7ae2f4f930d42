"""Logs that are rotated by logrotate, by the kubelet and by deployments: each line is stored once, wherever it went.

The rotation is logrotate's own, and for the kubelet what its `container_log_manager.go` does: it renames the log, lets
the container's runtime open another one, and compresses those that were renamed before.
"""

import gzip
import contextlib
import os
import shutil
import time

from programs import Program, ProgramTest, command
from scale import amount
from test_real_input import program

ROTATIONS = amount("WAYBILL_ROTATIONS", 4, 20)


class LogrotateTests(ProgramTest):
    """logrotate with the options that Debian's packages use."""

    def setUp(self):
        super().setUp()
        self.logrotate = program("logrotate")

    def configure(self, *options):
        lines = "".join(f"    {option}\n" for option in ("rotate 50", "dateext", "dateformat -%Y%m%d-%s", *options))
        (self.site.root / "logrotate.conf").write_text(f"{self.folder}/web.json {{\n{lines}}}\n")

    def rotate(self):
        """Rotates, under a name with the second."""
        time.sleep(1.1)
        before = sorted(path.name for path in self.folder.rglob("web.json?*"))
        command(self.logrotate, "-f", "-s", self.site.root / "logrotate.state", self.site.root / "logrotate.conf")
        self.assertNotEqual(sorted(path.name for path in self.folder.rglob("web.json?*")), before, "it was rotated")

    def test_create_and_compress_later(self):
        """The program writes on into the renamed log until it opens the new one."""
        self.configure("create", "compress", "delaycompress")
        writer = Program(self, "web.json")
        self.start("web.json")
        for _ in range(ROTATIONS):
            with writer.paused():
                pass
            self.rotate()
            writer.reopen()
        writer.stop()
        self.finish()
        self.assertTrue(list(self.folder.glob("*.gz")))

    def test_compressed_at_once(self):
        """The agent reads the renamed log from its descriptor, and takes no compressed one."""
        self.configure("create", "compress")
        writer = Program(self, "web.json")
        self.start("web.json*", more=("--exclude", "*.gz"))
        for _ in range(ROTATIONS):
            with writer.paused():
                self.rotate()
                writer.reopen()
        writer.stop()
        self.finish()

    def test_copytruncate(self):
        """Nothing is lost of what was stored before the cut, and the copies have another name."""
        self.configure("copytruncate")
        writer = Program(self, "web.json")
        self.start("web.json")
        for _ in range(ROTATIONS):
            with writer.paused():
                self.rotate()
        writer.stop()
        self.finish()

    def test_copytruncate_with_copies_that_the_pattern_covers(self):
        """Each copied line is stored twice, and no line is missing."""
        self.configure("copytruncate")
        writer = Program(self, "web.json")
        self.start("web.json*")
        for _ in range(ROTATIONS):
            with writer.paused():
                self.expect_again("web.json")
                self.rotate()
        writer.stop()
        self.finish()

    def test_another_folder(self):
        """`olddir` while the agent runs: it reads what it has open to the end."""
        (self.folder / "old").mkdir()
        self.configure("create", "olddir old")
        writer = Program(self, "web.json")
        self.start("web.json")
        for _ in range(ROTATIONS):
            with writer.paused():
                pass
            self.rotate()
            writer.reopen()
        writer.stop()
        self.finish()

    def rotate_while_away(self, *patterns, old="old"):
        """Ships some lines; the agent misses others, which are rotated into another folder, and comes back."""
        (self.folder / old).mkdir()
        self.configure("create", f"olddir {old}")
        self.write("web.json", 200)
        self.start(*patterns)
        self.until_stored()
        self.stop()
        unread = self.write("web.json", 200)
        self.rotate()
        self.write("web.json", 200)
        self.start()
        return unread

    def warnings(self):
        return [entry for entry in self.agent.entries() if entry["level"] == "warning"]

    def test_another_folder_while_the_agent_is_away(self):
        """A pattern that covers `olddir`: the rotated log continues where it was."""
        self.rotate_while_away("web.json", "old/web.json*")
        self.finish()

    def test_a_day_of_rotations_while_the_agent_is_away(self):
        """Renamed several times, to names that the agent never saw: patterns that cover them find all."""
        self.configure("create")
        self.write("web.json", 200)
        self.start("web.json*")
        self.until_stored()
        self.stop()
        for _ in range(3):
            self.write("web.json", 100)
            self.rotate()
        self.write("web.json", 100)
        self.start()
        self.finish()


class BannerTests(ProgramTest):
    """Logs that begin with the same lines after each rotation, as those of many servers do."""

    def check(self, during, rotations=4):
        banner = self.maker.foreign(4)
        self.assertGreater(len(b"".join(banner)), 512)
        for number in range(rotations):
            during(number)
            self.append("web.json", banner)
            self.ledger.add(banner)
            self.write("web.json", 60 + 20 * number)
        during(rotations)
        self.finish()

    def test_renamed_and_the_older_one_deleted(self):
        """The name of the rotated log is taken by the next one each time."""
        def during(number):
            if number == 0:
                self.start("web.json*")
            else:
                self.until_stored()
                os.replace(self.folder / "web.json", self.folder / "web.json.1")
        self.check(during)

    def test_deleted(self):
        """No rotated log is kept, and the next one is longer."""
        def during(number):
            if number == 0:
                self.start("web.json")
            else:
                self.until_stored()
                os.unlink(self.folder / "web.json")
        self.check(during)

    def test_renamed_while_the_agent_is_away(self):
        def during(number):
            if number > 0:
                if number > 1:
                    self.until_stored()
                    self.stop()
                os.rename(self.folder / "web.json", self.folder / f"web.json.{number}")
                self.start("web.json*")
        self.check(during)


class Kubelet:
    """Rotates a container's log as the kubelet does: `pods/NAMESPACE_POD_UID/CONTAINER/0.log`, and a link to it."""

    FILES_MAX = 3

    def __init__(self, test, name):
        self.test, self.count = test, 0
        self.folder = test.folder / "pods" / f"shop_{name}_5d0c" / "app"
        self.folder.mkdir(parents=True)
        self.links = test.folder / "containers"
        self.links.mkdir(exist_ok=True)
        self.link, self.number = self.links / f"{name}_shop_app-0f3a.log", -1
        self.restart()

    @property
    def log(self):
        return self.folder / f"{self.number}.log"

    def restart(self):
        """The container begins again, with another log, and the link comes to lead to it."""
        self.number += 1
        self.log.touch()
        os.symlink(self.log, f"{self.link}.next")
        os.replace(f"{self.link}.next", self.link)

    def rotate(self):
        """Deletes the oldest, compresses what was renamed before, and renames the log."""
        rotated = sorted(path for path in self.folder.glob(f"{self.log.name}.*"))
        for path in rotated[:len(rotated) - (self.FILES_MAX - 2)]:
            path.unlink()
            rotated.remove(path)
        for path in rotated:
            if path.suffix != ".gz":
                with gzip.open(f"{path}.tmp", "wb") as file:
                    file.write(path.read_bytes())
                os.rename(f"{path}.tmp", f"{path}.gz")
                path.unlink()
        self.count += 1
        os.rename(self.log, f"{self.log}.20261127-{self.count:06d}")
        # The runtime opens it when it is asked to.
        self.log.touch()

    def delete(self):
        """The pod is deleted."""
        self.link.unlink()
        shutil.rmtree(self.folder.parent)


class KubeletTests(ProgramTest):
    """Kubernetes' layout of links."""

    def follow(self):
        self.start("containers/*.log", more=("--follow-links",))

    def test_rotations_of_three_pods(self):
        """Rotated in turn while they are written; the older ones are compressed and deleted."""
        pods = [Kubelet(self, f"web-{number}") for number in range(3)]
        writers = []
        self.follow()
        for pod in pods:
            # It writes into the renamed log until it opens the new one.
            writers.append(Program(self, pod.log))
        for _ in range(ROTATIONS):
            # What the last round renamed is compressed now: it is read by then, however slow the machine is.
            with contextlib.ExitStack() as pauses:
                for writer in writers:
                    pauses.enter_context(writer.paused())
                self.until_stored()
            for pod, writer in zip(pods, writers):
                pod.rotate()
                writer.reopen()
        for writer in writers:
            writer.stop()
        self.finish()

    def test_a_rotation_while_nobody_listens_and_the_agent_is_killed(self):
        """What the agent had seen and could not ship is found as well."""
        pod = Kubelet(self, "web")
        self.write(pod.log, 300)
        self.follow()
        self.until_stored()
        self.receiver.kill()
        self.write(pod.log, 150)
        time.sleep(1)
        pod.rotate()
        self.write(pod.log, 150)
        time.sleep(1)
        self.agent.kill()
        self.receiver = self.site.receiver(exports="none")
        self.start()
        self.finish()

    def test_pods_with_equal_logs(self):
        """Pods that write the same bytes are different files, also when one of them is gone and another begins."""
        same = self.maker.foreign(300)
        pods = [Kubelet(self, f"web-{number}") for number in range(2)]
        self.follow()
        for pod in pods:
            self.append(pod.log, same)
            self.ledger.add(same)
        self.until_stored()
        pods[0].delete()
        pods.append(Kubelet(self, "web-2"))
        self.append(pods[2].log, same)
        self.ledger.add(same)
        self.until_stored()
        for pod in pods[1:]:
            self.write(pod.log, 50)
            self.append(pod.log, same[-20:])
            self.ledger.add(same[-20:])
        self.finish()


class DeploymentTests(ProgramTest):
    """`current -> releases/1` becomes `releases/2`: the log stays where it was, and the name leads elsewhere."""

    def release(self, number):
        log = self.folder / "releases" / str(number) / "log"
        log.mkdir(parents=True)
        os.symlink(f"releases/{number}", self.folder / "next")
        os.replace(self.folder / "next", self.folder / "current")
        return log / "web.json"

    def test_while_the_agent_is_away(self):
        first = self.release(1)
        self.write(first, 300)
        self.start("current/log/web.json")
        self.until_stored()
        self.stop()
        self.write(first, 300)
        second = self.release(2)
        self.write(second, 300)
        self.start()
        self.finish()

    def test_while_the_agent_runs(self):
        """The old release logs on for a while."""
        old = self.release(1)
        self.start("current/log/web.json")
        for number in range(2, 6):
            self.write(old, 100)
            self.until_stored()
            new = self.release(number)
            self.write(old, 20)
            self.write(new, 20)
            old = new
        self.finish()
