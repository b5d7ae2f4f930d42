#!/usr/bin/env python3
"""Drains a backlog through real processes and measures it: spool -> agent -> TCP -> receiver -> archive.

    Tools/Benchmarks/drain.py --megabytes 512 --exports none --runs 3

Prints one JSON object per run: MB/s of raw lines (10^6 bytes) from the agent's start to its exit, with every line
acknowledged, which means durable; acknowledged batches a second; CPU seconds per GB and peak resident memory of both
processes (the sender is the agent). Every line of the archive is compared with the backlog; a run that lost or repeated
a line has no figure.

`--without-sync` shows the cost of durability: with the fault shim (Tools/Faults) the receiver's syncs return at once.
In such a run, a power failure would lose acknowledged lines.
"""
import argparse
import json
import os
import subprocess
import sys

import bench
import throughput


def without_sync(options, root):
    """The environment that disables the receiver's syncs, if requested."""
    if not options.without_sync:
        return {}
    build = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../Faults/build")
    shim = subprocess.run([build], check=True, capture_output=True, text=True).stdout.strip()
    return {"LD_PRELOAD": shim, "WAYBILL_FAULT_ROOT": os.path.realpath(root), "WAYBILL_FAULT_NOSYNC": "1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=512)
    parser.add_argument("--exports", default="none")
    parser.add_argument("--compression", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--without-sync", action="store_true", help="disable the receiver's syncs; acknowledged lines are not durable")
    options = parser.parse_args()
    if options.without_sync:
        print("WITHOUT SYNC: lines acknowledged in these runs are not durable; the runs only show the cost of syncs",
              file=sys.stderr, flush=True)
    bench.raise_file_limit()
    bench.end_on_signal()
    for number in range(1, options.runs + 1):
        record = bench.attempt(options, {"benchmark": "drain", "run": number}, lambda place: {
            **throughput.drain_waybill(
                place, bench.Events(options.seed + number, has_vendor_ids="ga4" in options.exports.split(",")),
                options.megabytes * 10**6, exports=options.exports, compression=options.compression,
                env=without_sync(options, place.root)),
            "syncs": "none" if options.without_sync else "all"})
        print(json.dumps(record), flush=True)
        if record.get("ledger") != "clean":
            sys.exit("no figure: " + record.get("failed", "lines were lost, repeated or invented"))


if __name__ == "__main__":
    main()
