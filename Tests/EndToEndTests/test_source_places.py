"""Logs on file systems with other numbers after a mount, and with few descriptors."""

import os
import resource
import subprocess
import unittest

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
            raise unittest.SkipTest(f"this machine lets no one mount: {result.stderr.decode().strip()}")
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
