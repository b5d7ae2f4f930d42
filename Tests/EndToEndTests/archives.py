"""Archives for tests of reports: forty lines whose numbers were worked out by hand, and random ones from a seed.

`Archive` writes days as the receiver does: open files with their lengths in the checkpoint, sealed ones with a manifest.
"""

import collections
import datetime
import gzip
import hashlib
import json
import random
import zlib
import zoneinfo

BUNDLE = "com.example.shop"
SEOUL = zoneinfo.ZoneInfo("Asia/Seoul")
STREAM = "8f14e45fceea167a-00000000000000000001"


def uuid7(milliseconds, number):
    text = f"{milliseconds:012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-{number:012x}"


def stamp(milliseconds):
    time = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def milliseconds(text, zone):
    """A local time, `2026-11-02 09:00:00.500`, as milliseconds since 1970."""
    time = datetime.datetime.fromisoformat(text).replace(tzinfo=zone)
    return round(time.timestamp() * 1000)


def encoded(line):
    """A line's bytes with its LF, members without a value left out."""
    present = {key: value for key, value in line.items() if value is not None}
    return json.dumps(present, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class Archive:
    """A data directory that has an archive and its checkpoint, and nothing else."""

    def __init__(self, data, zone):
        self.data, self.zone = data, zone
        self.lengths = {}

    def add(self, day, files, environment="prod", bundle=BUNDLE):
        """Writes a day; each of `files` is a name without its end, whether it is sealed, and its lines as bytes."""
        path = f"archive/env={environment}/bundle={bundle}/date={day}"
        folder = self.data / path
        folder.mkdir(parents=True)
        sealed = []
        for name, is_sealed, lines in files:
            content = b"".join(lines)
            sources = self.sources(environment, bundle, content, len(lines))
            (folder / f"{name}.sources").write_bytes(sources)
            if is_sealed:
                sealed.append(self.seal(folder, name, content, sources))
            else:
                (folder / f"{name}.ndjson").write_bytes(content)
                self.lengths[f"{path}/{name}.ndjson"] = len(content)
                self.lengths[f"{path}/{name}.sources"] = len(sources)
        if sealed:
            self.write_manifest(folder, day, environment, bundle, sealed)

    @staticmethod
    def sources(environment, bundle, content, line_count):
        opened = json.dumps({"stream": STREAM, "source": "/spool/a.ndjson", "env": environment, "bundle": bundle,
                             "format": "waybill"}, separators=(",", ":"))
        return f"OPEN 1 {opened}\nFROM 1 0 0 0 {len(content)} {line_count}\n".encode()

    @staticmethod
    def seal(folder, name, content, sources):
        packed = gzip.compress(content, mtime=0)
        (folder / f"{name}.ndjson.gz").write_bytes(packed)
        times = sorted(json.loads(line)["ts"] for line in content.splitlines())
        return {"name": f"{name}.ndjson.gz", "lines": content.count(b"\n"), "bytes": len(content),
                "gz_bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest(),
                "raw_sha256": hashlib.sha256(content).hexdigest(), "sources_bytes": len(sources),
                "sources_sha256": hashlib.sha256(sources).hexdigest(), "first_ts": times[0], "last_ts": times[-1],
                "position": 1}

    def write_manifest(self, folder, day, environment, bundle, files):
        lines, size = sum(file["lines"] for file in files), sum(file["bytes"] for file in files)
        manifest = {
            "revision": len(files), "env": environment, "bundle": bundle, "day": day, "zone": self.zone,
            "sealed_at": f"{day}T23:59:59.000Z", "lines": lines, "bytes": size,
            "first_ts": min(file["first_ts"] for file in files), "last_ts": max(file["last_ts"] for file in files),
            "files": files,
            "sources": [{"stream": STREAM, "source": "/spool/a.ndjson", "from": 0, "to": size, "lines": lines}],
            "other_lines": 0}
        body = json.dumps(manifest, separators=(",", ":"))[:-1].encode()
        (folder / "manifest.json").write_bytes(body + b',"crc32":"%08x"}\n' % zlib.crc32(body))
        (folder / "_SUCCESS").touch()

    def finish(self):
        """Writes the checkpoint, without which readers take no open file."""
        entries = {"position": "1", "zone": self.zone, **{f"file:{path}": str(size) for path, size in self.lengths.items()}}
        lines = "".join(f"+ {key} {value}\n" for key, value in sorted(entries.items())).encode()
        (self.data / "state").mkdir()
        (self.data / "state" / "archive.state").write_bytes(
            b"waybill-state 1\n" + lines + b"= %d %08x\n" % (len(entries), zlib.crc32(lines)))


# MARK: Forty lines

class Fixture:
    """Forty events of six people around 2 November 2026 in Seoul; what each report makes of them is known by hand.

    It has two people on one install, one person on two, a session across midnight, a sequence number that never came, a
    repeated id, a late line, steps at the same millisecond, a line of a server, and one of another environment.
    """

    def __init__(self):
        self.lines, self.late = [], []
        self.starts = {}
        self.count = 0
        self.october_and_second()
        self.third_and_fourth()

    def add(self, time, install, user, name, screen=None, session=None, number=None, previous=None, kind=None,
            late=False, id=None, **members):
        """One line; `name` without `kind` is a view of a screen."""
        self.count += 1
        at = milliseconds(f"2026-{time}", SEOUL)
        own = {"v": 1, "id": id or uuid7(at, self.count)}
        if install:
            own |= {"writer": uuid7(1, int(install[1:])), "seq": number}
        if kind is None:
            kind, screen, name = "screen", name, "screen_view"
        if session:
            start = self.starts.setdefault(session, at)
            own["session"] = uuid7(start, int(session[1:]))
        came_from, dwell = previous or (None, None)
        line = {**own, "ts": stamp(at), "kind": kind, "name": name, "screen": screen, "prev": came_from,
                "prev_ms": dwell, "user": user, "anon": install, "app": "1.4.0", "bundle": BUNDLE, "os": "iOS",
                "os_version": "18.1", "env": "prod", **members}
        (self.late if late else self.lines).append(encoded(line))
        return own["id"]

    def october_and_second(self):
        add, tap = self.add, "Sign Up Tapped"
        old = {"app": "1.3.0", "os_version": "17.6"}
        add("10-30 20:00:00", "a4", "u5", "Home", session="s51", number=1, **old)
        add("10-30 20:00:30", "a4", "u5", "Feed", session="s51", number=2, previous=("Home", 30000), **old)
        first = {"os_version": "17.6"}
        add("11-02 09:00:00", "a1", None, "Home", session="s11", number=1, **first)
        add("11-02 09:00:10", "a1", None, "SignUp", session="s11", number=2, previous=("Home", 10000), **first)
        add("11-02 09:00:40", "a1", None, tap, "SignUp", "s11", 3, kind="action", **first)
        add("11-02 09:00:41", "a1", "u1", "set_user", "SignUp", "s11", 4, kind="user", traits={"tier": "FREE"}, **first)
        add("11-02 09:00:41.500", "a1", "u1", "login", "SignUp", "s11", 5, kind="event", data={"method": "kakao"}, **first)
        add("11-02 09:00:42", "a1", "u1", "Welcome", session="s11", number=6, previous=("SignUp", 32000), **first)
        add("11-02 09:01:42", "a1", "u1", "screen_end", "Welcome", "s11", 7, kind="event", data={"duration_ms": 60000},
            **first)
        add("11-02 10:00:00", "a2", None, "Home", session="s21", number=1)
        add("11-02 10:00:20", "a2", None, "SignUp", session="s21", number=2, previous=("Home", 20000))
        add("11-02 10:05:20", "a2", None, "Home", session="s21", number=3, previous=("SignUp", 300000))
        add("11-02 12:00:00", "a3", None, "Login", session="s31", number=1, **old)
        add("11-02 12:00:15", "a3", "u3", "login", "Login", "s31", 2, kind="event", data={"method": "email"}, **old)
        add("11-02 12:00:16", "a3", "u3", "Feed", session="s31", number=3, previous=("Login", 16000), **old)
        add("11-02 12:00:46", "a3", "u3", "Home", session="s31", number=4, previous=("Feed", 30000), **old)
        add("11-02 12:01:00", "a3", None, "set_user", "Home", "s31", 5, kind="user", **old)
        add("11-02 12:01:05", "a3", None, "Login", session="s31", number=6, previous=("Home", 19000), **old)
        add("11-02 12:01:20", "a3", "u4", "login", "Login", "s31", 7, kind="event", data={"method": "kakao"}, **old)
        # 8 never came.
        add("11-02 12:01:21", "a3", "u4", "Feed", session="s31", number=9, previous=("Login", 16000), **old)
        add("11-02 23:50:00", "a4", "u5", "Feed", session="s52", number=3, **old)
        add("11-02 23:59:00", "a2", None, "Feed", session="s22", number=4, late=True)
        add("11-02 08:00:00", "a8", "u8", "Home", session="s91", number=1, env="dev")
        add("11-02 08:30:00", "a7", None, "wb.dropped", None, "s81", 1, kind="meta", data={"count": 2})

    def third_and_fourth(self):
        add, tap = self.add, "Sign Up Tapped"
        old = {"app": "1.3.0", "os_version": "17.6"}
        add("11-03 00:10:00", "a4", "u5", "Like", "Feed", "s52", 4, kind="action", **old)
        add("11-03 00:10:30", "a4", "u5", "Home", session="s52", number=5, previous=("Feed", 1230000), **old)
        add("11-03 00:11:00", "a4", "u5", "Feed", session="s52", number=6, previous=("Home", 30000), **old)
        add("11-03 09:00:00", "a5", "u1", "Home", session="s61", number=1, os="iPadOS")
        again = add("11-03 09:00:05", "a5", "u1", "Feed", session="s61", number=2, previous=("Home", 5000), os="iPadOS")
        add("11-03 09:00:05", "a5", "u1", "Feed", session="s61", number=2, previous=("Home", 5000), os="iPadOS", id=again)
        add("11-03 10:00:00", "a2", None, tap, "SignUp", "s23", 5, kind="action")
        add("11-03 11:00:00", "a6", None, tap, "Banner", "s71", 1, kind="action")
        add("11-03 11:00:10", "a6", None, "SignUp", session="s71", number=2)
        add("11-03 11:00:30", "a6", None, tap, "SignUp", "s71", 3, kind="action")
        add("11-03 11:00:30", "a6", "u6", "set_user", "SignUp", "s71", 4, kind="user")
        add("11-03 12:00:00", None, None, "request", kind="event", data={"path": "/"})
        add("11-04 09:00:00", "a2", None, "SignUp", session="s24", number=6)
        add("11-04 09:00:05", "a2", None, tap, "SignUp", "s24", 7, kind="action")
        add("11-04 15:00:00", "a3", "u4", "Feed", session="s32", number=10, os_version="17.6")
        add("11-04 10:00:00", "a4", "u5", "Feed", session="s53", number=7, os_version="17.6")


# MARK: Random ones

class RandomArchive:
    """Some days of some people's events, and every oddity that a line may have.

    Ids repeat, in the same file, in a late one and with another time; installs are shared and people have several;
    numbers are missing; lines lack id, user, install, session or kind; steps meet in one millisecond; clocks change.
    """

    # A zone, and a day around which its clocks change.
    ZONES = [("Asia/Seoul", "2026-11-03"), ("UTC", "2026-11-03"), ("Europe/Berlin", "2026-10-25"),
             ("America/New_York", "2026-11-01"), ("Australia/Lord_Howe", "2026-10-04"), ("America/Santiago", "2026-09-06"),
             ("Asia/Kathmandu", "2026-11-03"), ("America/St_Johns", "2010-11-07")]
    SCREENS = ["Home", "Feed", "SignUp", "Login", "Cart", "장바구니", "It's \"odd\", a|b"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.zone, middle = self.random.choice(self.ZONES)
        self.tz = zoneinfo.ZoneInfo(self.zone)
        middle = datetime.date.fromisoformat(middle)
        self.day_count = self.random.randint(2, 6)
        self.first = middle - datetime.timedelta(days=self.random.randint(0, self.day_count))
        self.range = (self.first, self.first + datetime.timedelta(days=self.day_count - 1))
        self.number = 0
        self.used = set()
        # By day: the lines of each file.
        self.files = {}
        self.users = [f"u{number}" for number in range(self.random.randint(1, 6))]
        for device in range(self.random.randint(1, 8)):
            self.play(device)
        for _ in range(self.random.randint(0, 12)):
            self.add_server_line()
        while not all(self.certain()):
            self.play(9)

    def certain(self):
        """Screens and names of lines that count with every option: they came in time, and once."""
        lines = [json.loads(line) for files in self.files.values() for name in files for line in files[name]]
        times = collections.Counter(line.get("id") for line in lines)
        parts = [json.loads(line) for files in self.files.values() for line in files.get("part-00001", [])]
        sure = [line for line in parts if "id" not in line or times[line["id"]] == 1]
        screens = {line["screen"] for line in sure if line.get("kind") == "screen"}
        return sorted(screens), sorted({line["name"] for line in sure if line.get("kind") != "meta"} - {"screen_view"})

    def instant(self):
        """Some moment from a day before the range to a day after it; near midnights and changes of clocks more often."""
        day = self.first + datetime.timedelta(days=self.random.randint(-2, self.day_count))
        hour = self.random.choice([0, 0, 1, 2, 3, 9, 12, 20, 23, 23])
        local = datetime.datetime(day.year, day.month, day.day, hour, self.random.randrange(60), tzinfo=self.tz,
                                  fold=self.random.randrange(2))
        return round(local.timestamp() * 1000) + self.random.randrange(60_000)

    def play(self, device):
        """The sessions of one install, in the order of time."""
        choose, pick = self.random.random, self.random.choice
        install = None if choose() < 0.05 else f"a{device}"
        user, version = None, pick(["1.0", "1.1"])
        system = pick(["17.6", "18.1", "18", None])
        for at in sorted(self.instant() for _ in range(self.random.randint(1, 5))):
            writer = uuid7(at, 1000 + device)
            session = None if choose() < 0.1 else uuid7(at, 2000 + device)
            number, screen, shown = 0, None, at
            version = pick([version, version, "1.2"])
            for _ in range(self.random.randint(1, 12)):
                at += pick([0, 0, 1, 500, 5_000, 30_000, 200_000, 700_000, 3_600_000])
                number += pick([1, 1, 1, 1, 1, 2])
                base = {"writer": writer, "seq": number, "session": session, "user": user, "anon": install,
                        "app": version, "os_version": system}
                kind = choose()
                if kind < 0.5:
                    new = pick(self.SCREENS)
                    known = screen is not None and choose() < 0.9
                    self.add(at, base, "screen", "screen_view", new, prev=screen if known else None,
                             prev_ms=at - shown if known else None)
                    screen, shown = new, at
                elif kind < 0.65:
                    self.add(at, base, "action", "Sign Up Tapped", screen)
                elif kind < 0.8:
                    user = pick([*self.users, None])
                    base["user"] = user
                    if choose() < 0.5:
                        self.add(at, base, "user", "set_user", screen, traits={"tier": pick(["FREE", "PRO"])})
                    else:
                        self.add(at, base, pick(["event", None]), "login", screen,
                                 data={"method": pick(["kakao", "email", 7, True, None])})
                elif kind < 0.9:
                    self.add(at, base, "event", "screen_end", screen, data={"duration_ms": self.random.randrange(90_000)})
                    screen = None
                elif kind < 0.95:
                    self.add(at, base, "meta", "wb.dropped", None, data={"count": 1})
                else:
                    self.add(at, base, pick(["event", "odd", None]), "share", screen)

    def add_server_line(self):
        """A line without writer: it may have a user, and no two of them are at the same time."""
        at = self.instant()
        while at in self.used:
            at += 1
        self.used.add(at)
        user = self.random.choice([None, None, *self.users])
        self.add(at, {"user": user}, self.random.choice(["event", None]), "request", None, data={"path": "/"})

    def add(self, at, base, kind, name, screen, **members):
        self.number += 1
        choose = self.random.random
        # Lines without id cannot be told apart, so those of one writer have its numbers.
        line = {"v": 1, "id": None if choose() < 0.1 else uuid7(at, self.number), **base, "ts": stamp(at), "kind": kind,
                "name": name, "screen": screen, "bundle": BUNDLE, "env": "prod", "os": "iOS", **members}
        self.put(at, line)
        if line["id"] and choose() < 0.1:
            if choose() < 0.4:
                other = at + self.random.choice([-40_000, 1, 40_000])
                if self.day(other) == self.day(at):
                    line = {**line, "ts": stamp(other), "screen": self.random.choice(self.SCREENS)}
                    at = other
            self.put(at, line)

    def day(self, at):
        return datetime.datetime.fromtimestamp(at / 1000, self.tz).date().isoformat()

    def put(self, at, line):
        name = self.random.choices(["part-00001", "late-00001", "late-00002"], [85, 10, 5])[0]
        lines = self.files.setdefault(self.day(at), {}).setdefault(name, [])
        lines.insert(self.random.randint(max(0, len(lines) - 9), len(lines)), encoded(line))

    def write(self, data, is_sealed=None):
        """Writes it; `is_sealed` tells for all files, else some are sealed: always the first ones of a day."""
        archive = Archive(data, self.zone)
        chance = random.Random(self.number)
        for day, files in sorted(self.files.items()):
            names = sorted(files, key=lambda name: (name.startswith("late"), name))
            count = chance.randint(0, len(names)) if is_sealed is None else len(names) if is_sealed else 0
            archive.add(day, [(name, place < count, files[name]) for place, name in enumerate(names)])
        archive.finish()
