#!/usr/bin/env python3
r"""Makes an export of months again from a fleet's bucket, with Spark.

    spark-submit waybill_spark.py replay --store s3://b/p --from D --to D --provider P \
        --out s3://b/p/generations/ID --program ./waybill

It reads the sealed days, runs the real program on them, and commits the result with `generation.json`. It prints one line
of JSON. Credentials come from the environment of the driver and of the executors.

Needs Python 3.11, PySpark 4 and boto3 on all machines. `python3 waybill_spark.py …` runs on the cores of this one.
Exit codes: 0 done; 1 failed; 2 wrong options; 77 no credentials.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from fleet_bucket import Address, Bucket  # noqa: E402
from fleet_replay import ENVIRONMENTS, Driver, Refusal, Request  # noqa: E402

MODULES = ("fleet_formats.py", "fleet_bucket.py", "fleet_replay.py")
NO_CREDENTIALS = 77
FLEET_FOLDERS = (
    "", "agents", "archive", "delivery", "erasures", "exports", "journal", "merge", "probe", "quarantine")


def day(text: str) -> str:
    return datetime.date.fromisoformat(text).isoformat()


def time_of_day(text: str) -> int:
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", text)
    if not match:
        raise ValueError(text)
    return (int(match[1]) * 60 + int(match[2])) * 60_000


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    replay = top.add_subparsers(dest="verb", required=True).add_parser("replay")
    replay.add_argument("--store", required=True, metavar="URL", help="the fleet's bucket, s3://bucket/prefix")
    replay.add_argument("--endpoint", metavar="URL", help="the address of a store that is not AWS's")
    replay.add_argument("--region")
    replay.add_argument("--from", dest="first", type=day, required=True, metavar="DAY", help="the first day")
    replay.add_argument("--to", dest="last", type=day, required=True, metavar="DAY", help="the last day")
    replay.add_argument(
        "--cut-off", type=time_of_day, default="04:00", metavar="HH:MM", help="the key archive.cut_off of the mergers (04:00)")
    replay.add_argument("--provider", required=True, help="which exports, separated by commas")
    replay.add_argument("--env", action="append", default=[], choices=ENVIRONMENTS, help="only this environment")
    replay.add_argument("--bundle", action="append", default=[], help="only events of this bundle")
    replay.add_argument("--name", action="append", default=[], help="only events of this name")
    replay.add_argument("--kind", action="append", default=[], help="only events of this kind")
    replay.add_argument("--zone", help="the report's zone; else that of --config, else UTC")
    replay.add_argument("--config", help="a receiver's configuration file, for options of the export")
    replay.add_argument(
        "--mapping", action="append", default=[], metavar="FILE", help="a file that --config names, in its folder")
    replay.add_argument("--out", required=True, metavar="URL", help="the generation, s3://bucket/prefix in the same store")
    replay.add_argument("--program", default="./waybill", help="waybill, built for the executors (./waybill)")
    return top


def session(name: str):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for module in MODULES:
        spark.sparkContext.addPyFile(str(FOLDER / module))
    return spark


def request_of(options: argparse.Namespace) -> tuple[Request, list[str]]:
    """What the options ask for, and the files that executors need."""
    files = [path for path in [options.config, *options.mapping] if path]
    shipped = [options.program, *files]
    names = [pathlib.Path(path).name for path in shipped]
    missing = [path for path in shipped if not pathlib.Path(path).is_file()]
    if missing:
        raise Refusal(f"{missing[0]} is not a file")
    if len(set(names)) < len(names):
        raise Refusal("two files have the same name")
    digests = tuple((pathlib.Path(path).name, hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()) for path in files)
    store = Address.parse(options.store, options.endpoint, options.region)
    out = Address.parse(options.out, options.endpoint, options.region)
    own = f"{store.prefix}/" if store.prefix else ""
    rest = f"{out.prefix}/".removeprefix(own) if store.bucket == out.bucket and f"{out.prefix}/".startswith(own) else "x"
    if rest.split("/")[0] in FLEET_FOLDERS:
        raise Refusal(f"{options.out} belongs to the fleet; use {options.store}/generations/NAME")
    # Without a configuration, a replay's zone is UTC: then its days are known here, too.
    zone = options.zone or (None if options.config else "UTC")
    request = Request(
        store, out, options.first, options.last, options.provider, zone, tuple(sorted(set(options.env))),
        tuple(sorted(set(options.bundle))), tuple(sorted(set(options.name))), tuple(sorted(set(options.kind))),
        pathlib.Path(options.program).name, pathlib.Path(options.config).name if options.config else None, digests,
        options.cut_off)
    return request, [str(pathlib.Path(path).resolve()) for path in shipped]


def perform(options: argparse.Namespace) -> int:
    if options.last < options.first:
        raise Refusal("--to is before --from")
    request, shipped = request_of(options)
    Bucket(request.store)
    print(json.dumps(Driver(request, session("waybill replay").sparkContext, shipped).replay()))
    return 0


def message_of(error: Exception) -> str:
    """The last line of what Python said, also of an error in a task, without the traces of two languages."""
    named = re.findall(
        r"^(?:\w+\.)*(?:Refusal|Damage|Different|\w*Error|\w*Exception): .+$(?:\n(?!\s+at |\n|\t)[^\n]*)*", str(error),
        re.MULTILINE)
    own = [text for text in named if not text.startswith(("org.apache", "pyspark"))]
    return re.sub(r"^(?:\w+\.)*\w+: ", "", own[0]).strip() if own else str(error).strip()


def main() -> int:
    options = parser().parse_args()
    try:
        return perform(options)
    except PermissionError as error:
        print(f"waybill_spark: {error}", file=sys.stderr)
        return NO_CREDENTIALS
    except Exception as error:  # noqa: BLE001  Whatever fails, the last line says what.
        print(f"waybill_spark: {message_of(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
