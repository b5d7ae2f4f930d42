"""Logs on file systems with other numbers after a mount, with few descriptors, and under names of every kind."""

import os
import resource
import subprocess
import unittest

from harness import run
from programs import ProgramTest, command
from test_real_input import program


class DeviceNumberTests(ProgramTest):
    """A file system is mounted again with another device number, and its files have no creation time."""

    def setUp(self):
        super().setUp()
        self.loops = []
        self.addCleanup(self.release_loops)

    def mount(self, *words):
        """Mounts something on the folder of the logs; skips the test where that is not allowed."""
        result = subprocess.run([*map(str, words), self.folder], check=False, capture_output=True)
        if result.returncode:
            raise unittest.SkipTest(f"this machine lets nobody mount: {result.stderr.decode().strip()}")
        self.site.mounts.append(str(self.folder))

    def unmount(self):
        command("umount", self.folder)
        self.site.mounts.remove(str(self.folder))

    def ship_again(self, mount):
        """Ships, and again after the file system was mounted with another number while the agent was away, twice."""
        mount()
        self.write("web.json", 1000)
        self.write("small.json", 3)
        self.start("*.json")
        for _ in range(2):
            self.until_stored()
            device, inode = self.numbers()
            self.stop()
            self.unmount()
            mount()
            self.assertNotEqual(self.numbers()[0], device, "the device number is another")
            self.assertEqual(self.numbers()[1], inode)
            self.write("web.json", 10)
            self.start()
        self.until_stored()
        self.assertEqual(os.stat(self.folder / "web.json").st_ino, inode)
        self.finish()

    def numbers(self):
        found = os.stat(self.folder / "web.json") if (self.folder / "web.json").exists() else os.stat(self.folder)
        return found.st_dev, found.st_ino

    # MARK: ext4 with small inodes

    def release_loops(self):
        for loop in self.loops:
            subprocess.run([program("losetup"), "-d", loop], check=False, capture_output=True)

    def loop(self, image):
        """Attaches an image to a device that this test has not had yet, since it holds those."""
        result = subprocess.run(
            [program("losetup"), "-f", "--show", image], check=False, capture_output=True, text=True)
        if result.returncode:
            raise unittest.SkipTest(f"this machine has no device for an image: {result.stderr.strip()}")
        self.loops.append(result.stdout.strip())
        return self.loops[-1]

    def test_ext4_with_inodes_of_128_bytes(self):
        image = self.site.root / "disk.img"
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        command(program("mkfs.ext4"), "-q", "-I", "128", image)
        self.ship_again(lambda: self.mount("mount", self.loop(image)))

    # MARK: A file system of a process

    def test_a_mirror_of_bindfs(self):
        origin = self.site.root / "origin"
        origin.mkdir()
        bindfs = program("bindfs")

        def mount():
            # Takes the number that the last mount had.
            self.site.mount(f"taken-{len(self.site.mounts)}", "1m")
            self.mount(bindfs, origin)
        self.ship_again(mount)


class DescriptorTests(ProgramTest):
    """`ulimit -n` of 24 to 1,024, and 1,500 files."""

    FILES = 1500

    def ship(self, limit):
        for number in range(self.FILES):
            self.write(f"web-{number}.json", 4)
        self.agent = self.site.start(
            *self.site.agent_arguments(*self.globbing()), log="agent.log",
            within=["sh", "-c", f'ulimit -n {limit}; exec "$0" "$@"'])
        for number in range(0, self.FILES, 5):
            self.write(f"web-{number}.json", 4)
        self.until_stored(120)
        self.assertEqual(resource.prlimit(self.agent.child.pid, resource.RLIMIT_NOFILE), (limit, limit))
        self.finish()

    def test_24_descriptors(self):
        self.ship(24)

    def test_64_descriptors(self):
        self.ship(64)

    def test_256_descriptors(self):
        self.ship(256)

    def test_512_descriptors(self):
        self.ship(512)

    def test_1024_descriptors(self):
        self.ship(1024)


class NameTests(ProgramTest):
    """Patterns, links and names that nobody means, beside logs that are shipped."""

    def test_a_pattern_that_can_never_match(self):
        """The other source is shipped, and `waybill check` says which pattern is in vain."""
        path = self.site.root / "waybill.yaml"
        path.write_text(
            f"agent: {{state: {self.site.state}, to: ['{self.site.address}'], sources: ["
            f"{{files: ['{self.folder}/none/*.json'], exclude: ['*.json'], env: prod, bundle: none}}, "
            f"{{files: ['{self.folder}/*.json'], env: prod, bundle: com.example.web}}]}}\n")
        checked = run("check", path)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        self.assertIn(f"{self.folder}/none/*.json".encode(), checked.stdout + checked.stderr)
        (self.folder / "none").mkdir()
        self.append("none/web.json", self.maker.foreign(20))
        self.write("web.json", 200)
        self.agent = self.site.start("agent", "--config", path, log="agent.log")
        self.write("web.json", 50)
        self.finish()

    def test_loops_of_links(self):
        """Folders and files that lead to themselves: each log is one file, whatever number of ways lead to it."""
        pod = self.folder / "pods" / "web"
        pod.mkdir(parents=True)
        for target, link in (("..", pod / "up"), (".", pod / "here"), ("web", self.folder / "pods" / "twin"),
                             ("b.json", pod / "a.json"), ("a.json", pod / "b.json"), ("self.json", pod / "self.json"),
                             (self.folder, pod / "top")):
            os.symlink(target, link)
        self.write(pod / "web.json", 200)
        self.start("pods/*/*.json", "pods/*/*/*.json", "pods/*/*/*/*/*.json", "**/*.json", more=("--follow-links",))
        self.write(pod / "web.json", 50)
        self.until_stored()
        self.stop()
        self.write(pod / "web.json", 50)
        self.start()
        self.finish()

    def test_names_that_are_not_utf_8(self):
        """Such logs are named and counted as what cannot be read; the others arrive, also by a link with a good name."""
        folder = os.fsencode(self.folder)
        for name in (b"caf\xe9.json", b"\xff\xfe.json", b"pod-\xe9/web.json", b"\xed\xa0\x80.json"):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"".join(self.maker.foreign(20)))
        self.write("a\nb.json", 20)
        self.write("café \u202e.json", 20)
        os.symlink(b"caf\xe9.json", os.path.join(folder, b"link.json"))
        self.expect_again("link.json")
        self.start("*.json", "*/*.json", more=("--follow-links",))
        self.write("web.json", 50)
        self.finish()
        self.assertEqual(self.summary()["unreadable_files"], 4)
        self.assertIn("UTF-8", self.agent.log())


if __name__ == "__main__":
    unittest.main()
