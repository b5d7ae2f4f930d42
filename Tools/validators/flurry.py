"""Flurry archives, in the shape of its former raw data download: one row an event.

https://developer.yahoo.com/flurry/docs/analytics/rdd; https://www.rfc-editor.org/rfc/rfc4180
"""

import re

from common import cells, formulas, is_text, parse, rows

EXTENSION = "csv"
HEADER = "Timestamp,SessionIndex,SessionStart,Event,Params,UserId,DeviceId,AppVersion,Device,OS,Locale,Id"


def records(part):
    return rows(part, HEADER)


def check(record, as_of=None):
    found = cells(record)
    if len(found) != 12:
        return [f"{len(found)} cells"]
    problems = formulas(found)
    if not re.fullmatch(r"\d{12,14}", found[0]):
        problems.append("Timestamp")
    if not re.fullmatch(r"\d*", found[1]) or not re.fullmatch(r"\d*", found[2]):
        problems.append("SessionIndex or SessionStart")
    parameters = parse(found[4])
    if not isinstance(parameters, dict) or not all(map(is_text, parameters.values())):
        problems.append("Params is not an object of strings")
    return problems


def event_count(record):
    return 1


def check_request(part):
    return ["more rows than a table takes"] if part.count(b"\r\n") > 1_048_576 else []
