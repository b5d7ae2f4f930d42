"""`replay`: makes an export of many days from a fleet's bucket, each environment's day a task, with the real program.

A task fetches the sealed days of the archive that may have lines of its day, runs `waybill replay` on them, and creates
the results, each only if it is absent. What is there already is compared, so a task may run any number of times, also
twice at once. The driver creates `generation.json` last: a generation without it is not to be read.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import zoneinfo

from fleet_bucket import Address, Bucket, Different
from fleet_formats import Damage, Json, checked_document, component, day_folder, days_between, document_text

# How many days a report's day may be away from an archive's, if the report's zone is not known here.
REACH = 2
OVERFLOW = "_overflow"
ENVIRONMENTS = ("dev", "internal", "prod")
MESSAGE_MAX = 4000


class Refusal(Exception):
    """Why there is no generation; the message is for people."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What to make; the same on the driver and on all executors. `cut_off` is the archive's, in milliseconds."""

    store: Address
    out: Address
    first: str
    last: str
    provider: str
    zone: str | None
    environments: tuple[str, ...]
    bundles: tuple[str, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    program: str
    config: str | None
    files: tuple[tuple[str, str], ...]
    cut_off: int

    def arguments(self, day: str, env: str, config: str | None) -> list[str]:
        """Options of `waybill replay` for one unit."""
        chosen = [("--bundle", self.bundles), ("--name", self.names), ("--kind", self.kinds)]
        options = ["--provider", self.provider, "--from", day, "--to", day, "--env", env, "--quiet"]
        options += [part for option, values in chosen for value in values for part in (option, value)]
        return options + (["--zone", self.zone] if self.zone else []) + (["--config", config] if config else [])

    def record(self) -> Json:
        """The part of `generation.json` that says what was asked for."""
        return {
            "provider": self.provider, "from": self.first, "to": self.last, "zone": self.zone,
            "environments": list(self.environments), "bundles": list(self.bundles), "names": list(self.names),
            "kinds": list(self.kinds), "files": {name: digest for name, digest in self.files}}


@dataclasses.dataclass(frozen=True)
class Day:
    """A sealed day of the archive; `times` are those of its first and its last event, `bytes` what a replay
    of it takes on a disk: its files, and about as much again as its lines are long."""

    env: str
    bundle: str
    day: str
    revision: int
    zone: str
    times: tuple[int, int] | None
    bytes: int

    @property
    def folder(self) -> str:
        return f"archive/env={self.env}/bundle={self.bundle}/date={self.day}"


@dataclasses.dataclass(frozen=True)
class Unit:
    """One environment's day of the report, and the days of the archive that its lines may be in."""

    env: str
    day: str
    inputs: tuple[Day, ...]


# MARK: The plan

def milliseconds_of(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1000)


def text_of(milliseconds: int) -> str:
    return datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC).isoformat().replace("+00:00", "Z")


def day_of(folder: tuple[str, str, str], text: bytes) -> Day:
    manifest = checked_document(text)
    first, last = manifest.get("first_ts"), manifest.get("last_ts")
    times = (milliseconds_of(first), milliseconds_of(last)) if first and last else None
    return Day(*folder, manifest["revision"], manifest["zone"], times,
               sum(file["gz_bytes"] + file["sources_bytes"] + file["bytes"] for file in manifest["files"]))


def report_day(day: str, zone: str) -> range:
    """The milliseconds of a day in a zone, an hour longer at both ends: other tables of zones may differ a little."""
    date, rules = datetime.date.fromisoformat(day), zoneinfo.ZoneInfo(zone)
    start, end = (datetime.datetime.combine(date + datetime.timedelta(number), datetime.time(), rules) for number in (0, 1))
    return range(round(start.timestamp() * 1000) - 3_600_000, round(end.timestamp() * 1000) + 3_600_000)


def sealed_after(request: Request, zone: str) -> int:
    """When the last day of the archive that the range needs is sealed, in milliseconds."""
    if request.zone:
        last = report_day(request.last, request.zone).stop - 3_600_000 - 1
    else:
        # No zone's day ends later than 12 hours after that of UTC.
        last = report_day(request.last, "UTC").stop - 3_600_000 + 12 * 3_600_000 - 1
    day = datetime.datetime.fromtimestamp(last // 1000, zoneinfo.ZoneInfo(zone)).date().isoformat()
    return report_day(day, zone).stop - 3_600_000 + request.cut_off


def may_have(day: Day, wanted: str, zone: str | None) -> bool:
    """Whether an archived day may have lines of a report's day. Its own day is always read, so that each file is checked.
    The times of `_overflow` say nothing: shifted lines count on the day of their receipt."""
    if day.day == wanted:
        return True
    distance = abs((datetime.date.fromisoformat(day.day) - datetime.date.fromisoformat(wanted)).days)
    if distance > REACH:
        return False
    if zone is None or day.times is None or day.bundle == OVERFLOW:
        return True
    times = report_day(wanted, zone)
    return day.times[0] < times.stop and day.times[1] >= times.start


def plan(days: list[Day], request: Request) -> list[Unit]:
    bundles = {component(bundle) for bundle in request.bundles} | {OVERFLOW}
    chosen = [day for day in days if (not request.environments or day.env in request.environments)
              and (not request.bundles or day.bundle in bundles)]
    units = []
    for env in ENVIRONMENTS:
        own = [day for day in chosen if day.env == env]
        for wanted in days_between(request.first, request.last):
            inputs = tuple(sorted((day for day in own if may_have(day, wanted, request.zone)), key=lambda day: day.folder))
            if inputs:
                units.append(Unit(env, wanted, inputs))
    return units


def sealed_and_open(keys: list[str]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """The folders that have a `_SUCCESS`, and those that are still being published."""
    names: dict[tuple[str, str, str], set[str]] = {}
    for key in keys:
        folder = day_folder(key)
        if folder:
            names.setdefault(folder, set()).add(key.rpartition("/")[2])
    sealed = sorted(folder for folder, found in names.items() if {"_SUCCESS", "manifest.json"} <= found)
    return sealed, sorted("/".join(folder) for folder in names.keys() - set(sealed))


# MARK: A task

def make(unit: Unit, request: Request, shipped: str) -> Json:
    """Makes one unit; returns its counts and its objects."""
    store, out = Bucket(request.store), Bucket(request.out)
    needed = sum(day.bytes for day in unit.inputs)
    # In Spark's own folder, which goes with the application, whatever kills the task.
    with tempfile.TemporaryDirectory(prefix="waybill-unit-", dir=shipped) as name:
        folder = pathlib.Path(name)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise Refusal(f"{unit.env} {unit.day}: {folder.parent} has {free} bytes free, and {needed} may be needed")
        for day in unit.inputs:
            fetch(day, store, folder / "data")
        counts = run(unit, request, pathlib.Path(shipped), folder)
        objects = [put(path, folder / "out", out) for path in outputs(folder / "out")]
    return {"env": unit.env, "day": unit.day, "counts": counts, "objects": [row for row, _ in objects],
            "created": sum(is_new for _, is_new in objects)}


def fetch(day: Day, store: Bucket, data: pathlib.Path) -> None:
    """One sealed day, as it is in a merger's data directory; every file is what the manifest says."""
    folder = data / day.folder
    folder.mkdir(parents=True)
    text = store.read(f"{day.folder}/manifest.json")
    manifest = checked_document(text) if text else {}
    if manifest.get("revision") != day.revision:
        raise Refusal(f"{day.folder} was sealed again since the replay began; begin another generation")
    is_fitting = True
    for file in manifest["files"]:
        found = store.fetch(f"{day.folder}/{file['name']}", folder / file["name"])
        if found != (file["gz_bytes"], file["sha256"]):
            raise Damage(f"{day.folder}/{file['name']} is not what its manifest says")
        name = file["name"].removesuffix(".ndjson.gz") + ".sources"
        found = store.fetch(f"{day.folder}/{name}", folder / name)
        if found is None:
            raise Damage(f"{day.folder}/{name} is missing")
        # Of two mergers, one may have published the origins and the other the manifest: the same runs in other words.
        is_fitting = is_fitting and found == (file["sources_bytes"], file.get("sources_sha256", found[1]))
        file["sources_bytes"], file["sources_sha256"] = found
    (folder / "manifest.json").write_bytes(text if is_fitting else document_text(manifest))
    (folder / "_SUCCESS").touch()


def run(unit: Unit, request: Request, shipped: pathlib.Path, folder: pathlib.Path) -> list[Json]:
    program = folder / "waybill"
    program.symlink_to(shipped / request.program)
    if not os.access(program, os.X_OK):
        program.unlink()
        shutil.copyfile(shipped / request.program, program)
        program.chmod(stat.S_IRWXU)
    config = str(shipped / request.config) if request.config else None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with open(folder / "stdout", "w+b") as output, open(folder / "stderr", "w+b") as errors:
        status = subprocess.run(
            [program, "replay", "--data", folder / "data", "--output", folder / "out",
             *request.arguments(unit.day, unit.env, config)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment, check=False).returncode
    if status:
        message = (folder / "stderr").read_bytes()[-MESSAGE_MAX:].decode("utf-8", "replace").replace(str(folder), "")
        raise Refusal(f"{unit.env} {unit.day}: waybill replay ended with {status}: {message.strip()}")
    return [json.loads(line) for line in (folder / "stdout").read_text().splitlines() if line.startswith("{\"provider\"")]


def outputs(out: pathlib.Path) -> list[pathlib.Path]:
    """The files of the exports; what a replay keeps for itself has a name with a dot, or is in `state`."""
    found = [path for path in (out / "exports").rglob("*") if path.is_file() and "/." not in str(path.relative_to(out))]
    return sorted(found)


def put(path: pathlib.Path, out: pathlib.Path, bucket: Bucket) -> tuple[Json, bool]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    key = str(path.relative_to(out))
    is_new = bucket.create(key, path, digest)
    return {"key": key, "bytes": path.stat().st_size, "sha256": digest}, is_new


# MARK: The driver

class Driver:
    """Plans, distributes, and commits."""

    def __init__(self, request: Request, context, shipped: list[str]):
        self.request, self.context, self.shipped = request, context, shipped
        self.store, self.out = Bucket(request.store), Bucket(request.out)

    def days(self) -> list[Day]:
        sealed, unfinished = sealed_and_open([key for key, _ in self.store.list("archive/")])
        first, last = (datetime.date.fromisoformat(day) for day in (self.request.first, self.request.last))
        reach = datetime.timedelta(REACH)
        wanted = [folder for folder in sealed if first - reach <= datetime.date.fromisoformat(folder[2]) <= last + reach]
        inside = [name for name in unfinished if str(first - reach) <= name[-10:] <= str(last + reach)]
        if inside:
            raise Refusal(f"days are being published, try again later: {', '.join(inside[:5])}")
        store = self.request.store

        def read(folders):
            bucket = Bucket(store)
            for env, bundle, day in folders:
                text = bucket.read(f"archive/env={env}/bundle={bundle}/date={day}/manifest.json")
                if text is None:
                    raise Refusal(f"env={env}/bundle={bundle}/date={day} has lost its manifest")
                yield day_of((env, bundle, day), text)
        if not wanted:
            raise Refusal("the bucket has no sealed day in this range")
        days = self.context.parallelize(wanted, min(len(wanted), 64)).mapPartitions(read).collect()
        due, through = max(sealed_after(self.request, zone) for zone in {day.zone for day in days}), self.through()
        if through < due:
            raise Refusal(
                f"the range is not sealed yet: that happens after {text_of(due)}, and receivers are at {text_of(through)}")
        return days

    def through(self) -> int:
        """Every receiver has passed this time, by the newest round."""
        newest = max((key for key, _ in self.store.list("merge/s00/") if key.endswith(".wbs")), default=None)
        text = self.store.read(newest) if newest else None
        return checked_document(text)["through"] if text else 0

    def replay(self) -> Json:
        units = plan(self.days(), self.request)
        inputs = sorted({(day.folder, day.revision) for unit in units for day in unit.inputs})
        record = {"request": self.request.record(), "inputs": [{"day": day, "revision": revision} for day, revision in inputs]}
        text = self.out.read("generation.json")
        present = checked_document(text) if text is not None else None
        if present is not None:
            if {name: present.get(name) for name in record} != record:
                raise Refusal("this generation is complete, and was made of other days or with other options")
            return self.summary(present, created=0)
        results = self.make(units)
        document = {**record, "units": [{name: row[name] for name in ("env", "day", "counts")} for row in results],
                    "objects": [row for result in results for row in result["objects"]]}
        self.require_no_others(document["objects"])
        # Made in one piece, so that the generation is there as a whole or not at all.
        content = document_text(document)
        self.out.create("generation.json", content, hashlib.sha256(content).hexdigest())
        return self.summary(document, created=sum(row["created"] for row in results))

    def make(self, units: list[Unit]) -> list[Json]:
        request = self.request

        def work(unit: Unit) -> Json:
            from pyspark import SparkFiles
            return make(unit, request, SparkFiles.getRootDirectory())
        with self.added_files():
            # One unit is one task: a unit that fails is tried again alone, and no task needs more than one unit's disk.
            return self.context.parallelize(units, len(units)).map(work).collect() if units else []

    @contextlib.contextmanager
    def added_files(self):
        for path in self.shipped:
            self.context.addFile(path)
        yield

    def require_no_others(self, objects: list[Json]) -> None:
        """Objects of an earlier attempt with other options must not be taken for this generation's."""
        known = {row["key"] for row in objects}
        others = [key for key, _ in self.out.list("exports/") if key not in known]
        if others:
            raise Different(f"the generation has objects of another replay: {', '.join(others[:5])}")

    @staticmethod
    def summary(document: Json, created: int) -> Json:
        counted: dict[str, int] = {}
        for unit in document["units"]:
            for row in unit["counts"]:
                for name in ("lines", "exported", "refused", "held", "skipped"):
                    counted[name] = counted.get(name, 0) + row[name]
        objects = document["objects"]
        return {"units": len(document["units"]), **counted, "objects": len(objects), "created": created,
                "present": len(objects) - created, "bytes": sum(row["bytes"] for row in objects)}
