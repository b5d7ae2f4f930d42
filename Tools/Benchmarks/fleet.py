#!/usr/bin/env python3
"""Measures a fleet: what the uploader costs a receiver, how fast a merger is, how long a line takes to the bucket and to
the merger's archive, and how both grow.

    Tools/Benchmarks/fleet.py --directory /var/tmp --runs 3
    Tools/Benchmarks/fleet.py --quick                            tiny sizes: that it runs; the figures mean nothing

Prints one JSON object per run, and at the end the table of the growth. The bucket is a process of its own with its objects
in memory, which checks every signature (`buckets.SmallStore` of the end-to-end tests); its CPU seconds are in `bucket_cpu_s`.

- `upload`: a backlog through an agent and a receiver into the archive, without and with a bucket, in turn. MB/s of raw
  lines until every line is in the archive; with a bucket also until the agent was told that all of it is stored. The goal
  is a `ratio` of 0.9 and more.
- `merge`: `waybill merge --once` of what that receiver put into the bucket: MB/s, CPU seconds, and the same of the receiver
  in the run before, so that both stand beside each other.
- `delay`: an app finishes one small segment after the other; from its appearance to its deletion, which `STORED` allows, and
  from a line's `write` to the merger's archive.
- `growth`: `merge --once` over so many receivers, streams and MiB of a piece: seconds and peak memory.

Every archive is compared with the backlog; a run that lost or repeated a line has no figure.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import bench
import standing
import throughput

TESTS = bench.REPOSITORY / "Tests" / "EndToEndTests"
PREFIX = "s3://events/w"


def serve_bucket():
    """The process of the bucket: prints its address and serves until its input ends."""
    import buckets
    store = buckets.SmallStore()
    store.requests = Forgetful()
    print(json.dumps({"url": store.url, "key": buckets.KEY, "secret": buckets.SECRET, "region": buckets.REGION}), flush=True)
    sys.stdin.read()


class Forgetful(list):
    """A list of requests that keeps none."""

    def append(self, _):
        pass


class Fleet:
    """A bucket and the programs around it, in one place."""

    def __init__(self, place, options):
        self.place, self.options = place, options
        read, self.leash = os.pipe()
        # With the end of this script its input ends, and so does the bucket.
        with open(read, "rb") as stdin:
            self.bucket = place.start(
                [sys.executable, pathlib.Path(__file__).resolve(), "bucket"], "bucket.log", stdin=stdin, stdout=subprocess.PIPE,
                env={"PYTHONPATH": str(TESTS)})
        told = json.loads(self.bucket.process.stdout.readline())
        self.environment = {"AWS_ACCESS_KEY_ID": told["key"], "AWS_SECRET_ACCESS_KEY": told["secret"]}
        self.store = f"store: {{url: '{PREFIX}', endpoint: '{told['url']}', region: {told['region']}}}\n"
        init = self.config("init", "")
        subprocess.run(
            [options.binary, "store", "init", "--config", init], check=True, capture_output=True,
            env={**os.environ, **self.environment})

    def close(self):
        os.close(self.leash)

    def config(self, name, section):
        path = self.place.path(f"{name}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.store + section)
        return path

    def receiver(self, name="a", projections="all", mebibytes=8, has_bucket=True):
        """Starts a receiver that listens; returns it and its port."""
        port = bench.free_port()
        config = self.config(
            f"receiver-{name}", f"receiver: {{data: {self.place.path(name)}, listen: '127.0.0.1:{port}', name: {name}, "
            f"projections: {projections}, exports: [], piece: {{seconds: 1, mib: {mebibytes}}}, stop_seconds: 600}}\n")
        if not has_bucket:
            text = pathlib.Path(config).read_text(encoding="utf-8").replace(f"projections: {projections}, ", "")
            pathlib.Path(config).write_text(text[len(self.store):], encoding="utf-8")
        child = self.place.start(
            [self.options.binary, "receiver", "--config", config], f"receiver-{name}.log", env=self.environment)
        self.place.await_port(child, port)
        return child, port

    def agent(self, port, spool, state, *arguments, stdout=None):
        return self.place.start(
            [self.options.binary, "agent", "--state", self.place.path(state), "--to", f"127.0.0.1:{port}", "--spool", spool,
             *arguments], f"{state}.log", stdout=stdout)

    def merger(self, name, *arguments, stdout=None):
        config = self.config(f"merger-{name}", f"receiver: {{data: {self.place.path(name)}, name: {name}, exports: []}}\n")
        return self.place.start(
            [self.options.binary, "merge", "--config", config, *arguments], f"merger-{name}.log", env=self.environment,
            stdout=stdout)

    def merge_once(self, name):
        """Merges what there is; returns the seconds and the process."""
        started = time.monotonic()
        child = self.merger(name, "--once", stdout=subprocess.PIPE)
        report = self.place.summary(child)
        return time.monotonic() - started, child, report

    def pieces(self):
        """How many pieces the bucket has, and their bytes."""
        listed = subprocess.run(
            [self.options.binary, "store", "ls", "--json", "--config", self.config("ls", "")], check=True,
            capture_output=True, env={**os.environ, **self.environment}).stdout.splitlines()
        chains = [json.loads(line) for line in listed]
        return sum(chain.get("pieces", 0) for chain in chains), sum(chain.get("bytes", 0) for chain in chains)


def lines_of(place, data):
    """The files of an archive in which no day is sealed."""
    return bench.files(place.path(data, "archive"), ".ndjson")


def with_fleet(options, labels, work):
    def in_place(place):
        fleet = Fleet(place, options)
        try:
            return work(place, fleet)
        finally:
            fleet.close()
    return bench.attempt(options, labels, in_place)


# A receiver, and what it costs to merge what it received

def drained(place, fleet, options, run, has_bucket):
    """A backlog until it is in the archive; with a bucket until it is there, too."""
    spool = place.folder("spool")
    # A day that nobody seals meanwhile: today's.
    events = bench.Events(options.seed + run, start=int(time.time() * 1000))
    ledger = events.backlog(spool, options.megabytes * throughput.MEGABYTE, options.segment_bytes)
    receiver, port = fleet.receiver(has_bucket=has_bucket)
    started = time.monotonic()
    agent = fleet.agent(port, spool, "agent")
    moment = place.settle(ledger.byte_count, "a/archive", lambda: agent.is_running and receiver.is_running, 120)
    if moment is None:
        raise bench.Failure("the archive does not get every byte")
    seconds = moment - started
    bench.until(lambda: not bench.files(spool, ".ndjson"), 600, "the agent deletes what is stored")
    stored = time.monotonic() - started
    agent.stop()
    receiver.stop(600)
    measured = {
        "raw_bytes": ledger.byte_count, "lines": ledger.line_count, "seconds": round(seconds, 3),
        "mb_per_s": throughput.rate(ledger.byte_count, seconds), "seconds_until_deleted": round(stored, 3),
        "deleted_mb_per_s": throughput.rate(ledger.byte_count, stored),
        **throughput.costs(ledger.byte_count, agent, receiver)}
    return ledger, bench.figures(ledger.compare(lines_of(place, "a")), measured)


def alone(place, fleet, options, run):
    return drained(place, fleet, options, run, has_bucket=False)[1]


def uploading(place, fleet, options, run):
    """The run with the bucket, and the merge of what it left there."""
    ledger, measured = drained(place, fleet, options, run, has_bucket=True)
    if measured["ledger"] != "clean":
        return measured
    measured["pieces"], measured["piece_bytes"] = fleet.pieces()
    measured["bucket_cpu_s"] = round(fleet.bucket.cpu, 2)
    seconds, merger, report = fleet.merge_once("m")
    comparison = ledger.compare(lines_of(place, "m"))
    merged = {
        "merge_seconds": round(seconds, 3), "merge_mb_per_s": throughput.rate(ledger.byte_count, seconds),
        "merge_cpu_s_per_gb": round(merger.cpu / (ledger.byte_count / 1e9), 2),
        "merge_peak_mb": round(merger.memory.peak / 1e6, 1), "rounds": report["rounds"]}
    return bench.figures(comparison, {**measured, **merged})


def uploads(options):
    """Without and with a bucket, in turn."""
    for run in range(1, options.runs + 1):
        for row, work in (("receiver", alone), ("receiver-and-uploader", uploading)):
            yield with_fleet(
                options, {"benchmark": "upload", "row": row, "run": run},
                lambda place, fleet, work=work: work(place, fleet, options, run))


def ratio(records):
    """The median rate with a bucket against the one without; `None` unless both have figures."""
    rates = {row: [record["mb_per_s"] for record in records if record.get("row") == row and record.get("ledger") == "clean"]
             for row in ("receiver", "receiver-and-uploader")}
    if not all(rates.values()):
        return None
    return round(statistics.median(rates["receiver-and-uploader"]) / statistics.median(rates["receiver"]), 3)


# Delays

def share(values, part):
    """The value below which this part of them is; as in `latency.py`."""
    values = sorted(values)
    return round(values[min(len(values) - 1, int(len(values) * part))], 1) if values else None


def stored_delays(spool, options):
    """Milliseconds from each segment's appearance to its deletion."""
    delays, waiting, ledger = [], {}, bench.Ledger()
    events = bench.Events(options.seed + 77, start=int(time.time() * 1000))
    end = time.monotonic() + options.seconds
    due = time.monotonic()
    while time.monotonic() < end or waiting:
        now = time.monotonic()
        if now > end + 120:
            raise bench.Failure("segments are not deleted")
        if due <= now < end:
            writer, lines = events.segment(2000)
            path = bench.segment_path(spool, writer)
            with open(path + ".new", "wb") as file:
                file.write(b"".join(lines))
            os.rename(path + ".new", path)
            waiting[path] = time.monotonic()
            ledger.add(lines)
            due += 0.05
        for path in [path for path in waiting if not os.path.exists(path)]:
            delays.append((time.monotonic() - waiting.pop(path)) * 1000)
        time.sleep(0.002)
    return ledger, delays


def delay(place, fleet, options):
    spool, live = place.folder("spool"), place.folder("live")
    receiver, port = fleet.receiver(projections="none")
    merger = fleet.merger("m")
    agents = [fleet.agent(port, spool, "agent"), fleet.agent(port, live, "agent-live", "--name", "live")]
    time.sleep(2)
    ledger, delays = stored_delays(spool, options)
    written, measured = standing.follow(
        place, "spool", live, place.path("m/archive"), options.rate, options.seconds, [agents[1], merger], 60)
    ledger.join(written)
    if place.settle(ledger.byte_count, "m/archive", lambda: merger.is_running, 120) is None:
        raise bench.Failure("the merger's archive does not get every byte")
    for child in (*agents, receiver, merger):
        child.stop(600)
    return bench.figures(ledger.compare(lines_of(place, "m")), {
        "piece_seconds": 1, "segments": len(delays), "stored_p50_ms": share(delays, 0.5), "stored_p99_ms": share(delays, 0.99),
        "events_per_s": measured["events_per_s"], "merged_p50_ms": measured["p50_ms"], "merged_p99_ms": measured["p99_ms"],
        "receiver_peak_mb": round(receiver.memory.peak / 1e6, 1), "merger_peak_mb": round(merger.memory.peak / 1e6, 1),
        "agent_peak_mb": round(agents[1].memory.peak / 1e6, 1)})


def delays(options):
    for run in range(1, options.runs + 1):
        yield with_fleet(
            options, {"benchmark": "delay", "row": "delay", "run": run}, lambda place, fleet: delay(place, fleet, options))


# Growth

def grown(place, fleet, options, receivers, streams, mebibytes):
    """So many receivers get so many streams in all; then a merger reads what they left."""
    byte_count = options.megabytes * throughput.MEGABYTE // 2
    ledger = bench.Ledger()
    for number in range(receivers):
        spool = place.folder(f"spool-{number}")
        events = bench.Events(options.seed + number, start=int(time.time() * 1000))
        ledger.join(events.backlog(spool, byte_count // receivers, max(500, byte_count // streams)))
        receiver, port = fleet.receiver(f"r{number}", "none", mebibytes)
        agent = fleet.agent(port, spool, f"agent-{number}")
        bench.until(lambda spool=spool: not bench.files(spool, ".ndjson"), 900, "the agent deletes what is stored")
        agent.stop()
        receiver.stop(600)
    pieces, piece_bytes = fleet.pieces()
    seconds, merger, report = fleet.merge_once("m")
    return bench.figures(ledger.compare(lines_of(place, "m")), {
        "receivers": receivers, "streams": streams, "piece_mib": mebibytes, "pieces": pieces, "piece_bytes": piece_bytes,
        "merge_seconds": round(seconds, 3), "merge_mb_per_s": throughput.rate(ledger.byte_count, seconds),
        "merge_peak_mb": round(merger.memory.peak / 1e6, 1), "rounds": report["rounds"]})


def growths(options):
    for receivers, streams, mebibytes in options.growth:
        yield with_fleet(
            options,
            {"benchmark": "growth", "row": f"{receivers}-receivers-{streams}-streams-{mebibytes}-mib", "run": 1},
            lambda place, fleet, sizes=(receivers, streams, mebibytes): grown(place, fleet, options, *sizes))


GROWTH_COLUMNS = [
    ("receivers", "Receivers"), ("streams", "Streams"), ("pieces", "Pieces"), ("merge_mb_per_s", "MB/s"),
    ("merge_peak_mb", "Peak memory, MB")]


def growth_table(records):
    """The growth as Markdown; a run without a figure has none."""
    rows = ["| " + " | ".join(title for _, title in GROWTH_COLUMNS) + " |", "| " + " | ".join("---" for _ in GROWTH_COLUMNS) + " |"]
    for record in records:
        if record.get("benchmark") == "growth":
            clean = record.get("ledger") == "clean"
            cells = [str(record[key]) for key, _ in GROWTH_COLUMNS] if clean else [record["row"], "no figure", "", "", ""]
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


BENCHMARKS = {"upload": uploads, "delay": delays, "growth": growths}


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=None)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=int, help="of each part of delay (default: 30)")
    parser.add_argument("--rate", type=int, default=2000, help="events per second in delay (default: %(default)s)")
    parser.add_argument("--only", help="upload, delay, growth; separated by commas")
    parser.add_argument("--quick", action="store_true", help="tiny sizes to check that everything runs")
    options = parser.parse_args(words)
    for name, usual, tiny in (("megabytes", 512, 4), ("runs", 3, 1), ("seconds", 30, 2)):
        if getattr(options, name) is None:
            setattr(options, name, tiny if options.quick else usual)
    options.rate = 200 if options.quick else options.rate
    options.segment_bytes = (1 if options.quick else 8) << 20
    options.growth = [(1, 10, 8), (2, 10, 8), (1, 100, 1)] if options.quick else [
        (1, 100, 8), (2, 100, 8), (4, 100, 8), (1, 1_000, 8), (1, 10_000, 8), (1, 100, 1)]
    options.names = options.only.split(",") if options.only else list(BENCHMARKS)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"--only: unknown benchmark {name}; choose from {', '.join(BENCHMARKS)}")
    return options


def main():
    if sys.argv[1:] == ["bucket"]:
        return serve_bucket()
    options = arguments(sys.argv[1:])
    bench.raise_file_limit()
    bench.end_on_signal()
    records = []
    for name in options.names:
        for record in BENCHMARKS[name](options):
            records.append(record)
            print(json.dumps(record), flush=True)
    if "upload" in options.names:
        print(json.dumps({"benchmark": "upload", "ratio": ratio(records), "goal": 0.9}), flush=True)
    if "growth" in options.names:
        print(growth_table(records))
    if any(record.get("ledger") != "clean" for record in records):
        sys.exit("some runs have no figure")
    return None


if __name__ == "__main__":
    main()
