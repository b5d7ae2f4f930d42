"""Where the validators and the end-to-end tests' harness are."""

import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
for folder in ("Tools/validators", "Tests/EndToEndTests"):
    sys.path.insert(0, str(REPOSITORY / folder))

from common import Invalid  # noqa: E402,F401
from registry import MODULES, problems_of, validator  # noqa: E402

VECTORS = REPOSITORY / "Protocol" / "vectors" / "providers"
PROVIDERS = tuple(MODULES)


def judge(provider, part, as_of=None, limit=5):
    """Records, events and the first problems of a part's bytes."""
    module = validator(provider)
    records = module.records(part)
    problems = module.check_request(part)
    events = 0
    for record in records:
        found = problems_of(provider, record, as_of)
        if not found:
            events += module.event_count(record)
        if found and len(problems) < limit:
            problems.append(f"{found[:3]} in {record[:300]!r}")
    return len(records), events, problems
