"""Networks of a test's own, with cables that can be cut.

A cut cable swallows what is sent, as a broken switch does: no one gets an error, and no kernel answers. It needs root,
iproute2, and a kernel that allows it.
"""

import os
import shutil
import subprocess
import unittest

# No one has it: what is sent there is lost without an answer.
NOBODY = "02:00:00:00:00:99"


def ip(*arguments, check=True):
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=60, check=False)
    if check and result.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result


# Only tests name a namespace so.
SPACE = "waybill-network-"


def remove_stale():
    """Removes the namespaces of test processes that were killed."""
    for line in ip("netns", "list", check=False).stdout.splitlines():
        name = line.split()[0]
        pid = name.removeprefix(SPACE)
        if name != pid and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            ip("netns", "del", name, check=False)


class Link:
    """A cable between this network and a namespace."""

    def __init__(self, space, letter, number):
        self.space, self.here, self.there = space, f"wb{letter}{number}h", f"wb{letter}{number}n"
        third = {"s": 1, "a": 2, "d": 3}[letter]
        base = f"10.{200 + number % 50}.{number // 50 % 60 * 4 + third}"
        self.host, self.guest = f"{base}.1", f"{base}.2"
        ip("link", "add", self.here, "type", "veth", "peer", "name", self.there, "netns", space)
        ip("addr", "add", f"{self.host}/30", "dev", self.here)
        ip("link", "set", self.here, "up")
        ip("-n", space, "addr", "add", f"{self.guest}/30", "dev", self.there)
        ip("-n", space, "link", "set", self.there, "up")

    def cut(self):
        """Both ends send to a card that does not exist."""
        ip("neigh", "replace", self.guest, "lladdr", NOBODY, "dev", self.here, "nud", "permanent")
        ip("-n", self.space, "neigh", "replace", self.host, "lladdr", NOBODY, "dev", self.there, "nud", "permanent")

    def join(self):
        ip("neigh", "del", self.guest, "dev", self.here)
        ip("-n", self.space, "neigh", "del", self.host, "dev", self.there)


class Space:
    """A network namespace that ends with a test; skips the test where there is none."""

    def __init__(self, test):
        if os.getuid() != 0 or shutil.which("ip") is None:
            raise unittest.SkipTest("needs root and iproute2")
        remove_stale()
        self.test, self.name = test, f"{SPACE}{os.getpid()}"
        if ip("netns", "add", self.name, check=False).returncode != 0:
            raise unittest.SkipTest("this machine makes no network namespaces")
        test.addCleanup(ip, "netns", "del", self.name)
        self.within = ("ip", "netns", "exec", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")

    def link(self, letter):
        link = Link(self.name, letter, os.getpid() % 3000)
        # A namespace that was deleted stays, with its end, while a socket in it waits for someone who was cut off.
        self.test.addCleanup(ip, "link", "del", link.here, check=False)
        return link
