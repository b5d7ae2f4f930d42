#!/usr/bin/env python3
"""Measures what a line costs more once someone was erased from a data directory.

    Tools/Benchmarks/erasure.py --runs 10 --seconds 1

Each run judges the same lines as the archive and every export do: with no record of erasures, with another user in it, and
with another anonymous id. Every line has a user of a million and one anonymous id, so nothing is remembered from the line
before. Prints one JSON object per run: nanoseconds of CPU per line, and the difference.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import bench

ROWS = ["judge", "judge-erased-user", "judge-erased-anon"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1, help="CPU seconds of each row of a run")
    parser.add_argument(
        "--binary", type=pathlib.Path, default=pathlib.Path(".build/release/waybill-benchmark"))
    options = parser.parse_args()
    command = [str(options.binary), "--only", "judge", "--seconds", str(options.seconds)]
    for run in range(1, options.runs + 1):
        load = os.getloadavg()[0]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        rows = {row["path"]: row for row in map(json.loads, output.splitlines())}
        if set(rows) != set(ROWS) or any(row["allocations_per_round"] for row in rows.values()):
            raise bench.Failure(f"unexpected rows: {sorted(rows)}, or one that allocates")
        costs = {name: rows[name]["cpu_ns_per_item"] for name in ROWS}
        print(json.dumps({
            "benchmark": "erasure", "run": run, "date": bench.now(), "load_before": round(load, 2),
            **{f"{name}_ns": cost for name, cost in costs.items()},
            "user_more_ns": round(costs["judge-erased-user"] - costs["judge"], 1),
            "anon_more_ns": round(costs["judge-erased-anon"] - costs["judge"], 1),
            "commands": [" ".join(command)], "revision": bench.revision(), "machine": bench.machine("."),
        }), flush=True)


if __name__ == "__main__":
    try:
        main()
    except bench.Failure as failure:
        sys.exit(str(failure))
