#!/usr/bin/env python3
"""Drains a backlog through real processes and measures it: spool -> agent -> TCP -> receiver -> archive.

    Tools/Benchmarks/drain.py --megabytes 512 --exports none --runs 3

Prints one JSON object a run: MB/s of raw lines (10^6 bytes) from the agent's start to its exit, with every line
acknowledged, which means durable; acknowledged batches a second; CPU seconds per GB and peak resident memory of both
processes. Every line of the archive is compared with the backlog: a run that lost or repeated a line has no figure.

`--without-sync` shows what durability costs: the receiver's syncs return at once, by the fault shim (Tools/Faults). Such
a run promises nothing: a power cut would lose what was acknowledged.
"""
import argparse
import collections
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

SCREENS = ["Home", "ShoppingList", "ProductDetail", "Cart", "Checkout", "Profile", "Settings", "로그인 화면"]
NAMES = ["Product Tapped", "moment_like", "search", "add_to_cart", "share", "scroll_end"]
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet 토스터 사과 바나나".split()


def write_backlog(spool, byte_count, seed, segment_byte_count=8 << 20, has_vendor_ids=False):
    """Writes client segments of about 485-byte events, 48 more with the id that GA4 wants; returns bytes and lines."""
    generator = random.Random(seed)
    written = lines = 0
    now = int(time.time() * 1000) - 2 * 86_400_000
    while written < byte_count:
        writer = str(uuid.UUID(int=(now << 80) | (7 << 76) | generator.getrandbits(76) & ~(0b11 << 62) | (0b10 << 62)))
        anon = str(uuid.UUID(int=generator.getrandbits(128)))
        ids = '"ids":{"ga4":"%032x"},' % generator.getrandbits(128) if has_vendor_ids else ""
        session = str(uuid.UUID(int=(now << 80) | (7 << 76) | generator.getrandbits(62) | (0b10 << 62)))
        chunk = []
        size = 0
        sequence = 0
        while size < segment_byte_count and written + size < byte_count:
            sequence += 1
            now += generator.randint(1, 300)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1000)) + ".%03dZ" % (now % 1000)
            line = (
                '{"v":1,"id":"%08x-%04x-7%03x-8%03x-%012x","writer":"%s","seq":%d,"ts":"%s","up":%d,"kind":"action",'
                '"name":"%s","screen":"%s","session":"%s","user":"u-%d","anon":"%s",%s"app":"1.4.2","build":"118",'
                '"bundle":"com.example.shop","os":"iOS","os_version":"17.0.1","tz":540,"env":"prod",'
                '"data":{"item":"%s","price":%d,"index":%d}}\n'
            ) % (
                now >> 16, now & 0xFFFF, generator.getrandbits(12), generator.getrandbits(12),
                generator.getrandbits(48), writer, sequence, stamp, sequence * 37, generator.choice(NAMES),
                generator.choice(SCREENS), session, generator.randint(1, 10**6), anon, ids, generator.choice(WORDS),
                generator.randint(100, 99_999), generator.randint(0, 50),
            )
            data = line.encode()
            chunk.append(data)
            size += len(data)
        with open(os.path.join(spool, "%s-%020d.ndjson" % (writer, 1)), "wb") as file:
            file.write(b"".join(chunk))
        written += size
        lines += len(chunk)
    return written, lines


def hashes(paths):
    """How often each line occurs, by its hash."""
    counts = collections.Counter()
    for path in paths:
        with open(path, "rb") as file:
            counts.update(hash(line) for line in file)
    return counts


def files(root, suffix):
    return [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(suffix)]


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def wait_for(port, process, deadline=30):
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            sys.exit("the receiver ended: see its log")
        time.sleep(0.02)
    sys.exit("the receiver does not listen")


class Memory(threading.Thread):
    """Follows a process's peak resident memory; what wait4 says includes this script, which forked it."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.path = "/proc/%d/status" % process.pid
        self.peak = 0
        self.start()

    def run(self):
        try:
            while True:
                with open(self.path) as file:
                    line = next(line for line in file if line.startswith("VmHWM"))
                self.peak = int(line.split()[1]) * 1024
                time.sleep(0.01)
        except (OSError, StopIteration):
            return


def reap(process):
    """Waits for a process; returns its CPU seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def without_sync(options, root):
    """The environment that takes the receiver's syncs away, when that is asked for."""
    if not options.without_sync:
        return {}
    build = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../Faults/build")
    shim = subprocess.run([build], check=True, capture_output=True, text=True).stdout.strip()
    return {"LD_PRELOAD": shim, "WAYBILL_FAULT_ROOT": os.path.realpath(root), "WAYBILL_FAULT_NOSYNC": "1"}


def run(options, number):
    root = tempfile.mkdtemp(prefix="waybill-drain-", dir=options.directory)
    try:
        spool = os.path.join(root, "spool")
        os.mkdir(spool)
        byte_count, line_count = write_backlog(
            spool, options.megabytes * 10**6, options.seed + number, has_vendor_ids="ga4" in options.exports.split(","))
        expected = hashes(files(spool, ".ndjson"))
        os.sync()
        port = free_port()
        with open(os.path.join(root, "log"), "wb") as log:
            receiver = subprocess.Popen(
                [options.binary, "receiver", "--data", root + "/data", "--listen", "127.0.0.1:%d" % port,
                 "--exports", options.exports], stderr=log, env={**os.environ, **without_sync(options, root)})
            wait_for(port, receiver)
            receiver_memory = Memory(receiver)
            started = time.monotonic()
            agent = subprocess.Popen(
                [options.binary, "agent", "--state", root + "/agent", "--to", "127.0.0.1:%d" % port, "--spool", spool,
                 "--once", "--compression", str(options.compression)], stdout=subprocess.PIPE, stderr=log)
            agent_memory = Memory(agent)
            summary = json.loads(agent.stdout.read())
            agent_cpu = reap(agent)
            seconds = time.monotonic() - started
            receiver.send_signal(signal.SIGTERM)
            receiver_cpu = reap(receiver)
            settled = time.monotonic() - started
        found = hashes(files(root + "/data/archive", ".ndjson"))
        if found != expected:
            sys.exit("lost %d, twice or alien %d: no figure" % (sum((expected - found).values()), sum((found - expected).values())))
        gigabytes = byte_count / 1e9
        return {
            "run": number, "raw_bytes": byte_count, "lines": line_count, "wire_bytes": summary["wire_bytes"],
            "batches": summary["batches"], "exports": options.exports, "compression": options.compression,
            "seconds": round(seconds, 3), "mb_per_s": round(byte_count / 1e6 / seconds, 1),
            "acks_per_s": round(summary["batches"] / seconds, 1), "syncs": "none" if options.without_sync else "all",
            "seconds_until_projected": round(settled, 3),
            "agent_cpu_s_per_gb": round(agent_cpu / gigabytes, 2),
            "receiver_cpu_s_per_gb": round(receiver_cpu / gigabytes, 2),
            "agent_peak_mb": round(agent_memory.peak / 1e6, 1), "receiver_peak_mb": round(receiver_memory.peak / 1e6, 1),
            "ledger": "clean",
        }
    finally:
        shutil.rmtree(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--binary", default=os.path.join(here, "../../.build/release/waybill"))
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--exports", default="none")
    parser.add_argument("--compression", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="where to work; a real disk, not tmpfs")
    parser.add_argument(
        "--without-sync", action="store_true", help="the receiver syncs nothing; what it acknowledges is not durable")
    options = parser.parse_args()
    if options.without_sync:
        print("WITHOUT SYNC: nothing that is acknowledged in these runs is durable; they show what syncs cost and "
              "promise nothing", file=sys.stderr, flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for number in range(1, options.runs + 1):
        print(json.dumps(run(options, number)), flush=True)


if __name__ == "__main__":
    main()
