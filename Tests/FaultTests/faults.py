"""Arms the fault shim (`Tools/Faults/shim.c`) for real processes, and ships lines to receivers that may die."""

import collections
import datetime
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "Tests" / "EndToEndTests"))

from ledger import EventMaker, Ledger, exported_ids, lines_of, quarantined, stored, timestamp, utc_now  # noqa: E402
from wire import Peer  # noqa: E402

PROVIDERS = ("ga4", "mixpanel", "csv")


def shim():
    """The shim's path, built when it is older than its source."""
    if not shutil.which("cc") and not shutil.which("clang"):
        raise unittest.SkipTest("there is no C compiler for the fault shim")
    result = subprocess.run([REPOSITORY / "Tools/Faults/build"], check=True, capture_output=True, text=True)
    return result.stdout.strip()


def armed(*roots, **variables):
    """An environment with the shim below these folders: `armed(data, kill="3:half:write", count=path)`."""
    environment = {"LD_PRELOAD": shim(), "WAYBILL_FAULT_ROOT": ":".join(str(root) for root in roots)}
    for name, value in variables.items():
        environment["WAYBILL_FAULT_" + name.upper()] = str(value)
    return environment


def counted(path):
    """The calls of a counting run, as (op, path), in order; a rename's path is where it comes from."""
    return [(op, path) for op, path, _ in traced(path)]


def traced(path):
    """The calls of a counting run, as (op, path, second path or None), in order."""
    calls = []
    for line in pathlib.Path(path).read_text().splitlines():
        number, op, names = line.split(" ", 2)
        first, _, second = names.partition("\t")
        calls.append((int(number), op, first, second or None))
    return [call[1:] for call in sorted(calls, key=lambda call: call[0])]


def unsynced(calls, existing):
    """What a power cut after these calls could take: files written, and folders changed, after their last sync.

    `existing` holds the paths that were there before. A name that is gone again needs no sync.
    """
    there, bytes_, names = set(map(str, existing)), {}, {}

    def moved(old, new):
        for table in (bytes_, names):
            for path in [path for path in table if path == old or path.startswith(old + "/")]:
                table[new + path[len(old):]] = table.pop(path)

    def changed(path):
        names.setdefault(os.path.dirname(path), set()).add(path)

    for op, path, other in calls:
        if op in ("open", "mkdir") and path not in there:
            there.add(path)
            changed(path)
        elif op in ("write", "truncate"):
            bytes_[path] = op
        elif op == "sync":
            bytes_.pop(path, None)
        elif op == "syncdir":
            names.pop(path, None)
        elif op == "syncall":
            bytes_.clear()
            names.clear()
        elif op in ("unlink", "rmdir"):
            there.discard(path)
            bytes_.pop(path, None)
            names.pop(path, None)
            names.get(os.path.dirname(path), set()).discard(path)
        elif op == "rename":
            names.get(os.path.dirname(path), set()).discard(path)
            moved(path, other)
            there.discard(path)
            there.add(other)
            changed(other)
        elif op == "exchange":
            moved(path, path + "//")
            moved(other, path)
            moved(path + "//", other)
            changed(path)
            changed(other)
    return sorted(set(bytes_) | {path for folder in names.values() for path in folder})


def classes(calls, kinds):
    """(op, pattern) → how many calls belong to it; every call must belong to a kind of file that is named."""
    counts = collections.Counter()
    for op, path in calls:
        patterns = [pattern for pattern in kinds if fnmatch.fnmatchcase(path, pattern)]
        if not patterns:
            raise AssertionError(f"no kind of file is named for {op} {path}")
        counts[op, patterns[0]] += 1
    return counts


class Gone(Exception):
    """The receiver died while someone talked to it."""


class Stream:
    """A stream in hand: its batches, and what the receiver has acknowledged of it."""

    def __init__(self, name, batches, is_sealed=True):
        self.name = name
        self.batches = batches
        self.is_sealed = is_sealed
        self.acked = 0
        self.position = 0
        self.is_told_sealed = False

    @property
    def ends(self):
        ends = [0]
        for raw in self.batches:
            ends.append(ends[-1] + len(raw))
        return ends

    def content(self, offset):
        """What its file holds below an offset."""
        return b"".join(self.batches)[:offset]


class Batches:
    """Streams with good lines, lines that are no events, and events that GA4 refuses for their age."""

    def __init__(self, seed):
        self.maker = EventMaker(seed, days=1)
        self.ledger = Ledger()
        self.exported = collections.Counter()
        self.refused = collections.Counter()
        self.bad = collections.Counter()

    def streams(self, count=2, batch_count=3, line_count=4):
        """New streams; all of them must be stored in the end."""
        return [
            Stream(f"crash-{self.maker.writer()}", [self.batch(line_count) for _ in range(batch_count)])
            for _ in range(count)]

    def batch(self, line_count):
        lines = self.maker.lines(line_count)
        for line in lines:
            self.exported[json.loads(line)["id"].encode()] += 1
        old = self.maker.event(self.maker.writer(), 1, ts=timestamp(utc_now() - datetime.timedelta(days=9)))
        self.refused[json.loads(old)["id"].encode()] += 1
        bad = b"no event %d\n" % self.maker.count
        self.bad[bad] += 1
        self.ledger.add(lines + [old, bad])
        return b"".join(lines + [old, bad])

    def check(self, test, data, message):
        """Every line is stored once, every export has every event once."""
        comparison = self.ledger.compare(stored(data))
        test.assertTrue(comparison.is_clean, f"{message}: {comparison}")
        test.assertEqual(collections.Counter(quarantined(data)["not-json"]), self.bad, message)
        for provider in PROVIDERS:
            expected = self.exported if provider == "ga4" else self.exported + self.refused
            test.assertEqual(exported_ids(data, provider), expected, f"{message}: {provider}")
        dead = collections.Counter()
        for path in (data / "exports/ga4").rglob("dead/*.ndjson"):
            for line in lines_of(path):
                dead[json.loads(line)["id"].encode()] += 1
        test.assertEqual(dead, self.refused, f"{message}: dead letters")


class Shipper:
    """An agent's side of the protocol, in step, so that a test knows what was acknowledged before a receiver died."""

    def __init__(self, port, streams):
        self.port = port
        self.streams = streams

    def ship(self):
        """Ships everything from where the receiver stands; raises `Gone` when it dies, `AssertionError` when it lies."""
        try:
            with Peer(self.port) as peer:
                self.check(peer.hello("shipper"), "READY ")
                for number, stream in enumerate(self.streams, 1):
                    self.open(peer, number, stream)
                # One batch of every stream at a time: groups of the journal hold several.
                for turn in range(max((len(stream.batches) for stream in self.streams), default=0)):
                    self.send_turn(peer, turn)
                self.seal(peer)
        except OSError as error:
            raise Gone from error

    def open(self, peer, number, stream):
        line = peer.open(stream.name, number)
        deadline = time.monotonic() + 10
        # The receiver may not have noticed yet that the connection that had the stream is closed.
        while line and " in-use " in line and time.monotonic() < deadline:
            time.sleep(0.05)
            line = peer.open(stream.name, number)
        offset = int(self.check(line, f"AT {number} ").split(" ")[2])
        if offset < stream.acked or offset not in stream.ends:
            raise AssertionError(f"{stream.name} was acknowledged up to {stream.acked} and stands at {offset} of {stream.ends}")
        stream.position = offset
        peer.assert_proved(stream.name, stream.content(offset), number)
        if stream.is_sealed and offset == stream.ends[-1]:
            # A sealed stream says so right behind its position; a question behind it tells whether it does.
            peer.send("PING 7")
            while (line := self.check(peer.line(), "")) != "PONG 7":
                stream.is_told_sealed = line == f"SEALED {number}"

    def send_turn(self, peer, turn):
        waiting = set()
        for number, stream in enumerate(self.streams, 1):
            if turn < len(stream.batches) and stream.ends[turn] >= stream.position:
                peer.batch(stream.name, stream.batches[turn], number=number, offset=stream.ends[turn])
                waiting.add(number)
        while waiting:
            words = self.check(peer.line(60), "ACK ").split(" ")
            stream = self.streams[int(words[1]) - 1]
            stream.acked = int(words[2])
            if stream.acked == stream.ends[turn + 1]:
                waiting.discard(int(words[1]))

    def seal(self, peer):
        waiting = set()
        for number, stream in enumerate(self.streams, 1):
            if stream.is_sealed and not stream.is_told_sealed:
                peer.send(f"SEAL {number} {stream.ends[-1]}")
                waiting.add(number)
        while waiting:
            number = int(self.check(peer.line(60), "SEALED ").split(" ")[1])
            stream = self.streams[number - 1]
            stream.is_told_sealed = True
            peer.assert_proved(stream.name, stream.content(stream.ends[-1]), number)
            waiting.discard(number)

    def check(self, line, beginning):
        if line is None:
            raise Gone
        if not line.startswith(beginning):
            raise AssertionError(f"'{beginning}…' was expected, not '{line}'")
        return line


def use_memory(test):
    """Puts the test's folders into memory where there is a file system for it.

    What a killed process wrote is in the kernel either way; the syncs of thousands of runs would wait for the disk.
    """
    if os.access("/dev/shm", os.W_OK):
        before, tempfile.tempdir = tempfile.tempdir, "/dev/shm"
        test.addCleanup(setattr, tempfile, "tempdir", before)


def copy(source, target):
    """Makes `target` what `source` is."""
    shutil.rmtree(target, ignore_errors=True)
    if pathlib.Path(source).exists():
        shutil.copytree(source, target)


def tree(top, skipped=()):
    """Every file's bytes below a folder, by its path there."""
    top = pathlib.Path(top)
    return {
        str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*"))
        if path.is_file() and path.name not in skipped}
