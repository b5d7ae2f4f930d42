"""Measures the cost of a call that stores an event: `track()`, a logger, an encoder with a file, and SQLite."""
import json
import os
import pathlib
import shutil
import subprocess

import bench

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / ".build/release/track-rivals"
# Row → the packages whose versions it stands for, and how many times fewer events it gets: those that sync are slow.
ROWS = {
    "waybill": ((), 1), "write": ((), 1), "swift-log": (("swift-log",), 1), "swift-log-buffered": (("swift-log",), 1),
    "json": ((), 1), "sqlite-normal": (("grdb.swift",), 5), "waybill-flushed": ((), 50),
    "sqlite-full": (("grdb.swift",), 50),
}
THREADS = (1, 4)


def track(options):
    """`track()` and its write(2) alone, in turn, on one to four threads; every event is checked afterwards."""
    for run in range(1, options.few + 1):
        for threads in range(1, 5):
            for program, row in (("waybill", f"threads-{threads}"), ("write", f"write-threads-{threads}")):
                labels = {"benchmark": "track", "row": row, "version": version(program), "run": run, "threads": threads}
                yield bench.attempt(
                    options, labels,
                    lambda place: measured(options, place, program, threads, options.track_count))


def track_rivals(options):
    """The same event stored in several ways, on one thread and on four, in turn; every event is checked afterwards."""
    counts = allocations(options)
    for run in range(1, options.pairs + 1):
        for threads in THREADS:
            for row in ROWS:
                labels = {
                    "benchmark": "track_rivals", "row": row, "version": version(row), "run": run, "threads": threads}
                record = bench.attempt(options, labels, lambda place: measured(options, place, row, threads, share(options, row)))
                if threads == 1 and row in counts:
                    record["allocations_per_call"] = counts[row]
                yield record


def share(options, row):
    return max(max(THREADS), options.call_count // ROWS[row][1])


def measured(options, place, row, threads, count, env=None):
    """Runs a row once, in its own process and folder."""
    # What the run before left to be written is not this one's.
    os.sync()
    touch_memory(count * 1024)
    child = place.start([PROGRAM, row, count, threads, place.folder("files")], stdout=subprocess.PIPE, env=env)
    with child.process.stdout as output:
        text = output.read()
    if child.wait(60, "the end of " + row) != 0:
        raise bench.Failure(f"{row} ended with {child.process.returncode}: {child.log_end()}")
    record = json.loads(text)
    comparison = bench.Comparison(*(record.pop(key) for key in ("lost", "twice", "alien")))
    return bench.figures(comparison, record)


def touch_memory(byte_count):
    """Uses so much memory and gives it back.

    A virtual machine may have returned its free memory to its host, and gets each page of it again in some 15 µs. That is
    the host's time, and falls on whichever row is the first to need the page.
    """
    touched = bytearray(b"\1") * byte_count
    del touched


def allocations(options):
    """The allocations per call of each row, counted in separate runs because counting takes time.

    The counter is that of `waybill-benchmark`, loaded before the C library; nothing where it cannot be built.
    """
    compiler = shutil.which("cc") or shutil.which("clang")
    source = bench.REPOSITORY / "Tests/Support/CAllocations"
    counts = {}
    with bench.Workplace(options, "allocations") as place:
        counter = place.path("counter.so")
        command = [compiler, "-shared", "-fPIC", "-O2", "-I", source / "include", "-o", counter,
                   source / "CAllocations.c"]
        if compiler is None or subprocess.run(command, check=False, capture_output=True).returncode != 0:
            return counts
        for row in ROWS:
            record = measured(options, place, row, 1, share(options, row), {"LD_PRELOAD": counter})
            bench.discard(place.path("files"), place.path(f"files-{row}"))
            counts[row] = record.get("allocations_per_call")
    return counts


def version(row):
    """The row's name and the versions of the packages in it, as they were built."""
    path = HERE / "Package.resolved"
    pins = json.loads(path.read_text())["pins"] if path.exists() else []
    found = [pin["state"].get("version", "") for pin in pins if pin["identity"] in ROWS[row][0]]
    return " ".join([row, *found])
