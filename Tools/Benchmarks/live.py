#!/usr/bin/env python3
"""Measures `waybill live`: at rest, how soon a line is on a page, how fast it follows, and what it costs the receiver.

    Tools/Benchmarks/live.py --runs 3 [--only rest,delay,follow,drain]

rest     no lines, no page and then one page: resident memory, and CPU in per cent of a core over `--seconds`
delay    `--rate` lines a second, written as an app does: milliseconds from a line's `write` to its arrival at a page,
         which is more than from its sync at the receiver; beside it, from its `write` to the receiver's archive
follow   `live` is suspended (SIGSTOP) while a backlog arrives; seconds from SIGCONT until a page has counted every line
drain    a backlog with no `live`, and with `live` and a page, in turn: MB/s until all is acknowledged, and the
         receiver's CPU and peak memory

Prints one JSON object per row and run. A page is a process that reads the event stream. There is no figure unless it has
counted every line.
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import bench
import standing

TOKEN = "a-token-that-is-long-enough"


class Page:
    """Reads a page's event stream from a socket, message by message."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall((
            f"GET /api/stream?fields=data.sent HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        ).encode())
        self.file = self.socket.makefile("rb")
        if b" 200 " not in self.file.readline():
            raise bench.Failure("the page's stream was refused")

    def messages(self):
        """The data of each message with rows, and when its last byte was read."""
        kind = None
        for line in self.file:
            name, _, value = line.rstrip(b"\n").partition(b": ")
            if name == b"event":
                kind = value
            elif name == b"data" and kind == b"rows":
                yield json.loads(value), time.monotonic_ns()


def watch(port, count, patience, skip):
    """Reads until a page has counted so many lines; prints the delays of those that say when they were sent."""
    page = Page(port)
    page.socket.settimeout(patience)
    seen, dropped, stamps, ended = 0, 0, [], None
    print("ready", flush=True)
    try:
        for data, now in page.messages():
            seen, dropped, ended = seen + data["seen"], dropped + data["dropped"], now
            stamps += [(int(row["fields"]["data.sent"]), now) for row in data["rows"] if "data.sent" in row["fields"]]
            if seen >= count:
                break
    except TimeoutError:
        pass
    first = min((sent for sent, _ in stamps), default=0) + int(skip * 1e9)
    delays = sorted(now - sent for sent, now in stamps if sent >= first)

    def share(part):
        return round(delays[min(len(delays) - 1, int(len(delays) * part))] / 1e6, 2) if delays else None

    print(json.dumps({
        "seen": seen, "dropped": dropped, "measured": len(delays), "ended_ns": ended, "p50_ms": share(0.5),
        "p99_ms": share(0.99), "max_ms": share(1)}))


class Site:
    """A receiver, `waybill live` if wanted, and pages."""

    def __init__(self, place, has_live=True):
        self.place, self.live = place, None
        metrics = bench.free_port()
        self.receiver = place.receiver(arguments=["--metrics", f"127.0.0.1:{metrics}"])
        if not has_live:
            return
        token = pathlib.Path(place.path("token"))
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        self.port = bench.free_port()
        self.live = place.start(
            [place.options.binary, "live", "--data", place.path("data"), "--listen", f"127.0.0.1:{self.port}",
             "--receiver", f"http://127.0.0.1:{metrics}", "--token-file", token], log="live.log")
        place.await_port(self.live, self.port)

    def page(self, count, patience=60, skip=1.0):
        """Starts a page; it is connected when this returns."""
        child = self.place.start(
            [sys.executable, __file__, "watch", self.port, count, patience, skip], log="page.log",
            stdout=subprocess.PIPE)
        if child.process.stdout.readline() != b"ready\n":
            raise bench.Failure("the page did not connect: " + child.log_end())
        return child

    def stop(self):
        if self.live:
            self.live.stop()
        return self.receiver.stop()


def counted(page, count, seconds):
    """What a page says at its end, which has counted every line."""
    answer = standing.answer(page, seconds, "the page")
    if answer["seen"] != count:
        raise bench.Failure(f"the page counted {answer['seen']} of {count} lines")
    return answer


def rest(place, options):
    site = Site(place)
    time.sleep(3)
    alone = {"live_resident_mb": round(site.live.resident / 1e6, 1),
             "live_cpu_percent": bench.idle_share([site.live], options.seconds)[0]}
    page = site.page(1)
    time.sleep(3)
    figures = {**alone, "with_page_resident_mb": round(site.live.resident / 1e6, 1),
               "with_page_cpu_percent": bench.idle_share([site.live], options.seconds)[0]}
    page.kill()
    site.stop()
    return figures


def delay(place, options):
    spool, count = place.folder("spool"), options.rate * options.seconds
    site = Site(place)
    agent = place.agent()
    page = site.page(count)
    before = site.live.cpu
    ledger, measured = standing.follow(
        place, "spool", spool, place.path("data/archive"), options.rate, options.seconds, [agent, site.receiver], 60)
    seen = counted(page, count, 120)
    agent.stop()
    cpu = site.live.cpu - before
    site.stop()
    return bench.figures(ledger.compare(place.archive()), {
        "rate": options.rate, "page_p50_ms": seen["p50_ms"], "page_p99_ms": seen["p99_ms"], "page_max_ms": seen["max_ms"],
        "page_measured": seen["measured"], "page_dropped": seen["dropped"], "archive_p50_ms": measured["p50_ms"],
        "archive_p99_ms": measured["p99_ms"], "live_cpu_percent": round(100 * cpu / options.seconds, 1)})


def follow(place, options):
    ledger = bench.Events(options.seed).backlog(place.folder("spool"), options.megabytes * 10**6)
    site = Site(place)
    page = site.page(ledger.line_count)
    os.kill(site.live.pid, signal.SIGSTOP)
    place.once()
    place.settle(ledger.byte_count)
    before, started = site.live.cpu, time.monotonic_ns()
    os.kill(site.live.pid, signal.SIGCONT)
    seen = counted(page, ledger.line_count, 300)
    seconds, cpu = (seen["ended_ns"] - started) / 1e9, site.live.cpu - before
    peak = site.live.memory.peak
    site.stop()
    return bench.figures(ledger.compare(place.archive()), {
        "lines": ledger.line_count, "seconds": round(seconds, 3), "lines_per_s": round(ledger.line_count / seconds),
        "live_cpu_s": round(cpu, 2), "live_peak_mb": round(peak / 1e6, 1), "page_dropped": seen["dropped"]})


def drain(place, options, has_live):
    ledger = bench.Events(options.seed).backlog(place.folder("spool"), options.megabytes * 10**6)
    site = Site(place, has_live)
    page = site.page(ledger.line_count) if has_live else None
    started = time.monotonic()
    place.once()
    seconds = time.monotonic() - started
    seen = counted(page, ledger.line_count, 300) if page else {"dropped": None}
    peak = site.receiver.memory.peak
    cpu = site.stop()
    return bench.figures(ledger.compare(place.archive()), {
        "mb_per_s": round(ledger.byte_count / 1e6 / seconds, 1), "receiver_cpu_s": round(cpu, 2),
        "receiver_peak_mb": round(peak / 1e6, 1), "page_dropped": seen["dropped"]})


def rows(options):
    """(benchmark, row, work) of each row, in turn."""
    yield "rest", "live", lambda place: rest(place, options)
    yield "delay", "live", lambda place: delay(place, options)
    yield "follow", "live", lambda place: follow(place, options)
    yield "drain", "receiver", lambda place: drain(place, options, False)
    yield "drain", "receiver-and-live", lambda place: drain(place, options, True)


def main():
    if sys.argv[1:2] == ["watch"]:
        watch(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    bench.common_options(parser, megabytes=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rate", type=int, default=1000, help="lines a second of `delay`")
    parser.add_argument("--seconds", type=int, default=20, help="of `rest` and `delay`")
    parser.add_argument("--only", default="rest,delay,follow,drain")
    options = parser.parse_args()
    bench.end_on_signal()
    failed = False
    for run in range(1, options.runs + 1):
        for benchmark, row, work in rows(options):
            if benchmark in options.only.split(","):
                record = bench.attempt(options, {"benchmark": benchmark, "row": row, "run": run}, work)
                record.update(revision=bench.revision(), machine=bench.machine(options.directory))
                failed = failed or "failed" in record or record.get("ledger") == "failed"
                print(json.dumps(record), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
