#!/usr/bin/env python3
"""The door's events and requests a second on one core, each durable before its answer, in turn with nginx, which logs
without a sync; and what idle connections take.

    Tools/Benchmarks/ingest.py --seconds 10 --runs 3

Loads by wrk on another core of the same machine, on 100 connections: batches of 50 events, single events, batches at a
pace of some 1,200 a second, and nginx with one line of its log a request. The ledger: every event of an answered request is
in the spool once. At the end, 10,000 idle connections, and 2,000 with TLS; with `--tunnels` alone 5,000 tunnels of agents that
have said HELLO and rest, and 2,000 with TLS.

With `--servers`, instead, two servers without anything behind them in turn: one of SwiftNIO alone, as the door is, and one
of hummingbird (`swift build -c release --package-path Tools/Benchmarks --product http-servers`). Prints NDJSON.
"""
import argparse
import functools
import json
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request

import bench

KEY = "wk_bench_0001"
# What is measured is the door, and not its quotas.
UNBOUNDED = "events_second: 10000000, address_events_second: 10000000"
ON_ONE_CORE, ON_ANOTHER_CORE = (["taskset", "--cpu-list", core] for core in "01")
LUA = """
local counter, thread = 0, 0
function setup(thread) thread:set("id", math.random(1, 1000000000)) end
function event()
  counter = counter + 1
  return string.format('{"type":"track","event":"product_viewed","messageId":"%d-%d","userId":"u-%d","anonymousId":"0199a1b2-c3d4-7e5f-8a6b-%012d","timestamp":"2026-11-20T08:00:00.000Z","properties":{"price":9.5,"currency":"EUR","position":%d,"list":"search results"},"context":{"library":{"name":"bench","version":"1"},"page":{"path":"/cart","title":"Cart"}}}', id, counter, counter % 5000, counter % 5000, counter % 40)
end
function request()
  local events = {}
  for i = 1, COUNT do events[i] = event() end
  return wrk.format("POST", "/v1/b", {["Content-Type"] = "text/plain"}, '{"writeKey":"KEY","batch":[' .. table.concat(events, ",") .. ']}')
end
PACE
done = function(summary, latency)
  io.write(string.format('JSON {"requests":%d,"seconds":%f,"errors":%d,"p50_ms":%f,"p99_ms":%f}\\n', summary.requests, summary.duration / 1e6, summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


def load(count, pause=0):
    """wrk's script with so many events a request, and a pause of so many milliseconds, on average, before each."""
    pace = f"function delay() return math.random(0, {2 * pause}) end" if pause else ""
    return LUA.replace("COUNT", str(count)).replace("KEY", KEY).replace("PACE", pace)


def wrk(url, script, options):
    command = [*ON_ANOTHER_CORE, "wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s", "--latency", "-s", str(script), url]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(re.search(r"^JSON (.*)$", output, re.M).group(1))


def started(place, more=""):
    """A door that is open, with its port and that of its metrics."""
    port, metrics, folder = bench.free_port(), bench.free_port(), pathlib.Path(place.root)
    config = folder / "ingest.yaml"
    config.write_text(
        f"ingest: {{listen: '127.0.0.1:{port}', metrics: '127.0.0.1:{metrics}', spool: '{folder}/spool', "
        f"quarantine: '{folder}/quarantine', {more}keys: [{{key: {KEY}, bundle: com.example.bench, env: prod, {UNBOUNDED}}}]}}\n")
    child = place.start([*ON_ONE_CORE, place.options.binary, "ingest", "--config", config, "--log-format", "json"])
    place.await_port(child, port)
    return child, port, metrics


def idle(place, count, has_tls=False, name=None):
    """The memory of a door, or of a server with nothing behind it, with so many connections that say nothing."""
    more = f"idle_seconds: 3600, connections: {count + 10}, address_connections: {count + 10}, "
    context = with_certificate(place) if has_tls else None
    more += certified(place) if has_tls else ""
    child, port = bare(place, name) if name else started(place, more)[:2]
    connections = []
    before = child.resident / 1e6
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connections.append(context.wrap_socket(connection) if has_tls else connection)
    time.sleep(1)
    after = child.resident / 1e6
    for connection in connections:
        connection.close()
    return {
        "what": (f"{name}, " if name else "") + f"{count} idle connections" + (", TLS" if has_tls else ""), "before_mb": round(before, 1),
        "resident_mb": round(after, 1), "kb_each": round((after - before) * 1000 / count, 2), "ledger": True}


def tunnels(place, count, has_tls=False):
    """The memory of a door and a receiver with so many agents that have said HELLO through a tunnel and rest."""
    config, listening, port = place.path("receiver.yaml"), place.path("line.sock"), bench.free_port()
    pathlib.Path(config).write_text(
        f"receiver: {{data: '{place.root}/data', listen: '127.0.0.1:{port}', proxied: {{listen: '{listening}'}}, "
        f"limits: {{silent_connections: {count}}}}}\n")
    receiver = place.start([place.options.binary, "receiver", "--config", config], "receiver.log")
    place.await_port(receiver, port)
    more = (
        f"idle_seconds: 3600, connections: {count + 10}, address_connections: {count + 10}, "
        f"line: {{receiver: '{listening}', connections: {count}}}, ")
    context = with_certificate(place) if has_tls else None
    door, port, _ = started(place, more + (certified(place) if has_tls else ""))
    agents = []
    before = [child.resident / 1e6 for child in (door, receiver)]
    for number in range(count):
        agent = socket.create_connection(("127.0.0.1", port), timeout=30)
        agent = context.wrap_socket(agent) if has_tls else agent
        agents.append(agent)
        agent.sendall(
            b"GET /v1/line HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        if not agent.recv(4096).startswith(b"HTTP/1.1 101 "):
            raise bench.Failure(f"agent {number} gets no tunnel")
        said = b'HELLO {"protocol":[1],"agent":"a%d","instance":"1","accept":["zlib"]}\n' % number
        # Masked with zeros, so that it stays as it is.
        agent.sendall(bytes([0x82, 0x80 | len(said)]) + bytes(4) + said)
        while b"READY " not in (told := agent.recv(4096)):
            if not told:
                raise bench.Failure(f"agent {number} is not let in")
    time.sleep(1)
    after = [child.resident / 1e6 for child in (door, receiver)]
    for agent in agents:
        agent.close()
    each = [round((now - then) * 1000 / count, 2) for now, then in zip(after, before)]
    return {
        "what": f"{count} idle tunnels" + (", TLS" if has_tls else ""), "door_mb": round(after[0], 1), "receiver_mb": round(after[1], 1),
        "door_kb_each": each[0], "receiver_kb_each": each[1], "kb_each": round(sum(each), 2), "ledger": True}


def with_certificate(place):
    """Makes a certificate, and what trusts it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-keyout", place.path("key.pem"), "-out", place.path("certificate.pem")],
        check=True, capture_output=True)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def certified(place):
    return f"tls: {{certificate: '{place.root}/certificate.pem', key: '{place.root}/key.pem'}}, "


def loaded(place, port, count, pause=0):
    """What wrk says of a load on a port, and its delays as a record has them."""
    script = pathlib.Path(place.path("load.lua"))
    script.write_text(load(count, pause))
    result = wrk(f"http://127.0.0.1:{port}", script, place.options)
    return result, {
        "requests_per_second": round(result["requests"] / result["seconds"]), "p50_ms": round(result["p50_ms"], 2),
        "p99_ms": round(result["p99_ms"], 2)}


def costs(child):
    return {"cpu_seconds": round(child.cpu, 2), "peak_mb": round(child.memory.peak / 1e6, 1)}


def door(place, count, pause=0):
    """One run of the door with `count` events a request."""
    child, port, metrics = started(place)
    result, figures = loaded(place, port, count, pause)
    figures |= costs(child)
    page = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics").read().decode()
    stored = int(re.search(r'waybill_ingest_events_total\{outcome="stored"\} (\d+)', page).group(1))
    child.stop()
    spool = pathlib.Path(place.path("spool"))
    ids = [line[13:49] for path in spool.glob("*/*.ndjson") for line in path.read_bytes().splitlines()]
    is_whole = len(ids) == len(set(ids)) >= result["requests"] * count and result["errors"] == 0 and stored <= len(ids)
    return {
        "what": f"door, {count} events a request" + (", paced" if pause else ""),
        "events_per_second": round(result["requests"] * count / result["seconds"]), **figures, "ledger": is_whole}


def nginx(place):
    port, folder = bench.free_port(), pathlib.Path(place.root)
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; user root;\n"
        "events { worker_connections 1024; }\n"
        "http { log_format one '{\"time\":\"$time_iso8601\",\"uri\":\"$request_uri\",\"bytes\":$request_length,"
        "\"agent\":\"$http_user_agent\"}';\n"
        f"access_log {folder}/access.log one; client_body_temp_path {folder}/body; keepalive_requests 100000000;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{{}}'; }} }} }}\n")
    child = place.start([*ON_ONE_CORE, "nginx", "-c", folder / "nginx.conf", "-p", folder])
    place.await_port(child, port)
    result, figures = loaded(place, port, 1)
    child.stop()
    return {
        "what": "nginx, one line of log a request, no sync", **figures,
        "ledger": len((folder / "access.log").read_bytes().splitlines()) >= result["requests"]}


def server(place, name, count):
    """One run of a server with nothing behind it."""
    child, port = bare(place, name)
    result, figures = loaded(place, port, count)
    return {"what": f"{name}, {count} events a request", **figures, **costs(child), "ledger": result["errors"] == 0}


def bare(place, name):
    """A server with nothing behind it that accepts connections, and its port."""
    port = bench.free_port()
    child = place.start([*ON_ONE_CORE, place.options.servers, name, port])
    place.await_port(child, port)
    return child, port


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(bench.BINARY))
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--directory", default=None, help="where the spools are written")
    parser.add_argument("--servers", default=None, help="the program http-servers")
    parser.add_argument("--tunnels", action="store_true", help="idle tunnels alone")
    options = parser.parse_args()
    is_good = True
    bench.raise_file_limit()
    part = functools.partial
    loads = [part(door, count=50), part(door, count=1), part(door, count=50, pause=80), nginx]
    rests = [part(idle, count=10_000), part(idle, count=2_000, has_tls=True)]
    if options.servers:
        loads = [part(server, name=name, count=count) for count in (50, 1) for name in ("nio", "hummingbird")]
        rests = [part(idle, count=10_000, name=name) for name in ("nio", "hummingbird")]
    if options.tunnels:
        loads, rests = [], [part(tunnels, count=5_000), part(tunnels, count=2_000, has_tls=True)]
    for run in range(1, options.runs + 1):
        for measure in loads + (rests if run == options.runs else []):
            with bench.Workplace(options, "ingest") as place:
                record = {"run": run, **measure(place)}
            is_good = is_good and record["ledger"]
            print(json.dumps(record), flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
