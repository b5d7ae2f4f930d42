"""Makes lines like those of client libraries and of foreign programs, and compares what arrived with what was made."""

import collections
import dataclasses
import datetime
import gzip
import hashlib
import os
import random

from harness import SiteTest, until
from scale import SEED

SEGMENT_BYTES = 1 << 20
ENVIRONMENTS = ("prod", "prod", "prod", "internal", "dev")
BUNDLES = ("com.example.shop", "com.example.news", "com.example.shop")
NAMES = ("Product Tapped", "moment_like", "cart_add", "search", "app_open")

EVENT = (
    '{"v":1,"id":"%s","writer":"%s","seq":%d,"ts":"%s","up":%d,"kind":"%s","name":"%s","screen":"ShoppingList",'
    '"session":"019550fb-32b4-7000-8000-000000000001","session_n":7,"anon":"b5372db0-c21e-41e4-8dfc-aa07a5b093db",'
    '"ids":{"ga4":"0a1b2c3d4e5f60718293a4b5c6d7e8f9"},"app":"1.4.2","build":"118","bundle":"%s","os":"iOS",'
    '"os_version":"17.0.1","lang":"ko-KR","tz":540,"env":"%s","log":"1.0","data":{"line":%d,"item":"토스터 %d"}}\n')


def timestamp(time):
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc)


class EventMaker:
    """A seeded source of events: three days, three environments and two apps; each line has its number in it."""

    def __init__(self, seed=1, days=3):
        self.random = random.Random(seed)
        self.count = 0
        # An hour and a bit ago, and the same on the days before: recent enough for every provider.
        self.times = [utc_now() - datetime.timedelta(days=day, minutes=70) for day in range(days)]

    def identifier(self, number):
        return f"019550fc-{self.random.getrandbits(16):04x}-7000-8000-{number:012x}"

    def writer(self):
        return "0195505e-%04x-7000-8000-%012x" % (self.random.getrandbits(16), self.random.getrandbits(48))

    def event(self, writer, sequence, **changes):
        """One line; `changes` replaces time (`ts`), `name`, `bundle`, `env` or `kind`."""
        self.count += 1
        choose = self.random.random
        time = self.times[int(choose() * len(self.times))]
        ts = changes.get("ts") or timestamp(time + datetime.timedelta(milliseconds=int(choose() * 3_000_000)))
        return (EVENT % (
            self.identifier(self.count), writer, sequence, ts, sequence * 250, changes.get("kind", "action"),
            changes.get("name") or NAMES[int(choose() * len(NAMES))],
            changes.get("bundle") or BUNDLES[int(choose() * len(BUNDLES))],
            changes.get("env") or ENVIRONMENTS[int(choose() * len(ENVIRONMENTS))], self.count,
            int(choose() * 100_000))).encode()

    def lines(self, count, **changes):
        writer = self.writer()
        return [self.event(writer, sequence, **changes) for sequence in range(1, count + 1)]

    def spool(self, folder, ledger, byte_count, segment_bytes=SEGMENT_BYTES):
        """Fills finished segments with about so many bytes of one writer's events."""
        writer, sequence, written = self.writer(), 1, 0
        while written < byte_count:
            lines, size, first = [], 0, sequence
            while size < min(segment_bytes - 600, byte_count - written):
                lines.append(self.event(writer, sequence))
                size += len(lines[-1])
                sequence += 1
            self.segment(folder, lines, writer, first, ledger)
            written += size
        return written

    def segment(self, folder, lines, writer=None, first=1, ledger=None):
        """Writes one finished segment; it appears under its name with everything in it."""
        name = f"{writer or self.writer()}-{first:020d}.ndjson"
        path = os.path.join(folder, name)
        # Outside the spool: in it, an agent takes a file that no writer locks for one that lost its name.
        making = os.path.join(os.path.dirname(os.path.abspath(folder)), name + ".making")
        with open(making, "wb") as file:
            file.write(b"".join(lines))
        os.rename(making, path)
        if ledger is not None:
            ledger.add(lines)
        return path

    def foreign(self, count):
        """Lines as a web server would write them."""
        lines = []
        for _ in range(count):
            self.count += 1
            time = self.random.choice(self.times) + datetime.timedelta(seconds=self.random.randrange(3000))
            lines.append((
                '{"time":"%s","event":"request","status":200,"path":"/items/%d","line":%d,"agent":"%s"}\n'
                % (timestamp(time), self.random.randrange(10_000), self.count, "x" * 120)).encode())
        return lines


@dataclasses.dataclass
class Comparison:
    """Lines that are missing, that are there too often, and that no one made."""
    lost: int = 0
    twice: int = 0
    alien: int = 0
    examples: list = dataclasses.field(default_factory=list)

    @property
    def is_clean(self):
        return self.lost == self.twice == self.alien == 0

    def __str__(self):
        text = f"lost {self.lost}, twice {self.twice}, alien {self.alien}"
        return text + "".join(f"\n  {example}" for example in self.examples)


class Ledger:
    """How often each line, byte for byte, must be there; keeps digests so that large runs fit into memory."""

    def __init__(self):
        self.counts = collections.Counter()
        self.line_count = 0
        self.byte_count = 0

    @staticmethod
    def digest(line):
        return hashlib.blake2b(line, digest_size=16).digest()

    def add(self, lines):
        for line in lines:
            self.counts[self.digest(line)] += 1
            self.line_count += 1
            self.byte_count += len(line)

    def compare(self, lines):
        rest = collections.Counter(self.counts)
        comparison = Comparison()
        for line in lines:
            digest = self.digest(line)
            if digest not in self.counts:
                comparison.alien += 1
            elif rest[digest] <= 0:
                comparison.twice += 1
            else:
                rest[digest] -= 1
                continue
            if len(comparison.examples) < 3:
                comparison.examples.append(line[:120])
        comparison.lost = sum(rest.values())
        return comparison


def lines_of(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rb") as file:
        yield from file


def whole(path):
    """A file's bytes, inflated if it is compressed."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def archive_files(data):
    """Files of lines; of one that is there in both forms, since a seal of it is under way, the plain one."""
    return sorted(
        path for path in (data / "archive").rglob("*")
        if path.suffix == ".ndjson" or path.name.endswith(".ndjson.gz") and not path.with_suffix("").exists())


def archived(data):
    """Every line of the archive, with its LF."""
    for path in archive_files(data):
        yield from lines_of(path)


def quarantined(data):
    """Reason → lines of the receiver's quarantine, in order."""
    lines = collections.defaultdict(list)
    for path in sorted((data / "quarantine").rglob("*.ndjson")):
        lines[path.stem].extend(lines_of(path))
    # An empty line is counted in the run that it belongs to, and not stored.
    for path in (data / "quarantine").rglob("empty.sources"):
        runs = (line.split() for line in lines_of(path) if line.startswith(b"FROM "))
        lines["empty"].extend([b"\n"] * sum(int(run[7]) for run in runs if len(run) == 8))
    return {reason: found for reason, found in lines.items() if found}


def stored(data):
    """Every line that the receiver keeps, wherever."""
    yield from archived(data)
    for lines in quarantined(data).values():
        yield from lines


def exported_ids(data, provider, base="exports"):
    """How often each event id is in the provider's `.ids` files; `-` is an event without one."""
    counts = collections.Counter()
    for path in (data / base / provider).rglob("part-*.ids"):
        for line in lines_of(path):
            counts.update(line.rstrip(b"\n").split(b","))
    return counts


def parts(data, provider, base="exports"):
    """The provider's record files, below its folder, by name; compressed ones as they were before."""
    top = data / base / provider
    return {
        str(path.relative_to(top)).removesuffix(".gz"): whole(path) for path in sorted(top.rglob("part-*"))
        if path.name.removesuffix(".gz").endswith((".csv", ".ndjson")) and path.parent.name != "dead"}


class LedgerTest(SiteTest):
    """A test whose lines are counted: each that was made is stored once. `LINES` is the seed of its lines."""

    LINES = 7

    def setUp(self):
        super().setUp()
        self.maker, self.ledger = EventMaker(self.LINES), Ledger()

    def made(self, count, **changes):
        """Events that a test sends itself."""
        lines = self.maker.lines(count, **changes)
        self.ledger.add(lines)
        return lines

    def write_log(self, path, count):
        """Appends so many lines to the log of another program; returns them."""
        lines = self.maker.foreign(count)
        self.ledger.add(lines)
        with open(path, "ab") as file:
            file.write(b"".join(lines))
        return lines

    def stored_count(self, data=None):
        return sum(1 for _ in stored(data or self.site.data))

    def until_stored(self, count=None, seconds=30, data=None):
        """Waits until so many lines are stored, by default as many as were made."""
        until(lambda: self.stored_count(data) >= (count or self.ledger.line_count), seconds, "the lines are stored")

    def assert_each_once(self, data=None):
        comparison = self.ledger.compare(stored(data or self.site.data))
        self.assertTrue(comparison.is_clean, f"seed {SEED}: {comparison}")

    def assert_stored(self, receiver, agent=None, data=None):
        """Stops an agent and the receiver, and compares everything that is stored with the ledger."""
        self.stop_all(*([agent] if agent else []), receiver)
        self.assert_each_once(data)
