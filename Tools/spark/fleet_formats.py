"""What a fleet's bucket holds, read by code that shares nothing with Waybill's own: pieces, sources, manifests, lines.

Written from Protocol/formats/{fleet,journal,archive}.md. Nothing here does input or output, or needs a package.
"""

import bisect
import dataclasses
import datetime
import hmac
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

Json = dict[str, object]
DAY_MS = 86_400_000
LINE_MAX = 4096
RATIO_MAX = 1032
# A line is an event only between these times.
EVENT_TIMES = range(946_684_800_000, 4_102_444_800_000)
TIME_MEMBERS = ["ts", "time", "timestamp", "@timestamp", "__REALTIME_TIMESTAMP"]
MARK_PATTERN = re.compile(rb"MARK ([0-9]+) ([0-9]+) ([0-9a-f]{8})\n")
TIME_PATTERN = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):?(\d\d))")
DAY_FOLDER = re.compile(r"archive/env=([^/]+)/bundle=([^/]+)/date=(\d{4}-\d\d-\d\d)")


class Damage(Exception):
    """Bytes that are not what their format says."""


# MARK: Keys

def day_folder(key: str) -> tuple[str, str, str] | None:
    """Environment, bundle (as in the path) and day of a key below `archive/`."""
    match = DAY_FOLDER.match(key)
    return (match[1], match[2], match[3]) if match else None


def component(value: str) -> str:
    """A value as a component of a path (archive.md, section 2)."""
    data, written = value.encode(), ""
    for index, byte in enumerate(data):
        if len(written) >= 100:
            digest = 0xCBF29CE484222325
            for each in data:
                digest = (digest ^ each) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
            return f"{written}%~{digest:016x}"
        character = chr(byte)
        stays = re.match(r"[A-Za-z0-9-]", character) or (character in "._" and index > 0)
        written += character if stays else f"%{byte:02X}"
    return written


def piece_place(key: str) -> tuple[str, int] | None:
    """The chain and the position in the key of a piece."""
    match = re.fullmatch(r"journal/([^/]+~[0-9a-f]{16})/(\d{20})\.wbj", key)
    return (match[1], int(match[2])) if match else None


def piece_key(chain: str, position: int) -> str:
    return f"journal/{chain}/{position:020}.wbj"


def days_between(first: str, last: str) -> list[str]:
    start, end = datetime.date.fromisoformat(first), datetime.date.fromisoformat(last)
    return [(start + datetime.timedelta(number)).isoformat() for number in range((end - start).days + 1)]


# MARK: Documents

def checked_document(text: bytes) -> Json:
    """A manifest or a round; its last member is the CRC-32 of the bytes before it and its comma."""
    try:
        document = json.loads(text)
    except ValueError:
        raise Damage("is not JSON") from None
    if not isinstance(document, dict):
        raise Damage("is not an object")
    if "crc32" in document:
        covered, _, _ = text.rpartition(b',"crc32":')
        if f"{zlib.crc32(covered):08x}" != document["crc32"]:
            raise Damage("has another checksum")
    return document


def document_text(members: Json) -> bytes:
    """The reverse of `checked_document`."""
    covered = json.dumps(
        {name: value for name, value in members.items() if name != "crc32"}, separators=(",", ":"),
        ensure_ascii=False).encode()[:-1]
    return covered + f',"crc32":"{zlib.crc32(covered):08x}"}}\n'.encode()


# MARK: Pieces

@dataclasses.dataclass(frozen=True)
class Batch:
    """Lines of one stream, as an agent sent them; `at` is where the payload begins in its piece."""

    stream: str
    offset: int
    raw: int
    lines: int
    wire: int
    at: int
    received: int
    opened: Json


def stream_name(opened: Json) -> str:
    """A stream is named by its owner and its id; an id has no space."""
    return f"{opened.get('principal', '')} {opened['stream']}"


class PieceReader:
    """The batches of a piece, whole ones only: every byte is covered by a checksum, as in a journal."""

    def __init__(self, content: bytes):
        self.content, self.damaged_bytes = content, 0
        self.streams: dict[int, Json] = {}
        self.opening: dict[int, Json] = {}
        self.received, self.base, self.unmarked = 0, None, b""

    def batches(self) -> Iterator[Batch]:
        at = 0
        while at < len(self.content):
            try:
                end, batch = self.entry(at)
            except (Damage, ValueError):
                start = at - len(self.unmarked)
                at = self.next_mark(start + 1)
                self.damaged_bytes += at - start
                self.unmarked, self.opening = b"", {}
                continue
            if batch:
                yield batch
            at = end
        self.damaged_bytes += len(self.unmarked)

    def entry(self, at: int) -> tuple[int, Batch | None]:
        end = self.content.find(b"\n", at, at + LINE_MAX) + 1
        if not end:
            raise Damage("no line")
        line = self.content[at:end]
        word, _, rest = line[:-1].partition(b" ")
        if word == b"BATCH":
            return self.batch(line, rest, end)
        if word == b"MARK":
            self.mark(line, at)
            self.streams.update(self.opening)
            self.unmarked, self.opening = b"", {}
            return end, None
        if word == b"OPEN":
            number, _, text = rest.partition(b" ")
            opened = json.loads(text)
            if not isinstance(opened, dict) or not isinstance(opened.get("stream"), str):
                raise Damage("an OPEN without a stream")
            self.opening[int(number)] = opened
        elif word not in (b"START", b"RESTING", b"AT", b"TAIL", b"SEALED", b"SKIP", b"SEAL"):
            raise Damage("an unknown word")
        self.unmarked += line
        return end, None

    def mark(self, line: bytes, at: int) -> None:
        match = MARK_PATTERN.fullmatch(line)
        if not match or zlib.crc32(self.unmarked + line[:-9]) != int(match[3], 16):
            raise Damage("a MARK with another checksum")
        base = int(match[1]) - at
        if self.base is not None and base != self.base:
            raise Damage("a MARK of another position")
        self.base, self.received = base, int(match[2])

    def batch(self, line: bytes, rest: bytes, end: int) -> tuple[int, Batch]:
        if self.unmarked:
            raise Damage("no MARK between lines and a BATCH")
        number, *integers, checksum = rest.split(b" ")
        offset, raw, lines, wire = map(int, integers)
        opened = self.streams.get(int(number))
        if opened is None:
            raise Damage("a stream that was not opened")
        payload = self.content[end:end + wire]
        header = f"{opened['stream']} {offset} {raw} {lines} {wire}\n".encode()
        if len(payload) != wire or zlib.crc32(payload, zlib.crc32(header)) != int(checksum, 16):
            raise Damage("a BATCH with another checksum")
        return end + wire, Batch(stream_name(opened), offset, raw, lines, wire, end, self.received, opened)

    def next_mark(self, start: int) -> int:
        """Where reading resumes after damage: a MARK that covers only itself, at its own position."""
        for found in MARK_PATTERN.finditer(self.content, start):
            own = zlib.crc32(found[0][:-9]) == int(found[3], 16)
            if own and (self.base is None or int(found[1]) - found.start() == self.base):
                return found.start()
        return len(self.content)


def inflated(payload: bytes, raw: int) -> bytes:
    if raw > RATIO_MAX * (len(payload) + 1):
        raise Damage("a batch that grows too much")
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(payload, raw + 1)
    except zlib.error:
        raise Damage("a batch that does not inflate") from None
    if len(content) != raw:
        raise Damage("a batch of another length")
    return content


# MARK: Sources

@dataclasses.dataclass(frozen=True)
class Run:
    """Lines that are adjacent in their stream and in a file of the archive."""

    stream: str
    offset: int
    start: int
    length: int
    lines: int
    is_erased: bool = False


def runs(text: bytes) -> Iterator[Run]:
    """The runs of a `.sources`; `ERASED` and empty lines take bytes of their stream, too. A `SHIFTED` run has the position
    of its batch where a `FROM` may have empty lines."""
    streams: dict[int, str] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(b" ")
        try:
            if word == b"OPEN":
                number, _, opened = rest.partition(b" ")
                streams[int(number)] = stream_name(json.loads(opened))
                continue
            number, offset, _, start, length, lines, *more = map(int, rest.split(b" "))
            if word not in (b"FROM", b"SHIFTED", b"ERASED", b"POISON") or (word == b"SHIFTED" and len(more) != 1):
                raise ValueError
            taken = length + (more[0] if more and word == b"FROM" else 0)
            yield Run(streams[number], offset, start, taken, lines, word == b"ERASED")
        except (ValueError, KeyError, TypeError):
            raise Damage(f"an invalid line: {line[:80]!r}") from None


def problems_of_runs(found: Iterable[Run], bytes_expected: int, lines_expected: int) -> list[str]:
    """What a file's runs have against its manifest: they must cover the file once, in order."""
    at = lines = 0
    for run in found:
        if run.start != at:
            return [f"a run begins at {run.start} in place of {at}"]
        at, lines = at + run.length, lines + run.lines
    problems = [f"the runs have {at} bytes, the manifest {bytes_expected}"] if at != bytes_expected else []
    return problems + ([f"the runs have {lines} lines, the manifest {lines_expected}"] if lines != lines_expected else [])


# MARK: Lines

def milliseconds(value: object) -> int | None:
    """RFC 3339 text, or a count since 1970 whose digits before the point decide the unit."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
        return None
    match = TIME_PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match:
        return text_milliseconds(match)
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > 30:
        return None
    digits = number.adjusted() + 1
    power = next((power for most, power in ((11, 3), (14, 0), (17, -3)) if digits <= most), -6)
    return int(number.scaleb(power).to_integral_value("ROUND_FLOOR"))


def text_milliseconds(match: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
    try:
        date = datetime.date(year, month, day)
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    offset = (int(match[9]) * 60 + int(match[10])) * (-1 if match[8] == "-" else 1) if match[8] else 0
    days = (date - datetime.date(1970, 1, 1)).days
    fraction = int((match[7] or "").ljust(3, "0")[:3]) if second < 60 else 0
    return days * DAY_MS + ((hour * 60 + minute - offset) * 60 + second) * 1000 + fraction


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the archive must have a line."""

    env: str
    bundle: str
    time: int


def first_members(pairs: list[tuple[str, object]]) -> Json:
    """Of two members with one name the first counts."""
    return dict(reversed(pairs))


def event_place(line: bytes, opened: Json) -> Place | None:
    """The place of an event; `None` for a line that belongs in the quarantine."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        event = json.loads(line.removeprefix(b"\xef\xbb\xbf"), parse_float=Decimal, object_pairs_hook=first_members)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or b"\0" in line:
        return None
    is_foreign = opened.get("format") == "ndjson"
    value = event.get("ts") if not is_foreign else next(
        (event[name] for name in [opened.get("time"), *TIME_MEMBERS] if name is not None and name in event), None)
    if not is_foreign and not (isinstance(value, str) and TIME_PATTERN.fullmatch(value)):
        return None
    time = milliseconds(value)
    if time is None or time not in EVENT_TIMES:
        return None
    if is_foreign:
        return Place(str(opened.get("env")), str(opened.get("bundle")), time)
    if event.get("v", 1) != 1 or not is_text(event.get("name")) or not is_text(event.get("bundle")):
        return None
    return Place(str(event["env"]), str(event["bundle"]), time) if event.get("env") in ("dev", "internal", "prod") else None


class ErasedPeople:
    """Who is erased from the fleet: ids, or their keyed digests (erasures.md). Their lines are rightly absent."""

    def __init__(self, requests: Iterable[Json]):
        self.ids, self.digests, self.keys = set(), set(), set()
        for request in requests:
            kind, key = request.get("kind"), request.get("key")
            if isinstance(request.get("id"), str):
                self.ids.add((kind, request["id"]))
            elif isinstance(request.get("digest"), str) and re.fullmatch("[0-9a-f]{64}", str(key)):
                self.digests.add(request["digest"])
                self.keys.add(bytes.fromhex(key))

    def has(self, line: bytes, opened: Json) -> bool:
        """Whether a line, which is an event, is of one of them. A foreign line's members are those that its source names."""
        event = json.loads(line.removeprefix(b"\xef\xbb\xbf"), parse_float=Decimal, object_pairs_hook=first_members)
        is_foreign = opened.get("format") == "ndjson"
        names = {"user": opened.get("user") if is_foreign else None, "anon": opened.get("anonymous") if is_foreign else None}
        return any(self.is_one(kind, event.get(name or kind)) for kind, name in names.items())

    def is_one(self, kind: str, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (str, int, Decimal)):
            return False
        text = str(value)
        return (kind, text) in self.ids or any(
            hmac.digest(key, f"{kind}\0{text}".encode("utf-8", "surrogatepass"), "sha256").hex() in self.digests
            for key in self.keys)


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def lines_in(content: bytes, first: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The lines of `content` that begin in [start, end) of the stream, with their offsets; `first` is that of `content`."""
    at = start - first
    while at < min(end - first, len(content)):
        stop = content.find(b"\n", at) + 1 or len(content)
        yield first + at, content[at:stop]
        at = stop


# MARK: Coverage

@dataclasses.dataclass(frozen=True)
class Edge:
    """Where a range of a stream begins or ends; ranges are of pieces (`held`) or of the archive (`filed`)."""

    number: str
    is_held: bool
    is_start: bool
    reference: tuple


@dataclasses.dataclass(frozen=True)
class Gap:
    """A range of a stream that pieces and archive do not have once each."""

    kind: str
    stream: str
    start: int
    end: int
    references: tuple


def edges(stream: str, start: int, end: int, number: str, is_held: bool, reference: tuple):
    """The rows of a range: sorted by their keys, an end comes before a start at the same offset."""
    return [((stream, start, 1, number), Edge(number, is_held, True, reference)),
            ((stream, end, 0, number), Edge(number, is_held, False, reference))]


def gaps(rows: Iterable[tuple[tuple, Edge]]) -> Iterator[Gap]:
    """Sweeps over sorted edges of any number of streams; holds the ranges that are open, and nothing else."""
    stream, last, held_until = None, 0, 0
    held: dict[str, tuple] = {}
    filed: dict[str, tuple] = {}
    for (name, offset, _, _), edge in rows:
        if name != stream:
            stream, last, held_until, held, filed = name, offset, -1, {}, {}
        if offset > last:
            if held:
                held_until = offset
            found = gap(stream, last, offset, held, filed, held_until)
            if found:
                yield found
        last = offset
        active = held if edge.is_held else filed
        if edge.is_start:
            active[edge.number] = edge.reference
        else:
            active.pop(edge.number, None)


def gap(stream: str, start: int, end: int, held: dict, filed: dict, held_until: int) -> Gap | None:
    if held and not filed:
        return Gap("missing", stream, start, end, tuple(sorted(held.values())))
    if filed and not held:
        # The last line of a stream may lack its LF, which the archive adds. (An empty line is never in the archive.)
        return None if end - start == 1 and held_until == start else Gap("foreign", stream, start, end, tuple(filed.values()))
    if len(filed) > 1:
        return Gap("twice", stream, start, end, tuple(sorted(filed.values())))
    return None


# MARK: Rounds and seals

class Rounds:
    """The fleet's log as far as seals go: which round sealed a day, and how far all receivers are."""

    def __init__(self, rows: Iterable[tuple[int, int, int]]):
        """Rows of number, time and `through`."""
        self.rows = sorted(rows)
        self.by_time = sorted((time, number) for number, time, _ in self.rows)

    @property
    def through(self) -> int:
        return self.rows[-1][2] if self.rows else 0

    def sealing(self, sealed_at: int) -> int:
        """The last round whose lines a day sealed then must have; a day is sealed at a round, with that round's time."""
        index = bisect.bisect_right(self.by_time, (sealed_at, 1 << 62))
        if not index:
            return 0
        time = self.by_time[index - 1][0]
        if time == sealed_at:
            return min(number for other, number in self.by_time if other == time)
        return self.by_time[index - 1][1]


def is_due(day_end: int, cut_off: int, received: int, through: int, patience: int = 3_600_000) -> bool:
    """Whether a day must have been sealed and published: the first cut-off after its end and its first line is over."""
    due = day_end + cut_off
    if received > due:
        due += -(-(received - due) // DAY_MS) * DAY_MS
    return through >= due + patience
