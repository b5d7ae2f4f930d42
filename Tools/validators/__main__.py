"""Validates parts of exports by their providers' documentation; shares no code with the exporters.

    python3 Tools/validators amplitude data/exports/amplitude/env=prod/date=2026-11-20/part-00000.ndjson.gz …

Prints each problem with the record's number; exits with 1 if there are any, otherwise 0. It uses only the standard
library.
"""

import gzip
import pathlib
import sys

sys.dont_write_bytecode = True

from common import Invalid  # noqa: E402
from registry import MODULES, problems_of, validator  # noqa: E402


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in MODULES:
        print(f"usage: python3 Tools/validators {{{','.join(MODULES)}}} PART…", file=sys.stderr)
        return 2
    judge, count = validator(arguments[0]), 0
    for path in arguments[1:]:
        part = pathlib.Path(path).read_bytes()
        if path.endswith(".gz"):
            part = gzip.decompress(part)
        try:
            problems = [(0, text) for text in judge.check_request(part)]
            for number, record in enumerate(judge.records(part), 1):
                problems += [(number, text) for text in problems_of(arguments[0], record)]
        except Invalid as error:
            problems = [(0, str(error))]
        for number, text in problems:
            print(f"{path}:{number}: {text}")
        count += len(problems)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
