#!/usr/bin/env python3
"""Measures what a day's events take: disk before and after the day is sealed, memory and CPU of agent and receiver.

    Tools/Benchmarks/sizing.py --megabytes 256 --runs 3

Events of one day are shipped through real processes, once for each set of exports, in turn. Prints one JSON object per set and
run, with bytes and CPU seconds for a million events, and peak memory. There is no figure unless the archive has every line.
"""
import argparse
import json
import os
import subprocess
import sys

import bench

EXPORTS = {"none": 0, "csv": 1, "ga4,mixpanel,csv": 3, "ga4,mixpanel,amplitude,segment,posthog,snowplow,csv": 7}


def folder_sizes(place):
    """Bytes in the files of each part of the data directory."""
    def total(part):
        return sum(
            os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(place.path("data", part)) for name in names)
    return {part: total(part) for part in ("journal", "archive", "exports")}


def measure(options, place, exports):
    ledger = bench.Events(options.seed, has_vendor_ids=True).backlog(place.folder("spool"), options.megabytes * 10**6)
    receiver = place.receiver(exports=exports, arguments=["--stop-seconds", "600"])
    agent, _ = place.once()
    receiver.stop(1800)
    found = ledger.compare(place.archive())
    if not found.is_clean:
        raise bench.Failure(f"the archive is not what was written: {found}")
    open_sizes = folder_sizes(place)
    subprocess.run(
        [options.binary, "seal", "--all", "--data", place.path("data")], check=True, stdout=subprocess.DEVNULL)
    sealed_sizes = folder_sizes(place)
    million = ledger.line_count / 10**6
    return {
        "events": ledger.line_count, "raw_bytes": ledger.byte_count,
        "agent_cpu_s": round(agent.cpu / million, 2), "receiver_cpu_s": round(receiver.cpu / million, 2),
        "agent_peak_mb": round(agent.memory.peak / 1e6, 1), "receiver_peak_mb": round(receiver.memory.peak / 1e6, 1),
        "open_mb": {part: round(size / 1e6 / million, 1) for part, size in open_sizes.items()},
        "sealed_mb": {part: round(size / 1e6 / million, 1) for part, size in sealed_sizes.items()},
        "ledger": "clean",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=256)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    bench.end_on_signal()
    failed = False
    for run in range(1, options.runs + 1):
        for exports, count in EXPORTS.items():
            record = bench.attempt(
                options,
                {"benchmark": "sizing", "row": f"exports-{count}", "run": run, "revision": bench.revision(),
                 "machine": bench.machine(options.directory)},
                lambda place, exports=exports: measure(options, place, exports))
            failed = failed or "failed" in record
            print(json.dumps(record), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
