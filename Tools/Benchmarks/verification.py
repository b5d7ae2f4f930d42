#!/usr/bin/env python3
"""Measures `waybill inspect --verify` against `waybill transform` of the same archive.

    Tools/Benchmarks/verification.py --megabytes 128 --runs 3

A backlog is received with three exports, and all days are sealed. Then, in each run, the archive's files are mapped for
each of the three exports by `transform`, whose output goes nowhere, and the data directory is verified. Prints one JSON
object per run with the wall and CPU seconds of both and their ratios. There is no figure unless the directory is whole
and every export has every event.
"""
import argparse
import json
import resource
import subprocess
import time

import bench

EXPORTS = ["ga4", "mixpanel", "csv"]


def timed(command, **settings):
    """Runs a command to its end; returns it with its wall and CPU seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = subprocess.run(command, check=False, **settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result, time.monotonic() - started, cpu


def measure(options, place):
    ledger = bench.Events(options.seed, has_vendor_ids=True).backlog(place.folder("spool"), options.megabytes * 10**6)
    receiver = place.receiver()
    place.once()
    receiver.stop(600)
    # It ends when everything is projected.
    place.receiver(exports=",".join(EXPORTS), arguments=["--stop-seconds", "600"]).stop(3600)
    data = place.path("data")
    for name in EXPORTS:
        if bench.exported(data, name) != bench.exportable(name, ledger.line_count):
            raise bench.Failure(f"{name} has not every event: no figure")
    binary = str(options.binary)
    subprocess.run([binary, "seal", "--all", "--data", data], check=True, stdout=subprocess.DEVNULL)
    archived = sorted(map(str, bench.files(place.path("data/archive"), ".ndjson.gz")))
    for run in range(1, options.runs + 1):
        wall = cpu = 0
        for name in EXPORTS:
            _, own_wall, own_cpu = timed(
                [binary, "transform", "--provider", name, *archived], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            wall, cpu = wall + own_wall, cpu + own_cpu
        verified, verify_wall, verify_cpu = timed(
            [binary, "inspect", "--verify", data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if verified.returncode != 0:
            raise bench.Failure("the directory is not whole: " + verified.stdout.decode()[-2000:])
        print(json.dumps({
            "run": run, "exports": EXPORTS, "events": ledger.line_count, "raw_bytes": ledger.byte_count,
            "transform_s": round(wall, 2), "verify_s": round(verify_wall, 2), "wall_ratio": round(verify_wall / wall, 2),
            "transform_cpu_s": round(cpu, 2), "verify_cpu_s": round(verify_cpu, 2),
            "cpu_ratio": round(verify_cpu / cpu, 2)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=128)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    bench.run_in_place("verification", options, measure)


if __name__ == "__main__":
    main()
