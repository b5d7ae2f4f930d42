"""Benchmarks that drain a backlog or read it again: drain, fan_in, fan_out, backlog, partitions, replay."""
import json
import os
import pathlib
import subprocess
import sys
import time

import bench
import crowd

MEGABYTE = 10**6


def rate(byte_count, seconds):
    return round(byte_count / MEGABYTE / seconds, 1)


def until_archived(place, ledger, started, acknowledged):
    """Seconds until every line was in the archive; at least until all was acknowledged, which is watched first."""
    moment = place.settle(ledger.byte_count, patience=120)
    return None if moment is None else round(max(moment - started, acknowledged), 3)


def costs(byte_count, sender, receiver):
    """CPU seconds per GB and peak memory of both sides; a side may be several processes."""
    gigabytes = byte_count / 1e9
    senders = sender if isinstance(sender, list) else [sender]
    return {
        "sender_cpu_s_per_gb": round(sum(child.cpu for child in senders) / gigabytes, 2),
        "receiver_cpu_s_per_gb": round(receiver.cpu / gigabytes, 2),
        "sender_peak_mb": round(sum(child.memory.peak for child in senders) / 1e6, 1),
        "receiver_peak_mb": round(receiver.memory.peak / 1e6, 1),
    }


def drain_waybill(
        place, events, byte_count, binary=None, exports="none", compression=1, env=None, segment_byte_count=8 << 20):
    """Backlog -> agent -> receiver -> archive and exports; every line compared."""
    ledger = events.backlog(place.folder("spool"), byte_count, segment_byte_count)
    receiver = place.receiver(binary, exports, env=env)
    started = time.monotonic()
    agent, summary = place.once("--compression", str(compression), binary=binary)
    seconds = time.monotonic() - started
    archived = until_archived(place, ledger, started, seconds)
    receiver.stop(3600)
    projected = time.monotonic() - started
    comparison = ledger.compare(place.archive())
    if comparison.is_clean:
        for name in exports.split(",") if exports != "none" else []:
            count = bench.exported(place.path("data"), name)
            if count != bench.exportable(name, ledger.line_count):
                raise bench.Failure(f"{name} has {count} of {ledger.line_count} events")
    return bench.figures(comparison, {
        "raw_bytes": ledger.byte_count, "lines": ledger.line_count, "wire_bytes": summary["wire_bytes"],
        "batches": summary["batches"], "exports": exports, "compression": compression, "seconds": round(seconds, 3),
        "mb_per_s": rate(ledger.byte_count, seconds), "acks_per_s": round(summary["batches"] / seconds, 1),
        "seconds_until_archived": archived, "archived_mb_per_s": archived and rate(ledger.byte_count, archived),
        "seconds_until_projected": round(projected, 3), **costs(ledger.byte_count, agent, receiver)})


def drain_rival(place, rival, events, byte_count, patience=20):
    """The same with another product; it is done when every byte is in its daily files, or there is no progress."""
    ledger = events.backlog(place.folder("spool"), byte_count)
    data = place.folder("days")
    port = bench.free_port()
    (receiver_command, sender_command), env = rival.commands(place, port, place.path("spool"), data)
    receiver = place.start(receiver_command, "receiver.log", env=env)
    place.await_port(receiver, port)
    started = time.monotonic()
    sender = place.start(sender_command, "sender.log", env=env)
    # Looks seldom enough to take nothing from what it watches.
    moment = place.settle(
        ledger.byte_count, "days", lambda: sender.is_running and receiver.is_running, patience, pause=0.02)
    # With bytes missing the ledger is not clean, and no figure is made of this.
    seconds = (moment or time.monotonic()) - started
    sender.stop()
    receiver.stop()
    return bench.figures(ledger.compare(bench.files(data, ".ndjson")), {
        "raw_bytes": ledger.byte_count, "lines": ledger.line_count, "seconds": round(seconds, 3),
        "mb_per_s": rate(ledger.byte_count, seconds), "seconds_until_archived": round(seconds, 3),
        "archived_mb_per_s": rate(ledger.byte_count, seconds), **costs(ledger.byte_count, sender, receiver)})


def drain(options):
    """Waybill's builds and the rivals in turn."""
    rows = [("waybill", "waybill", lambda place, events: drain_waybill(place, events, options.byte_count))]
    if options.accelerated_binary:
        rows.append(("waybill-isal", "waybill", lambda place, events: drain_waybill(
            place, events, options.byte_count, options.accelerated_binary)))
    for rival in options.rivals:
        rows.append((rival.name, rival.version(), lambda place, events, rival=rival: drain_rival(
            place, rival, events, options.byte_count, options.patience)))
    for run in range(1, options.pairs + 1):
        for row, version, work in rows:
            yield bench.attempt(
                options, {"benchmark": "drain", "row": row, "version": version, "run": run},
                lambda place: work(place, bench.Events(options.seed + run)))


class Crowd:
    """Two processes that simulate many agents; their CPU is measured separately from the receiver's."""

    def __init__(self, place, connections, arguments=()):
        self.parts = [
            place.start(
                [sys.executable, pathlib.Path(crowd.__file__), place.port, share, part, parts, *arguments],
                "crowd.log", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for parts in [min(2, connections)] for part in range(parts)
            for share in [connections // parts + (part < connections % parts)]]
        for part in self.parts:
            self.answer(part)

    @staticmethod
    def answer(part):
        line = part.process.stdout.readline()
        if not line:
            raise bench.Failure("the crowd ended: " + part.log_end())
        return json.loads(line)

    def go(self):
        for part in self.parts:
            part.process.stdin.write(b"go\n")
            part.process.stdin.flush()
        return [self.answer(part) for part in self.parts]

    def close(self):
        for part in self.parts:
            part.process.stdin.close()
        for part in self.parts:
            part.wait(60, "the crowd's end")
            part.process.stdout.close()


def fan_in_agents(place, options, count, seed):
    """This many real agents ship at once, each its own spool."""
    ledger = bench.Ledger()
    for number in range(count):
        part = bench.Events(seed * 1000 + number).backlog(place.folder(f"spool-{number}"), options.byte_count // count)
        ledger.join(part)
    receiver = place.receiver()
    started = time.monotonic()
    agents = [
        place.agent(
            "--once", "--name", f"agent-{number}", state=f"agent-{number}", stdout=subprocess.PIPE,
            sources=["--spool", place.path(f"spool-{number}")])
        for number in range(count)]
    for agent in agents:
        place.summary(agent)
    seconds = time.monotonic() - started
    archived = until_archived(place, ledger, started, seconds)
    receiver.stop(600)
    return bench.figures(ledger.compare(place.archive()), {
        "connections": count, "raw_bytes": ledger.byte_count, "lines": ledger.line_count, "seconds": round(seconds, 3),
        "mb_per_s": rate(ledger.byte_count, seconds), "seconds_until_archived": archived,
        **costs(ledger.byte_count, agents, receiver)})


def fan_in_crowd(place, options, count, seed):
    """This many connections of a client that sends prepared frames, each connection its own stream."""
    spool = place.folder("spool")
    ledger = bench.Events(seed).backlog(spool, options.byte_count, min(8 << 20, options.byte_count // count + 1))
    receiver = place.receiver()
    crowd_ = Crowd(place, count, ["--spool", spool])
    cpu = receiver.cpu
    started = time.monotonic()
    answers = crowd_.go()
    seconds = time.monotonic() - started
    archived = until_archived(place, ledger, started, seconds)
    crowd_.close()
    receiver.stop(600)
    gigabytes = ledger.byte_count / 1e9
    return bench.figures(ledger.compare(place.archive()), {
        "connections": count, "raw_bytes": ledger.byte_count, "lines": ledger.line_count, "seconds": round(seconds, 3),
        "mb_per_s": rate(ledger.byte_count, seconds), "seconds_until_archived": archived,
        "wire_bytes": sum(answer["wire_bytes"] for answer in answers),
        "client_cpu_s_per_gb": round(sum(answer["cpu_s"] for answer in answers) / gigabytes, 2),
        "receiver_cpu_s_per_gb": round((receiver.cpu - cpu) / gigabytes, 2),
        "receiver_peak_mb": round(receiver.memory.peak / 1e6, 1)})


def idle_connections(place, options, count):
    """Idle connections after HELLO."""
    receiver = place.receiver()
    time.sleep(options.idle_seconds / 4)
    before = receiver.resident
    crowd_ = Crowd(place, count) if count else None
    time.sleep(options.idle_seconds / 4)
    share, = bench.idle_share([receiver], options.idle_seconds)
    resident = receiver.resident
    if crowd_:
        crowd_.close()
    receiver.stop()
    return {
        "connections": count, "receiver_resident_mb": round(resident / 1e6, 1), "receiver_cpu_percent": share,
        "kb_per_connection": round((resident - before) / 1000 / count, 1) if count else None, "ledger": "clean"}


def fan_in(options):
    """The same bytes through few agents and many connections; then idle connections."""
    for run in range(1, options.few + 1):
        for count in (1, 10):
            yield bench.attempt(
                options, {"benchmark": "fan_in", "row": f"agents-{count}", "version": "waybill", "run": run},
                lambda place: fan_in_agents(place, options, count, options.seed + run))
        for count in (1, 10, options.connections):
            yield bench.attempt(
                options, {"benchmark": "fan_in", "row": f"connections-{count}", "version": "waybill", "run": run},
                lambda place: fan_in_crowd(place, options, count, options.seed + run))
        for count in (0, options.connections, 5 * options.connections):
            yield bench.attempt(
                options, {"benchmark": "fan_in", "row": f"idle-{count}", "version": "waybill", "run": run},
                lambda place: idle_connections(place, options, count))


def fan_out(options):
    """More and more exports at once."""
    for run in range(1, options.few + 1):
        for count in (0, 1, 5, 10):
            yield bench.attempt(
                options, {"benchmark": "fan_out", "row": f"exports-{count}", "version": "waybill", "run": run,
                          "providers": count},
                lambda place: drain_waybill(
                    place, bench.Events(options.seed + run, has_vendor_ids=True), options.byte_count // 2,
                    exports=",".join(bench.EXPORTS[:count]) or "none"))


def backlog(options):
    """Shows whether speed or memory depend on the size of the backlog."""
    for run in range(1, options.few + 1):
        for byte_count in (options.byte_count // 8, options.byte_count // 2, options.byte_count * 2):
            megabytes = byte_count // MEGABYTE
            yield bench.attempt(
                options, {"benchmark": "backlog", "row": f"megabytes-{megabytes}", "version": "waybill", "run": run,
                          "megabytes": megabytes},
                lambda place: drain_waybill(place, bench.Events(options.seed + run), byte_count))


def partitions(options):
    """The same bytes spread over more and more days, environments and apps."""
    for run in range(1, options.few + 1):
        # Mixed: every line of any day, which no backlog of an app is; less of it, as it is the worst there can be.
        spreads = [(days, kinds, False) for days, kinds in ((1, 1), (30, 1), (365, 1), (1, 9), (30, 9))]
        for days, kinds, is_mixed in spreads + [(30, 1, True), (365, 1, True)]:
            byte_count = options.byte_count // (32 if is_mixed else 2)
            row = f"days-{days}-kinds-{kinds}" + ("-mixed" if is_mixed else "")
            yield bench.attempt(
                options, {"benchmark": "partitions", "row": row, "version": "waybill", "run": run,
                          "partitions": days * kinds, "is_mixed": is_mixed},
                # Segments no larger than an app's, and so small that every partition has two.
                lambda place: {
                    **drain_waybill(
                        place, bench.Events(options.seed + run, days=days, kinds=kinds, is_mixed=is_mixed), byte_count,
                        segment_byte_count=min(1 << 20, byte_count // (2 if is_mixed else 2 * days * kinds))),
                    "folders": len({os.path.dirname(path) for path in place.archive()})})


def replay_once(place, options, data, line_count, byte_count, provider):
    """Replays the whole archive into one provider's files in another folder."""
    child = place.start(
        [options.binary, "replay", "--data", data, "--provider", provider, "--output", place.path("again"), "--quiet"],
        "replay.log", stdout=subprocess.PIPE)
    started = time.monotonic()
    code = child.wait(3600, "the replay's end")
    seconds = time.monotonic() - started
    with child.process.stdout as output:
        text = output.read()
    if code != 0:
        raise bench.Failure(f"replay ended with {code}: {child.log_end()}")
    summary = json.loads(text)
    if (summary["lines"], summary["exported"]) != (line_count, bench.exportable(provider, line_count)):
        raise bench.Failure(f"replay read {summary['lines']} and wrote {summary['exported']} of {line_count} events")
    return {
        "provider": provider, "raw_bytes": byte_count, "lines": line_count, "seconds": round(seconds, 3),
        "mb_per_s": rate(byte_count, seconds), "cpu_s_per_gb": round(child.cpu / byte_count * 1e9, 2),
        "mb_per_cpu_s": rate(byte_count, child.cpu), "peak_mb": round(child.memory.peak / 1e6, 1), "ledger": "clean"}


def replay(options):
    """Creates an archive once, then replays it for each provider."""
    with bench.Workplace(options, "replay-archive") as source:
        events = bench.Events(options.seed, has_vendor_ids=True)
        ledger = events.backlog(source.folder("spool"), options.byte_count // 4)
        receiver = source.receiver()
        source.once()
        receiver.stop(600)
        comparison = ledger.compare(source.archive())
        if not comparison.is_clean:
            raise bench.Failure(f"the archive to replay: {comparison}")
        for run in range(1, options.few + 1):
            for provider in bench.EXPORTS:
                yield bench.attempt(
                    options, {"benchmark": "replay", "row": provider, "version": "waybill", "run": run},
                    lambda place: replay_once(
                        place, options, source.path("data"), ledger.line_count, ledger.byte_count, provider))
