#!/usr/bin/env python3
"""Measures `waybill report` against `waybill transform` and DuckDB, over the same sealed days.

    Tools/Benchmarks/reports.py --megabytes 256 --days 30 --people 20000 --runs 3

Visits are received, and their days are sealed. Then each row is run in turn, `--runs` times, each process on one core:
`transform` to CSV, one report (`active`), every report at once, the same from a full cache, and every report in DuckDB.
Prints one JSON object per row and run with wall and CPU seconds and peak memory. There is no figure unless the archive has
every line, and the report counts them and every person.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import time
import uuid

import bench

SCREENS = ["Home", "Feed", "Search", "Detail", "Cart", "Checkout", "Profile", "SignUp", "Login", "Settings"]
ACTIONS = ["Like", "Share", "Add To Cart", "Sign Up Tapped", "Refresh"]
VERSIONS = ["1.3.0", "1.4.0", "1.4.1"]
METHODS = ["kakao", "email", "apple"]
# The program that the package duckdb-cli brings; what it puts into `bin` is Python around it.
DUCKDB = next(bench.REPOSITORY.glob(".build/python/lib/python*/site-packages/duckdb_cli/duckdb"), None)


def timestamp(milliseconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(milliseconds // 1000)) + f"{milliseconds % 1000:03d}Z"


class Visits:
    """Visits of people to an app: views of screens, taps and logins, of one session each.

    Made from a seed. Every person comes once before someone comes again; two of three are known by an id.
    """

    def __init__(self, options):
        self.random = random.Random(options.seed)
        self.options = options
        # Full days, the last of them yesterday.
        self.first = bench.Events(options.seed, days=options.days - 1).now

    def line(self, milliseconds, person, writer, sequence, session, kind, name, screen, data):
        number = self.random.getrandbits(74)
        user = f'"user":"u-{person}",' if person % 3 else ""
        return (
            f'{{"v":1,"id":"{bench.writer_id(milliseconds, number)}","writer":"{writer}","seq":{sequence},'
            f'"ts":"{timestamp(milliseconds)}","kind":"{kind}","name":"{name}","screen":"{screen}",'
            f'"session":"{session}",{user}"anon":"{uuid.UUID(int=person + (7 << 76) + (2 << 62))}",'
            f'"app":"{VERSIONS[person % 3]}","build":"118","bundle":"com.example.shop","os":"iOS",'
            f'"os_version":"{17 + person % 2}.1","tz":540,"env":"prod","data":{data}}}\n').encode()

    def spool(self, folder):
        """Fills a spool, one segment for each part of a day; returns the lines as a ledger."""
        ledger, person = bench.Ledger(), 0
        part_byte_count = max(1, self.options.megabytes * 10**6 // self.options.days)
        for day in range(self.options.days):
            part, now = bench.Ledger(), self.first + day * bench.DAY
            while part.byte_count < part_byte_count:
                writer, lines, byte_count = bench.writer_id(now, self.random.getrandbits(74)), [], 0
                while byte_count < 8 << 20 and part.byte_count + byte_count < part_byte_count:
                    for line in self.visit(now, person, writer, len(lines) + 1):
                        lines.append(line)
                        byte_count += len(line)
                    now, person = now + self.random.randrange(80), (person + 1) % self.options.people
                with open(bench.segment_path(folder, writer), "wb") as file:
                    file.write(b"".join(lines))
                part.add(lines)
            if now - self.first >= (day + 1) * bench.DAY - bench.DAY // 24:
                raise bench.Failure("the visits of a day do not fit into it: use more days")
            ledger.join(part)
        os.sync()
        return ledger

    def visit(self, now, person, writer, sequence):
        session = bench.writer_id(now, self.random.getrandbits(74))
        screen = "Home"
        for number in range(self.random.randrange(*self.options.visit)):
            chance = self.random.getrandbits(32)
            kind, name, data = "screen", "screen_view", '{"index":%d}' % (chance % 51)
            if chance % 3 == 0:
                kind, name = "action", ACTIONS[(chance >> 8) % len(ACTIONS)]
            elif chance % 23 == 0:
                kind, name, data = "event", "login", '{"method":"%s"}' % METHODS[(chance >> 8) % len(METHODS)]
            else:
                screen = SCREENS[(chance >> 16) % len(SCREENS)]
            yield self.line(now, person, writer, sequence + number, session, kind, name, screen, data)
            now += 200 + chance % 20_000


def run(place, command, row, output=None):
    """Runs a command on one core; returns its wall and CPU seconds and its peak memory."""
    os.sync()
    with open(place.path("output") if output else os.devnull, "wb") as file:
        started = time.monotonic()
        child = place.start(["taskset", "--cpu-list", "0", *command], log=row + ".log", stdout=file)
        if child.wait(3600, row) != 0:
            raise bench.Failure(f"{row}: {child.log_end()}")
        wall = time.monotonic() - started
    return {"wall_s": round(wall, 3), "cpu_s": round(child.cpu, 3), "peak_mb": round(child.memory.peak / 1e6, 1)}


def check(place, binary, line_count, people):
    """Compares the overview with what was written."""
    result = subprocess.run(
        [binary, "report", "overview", "--data", place.path("data"), "--format", "json", "--quiet"],
        capture_output=True, check=True)
    report = json.loads(result.stdout)["reports"][0]
    names = [column["name"] for column in report["columns"]]
    events = sum(row[names.index("events")] for row in report["rows"])
    if events != line_count:
        raise bench.Failure(f"the overview counts {events} of {line_count} events: no figure")


def sealed_days(place, options):
    """Receives the visits and seals their days; returns the ledger."""
    ledger = Visits(options).spool(place.folder("spool"))
    receiver = place.receiver()
    place.once()
    receiver.stop(600)
    place.receiver(arguments=["--stop-seconds", "600"]).stop(3600)
    found = ledger.compare(place.archive())
    if not found.is_clean:
        raise bench.Failure(f"the archive is not what was written: {found}")
    subprocess.run(
        [options.binary, "seal", "--all", "--data", place.path("data")], check=True, stdout=subprocess.DEVNULL)
    return ledger


def measure(options, place):
    ledger = sealed_days(place, options)
    check(place, options.binary, ledger.line_count, options.people)
    archived = sorted(map(str, bench.files(place.path("data/archive"), ".ndjson.gz")))
    report = [options.binary, "report", "all", "--quiet", "--format", "json", "--data", place.path("data")]
    sql = subprocess.run(
        [options.binary, "report", "sql", "all", "--data", place.path("data")], capture_output=True, check=True).stdout
    pathlib.Path(place.path("all.sql")).write_bytes(sql)
    active = [options.binary, "report", "active", *report[3:]]
    cached = [*report, "--cache", place.path("cache")]
    rows = {
        "transform": [options.binary, "transform", "--provider", "csv", *archived],
        "report-active": active,
        "report": report,
        "report-cached": cached,
    }
    if DUCKDB is not None:
        rows["duckdb"] = [DUCKDB, "-json", "-bail", "-f", place.path("all.sql")]
    subprocess.run(cached, check=True, stdout=subprocess.DEVNULL)
    for number in range(1, options.runs + 1):
        for row, command in rows.items():
            print(json.dumps({
                "benchmark": "reports", "row": row, "run": number, "date": bench.now(), "revision": bench.revision(),
                "events": ledger.line_count, "raw_bytes": ledger.byte_count, "days": options.days,
                "people": options.people, **run(place, command, row), "machine": bench.machine(options.directory),
            }), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--visit", type=int, nargs=2, default=(4, 40), metavar=("LEAST", "BELOW"),
                        help="how many events a visit has")
    options = parser.parse_args()
    bench.run_in_place("reports", options, measure)


if __name__ == "__main__":
    main()
