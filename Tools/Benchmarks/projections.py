#!/usr/bin/env python3
"""Measures the CPU cost of each projection, the archive and every exporter, from the journal to their files.

    Tools/Benchmarks/projections.py --megabytes 256 --runs 3

A backlog is received once, without exports. Then, for each projection alone, its output and checkpoint are removed, and
the receiver is started and asked to stop: it exits when everything is projected from the journal again. Prints one JSON
object per projection and run: events per CPU second and MB of raw lines per CPU second (user and system, including
inflating the journal and syncing), minus the cost of an idle start. There is no figure unless every export has every
event.
"""
import argparse
import json
import os
import uuid

import bench


def receive(options, place):
    """Fills a data directory; returns the sent lines as a ledger."""
    ledger = bench.Events(options.seed, has_vendor_ids=True).backlog(place.folder("spool"), options.megabytes * 10**6)
    receiver = place.receiver()
    place.once()
    receiver.stop(600)
    return ledger


def project(place, exports):
    """Starts a receiver and stops it when everything is projected; returns its CPU seconds."""
    receiver = place.receiver(exports=exports)
    seconds = receiver.stop(3600)
    if receiver.process.returncode:
        raise bench.Failure("the receiver failed: " + receiver.log_end())
    return seconds


def forget(place, name, folders):
    """Removes a projection's output and checkpoint."""
    for path in [place.path("data", folder) for folder in folders]:
        if os.path.exists(path):
            bench.discard(path, to=place.path("discarded-%s" % uuid.uuid4()))
    state = place.path("data/state")
    for file in os.listdir(state):
        if file.startswith(name + ".state"):
            os.unlink(os.path.join(state, file))


def measure(options, place):
    ledger = receive(options, place)
    for run in range(1, options.runs + 1):
        for name in ["archive"] + bench.EXPORTS:
            idle = project(place, "none")
            if name == "archive":
                forget(place, "archive", ["archive", "quarantine"])
                seconds = project(place, "none") - idle
                comparison = ledger.compare(place.archive())
                if not comparison.is_clean:
                    raise bench.Failure(f"archive: {comparison}: no figure")
            else:
                forget(place, "export-" + name, ["exports/" + name])
                seconds = project(place, name) - idle
                count = bench.exported(place.path("data"), name)
                if count != bench.exportable(name, ledger.line_count):
                    raise bench.Failure(f"{name} has {count} of {ledger.line_count} events: no figure")
                forget(place, "export-" + name, ["exports/" + name])
            print(json.dumps({
                "run": run, "projection": name, "events": ledger.line_count, "raw_bytes": ledger.byte_count,
                "cpu_s": round(seconds, 3), "events_per_cpu_s": round(ledger.line_count / seconds),
                "mb_per_cpu_s": round(ledger.byte_count / 1e6 / seconds, 1)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=256)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    bench.run_in_place("projections", options, measure)


if __name__ == "__main__":
    main()
