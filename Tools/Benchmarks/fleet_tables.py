#!/usr/bin/env python3
"""Prints what fleet.py measured as the tables of Documentation/fleet.md, and what a million events a second take by them.

    Tools/Benchmarks/fleet_tables.py Tools/Benchmarks/results/2026-11-26-2core-epyc

Medians, with the least and the greatest run; a row without a clean ledger has no figure. `test_bench.py` compares the page
with these tables, so a figure there is one of the results. Each line of the model says what it is made of.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import math
import pathlib
import statistics

HERE = pathlib.Path(__file__).resolve().parent
# What a million events take on disks, open and sealed, as sizing.py measured it.
SIZING = HERE / "results/2026-11-23-2core-epyc/sizing.ndjson"
EVENTS_PER_SECOND = 1_000_000
MIB = 1 << 20
DAY = 86_400


def tables():
    """The program `tables` as a module."""
    loader = importlib.machinery.SourceFileLoader("tables", str(HERE / "tables"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tables", loader))
    loader.exec_module(module)
    return module


TABLES = tables()


def load(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def of(records, benchmark):
    """The rows of a benchmark, in the order in which they were first run; what is made of them has no row."""
    return TABLES.rows([record for record in records if record["benchmark"] == benchmark and "row" in record])


def rendered(found, head, columns):
    """One line for each row: its name, and a median and range for each column."""
    lines = [[name, *(TABLES.cell(group, key) for key in columns)] for name, group in found.items()]
    return TABLES.table([head, *columns.values()], lines)


def uploading(records):
    names = {"receiver": "alone", "receiver-and-uploader": "with a bucket"}
    return rendered({names[row]: group for row, group in of(records, "upload").items()}, "one receiver and its archive", {
        "mb_per_s": "MB/s", "sender_cpu_s_per_gb": "agent, CPU s/GB", "receiver_cpu_s_per_gb": "receiver, CPU s/GB",
        "sender_peak_mb": "agent, peak MB", "receiver_peak_mb": "receiver, peak MB"})


def merging(records):
    group = of(records, "upload")["receiver-and-uploader"]
    columns = {
        "merge_mb_per_s": "MB/s", "merge_mb_per_cpu_s": "merger, MB per CPU s", "merging_mb_per_cpu_s": "without the archive",
        "receiver_mb_per_cpu_s": "its receiver, MB per CPU s", "receiving_mb_per_cpu_s": "without the archive",
        "merge_peak_mb": "merger, peak MB"}
    return TABLES.table(list(columns.values()), [[TABLES.cell(group, key) for key in columns]])


def delays(records):
    names = {"1-second-pieces": "1", "2-second-pieces": "2 (default)"}
    return rendered({names[row]: group for row, group in of(records, "delay").items()}, "`piece.seconds`", {
        "stored_p50_ms": "`STORED`, p50 ms", "stored_p99_ms": "p99", "merged_p50_ms": "merger's archive, p50 ms",
        "merged_p99_ms": "p99", "receiver_peak_mb": "receiver, peak MB", "merger_peak_mb": "merger, peak MB",
        "puts_per_s": "PUT/s", "gets_per_s": "GET/s", "heads_per_s": "HEAD/s"})


def limits(records):
    return rendered(
        {row.replace("-uncompressed", ", uncompressed"): group for row, group in of(records, "limit").items()},
        "three receivers and agents at once", {
            "mb_per_s": "MB/s", "piece_mb_per_s": "in pieces, MB/s", "floor_mb_per_s": "plain PUTs, MB/s",
            "floor_puts_per_s": "plain PUT/s", "of_floor": "of plain", "agents_cpu_s": "agents, CPU s",
            "receivers_cpu_s": "receivers, CPU s", "bucket_cpu_s": "bucket, CPU s",
            "receiver_peak_mb": "receiver, peak MB"})


def growth(records):
    lines = []
    for group in of(records, "growth").values():
        first = next((record for record in group if TABLES.is_counted(record)), None)
        if first is None:
            lines.append([group[0]["row"], *["–"] * 7])
            continue
        lines.append([
            str(first["receivers"]), f"{first['streams']:,}", f"{first['piece_mib']}" + ("" if first["compression"] else ", uncompressed"),
            *(TABLES.cell(group, key) for key in (
                "pieces", "receiver_cpu_s_per_gb", "receiver_peak_mb", "merge_cpu_s_per_gb", "merge_peak_mb"))])
    return TABLES.table([
        "receivers", "streams", "MiB of a piece", "pieces", "receivers, CPU s/GB", "receiver, peak MB", "merger, CPU s/GB",
        "merger, peak MB"], lines)


class Model:
    """What a million events a second take: medians of the results, and assumptions that say that they are."""

    def __init__(self, records, sizing):
        self.upload = of(records, "upload")["receiver-and-uploader"]
        self.small = of(records, "growth")["1-receivers-100-streams-8-mib"]
        self.delay = of(records, "delay")["2-second-pieces"]
        counted = [record for record in sizing if record["row"] == "exports-0" and TABLES.is_counted(record)]
        self.sealed_share = statistics.median(
            record["sealed_mb"]["archive"] / record["open_mb"]["archive"] for record in counted)

    def median(self, group, key):
        return TABLES.median(group, key)

    def lines(self):
        """What, how much, and of what it is made."""
        event = self.median(self.upload, "raw_bytes") / self.median(self.upload, "lines")
        share = self.median(self.upload, "piece_bytes") / self.median(self.upload, "raw_bytes")
        raw = EVENTS_PER_SECOND * event / 1e6
        wire = raw * share
        yield "lines", f"{raw:.0f} MB/s", f"{event:.0f} bytes an event, as measured"
        yield "compressed", f"{wire:.1f} MB/s", f"pieces are {share:.3f} of the lines (zlib, level 1)"
        yield from self.machines(raw, wire)

    def machines(self, raw, wire):
        cost, agent = self.median(self.small, "receiver_cpu_s_per_gb"), self.median(self.upload, "sender_cpu_s_per_gb")
        merging = self.median(self.upload, "merging_cpu_s") / self.median(self.upload, "raw_bytes") * 1e9
        archive = self.median(self.upload, "merge_cpu_s_per_gb") - merging
        rate = 1000 / archive
        fleets = math.ceil(raw / (rate * 0.6))
        receivers = math.ceil(raw / 1000 * cost / 2 / 0.5) + fleets
        yield "agents", f"{raw / 1000 * agent:.1f} cores", f"{agent:.2f} CPU s/GB, on the machines where events are made"
        yield ("one merger reaches at most", f"{round(rate / raw * EVENTS_PER_SECOND, -4):,.0f} events/s",
               f"{archive:.2f} CPU s/GB of its archive, which is one thread, without exports; merging takes {merging:.2f} more on "
               "another one")
        yield ("fleets", str(fleets), "each with a prefix of its own and a share of the apps, since every merger writes all that its "
               "fleet receives; assumed: the archive's thread has a core and is busy for at most 60 % of the time")
        yield ("mergers", str(2 * fleets), "assumed: two for each fleet, of 2 cores")
        yield ("receivers", str(receivers), f"{cost:.2f} CPU s/GB without archive, so {raw / 1000 * cost:.1f} cores; assumed: 2 "
               "cores each, half of them busy, and one receiver more for each fleet")
        yield from self.bucket(raw, wire, fleets, receivers)

    def bucket(self, raw, wire, fleets, receivers):
        each = wire / receivers
        puts = receivers * max(0.5, each * 1e6 / (8 * MIB))
        # Each second a merger looks for a round and for each chain's next piece, and after a round once more.
        gets = 2 * (2 * (fleets + receivers) + puts)
        month = 30 * DAY
        yield ("PUT of pieces", f"{puts:.1f}/s, {puts * month / 1e6:.0f} million in 30 days",
               f"{each:.2f} MB/s of each receiver; a piece ends after 2 s or 8 MiB, the defaults")
        yield ("GET", f"{gets:.0f}/s, {gets * month / 1e6:.0f} million in 30 days",
               "two mergers; each reads every piece, and asks twice a second for the next round and each receiver's next piece; "
               f"with one receiver and one merger {self.median(self.delay, 'gets_per_s'):.1f}/s were measured")
        yield ("in the bucket", f"{wire * 7 * DAY / 1e6:.0f} TB of pieces, and {raw * self.sealed_share * month / 1e6:.0f} TB more "
               "of sealed days every 30 days", f"pieces of 7 days, the default; sealed days are {self.sealed_share:.3f} of the lines")
        yield ("network", f"{wire:.1f} MB/s to all receivers, as much from them to the bucket, {2 * wire:.0f} MB/s from it to the "
               "mergers", "two mergers read every piece")
        yield ("disk of a receiver", f"{each * DAY / 1e6:.1f} TB", "a day of its journal, the default")
        yield ("disk of a merger", f"{(raw * 28 * 3600 + wire * DAY) / 1e6 / fleets:.0f} TB",
               "a day's lines as they are until they are sealed at 04:00 of the next day (28 hours), and a day of the journal")


def model(records, sizing):
    return TABLES.table(["for all of it", "", "made of"], [list(line) for line in Model(records, sizing).lines()])


SECTIONS = {"uploading": uploading, "merging": merging, "delays": delays, "limits": limits, "growth": growth}


def render(directory):
    """Each table of the page by its name."""
    records = load(pathlib.Path(directory) / "fleet.ndjson")
    found = {name: make(records) for name, make in SECTIONS.items()}
    return {**found, "model": model(records, load(SIZING))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory")
    print("\n\n".join(f"### {name}\n\n{text}" for name, text in render(parser.parse_args().directory).items()))


if __name__ == "__main__":
    main()
