#!/usr/bin/env python3
"""Measures a fleet: what the uploader costs a receiver, how fast a merger is, how long a line takes to the bucket and to
the merger's archive, what three receivers reach beside their bucket's own limit, and how all of it grows.

    Tools/Benchmarks/fleet.py --directory /var/tmp --runs 3
    Tools/Benchmarks/fleet.py --quick                            tiny sizes: that it runs; the figures mean nothing

Prints one JSON object per run, and at the end the table of the growth. The bucket is a process of its own with its objects
in memory, which checks every signature (`buckets.SmallStore` of the end-to-end tests); its CPU seconds are in `bucket_cpu_s`.
`limit` has moto and radosgw instead.

- `upload`: a backlog through an agent and a receiver into the archive, without and with a bucket, in turn. MB/s of raw
  lines until every line is in the archive; `seconds_until_answered`: until the agent's last line was acknowledged, with a
  bucket until it was stored, at least until the archive had all. The goal is a `ratio` of 0.9 and more.
  The row with a bucket continues with `waybill merge --once` of what the receiver put there. Its archive has a thread of
  its own, so the rest of the process is merging alone: raw MB per CPU second of that (`merging_mb_per_cpu_s`) against those
  of the receiver in the same run (`receiver_mb_per_cpu_s`), and of the receiver without its archive's thread
  (`receiving_mb_per_cpu_s`). The goal is a `merge_ratio` of 3 and more.
- `delay`: from a line's `write` until its agent is told that it is stored (of the agent's metrics, asked every 10 ms), and
  until it is in the merger's archive; with pieces of one and of two seconds, the default.
- `limit`: three agents and three receivers at once into one bucket of moto, and of radosgw where its programs are, until all
  is stored; then plain signed PUTs of objects as large as their pieces by three processes, into another bucket of the same
  server. Once with the usual compression and once with none, so that the bucket has to take every byte.
- `growth`: so many receivers, streams and MiB of a piece: a receiver's rate and memory, and those of `merge --once`.

Every archive is compared with the backlog; a run that lost or repeated a line has no figure.
"""
import argparse
import bisect
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

import bench
import standing
import throughput
from latency import SENT

TESTS = bench.REPOSITORY / "Tests" / "EndToEndTests"
PREFIX = "s3://events/w"
# A merger has a thread for its archive, and one for all exports; everything else in it merges.
PROJECTING = ("waybill-archive", "wb-exports-0")


def serve_bucket():
    """The process of the bucket: prints its address, and for each line of its input how many requests there were."""
    import buckets
    store = buckets.SmallStore()
    store.requests = Counts()
    print(json.dumps({"url": store.url, "key": buckets.KEY, "secret": buckets.SECRET, "region": buckets.REGION}), flush=True)
    for _ in sys.stdin:
        with store.lock:
            print(json.dumps(store.requests.of), flush=True)


class Counts:
    """In place of a list of requests: how many there were of each method."""

    def __init__(self):
        self.of = {}

    def append(self, request):
        self.of[request[0]] = self.of.get(request[0], 0) + 1


def today():
    """Midnight before now: a backlog that begins there is neither sealed soon nor in the future."""
    return int(time.time() * 1000) // bench.DAY * bench.DAY


class Fleet:
    """A bucket and the programs around it, in one place; the bucket is another server's if there is one."""

    def __init__(self, place, options, server=None, bucket="events"):
        self.place, self.options, self.leash = place, options, None
        self.prefix = PREFIX.replace("events", bucket)
        told = server.told if server else self.serve()
        self.environment = {"AWS_ACCESS_KEY_ID": told["key"], "AWS_SECRET_ACCESS_KEY": told["secret"]}
        self.store = f"store: {{url: '{self.prefix}', endpoint: '{told['url']}', region: {told['region']}}}\n"
        init = self.config("init", "")
        subprocess.run(
            [options.binary, "store", "init", "--config", init], check=True, capture_output=True,
            env={**os.environ, **self.environment})

    def serve(self):
        place = self.place
        read, self.leash = os.pipe()
        # With the end of this script its input ends, and so does the bucket.
        with open(read, "rb") as stdin:
            self.bucket = place.start(
                [sys.executable, pathlib.Path(__file__).resolve(), "bucket"], "bucket.log", stdin=stdin, stdout=subprocess.PIPE,
                env={"PYTHONPATH": str(TESTS)})
        return json.loads(self.bucket.process.stdout.readline())

    def requests(self):
        """How many requests the bucket got so far, by method."""
        os.write(self.leash, b"\n")
        return json.loads(self.bucket.process.stdout.readline())

    def close(self):
        if self.leash is not None:
            os.close(self.leash)

    def config(self, name, section):
        path = self.place.path(f"{name}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.store + section)
        return path

    def receiver(self, name="a", projections="all", mebibytes=8, has_bucket=True, seconds=1):
        """Starts a receiver that listens; returns it and its port."""
        port = bench.free_port()
        config = self.config(
            f"receiver-{name}", f"receiver: {{data: {self.place.path(name)}, listen: '127.0.0.1:{port}', name: {name}, "
            f"projections: {projections}, exports: [], piece: {{seconds: {seconds}, mib: {mebibytes}}}, stop_seconds: 600}}\n")
        if not has_bucket:
            text = pathlib.Path(config).read_text(encoding="utf-8").replace(f"projections: {projections}, ", "")
            pathlib.Path(config).write_text(text[len(self.store):], encoding="utf-8")
        child = self.place.start(
            [self.options.binary, "receiver", "--config", config], f"receiver-{name}.log", env=self.environment)
        self.place.await_port(child, port)
        return child, port

    def once(self, port, spool, state, compression=1):
        """An agent that ends when all is acknowledged; with a bucket, when all is stored."""
        return self.agent(
            port, spool, state, "--name", state, "--compression", compression, "--once", "--patience", "600",
            stdout=subprocess.PIPE)

    def agent(self, port, spool, state, *arguments, stdout=None):
        return self.place.start(
            [self.options.binary, "agent", "--state", self.place.path(state), "--to", f"127.0.0.1:{port}", "--spool", spool,
             *arguments], f"{state}.log", stdout=stdout)

    def merger(self, name, *arguments, stdout=None):
        config = self.config(f"merger-{name}", f"merger: {{data: {self.place.path(name)}, name: {name}, exports: []}}\n")
        return self.place.start(
            [self.options.binary, "merge", "--config", config, *arguments], f"merger-{name}.log", env=self.environment,
            stdout=stdout)

    def merge_once(self, name):
        """Merges what there is; returns the seconds, the process, its threads and its report."""
        started = time.monotonic()
        child = self.merger(name, "--once", stdout=subprocess.PIPE)
        threads = bench.Threads(child.pid)
        report = self.place.summary(child)
        return time.monotonic() - started, child, threads, report

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
    events = bench.Events(options.seed + run, start=today())
    ledger = events.backlog(spool, options.megabytes * throughput.MEGABYTE, options.segment_bytes)
    receiver, port = fleet.receiver(has_bucket=has_bucket)
    threads = bench.Threads(receiver.pid)
    started = time.monotonic()
    agent = fleet.once(port, spool, "agent")
    moment = place.settle(ledger.byte_count, "a/archive", lambda: receiver.is_running, 120)
    if moment is None:
        raise bench.Failure("the archive does not get every byte")
    seconds = moment - started
    place.summary(agent)
    answered = time.monotonic() - started
    receiver.stop(600)
    measured = {
        "raw_bytes": ledger.byte_count, "lines": ledger.line_count, "seconds": round(seconds, 3),
        "mb_per_s": throughput.rate(ledger.byte_count, seconds), "seconds_until_answered": round(answered, 3),
        **throughput.costs(ledger.byte_count, agent, receiver),
        "receiver_mb_per_cpu_s": throughput.rate(ledger.byte_count, receiver.cpu),
        "receiving_mb_per_cpu_s": throughput.rate(ledger.byte_count, receiver.cpu - threads.seconds(*PROJECTING))}
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
    seconds, merger, threads, report = fleet.merge_once("m")
    comparison = ledger.compare(lines_of(place, "m"))
    merging = merger.cpu - threads.seconds(*PROJECTING)
    merged = {
        "merge_seconds": round(seconds, 3), "merge_mb_per_s": throughput.rate(ledger.byte_count, seconds),
        "merge_cpu_s_per_gb": round(merger.cpu / (ledger.byte_count / 1e9), 2),
        "merge_mb_per_cpu_s": throughput.rate(ledger.byte_count, merger.cpu),
        "merging_cpu_s": round(merging, 3), "merging_mb_per_cpu_s": throughput.rate(ledger.byte_count, merging),
        "merging_piece_mb_per_cpu_s": throughput.rate(measured["piece_bytes"], merging),
        "merge_thread_cpu_s": round(threads.seconds("waybill-merge"), 3),
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
    upload = [record for record in records if record["benchmark"] == "upload"]
    return quotient(middle(upload, "receiver-and-uploader", "mb_per_s"), middle(upload, "receiver", "mb_per_s"))


def merge_ratio(records):
    """The same of raw MB per CPU second of merging alone, against those of the receiver whose pieces they are."""
    upload = [record for record in records if record["benchmark"] == "upload"]
    return quotient(*(
        middle(upload, "receiver-and-uploader", key) for key in ("merging_mb_per_cpu_s", "receiver_mb_per_cpu_s")))


def middle(records, row, key):
    """The median of a row's clean runs; `None` without one."""
    values = [record[key] for record in records if record.get("row") == row and record.get("ledger") == "clean"]
    return statistics.median(values) if values else None


def quotient(value, other):
    return None if value is None or other is None else round(value / other, 3)


# Delays

def share(values, part):
    """The value below which this part of them is; as in `latency.py`."""
    values = sorted(values)
    return round(values[min(len(values) - 1, int(len(values) * part))], 1) if values else None


class Stored(threading.Thread):
    """Asks an agent again and again how many bytes of its files it was told to be stored."""
    METRIC = re.compile(rb"^waybill_agent_stored_bytes_total (\d+)", re.MULTILINE)

    def __init__(self, port):
        super().__init__(daemon=True)
        self.connection, self.is_over = http.client.HTTPConnection("127.0.0.1", port, timeout=20), False
        self.byte_counts, self.moments = [], []
        self.start()

    def run(self):
        while not self.is_over:
            count = self.ask()
            if count > self.byte_count:
                self.byte_counts.append(count)
                self.moments.append(time.monotonic_ns())
            time.sleep(0.01)
        self.connection.close()

    def ask(self):
        try:
            self.connection.request("GET", "/metrics")
            found = self.METRIC.search(self.connection.getresponse().read())
            return int(found[1]) if found else 0
        except (OSError, http.client.HTTPException):
            # A connection serves so many requests; the next one connects again.
            self.connection.close()
            return 0

    @property
    def byte_count(self):
        return self.byte_counts[-1] if self.byte_counts else 0

    def end(self):
        self.is_over = True
        self.join(30)


def stored_delays(lines, byte_counts, moments, skip_ns=10**9):
    """Milliseconds from each line's time of writing to the moment when so many bytes were stored; not of the first second.

    They are lines of one file, so that many bytes are those up to this line's end.
    """
    end, delays, first = 0, [], None
    for line in lines:
        end += len(line)
        sent = int(SENT.search(line)[1])
        first = sent if first is None else first
        if sent >= first + skip_ns:
            delays.append((moments[bisect.bisect_left(byte_counts, end)] - sent) / 1e6)
    return delays


def delay(place, fleet, options, piece_seconds):
    live, port_of_metrics = place.folder("live"), bench.free_port()
    receiver, port = fleet.receiver(projections="none", seconds=piece_seconds)
    merger = fleet.merger("m")
    # One log that does not end, so that the bytes which are stored are those up to a place in it.
    agent = place.start(
        [options.binary, "agent", "--state", place.path("agent"), "--to", f"127.0.0.1:{port}", "--glob", live + "/*.ndjson",
         "--env", "prod", "--bundle", "com.example.shop", "--time-member", "ts", "--metrics", f"127.0.0.1:{port_of_metrics}"],
        "agent.log")
    place.await_port(agent, port_of_metrics)
    time.sleep(2)
    stored = Stored(port_of_metrics)
    asked, began = fleet.requests(), time.monotonic()
    ledger, measured = standing.follow(
        place, "file", live, place.path("m/archive"), options.rate, options.seconds, [receiver, merger], 60)
    passed, requests = time.monotonic() - began, fleet.requests()
    bench.until(lambda: stored.byte_count >= ledger.byte_count, 120, "the agent is told that all is stored")
    stored.end()
    with open(place.path("written"), "rb") as file:
        delays = stored_delays(list(file), stored.byte_counts, stored.moments)
    if place.settle(ledger.byte_count, "m/archive", lambda: merger.is_running, 120) is None:
        raise bench.Failure("the merger's archive does not get every byte")
    for child in (agent, receiver, merger):
        child.stop(600)
    rates = {f"{method.lower()}s_per_s": round((count - asked.get(method, 0)) / passed, 2)
             for method, count in requests.items()}
    return bench.figures(ledger.compare(lines_of(place, "m")), {
        "piece_seconds": piece_seconds, **rates, "lines": ledger.line_count, "lines_measured": len(delays),
        "events_per_s": measured["events_per_s"],
        "stored_p50_ms": share(delays, 0.5), "stored_p99_ms": share(delays, 0.99),
        "merged_p50_ms": measured["p50_ms"], "merged_p99_ms": measured["p99_ms"],
        "receiver_cpu_percent": measured["sender_cpu_percent"], "merger_cpu_percent": measured["receiver_cpu_percent"],
        "receiver_peak_mb": round(receiver.memory.peak / 1e6, 1), "merger_peak_mb": round(merger.memory.peak / 1e6, 1),
        "agent_peak_mb": round(agent.memory.peak / 1e6, 1)})


def delays(options):
    for run in range(1, options.runs + 1):
        for seconds in (1, 2):
            yield with_fleet(
                options, {"benchmark": "delay", "row": f"{seconds}-second-pieces", "run": run},
                lambda place, fleet, seconds=seconds: delay(place, fleet, options, seconds))


# What a bucket takes

class Moto:
    """moto's server as a process of a place."""
    name = "moto"

    def __init__(self, place):
        import buckets
        port = bench.free_port()
        self.child = place.start([buckets.MOTO, "-H", "127.0.0.1", "-p", str(port)], "moto.log")
        place.await_port(self.child, port)
        self.told = {
            "url": f"http://127.0.0.1:{port}", "key": buckets.KEY, "secret": buckets.SECRET, "region": "us-east-1"}

    @property
    def pids(self):
        return [self.child.pid]

    def close(self):
        self.child.kill()


class Ceph:
    """A gateway, an OSD and a monitor: the Ceph of the end-to-end tests."""
    name = "radosgw"

    def __init__(self, place):
        import radosgw
        self.ceph = radosgw.Radosgw(pathlib.Path(place.folder("ceph")))
        self.told = {"url": self.ceph.url, "key": radosgw.KEY, "secret": radosgw.SECRET, "region": "us-east-1"}

    @property
    def pids(self):
        return [process.pid for process in self.ceph.running.values()]

    def close(self):
        self.ceph.close()


def servers():
    """The servers of which this machine has the programs; of the others says why not."""
    sys.path.insert(0, str(TESTS))
    import buckets
    import radosgw
    missing = {"moto": [] if buckets.MOTO.exists() else [str(buckets.MOTO)], "radosgw": radosgw.missing_programs()}
    for server in (Moto, Ceph):
        if missing[server.name]:
            print(f"limit: no {server.name} here: {', '.join(missing[server.name])}", file=sys.stderr)
        else:
            yield server


def requests_to(told, bucket):
    """What is asked of a bucket without Waybill."""
    from bucket_requests import BucketRequests
    return BucketRequests(told["url"], bucket, told["key"], told["secret"], told["region"])


def put(connection, requests, key, body):
    """Creates an object over a connection that stays."""
    path = requests.path(key)
    connection.request("PUT", path, body, requests.signed("PUT", path, body=body, headers={"if-none-match": "*"}))
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise bench.Failure(f"PUT {path}: {answer.status} {text[:200]}")


def put_objects():
    """A process of the floor: reads where to and how large, waits for a line, and creates one object after the other."""
    order = json.loads(sys.stdin.readline())
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(order["told"]["url"]).netloc, timeout=120)
    requests = requests_to(order["told"], order["bucket"])
    bodies = [os.urandom(size) for size in order["sizes"]]
    connection.connect()
    print("{}", flush=True)
    sys.stdin.readline()
    for number, body in enumerate(bodies):
        put(connection, requests, f"{order['name']}/{number:020d}", body)
    print("{}", flush=True)


def plain_puts(place, server, bucket, sizes):
    """The seconds that processes take which put objects of these sizes, a list for each, and their CPU seconds."""
    requests_to(server.told, bucket).make()
    children = [
        place.start(
            [sys.executable, pathlib.Path(__file__).resolve(), "puts"], "puts.log", stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={"PYTHONPATH": str(TESTS)})
        for _ in sizes]

    def say(child, text):
        child.process.stdin.write(text.encode() + b"\n")
        child.process.stdin.flush()

    for name, (child, own) in enumerate(zip(children, sizes)):
        say(child, json.dumps({"told": server.told, "bucket": bucket, "name": str(name), "sizes": own}))
    for child in children:
        throughput.Crowd.answer(child)
    started = time.monotonic()
    for child in children:
        say(child, "")
    for child in children:
        throughput.Crowd.answer(child)
    seconds = time.monotonic() - started
    for child in children:
        child.wait(60, "the end of a process that puts objects")
        child.process.stdin.close()
        child.process.stdout.close()
    return seconds, sum(child.cpu for child in children)


def limited(place, server, options, bucket, compression):
    """Three receivers and their agents until everything is stored, the ledger by a merger, and then the floor."""
    requests = requests_to(server.told, bucket)
    requests.make()
    fleet, ledger, parts = Fleet(place, options, server, bucket), bench.Ledger(), []
    for number in range(3):
        spool = place.folder(f"spool-{number}")
        events = bench.Events(options.seed + number, start=today())
        ledger.join(events.backlog(spool, options.megabytes * throughput.MEGABYTE // 3, options.segment_bytes))
        parts.append((spool, *fleet.receiver(f"r{number}", "none")))
    before = [bench.cpu_of(pid) for pid in server.pids]
    started = time.monotonic()
    agents = [
        fleet.once(port, spool, f"agent-{number}", compression) for number, (spool, _, port) in enumerate(parts)]
    for agent in agents:
        place.summary(agent)
    seconds = time.monotonic() - started
    bucket_cpu = sum(bench.cpu_of(pid) - was for pid, was in zip(server.pids, before))
    receivers = [receiver for _, receiver, _ in parts]
    for receiver in receivers:
        receiver.stop(600)
    sizes = [
        [int(requests.ask("HEAD", key).headers["content-length"]) for key in requests.keys(f"w/journal/r{number}~")]
        for number in range(3)]
    floor, floor_cpu = plain_puts(place, server, bucket + "-floor", sizes)
    fleet.merge_once("m")
    byte_count, pieces = sum(map(sum, sizes)), sum(map(len, sizes))
    return bench.figures(ledger.compare(lines_of(place, "m")), {
        "receivers": 3, "compression": compression, "raw_bytes": ledger.byte_count, "lines": ledger.line_count,
        "seconds": round(seconds, 3), "mb_per_s": throughput.rate(ledger.byte_count, seconds),
        "pieces": pieces, "piece_bytes": byte_count, "piece_mb_per_s": throughput.rate(byte_count, seconds),
        "puts_per_s": round(pieces / seconds, 1), "floor_seconds": round(floor, 3),
        "floor_mb_per_s": throughput.rate(byte_count, floor), "floor_puts_per_s": round(pieces / floor, 1),
        "of_floor": round(floor / seconds, 3), "agents_cpu_s": round(sum(child.cpu for child in agents), 2),
        "receivers_cpu_s": round(sum(child.cpu for child in receivers), 2), "bucket_cpu_s": round(bucket_cpu, 2),
        "floor_cpu_s": round(floor_cpu, 2),
        "agent_peak_mb": round(max(child.memory.peak for child in agents) / 1e6, 1),
        "receiver_peak_mb": round(max(child.memory.peak for child in receivers) / 1e6, 1),
        "bucket_peak_mb": round(sum(map(bench.memory_of, server.pids)) / 1e6, 1)})


def limits(options):
    """Each server's own runs in turn; it is started once for all of them."""
    for kind in servers():
        with bench.Workplace(options, "limit-" + kind.name) as home:
            server = kind(home)
            try:
                for run in range(1, options.runs + 1):
                    for compression, end in ((1, ""), (0, "-uncompressed")):
                        bucket = f"run-{run}{end}"
                        yield bench.attempt(
                            options, {"benchmark": "limit", "row": kind.name + end, "run": run},
                            lambda place, bucket=bucket, compression=compression: limited(
                                place, server, options, bucket, compression))
            finally:
                server.close()


# Growth

def grown(place, fleet, options, receivers, streams, mebibytes, compression):
    """So many receivers get so many streams in all; then a merger reads what they left."""
    byte_count = options.megabytes * throughput.MEGABYTE // 2
    ledger, seconds, cpu, peak = bench.Ledger(), 0, 0, 0
    for number in range(receivers):
        spool = place.folder(f"spool-{number}")
        events = bench.Events(options.seed + number, start=today())
        ledger.join(events.backlog(spool, byte_count // receivers, max(500, byte_count // streams)))
        receiver, port = fleet.receiver(f"r{number}", "none", mebibytes)
        started = time.monotonic()
        place.summary(fleet.once(port, spool, f"agent-{number}", compression))
        seconds += time.monotonic() - started
        receiver.stop(600)
        cpu, peak = cpu + receiver.cpu, max(peak, receiver.memory.peak)
    pieces, piece_bytes = fleet.pieces()
    merge_seconds, merger, threads, report = fleet.merge_once("m")
    return bench.figures(ledger.compare(lines_of(place, "m")), {
        "receivers": receivers, "streams": streams, "piece_mib": mebibytes, "compression": compression,
        "raw_bytes": ledger.byte_count, "pieces": pieces, "piece_bytes": piece_bytes,
        "stored_mb_per_s": throughput.rate(ledger.byte_count, seconds),
        "receiver_cpu_s_per_gb": round(cpu / ledger.byte_count * 1e9, 2), "receiver_peak_mb": round(peak / 1e6, 1),
        "merge_seconds": round(merge_seconds, 3), "merge_mb_per_s": throughput.rate(ledger.byte_count, merge_seconds),
        "merge_cpu_s_per_gb": round(merger.cpu / ledger.byte_count * 1e9, 2),
        "merging_cpu_s": round(merger.cpu - threads.seconds(*PROJECTING), 3),
        "merge_peak_mb": round(merger.memory.peak / 1e6, 1), "rounds": report["rounds"]})


def growths(options):
    for run in range(1, options.runs + 1):
        for sizes in options.growth:
            receivers, streams, mebibytes, compression = sizes
            row = f"{receivers}-receivers-{streams}-streams-{mebibytes}-mib"
            yield with_fleet(
                options,
                {"benchmark": "growth", "row": row + ("" if compression else "-uncompressed"), "run": run},
                lambda place, fleet, sizes=sizes: grown(place, fleet, options, *sizes))


BENCHMARKS = {"upload": uploads, "delay": delays, "limit": limits, "growth": growths}


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=None)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=int, help="of each part of delay (default: 30)")
    parser.add_argument("--rate", type=int, default=2000, help="events per second in delay (default: %(default)s)")
    parser.add_argument("--only", help="upload, delay, limit, growth; separated by commas")
    parser.add_argument("--quick", action="store_true", help="tiny sizes to check that everything runs")
    options = parser.parse_args(words)
    for name, usual, tiny in (("megabytes", 512, 4), ("runs", 3, 1), ("seconds", 30, 2)):
        if getattr(options, name) is None:
            setattr(options, name, tiny if options.quick else usual)
    options.rate = 200 if options.quick else options.rate
    options.segment_bytes = (1 if options.quick else 8) << 20
    # Receivers, streams, MiB of a piece, compression.
    options.growth = [(1, 10, 8, 1), (2, 10, 8, 1), (1, 100, 1, 0)] if options.quick else [
        (1, 100, 8, 1), (2, 100, 8, 1), (4, 100, 8, 1), (8, 100, 8, 1), (1, 1_000, 8, 1), (1, 10_000, 8, 1),
        (1, 100, 8, 0), (1, 100, 4, 0), (1, 100, 2, 0), (1, 100, 1, 0)]
    options.names = options.only.split(",") if options.only else list(BENCHMARKS)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"--only: unknown benchmark {name}; choose from {', '.join(BENCHMARKS)}")
    return options


def main():
    if sys.argv[1:] == ["bucket"]:
        return serve_bucket()
    if sys.argv[1:] == ["puts"]:
        return put_objects()
    options = arguments(sys.argv[1:])
    bench.raise_file_limit()
    bench.end_on_signal()
    records = []
    for name in options.names:
        for record in BENCHMARKS[name](options):
            record = {**record, "revision": bench.revision(), "machine": bench.machine(options.directory)}
            records.append(record)
            print(json.dumps(record), flush=True)
    if "upload" in options.names:
        print(json.dumps({"benchmark": "upload", "ratio": ratio(records), "goal": 0.9}), flush=True)
        print(json.dumps({"benchmark": "merge", "ratio": merge_ratio(records), "goal": 3}), flush=True)
    if any(record.get("ledger") != "clean" for record in records):
        sys.exit("some runs have no figure")
    return None


if __name__ == "__main__":
    main()
