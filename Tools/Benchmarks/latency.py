#!/usr/bin/env python3
"""Writes lines that contain the time of writing, and watches for their arrival.

    latency.py write WAY FOLDER KEEP RATE SECONDS     appends lines; writes all of them to KEEP at the end as well
    latency.py watch FOLDER COUNT PATIENCE SKIP       reads what is appended to the files below FOLDER

WAY selects how to write: `spool` like the client library (segments of 1 MiB, locked while they grow), `file` all lines
to one file, `files` each line to the next of ten files. The watcher polls every half millisecond, reads whole lines,
and prints the time from writing to reading each line, except for those of the first SKIP seconds; both sides use the
monotonic clock.
"""
import fcntl
import json
import os
import re
import sys
import time

import bench

SENT = re.compile(rb'"sent":(\d+)\}\}\n')
FILES = 10


class Spool:
    """Segments as a client library writes them."""
    LIMIT = 1 << 20

    def __init__(self, folder, writer):
        self.folder, self.writer, self.file, self.size, self.sequence = folder, writer, None, 0, 1

    def append(self, lines):
        size = sum(map(len, lines))
        if self.file is None or self.size + size > self.LIMIT:
            self.close()
            path = bench.segment_path(self.folder, self.writer, self.sequence)
            self.file, self.size = os.open(path + ".new", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644), 0
            fcntl.flock(self.file, fcntl.LOCK_SH)
            os.rename(path + ".new", path)
        os.write(self.file, b"".join(lines))
        self.size += size
        self.sequence += len(lines)

    def close(self):
        if self.file is not None:
            os.close(self.file)


class Files:
    """Plain files that grow, in turn."""

    def __init__(self, folder, count):
        paths = [os.path.join(folder, f"busy-{number}.ndjson") for number in range(count)]
        self.files = [os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644) for path in paths]
        self.turn = 0

    def append(self, lines):
        os.write(self.files[self.turn % len(self.files)], b"".join(lines))
        self.turn += 1

    def close(self):
        for file in self.files:
            os.close(file)


def write(way, folder, keep, rate, seconds):
    """Appends due lines about every millisecond; late lines are written at once, with their true time."""
    # Today's events, made before the clock runs.
    writer, lines = bench.Events(1, start=int(time.time() * 1000)).segment((rate * seconds + rate) * 500)
    due = rate * seconds
    heads = [line[:-3] for line in lines[:due]]
    if len(heads) < due:
        raise SystemExit("too few events were made")
    target = Spool(folder, writer) if way == "spool" else Files(folder, FILES if way == "files" else 1)
    sent, started = [], time.monotonic()
    while len(sent) < due:
        passed = time.monotonic() - started
        count = min(due, int(passed * rate) + 1) - len(sent)
        if count > 0:
            stamp = b',"sent":%d}}\n' % time.monotonic_ns()
            batch = [head + stamp for head in heads[len(sent):len(sent) + count]]
            target.append(batch)
            sent += batch
        time.sleep(max(0, started + max(len(sent) / rate, (int(passed * 1000) + 1) / 1000) - time.monotonic()))
    took = time.monotonic() - started
    target.close()
    with open(keep, "wb") as file:
        file.write(b"".join(sent))
    print(json.dumps({"lines": len(sent), "seconds": round(took, 3), "events_per_s": round(len(sent) / took)}))


def watch(folder, count, patience, skip):
    """Reads until it has this many stamped lines, or none arrives for this many seconds."""
    opened, rests, seen = {}, {}, []
    looked = 0
    last = time.monotonic()
    while len(seen) < count and time.monotonic() - last < patience:
        if time.monotonic() - looked > 0.05:
            for path in bench.files(folder, ".ndjson"):
                if path not in opened:
                    opened[path] = os.open(path, os.O_RDONLY)
                    rests[path] = b""
            looked = time.monotonic()
        for path, file in opened.items():
            while piece := os.read(file, 1 << 18):
                now = time.monotonic_ns()
                text = rests[path] + piece
                end = text.rfind(b"\n") + 1
                rests[path] = text[end:]
                seen += [(int(sent), now) for sent in SENT.findall(text, 0, end)]
                last = time.monotonic()
        time.sleep(0.0005)
    first = min((sent for sent, _ in seen), default=0) + int(skip * 1e9)
    delays = sorted(now - sent for sent, now in seen if sent >= first)

    def share(part):
        return round(delays[min(len(delays) - 1, int(len(delays) * part))] / 1e6, 2) if delays else None

    print(json.dumps({
        "seen": len(seen), "measured": len(delays), "p50_ms": share(0.5), "p99_ms": share(0.99), "max_ms": share(1)}))


def main():
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
    else:
        watch(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))


if __name__ == "__main__":
    main()
