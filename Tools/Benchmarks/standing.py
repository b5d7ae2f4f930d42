"""Benchmarks of steady and idle states: steady, many_files, restart."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import bench
import latency


def percent(children, before, seconds):
    return [round(100 * (child.cpu - was) / seconds, 2) for child, was in zip(children, before)]


def answer(child, seconds, what):
    code = child.wait(seconds, what)
    with child.process.stdout as output:
        text = output.read()
    if code != 0 or not text:
        raise bench.Failure(f"{what}: {child.log_end()}")
    return json.loads(text)


def follow(place, way, source, target, rate, seconds, children, patience):
    """Writes below `source`, watches below `target`; delays, CPU of sender and receiver, and the lines as a ledger."""
    program = [sys.executable, pathlib.Path(latency.__file__)]
    # What starts is not measured: the first second is left out.
    watcher = place.start(
        [*program, "watch", target, str(rate * seconds), str(patience), "1"], "watcher.log", stdout=subprocess.PIPE)
    keep = place.path("written")
    before = [child.cpu for child in children]
    writer = place.start(
        [*program, "write", way, source, keep, str(rate), str(seconds)], "writer.log", stdout=subprocess.PIPE)
    written = answer(writer, seconds + 120, "the writer")
    # Of the time in which it wrote; before, while it made its lines, they rested.
    shares = percent(children, before, written["seconds"])
    seen = answer(watcher, patience * 10 + seconds, "the watcher")
    ledger = bench.Ledger()
    with open(keep, "rb") as file:
        ledger.add(list(file))
    return ledger, {
        "events_per_s": written["events_per_s"], "lines": written["lines"], "lines_measured": seen["measured"],
        "p50_ms": seen["p50_ms"], "p99_ms": seen["p99_ms"], "max_ms": seen["max_ms"], "sender_cpu_percent": shares[0],
        "receiver_cpu_percent": shares[1], "sender_peak_mb": round(children[0].memory.peak / 1e6, 1),
        "receiver_peak_mb": round(children[1].memory.peak / 1e6, 1)}


def steady_waybill(place, options, binary=None):
    spool = place.folder("spool")
    receiver = place.receiver(binary)
    agent = place.agent(binary=binary)
    time.sleep(1)
    ledger, measured = follow(
        place, "spool", spool, place.path("data/archive"), options.rate, options.seconds, [agent, receiver],
        options.patience)
    agent.stop()
    receiver.stop()
    return bench.figures(ledger.compare(place.archive()), measured)


def steady_rival(place, options, rival):
    spool, data, port = place.folder("spool"), place.folder("days"), bench.free_port()
    (receiver_command, sender_command), env = rival.commands(place, port, spool, data)
    receiver = place.start(receiver_command, "receiver.log", env=env)
    place.await_port(receiver, port)
    sender = place.start(sender_command, "sender.log", env=env)
    time.sleep(1)
    # One file that grows, which is what they are made for.
    ledger, measured = follow(
        place, "file", spool, data, options.rate, options.seconds, [sender, receiver], options.patience)
    sender.stop()
    receiver.stop()
    return bench.figures(ledger.compare(bench.files(data, ".ndjson")), measured)


def steady(options):
    """A steady stream of events: how long until a line is in the receiver's file, and what that costs."""
    rows = [("waybill", "waybill", lambda place: steady_waybill(place, options))]
    if options.accelerated_binary:
        rows.append((
            "waybill-isal", "waybill", lambda place: steady_waybill(place, options, options.accelerated_binary)))
    for rival in options.rivals:
        rows.append((rival.name, rival.version(), lambda place, rival=rival: steady_rival(place, options, rival)))
    for run in range(1, options.few + 1):
        for row, version, work in rows:
            yield bench.attempt(
                options, {"benchmark": "steady", "row": row, "version": version, "run": run, "rate": options.rate},
                work)


def at_rest(place, options):
    """An agent and a receiver with nothing to do."""
    place.folder("spool")
    receiver = place.receiver()
    agent = place.agent()
    time.sleep(2)
    shares = bench.idle_share([agent, receiver], options.idle_seconds)
    measured = {
        "idle_files": 0, "agent_resident_mb": round(agent.resident / 1e6, 1),
        "receiver_resident_mb": round(receiver.resident / 1e6, 1), "agent_cpu_percent": shares[0],
        "receiver_cpu_percent": shares[1], "ledger": "clean"}
    agent.stop()
    receiver.stop()
    return measured


def idle_files(place, options, count):
    """Files that were shipped and are idle, and a few that grow."""
    folder = place.folder("files")
    ledger = bench.Ledger()
    _, lines = bench.Events(options.seed).segment(count * 500)
    lines = lines[:count]
    ledger.add(lines)
    for number, line in enumerate(lines):
        # A thousand to a folder, as people keep them.
        if number % 1000 == 0:
            part = place.folder("files", f"{number // 1000:04d}")
        with open(os.path.join(part, f"idle-{number:06d}.ndjson"), "wb") as file:
            file.write(line)
    busy = place.folder("files", "busy")
    receiver = place.receiver()
    started = time.monotonic()
    agent = place.agent(sources=[
        "--glob", folder + "/*/*.ndjson", "--env", "prod", "--bundle", "com.example.shop", "--time-member", "ts"])
    shipped = place.settle(ledger.byte_count, is_alive=lambda: agent.is_running and receiver.is_running, patience=60)
    if shipped is None:
        raise bench.Failure("the files that should rest are not all shipped")
    time.sleep(2)
    shares = bench.idle_share([agent, receiver], options.idle_seconds)
    resident = agent.resident
    written, measured = follow(
        place, "files", busy, place.path("data/archive"), 100, max(3, options.idle_seconds // 2), [agent, receiver],
        options.patience)
    ledger.join(written)
    agent.stop()
    receiver.stop()
    return bench.figures(ledger.compare(place.archive()), {
        "idle_files": count, "busy_files": latency.FILES, "seconds_until_shipped": round(shipped - started, 3),
        "agent_resident_mb": round(resident / 1e6, 1), "agent_cpu_percent": shares[0],
        "receiver_cpu_percent": shares[1],
        "p50_ms": measured["p50_ms"], "p99_ms": measured["p99_ms"], "max_ms": measured["max_ms"],
        "busy_agent_cpu_percent": measured["sender_cpu_percent"], "agent_peak_mb": measured["sender_peak_mb"],
        "receiver_peak_mb": measured["receiver_peak_mb"]})


def many_files(options):
    """Many idle files with a few that grow, and no files at all."""
    for run in range(1, options.few + 1):
        yield bench.attempt(
            options, {"benchmark": "many_files", "row": "at-rest", "version": "waybill", "run": run},
            lambda place: at_rest(place, options))
        for count in sorted({0, options.idle_file_count // 10, options.idle_file_count}):
            yield bench.attempt(
                options, {"benchmark": "many_files", "row": f"files-{count}", "version": "waybill", "run": run},
                lambda place: idle_files(place, options, count))


def copies(place, ledger_byte_count, byte_count):
    """Fills a spool with copies of a few segments under names of their own, so each is a stream."""
    base = place.folder("base")
    events = bench.Events(1)
    made = events.backlog(base, ledger_byte_count)
    spool, total, number = place.folder("spool"), 0, 0
    segments = sorted(bench.files(base, ".ndjson"))
    while total < byte_count:
        path = segments[number % len(segments)]
        shutil.copyfile(path, bench.segment_path(spool, bench.writer_id(events.now, number)))
        total += os.path.getsize(path)
        number += 1
    os.sync()
    # Every base segment was copied whole: each line so many times.
    ledger = bench.Ledger()
    for index, path in enumerate(segments):
        with open(path, "rb") as file:
            lines = list(file)
        times = number // len(segments) + (index < number % len(segments))
        part = bench.Ledger()
        part.add(lines)
        part.counts = type(part.counts)({line: count * times for line, count in part.counts.items()})
        part.byte_count *= times
        part.line_count *= times
        ledger.join(part)
    shutil.rmtree(base)
    return ledger


def seconds_to_listen(place):
    started = time.monotonic()
    receiver = place.receiver()
    return receiver, round(time.monotonic() - started, 3)


def acked(port):
    """The number of bytes acknowledged to an agent, from its metrics."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith("waybill_agent_acked_bytes_total "):
                    return float(line.split()[1])
    except OSError:
        pass
    return 0


def restart_once(place, options):
    """Starts an agent on a backlog, then the receiver on the resulting journal, after a stop and after a kill."""
    wanted = int(options.restart_gigabytes * 1e9)
    ledger = copies(place, min(64 * 10**6, wanted), wanted)
    receiver, fresh = seconds_to_listen(place)
    port = bench.free_port()
    started = time.monotonic()
    # Not compressed, so that the journal is as large as the backlog.
    agent = place.agent("--metrics", f"127.0.0.1:{port}", "--compression", "0")
    bench.until(lambda: acked(port) > 0, 120, "the first acknowledgement", pause=0.005)
    first = time.monotonic() - started
    shipped = place.settle(ledger.byte_count, patience=60)
    if shipped is None:
        raise bench.Failure("the backlog is not all in the archive")
    agent.stop()
    receiver.stop(600)
    journal = bench.size_of(place.path("data/journal"), ".journal")
    receiver, stopped = seconds_to_listen(place)
    os.kill(receiver.pid, signal.SIGKILL)
    receiver.wait(20, "the receiver's end")
    receiver, killed = seconds_to_listen(place)
    receiver.stop(600)
    return bench.figures(ledger.compare(place.archive()), {
        "raw_bytes": ledger.byte_count, "journal_bytes": journal, "seconds_until_shipped": round(shipped - started, 3),
        "agent_seconds_until_first_ack": round(first, 3), "receiver_seconds_empty": fresh,
        "receiver_seconds_after_stop": stopped, "receiver_seconds_after_kill": killed})


def restart(options):
    """Starts with existing data: an agent on a backlog, a receiver on a journal, both in the page cache."""
    for run in range(1, options.few + 1):
        yield bench.attempt(
            options, {"benchmark": "restart", "row": f"gigabytes-{options.restart_gigabytes:g}", "version": "waybill",
                      "run": run},
            lambda place: restart_once(place, options))
