"""`audit`: compares the pieces of a fleet's receivers with the sealed days, by code that shares nothing with the merger.

Every line of a piece must be in a sealed day once, and every line of a sealed day must be in a piece. Ranges of streams
are compared, not lines, sorted by stream and offset over all executors: of the pieces only headers travel. Lines are
read only where ranges do not fit, to tell which day they belong to.

Rightly absent are lines that belong in the quarantine, erased lines, lines of days outside the range, of days that are
not sealed yet, and lines that were merged after their day's last seal. A line that came through several receivers has
the same stream, offset and bytes: that is one line. Other bytes at the same place are a conflict, of which both stay.
"""

import datetime
import hashlib
import tempfile
import zlib
import zoneinfo
from collections.abc import Iterable, Iterator

import fleet_formats as formats
from fleet_bucket import Address, Bucket
from fleet_formats import Damage, Gap, Json, PieceReader, Rounds

NAMED_MAX = 100
SLICES = 64
OBJECTS_PER_SLICE = 16
PART_MEMORY = 64 << 20
NOT_MERGED = 1 << 60
RANGES_READ_MAX = 100


class Audit:
    """One audit: a plan on the driver, and functions that executors run."""

    def __init__(self, address: Address, first: str, last: str, cut_off: int, contents: bool, context):
        self.address, self.context, self.contents = address, context, contents
        self.first, self.last, self.cut_off = first, last, cut_off
        self.bucket = Bucket(address)

    def spread(self, rows: list):
        return self.context.parallelize(rows, self.slices(len(rows)))

    def slices(self, count: int) -> int:
        """A slice costs a client of the bucket, so that few objects are not spread over many."""
        return max(1, min(-(-count // OBJECTS_PER_SLICE), max(SLICES, 2 * self.context.defaultParallelism)))

    def run(self) -> Json:
        address = self.address
        logs = self.spread([key for key, _ in self.bucket.list("merge/s00/") if key.endswith(".wbs")])
        entries = logs.mapPartitions(lambda keys: read_rounds(keys, address)).cache()
        rounds = Rounds(entries.filter(lambda row: row[0] == "").map(lambda row: row[1]).collect())
        listed = [key for key, _ in self.bucket.list("journal/") if formats.piece_place(key)]
        named = entries.filter(lambda row: row[0] != "")
        pieces = named.fullOuterJoin(self.spread(listed).map(lambda key: (key, True)), self.slices(len(listed))).cache()
        absent = pieces.filter(lambda row: row[1][1] is None).keys().collect()
        problems, is_whole = absent_pieces(absent, listed)
        oldest = dict(named.map(lambda row: formats.piece_place(row[0])).reduceByKey(min, 1).collect())
        read = pieces.filter(lambda row: row[1][1]).mapPartitions(lambda rows: read_pieces(rows, oldest, address)).cache()

        sizes = dict(self.bucket.list("archive/"))
        days = self.days(sizes, problems)
        contents = self.contents
        files = self.spread([file for day in days.values() for file in day["files"]])
        filed = files.mapPartitions(lambda rows: read_sources(rows, address, contents)).cache()
        quarantine = self.spread([key for key, _ in self.bucket.list("quarantine/") if key.endswith(".sources")])
        aside = quarantine.mapPartitions(lambda keys: read_aside(keys, address))

        rows = read.filter(is_edge).union(filed.filter(is_edge)).union(aside)
        count = max(self.slices(len(listed)), min(SLICES, self.context.defaultParallelism))
        ordered = rows.repartitionAndSortWithinPartitions(count, lambda key: zlib.crc32(key[0].encode()))
        found = ordered.mapPartitions(formats.gaps).cache()
        judge = Judge(self.first, self.last, self.cut_off, rounds, days, is_whole, address, self.erased_people(), self.unread_lines())
        missing = found.filter(lambda gap: gap.kind == "missing").keyBy(lambda gap: gap.references[0][1])
        others = found.filter(lambda gap: gap.kind != "missing").keyBy(lambda gap: gap.references[0][1])
        verdicts = missing.groupByKey().flatMap(judge.missing).union(others.groupByKey().flatMap(judge.filed)).cache()
        counts = dict(verdicts.map(lambda row: (row[0], 1)).reduceByKey(lambda one, two: one + two).collect())
        erased = self.erased(verdicts, days)
        counts["missing"] = counts.get("missing", 0) - sum(erased.values())
        counts["erased"] = counts.get("erased", 0) + sum(erased.values())
        named_lines = verdicts.filter(
            lambda row: row[0] in ("missing", "twice", "foreign") and not (row[0] == "missing" and folder_of(row[1]) in erased)
        ).map(lambda row: row[1])
        for damaged in read.union(filed).filter(lambda row: not is_edge(row)).map(lambda row: row[1]).collect():
            problems.append(damaged)
        return self.report(days, len(listed), counts, problems, named_lines.takeOrdered(NAMED_MAX, key=str))

    def erased_people(self) -> formats.ErasedPeople:
        requests = []
        for key, _ in self.bucket.list("erasures/"):
            try:
                requests.append(formats.checked_document(self.bucket.read(key) or b""))
            except Damage:
                continue  # No round names such a request.
        return formats.ErasedPeople(requests)

    def unread_lines(self) -> set[tuple[str, int]]:
        """The lines that no merger reads: they are in the quarantines."""
        lines = set()
        for key, _ in self.bucket.list("merge/s00/set-aside/"):
            try:
                request = formats.checked_document(self.bucket.read(key) or b"")
            except Damage:
                continue  # No round names such a request.
            if request.get("reader") == "archive":
                lines.add((formats.stream_name(request), request.get("offset")))
        return lines

    @staticmethod
    def erased(verdicts, days: dict) -> dict[tuple, int]:
        """Absent lines of days whose manifests say that at least as many were erased; which ones, no manifest says."""
        absent = verdicts.filter(lambda row: row[0] == "missing").map(lambda row: (folder_of(row[1]), 1))
        counts = absent.reduceByKey(lambda one, two: one + two).collect()
        return {folder: count for folder, count in counts if folder in days and days[folder]["erased"] >= count}

    def report(self, days: dict, piece_count: int, counts: dict, problems: list[Json], lines: list[Json]) -> Json:
        inside = [day for (_, _, name), day in days.items() if self.first <= name <= self.last]
        kinds = ("missing", "twice", "foreign")
        absent = ("quarantined", "outside", "unsealed", "late", "erased", "conflict", "unproven")
        return {
            "from": self.first, "to": self.last, "days": len(inside), "lines": sum(day["lines"] for day in inside),
            "pieces": piece_count, **{kind: counts.get(kind, 0) for kind in kinds}, "damaged": len(problems),
            "not_compared": {kind: counts.get(kind, 0) for kind in absent if counts.get(kind)},
            "named": (problems + lines)[:NAMED_MAX]}

    def days(self, sizes: dict[str, int], problems: list[Json]) -> dict[tuple[str, str, str], Json]:
        """The sealed days, of the whole archive: a line may also be in a day where it does not belong."""
        address = self.address
        folders = sorted({folder for key in sizes if key.endswith("/_SUCCESS") and (folder := formats.day_folder(key))})
        days = {}
        for folder, manifest in self.spread(folders).mapPartitions(lambda rows: read_manifests(rows, address)).collect():
            path = "archive/env={}/bundle={}/date={}".format(*folder)
            if isinstance(manifest, str):
                problems.append({"kind": "damaged", "object": f"{path}/manifest.json", "cause": manifest})
                continue
            days[folder] = {
                "sealed_at": moment(manifest["sealed_at"]), "zone": manifest["zone"], "lines": manifest["lines"],
                "erased": manifest.get("erased", 0),
                "files": [(path, {name: file.get(name) for name in FILE_MEMBERS}, sizes.get(f"{path}/{file['name']}"))
                          for file in manifest["files"]]}
        return days


FILE_MEMBERS = ("name", "lines", "bytes", "gz_bytes", "sha256")


def folder_of(line: Json) -> tuple[str, str, str] | None:
    return (line["env"], formats.component(line["bundle"]), line["day"]) if "day" in line else None


def is_edge(row: tuple) -> bool:
    return row[0] is not None


def moment(text: str) -> int:
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def absent_pieces(absent: list[str], listed: list[str]) -> tuple[list[Json], bool]:
    """Pieces that a round names and the bucket lacks. The oldest of a chain may have been deleted; a hole may not be.

    Returns the problems, and whether the pieces are all there: otherwise a line of the archive may be of a deleted one.
    """
    oldest: dict[str, int] = {}
    for chain, position in filter(None, map(formats.piece_place, listed)):
        oldest[chain] = min(position, oldest.get(chain, position))
    places = {key: place for key in absent if (place := formats.piece_place(key))}
    holes = [key for key, (chain, position) in places.items() if position > oldest.get(chain, position)]
    return [{"kind": "damaged", "object": key, "cause": "is missing"} for key in sorted(holes)], not absent


# MARK: Reading, on executors

def read_rounds(keys: Iterable[str], address: Address) -> Iterator[tuple]:
    """A row of the round itself, under the empty key, and one for each of its pieces."""
    bucket = Bucket(address)
    for key in keys:
        text = bucket.read(key)
        if text is None:
            continue
        document = formats.checked_document(text)
        yield "", (document["round"], document["time"], document["through"])
        for piece in document["pieces"]:
            yield formats.piece_key(piece["chain"], piece["position"]), (document["round"], piece["bytes"], piece["sha256"])


def round_of(key: str, named: tuple | None, oldest: dict[str, int]) -> int:
    """The round that a piece was merged in; 0 where that round was deleted, and more than any if it is not merged yet."""
    if named:
        return named[0]
    chain, position = formats.piece_place(key)
    return 0 if position < oldest.get(chain, 0) else NOT_MERGED


def read_pieces(rows: Iterable[tuple], oldest: dict[str, int], address: Address) -> Iterator[tuple]:
    bucket = Bucket(address)
    for key, (named, _) in rows:
        content = bucket.read(key) or b""
        if named and (len(content), hashlib.sha256(content).hexdigest()) != named[1:]:
            yield None, {"kind": "damaged", "object": key, "cause": "is not what its round says"}
        number = round_of(key, named, oldest)
        reader = PieceReader(content)
        for batch in reader.batches():
            reference = (number, key, batch.at, batch.received)
            yield from formats.edges(
                batch.stream, batch.offset, batch.offset + batch.raw, f"{key} {batch.at}", True, reference)
        if reader.damaged_bytes:
            yield None, {"kind": "damaged", "object": key, "cause": f"{reader.damaged_bytes} damaged bytes"}


def read_manifests(folders: Iterable[tuple], address: Address) -> Iterator[tuple]:
    bucket = Bucket(address)
    for env, bundle, day in folders:
        text = bucket.read(f"archive/env={env}/bundle={bundle}/date={day}/manifest.json")
        try:
            yield (env, bundle, day), formats.checked_document(text) if text else "is missing"
        except Damage as damage:
            yield (env, bundle, day), str(damage)


def read_sources(files: Iterable[tuple], address: Address, contents: bool) -> Iterator[tuple]:
    bucket = Bucket(address)
    for path, file, size in files:
        key = f"{path}/{file['name']}"
        if size != file["gz_bytes"] or contents and bucket.digest(key) != file["sha256"]:
            yield None, {"kind": "damaged", "object": key, "cause": "is not what its manifest says"}
        sources = key.removesuffix(".ndjson.gz") + ".sources"
        try:
            text = bucket.read(sources)
            if text is None:
                raise Damage("is missing")
            for problem in formats.problems_of_runs(formats.runs(text), file["bytes"], file["lines"]):
                yield None, {"kind": "damaged", "object": sources, "cause": problem}
            for run in formats.runs(text):
                reference = (0, key, run.start, run.offset)
                yield from formats.edges(
                    run.stream, run.offset, run.offset + run.length, f"{key} {run.start}", False, reference)
        except Damage as damage:
            yield None, {"kind": "damaged", "object": sources, "cause": str(damage)}


def read_aside(keys: Iterable[str], address: Address) -> Iterator[tuple]:
    """Ranges in the quarantine, among them erased lines; the bucket has them only where someone put them there."""
    bucket = Bucket(address)
    for key in keys:
        for run in formats.runs(bucket.read(key) or b""):
            yield from formats.edges(
                run.stream, run.offset, run.offset + run.length, f"{key} {run.start} {run.offset}", False,
                (0, key, run.start, run.offset))


# MARK: Judging, on executors

class Judge:
    """What the lines are that pieces and archive do not have once each. Yields a kind, and a name where it matters."""

    def __init__(self, first, last, cut_off, rounds, days, is_whole, address, people, unread=frozenset()):
        self.first, self.last, self.cut_off, self.rounds = first, last, cut_off, rounds
        self.days = {folder: (rounds.sealing(day["sealed_at"]), day["zone"]) for folder, day in days.items()}
        self.zone = next(iter(self.days.values()))[1] if self.days else "UTC"
        self.is_whole, self.address, self.people, self.unread = is_whole, address, people, unread

    def missing(self, row: tuple[str, Iterable[Gap]]) -> Iterator[tuple[str, Json | None]]:
        """Lines of a piece that no sealed day has."""
        key, gaps = row
        content = Bucket(self.address).read(key) or b""
        batches = {batch.at: batch for batch in PieceReader(content).batches()}
        for gap in sorted(gaps, key=lambda gap: (gap.stream, gap.start)):
            number, _, at, received = gap.references[0]
            batch = batches.get(at)
            try:
                raw = formats.inflated(content[at:at + batch.wire], batch.raw) if batch else b""
            except Damage:
                raw = b""
            if not raw:
                # Its checksum is the agent's own, and yet nobody can read it.
                name = name_of(gap.stream, gap.start)
                yield "missing", {"kind": "missing", **name, "bytes": gap.end - gap.start, "piece": key}
                continue
            for offset, line in formats.lines_in(raw, batch.offset, gap.start, gap.end):
                if (gap.stream, offset) in self.unread:
                    yield "quarantined", None
                    continue
                kind, place = self.kind(line, batch, number, received)
                yield kind, place and {"kind": kind, **name_of(gap.stream, offset), **place, "piece": key}

    def kind(self, line: bytes, batch, number: int, received: int) -> tuple[str, Json | None]:
        place = formats.event_place(line, batch.opened)
        if place is None:
            return "quarantined", None
        zone = zoneinfo.ZoneInfo(self.zone)
        date = datetime.datetime.fromtimestamp(place.time // 1000, zone).date()
        day = date.isoformat()
        if not self.first <= day <= self.last:
            return "outside", None
        if self.people.has(line, batch.opened):
            return "erased", None
        known = [self.days[folder] for bundle in (formats.component(place.bundle), "_overflow")
                 if (folder := (place.env, bundle, day)) in self.days]
        if known and number > known[0][0]:
            return "late", None
        if not known:
            end = datetime.datetime.combine(date + datetime.timedelta(1), datetime.time(), zone).timestamp() * 1000
            if number == NOT_MERGED or not formats.is_due(round(end), self.cut_off, received, self.rounds.through):
                return "unsealed", None
        return "missing", {"env": place.env, "bundle": place.bundle, "day": day}

    def filed(self, row: tuple[str, Iterable[Gap]]) -> Iterator[tuple[str, Json | None]]:
        """Lines of sealed days that are there twice, or in no piece."""
        for number, gap in enumerate(sorted(row[1], key=lambda gap: (gap.stream, gap.start))):
            archived = [(key, start + gap.start - offset) for _, key, start, offset in gap.references
                        if key.startswith("archive/")]
            days = [formats.day_folder(key) for key, _ in archived]
            if not any(self.first <= day[2] <= self.last for day in days):
                continue
            if gap.kind == "foreign" and not self.is_whole:
                yield "unproven", None
                continue
            # Each range costs a read of its file: of a file that is wrong all over, ranges are named in place of lines.
            length = gap.end - gap.start if number < RANGES_READ_MAX else 0
            texts = [self.part(key, start, length) if length else b"" for key, start in archived]
            if len(texts) < 2 and gap.kind == "twice":
                texts = texts * 2
            yield from self.compared(gap, texts, [key for key, _ in archived])

    def compared(self, gap: Gap, texts: list[bytes], keys: list[str]) -> Iterator[tuple[str, Json | None]]:
        env, bundle, day = formats.day_folder(keys[0])
        place = {"env": env, "bundle": bundle, "day": day, "objects": sorted(set(keys))}
        if any(len(text) < gap.end - gap.start for text in texts):
            # Not read, or the file does not have what its origins say: the range is named in place of its lines.
            yield gap.kind, {"kind": gap.kind, **name_of(gap.stream, gap.start), "bytes": gap.end - gap.start, **place}
            return
        for offset, line in formats.lines_in(texts[0], gap.start, gap.start, gap.end):
            at = offset - gap.start
            if gap.kind == "twice" and not any(text[at:at + len(line)] == line for text in texts[1:]):
                yield "conflict", None
                continue
            yield gap.kind, {"kind": gap.kind, **name_of(gap.stream, offset), **place}

    def part(self, key: str, start: int, length: int) -> bytes:
        """Bytes of a file of lines, inflated a chunk at a time."""
        body = Bucket(self.address).open(key)
        if body is None:
            return b""
        with body, tempfile.SpooledTemporaryFile(PART_MEMORY) as file:
            for chunk in body.iter_chunks(1 << 20):
                file.write(chunk)
            file.seek(0)
            return window(file, start, length)


def window(file, start: int, length: int) -> bytes:
    import gzip

    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as lines:
            while start > 0:
                skipped = len(lines.read(min(start, 1 << 20)))
                if not skipped:
                    return b""
                start -= skipped
            return lines.read(length)
    except (OSError, EOFError, zlib.error):
        return b""


def name_of(stream: str, offset: int) -> Json:
    principal, _, stream_id = stream.rpartition(" ")
    return {**({"principal": principal} if principal else {}), "stream": stream_id, "offset": offset}
