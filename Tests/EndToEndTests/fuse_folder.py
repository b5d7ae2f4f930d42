"""A FUSE file system that shows a folder, read only, and hangs on command; it speaks the kernel's protocol itself.

    with FuseFolder(source, target) as mount:
        mount.hang()    # no call on the target returns any more
        mount.go_on()   # all do, also those that waited

Every call is asked for: the kernel keeps nothing. While it hangs, requests stay in the kernel's queue, where a process that
waits for one can be killed; so it is with a server of NFS that is away.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import sys
import unittest

from harness import until

LOOKUP, FORGET, GETATTR, READLINK, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 5, 14, 15, 17, 18
INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 26, 27, 28, 29, 36, 38, 42
# Of FOPEN: nothing is cached, and a close asks for nothing, which even the end of a killed process would wait for.
DIRECT_IO, NO_FLUSH = 1, 32
MOUNT_READ_ONLY = 1


class FuseFolder:
    """A mount whose server is a process of its own."""

    def __init__(self, source, target):
        self.target = str(target)
        self.child = subprocess.Popen(
            [sys.executable, __file__, str(source), self.target], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        answer = self.child.stdout.readline().decode().strip()
        if answer != "mounted":
            self.child.wait()
            raise unittest.SkipTest(f"this machine lets no one mount a FUSE file system: {answer}")

    def hang(self):
        self.tell("hang")

    def go_on(self):
        self.tell("continue")

    def tell(self, command):
        self.child.stdin.write(f"{command}\n".encode())
        self.child.stdin.flush()
        self.child.stdout.readline()

    def close(self):
        """Ends the server, with which all that waits for it fails, and unmounts."""
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()
        subprocess.run(["umount", "-l", self.target], check=False, capture_output=True)
        until(lambda: not os.path.ismount(self.target), 10, "the mount is gone")


class Server:
    """Answers the kernel's requests, one after the other."""

    def __init__(self, source, device):
        self.source, self.device = source, device
        self.paths, self.nodes = {1: ""}, {"": 1}

    def path(self, node):
        return os.path.join(self.source, self.paths[node]) if self.paths[node] else self.source

    def attributes(self, path):
        found = os.lstat(path)
        times = [found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns]
        return struct.pack(
            "<6Q10I", found.st_ino, found.st_size, found.st_blocks, *[time // 10**9 for time in times],
            *[time % 10**9 for time in times], found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0)

    def lookup(self, node, name):
        path = os.path.join(self.paths[node], os.fsdecode(name.rstrip(b"\0")))
        attributes = self.attributes(os.path.join(self.source, path))
        if path not in self.nodes:
            self.nodes[path] = len(self.paths) + 1
            self.paths[self.nodes[path]] = path
        return struct.pack("<4Q2I", self.nodes[path], 0, 0, 0, 0, 0) + attributes

    def entries(self, node, offset, size):
        path, reply = self.path(node), b""
        names = [".", "..", *sorted(os.listdir(path))]
        for number, name in enumerate(names[offset:], offset + 1):
            found, text = os.lstat(os.path.join(path, name)), os.fsencode(name)
            entry = struct.pack("<2Q2I", found.st_ino, number, len(text), stat.S_IFMT(found.st_mode) >> 12) + text
            entry += bytes(-len(entry) % 8)
            if len(reply) + len(entry) > size:
                break
            reply += entry
        return reply

    def answer(self, code, node, body):
        if code == INIT:
            return struct.pack("<4I2H2I2H2I6I", 7, 31, 0, 0, 16, 12, 65536, 1, 0, 0, 0, 0, *[0] * 6)
        if code == LOOKUP:
            return self.lookup(node, body)
        if code == GETATTR:
            return struct.pack("<Q2I", 0, 0, 0) + self.attributes(self.path(node))
        if code == READLINK:
            return os.fsencode(os.readlink(self.path(node)))
        if code in (OPEN, OPENDIR):
            file = os.open(self.path(node), os.O_RDONLY) if code == OPEN else 0
            return struct.pack("<Q2I", file, DIRECT_IO | NO_FLUSH if code == OPEN else 0, 0)
        if code in (READ, READDIR):
            file, offset, size = struct.unpack_from("<2QI", body)
            return os.pread(file, size, offset) if code == READ else self.entries(node, offset, size)
        if code in (RELEASE, RELEASEDIR):
            if code == RELEASE:
                os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if code == STATFS:
            return struct.pack("<5Q4I6I", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0, *[0] * 6)
        raise OSError(errno.ENOSYS, "not supported")

    def serve_one(self):
        request = os.read(self.device, 1 << 18)
        _, code, unique, node = struct.unpack_from("<2I2Q", request)
        if code in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        try:
            reply, error = self.answer(code, node, request[40:]), 0
        except OSError as failure:
            reply, error = b"", -failure.errno
        try:
            os.write(self.device, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)
        except FileNotFoundError:
            pass  # The one that asked was interrupted.

    def run(self):
        hangs = False
        while True:
            ready, _, _ = select.select([0] if hangs else [0, self.device], [], [])
            if 0 in ready:
                command = os.read(0, 64).strip()
                if not command:
                    return
                hangs = command == b"hang"
                print("done", flush=True)
            elif self.device in ready:
                self.serve_one()


def main(source, target):
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        print(error, flush=True)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    if libc.mount(b"waybill-test", os.fsencode(target), b"fuse", MOUNT_READ_ONLY, options.encode()) != 0:
        print(os.strerror(ctypes.get_errno()), flush=True)
        return
    print("mounted", flush=True)
    Server(source, device).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
