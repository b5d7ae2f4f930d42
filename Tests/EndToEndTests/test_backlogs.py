"""Very many files and very many bytes: what an agent keeps of them.

`WAYBILL_THOROUGH=1` makes 100,000 short-lived files and a backlog of 20 GB (20 GB of disk, some minutes).
"""

import json
import os
import socket
import threading
import time
import unittest

from harness import until
from ledger import archive_files
from peers import LIMITS, identity
from scale import THOROUGH
from test_source_limits import MEBIBYTE, LimitTest


class ShortLivedFileTests(LimitTest):
    """Files that come and go by the thousand."""

    FILES = 100_000 if THOROUGH else 2_000
    WAVE = 500

    def test_thousands_of_files_leave_nothing_behind(self):
        """An entry goes when its file is gone and the receiver has its end; memory and registry stay small (T27)."""
        started = time.monotonic()
        receiver = self.site.receiver(exports="none")
        agent = self.site.agent(*self.globbing(), "--log-level", "warning")
        registry_peak = 0
        for wave in range(self.FILES // self.WAVE):
            for number in range(self.WAVE):
                self.write(f"{wave}-{number}.json", self.maker.foreign(1))
            self.until_stored_bytes()
            if wave % 40 == 2:
                agent.kill()
                agent = self.site.agent(*self.globbing(), "--log-level", "warning")
            registry_peak = max(registry_peak, sum(path.stat().st_size for path in self.site.state.glob("registry.*")))
            for number in range(self.WAVE):
                os.unlink(self.folder / f"{wave}-{number}.json")
        shipped = time.monotonic() - started
        until(lambda: self.registry_entries() == set(), 120, "the registry is empty")
        peak = agent.peak_mebibytes()
        size = sum(path.stat().st_size for path in self.site.state.rglob("*") if path.is_file())
        print(f"{self.FILES} files: shipped after {shipped:.0f} s, forgotten after {time.monotonic() - started:.0f} s, agent at most "
              f"{peak:.0f} MiB, registry at most {registry_peak >> 10} KiB, state at the end {size >> 10} KiB", flush=True)
        self.assertLess(peak, 256 if THOROUGH else 64)
        self.assertLess(registry_peak, 8 * MEBIBYTE + 1000 * self.FILES)
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.site.once(*self.globbing())["lines"], 0)
        self.assert_stored(receiver)


class Swallower(threading.Thread):
    """A receiver that acknowledges whatever it is sent and keeps nothing: backlogs beyond the disk's size can be shipped."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", port))
        self.positions = {}
        self.raw_bytes = 0

    def run(self):
        connection, _ = self.server.accept()
        with connection, connection.makefile("rb", 1 << 16) as reader:
            while line := reader.readline():
                answer = self.answer(line.decode().split(" "), reader)
                if answer:
                    connection.sendall(answer.encode() + b"\n")

    def answer(self, words, reader):
        match words[0]:
            case "HELLO":
                return "READY " + json.dumps({"protocol": 1, **identity("swallower"), "limits": LIMITS,
                                              "window": 8 * MEBIBYTE, "time": time.time_ns() // 1_000_000})
            case "OPEN":
                self.positions[words[1]] = 0
                return f"AT {words[1]} 0 0 - 0"
            case "BATCH":
                number, offset, raw, _, wire = words[1], *map(int, words[2:6])
                reader.read(wire)
                if offset != self.positions[number]:
                    return f"NAK {number} {self.positions[number]} gap not here"
                self.positions[number] = offset + raw
                self.raw_bytes += raw
                return f"ACK {number} {offset + raw} 0"
            case "PING":
                return f"PONG {words[1].strip()}"
            case _:
                return None


class BacklogTests(LimitTest):
    """Much to ship at the start."""

    def fill(self, path, byte_count, name):
        """So many bytes of lines; quick to make, real to read."""
        block = b"".join(b'{"time":"2026-11-20T00:00:00.000Z","n":%d,"x":"%s"}\n' % (n, b"%08x" % (n * 2654435761 % 2**32) * 20)
                         for n in range(5000))
        with open(path, "wb") as file:
            file.write(b'{"time":"2026-11-20T00:00:00.000Z","file":"%s"}\n' % name)
            while file.tell() < byte_count:
                file.write(block)
            return file.tell()

    def test_a_backlog_costs_no_memory_and_no_second_reading(self):
        """64 MiB wait: memory stays flat, and a start without registry asks for the position instead of reading (T30)."""
        receiver = self.site.receiver(exports="none")
        size = self.fill(self.folder / "web.json", 64 * MEBIBYTE, b"one")
        agent = self.site.agent(*self.globbing())
        until(lambda: sum(path.stat().st_size for path in archive_files(self.site.data)) >= size, 60, "it is archived")
        self.assertLess(agent.peak_mebibytes(), 64)
        agent.kill()
        (self.site.state / "registry.state").unlink()
        agent = self.site.agent(*self.globbing())
        until(lambda: (self.site.state / "registry.state").exists() and f":{size}:" in
              (self.site.state / "registry.state").read_text(), 30, "the position is known")
        self.assertLess(self.read_bytes(agent), 4 * MEBIBYTE)
        self.stop_all(agent, receiver)
        self.assertEqual(sum(path.stat().st_size for path in archive_files(self.site.data)), size)

    @unittest.skipUnless(THOROUGH, "20 GB of disk and some minutes")
    def test_twenty_gigabytes(self):
        """20 GB in ten files: the agent never holds more than 64 MiB (T30)."""
        total = sum(self.fill(self.folder / f"{number}.json", 2_000_000_000, b"%d" % number) for number in range(10))
        swallower = Swallower(self.site.port)
        swallower.start()
        started = time.monotonic()
        agent = self.site.agent(*self.globbing())
        agent.until_logged("connected", 5)
        until(lambda: swallower.raw_bytes > 0, 5, "the first batch comes at once")
        first = time.monotonic() - started
        until(lambda: swallower.raw_bytes >= total or not agent.is_running, 900, "everything was sent")
        peak = agent.peak_mebibytes()
        print(f"{total / 1e9:.0f} GB: first batch after {first:.2f} s, all after {time.monotonic() - started:.0f} s, "
              f"agent at most {peak:.1f} MiB", flush=True)
        self.assertLess(peak, 64)
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(swallower.raw_bytes, total)
