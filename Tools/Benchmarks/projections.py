#!/usr/bin/env python3
"""Measures what each projection costs a core: the archive and every exporter, from the journal to their files.

    Tools/Benchmarks/projections.py --megabytes 256 --runs 3

A backlog is received once, without exports. Then the receiver is started again for each projection alone, with that
projection's output and checkpoint taken away, and asked to stop: it leaves when everything is projected from the journal
again. Prints one JSON object a projection and run: events per CPU second and MB of raw lines per CPU second (user and
system, inflating the journal and syncing included), what a start with nothing to do takes being subtracted. Every export
must have taken every event, or there is no figure.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import drain

EXPORTS = ["ga4", "mixpanel", "mixpanel-profiles", "amplitude", "segment", "posthog", "snowplow", "flurry", "csv", "syslog", "journald"]


def receive(options, root):
    """Fills a data directory; returns raw bytes and lines."""
    spool = os.path.join(root, "spool")
    os.mkdir(spool)
    counts = drain.write_backlog(spool, options.megabytes * 10**6, options.seed, has_vendor_ids=True)
    port = drain.free_port()
    with open(os.path.join(root, "log"), "wb") as log:
        receiver = start(options, root, "none", port, log)
        subprocess.run(
            [options.binary, "agent", "--state", root + "/agent", "--to", "127.0.0.1:%d" % port, "--spool", spool, "--once"],
            stdout=subprocess.DEVNULL, stderr=log, check=True)
        receiver.send_signal(signal.SIGTERM)
        drain.reap(receiver)
    return counts


def start(options, root, exports, port, log):
    receiver = subprocess.Popen(
        [options.binary, "receiver", "--data", root + "/data", "--listen", "127.0.0.1:%d" % port, "--exports", exports],
        stderr=log)
    drain.wait_for(port, receiver)
    return receiver


def project(options, root, exports):
    """Starts a receiver and has it stop when everything is projected; returns its CPU seconds."""
    with open(os.path.join(root, "log"), "ab") as log:
        receiver = start(options, root, exports, drain.free_port(), log)
        receiver.send_signal(signal.SIGTERM)
        seconds = drain.reap(receiver)
    if receiver.returncode:
        sys.exit("the receiver failed: see its log")
    return seconds


def forget(root, name, folders):
    for folder in folders:
        shutil.rmtree(os.path.join(root, "data", folder), ignore_errors=True)
    state = os.path.join(root, "data/state")
    for file in os.listdir(state):
        if file.startswith(name + ".state"):
            os.unlink(os.path.join(state, file))


def exported(root, name):
    """How many events an export's records hold."""
    count = 0
    for path in drain.files(os.path.join(root, "data/exports", name), ".ids"):
        with open(path, "rb") as file:
            count += sum(line.count(b",") + 1 for line in file)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--binary", default=os.path.join(here, "../../.build/release/waybill"))
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="where to work; a real disk, not tmpfs")
    options = parser.parse_args()
    root = tempfile.mkdtemp(prefix="waybill-projections-", dir=options.directory)
    try:
        byte_count, line_count = receive(options, root)
        for run in range(1, options.runs + 1):
            for name in ["archive"] + EXPORTS:
                idle = project(options, root, "none")
                if name == "archive":
                    forget(root, "archive", ["archive", "quarantine"])
                    seconds = project(options, root, "none") - idle
                    count = sum(sum(1 for _ in open(path, "rb")) for path in drain.files(root + "/data/archive", ".ndjson"))
                else:
                    forget(root, "export-" + name, ["exports/" + name])
                    seconds = project(options, root, name) - idle
                    count = exported(root, name)
                # Profiles are made of user events alone, of which a backlog has none: it measures passing over.
                if count != (0 if name == "mixpanel-profiles" else line_count):
                    sys.exit("%s has %d of %d events: no figure" % (name, count, line_count))
                print(json.dumps({
                    "run": run, "projection": name, "events": line_count, "raw_bytes": byte_count,
                    "cpu_s": round(seconds, 3), "events_per_cpu_s": round(line_count / seconds),
                    "mb_per_cpu_s": round(byte_count / 1e6 / seconds, 1)}), flush=True)
                if name != "archive":
                    forget(root, "export-" + name, ["exports/" + name])
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
