"""The logging scheme's CSV: RFC 4180, seven cells a row.

https://www.rfc-editor.org/rfc/rfc4180; https://owasp.org/www-community/attacks/CSV_Injection;
https://support.microsoft.com/office/excel-specifications-and-limits-1672b34d-7043-467e-8e27-269d656771c3.
"""

import re

from common import cells, formulas, rows, units

EXTENSION = "csv"
HEADER = "Time,AppVersion,OS,LogVersion,Event,View,Others"
PAIR = re.compile(r"((?:[^\\;=]|\\[\\;=rn])*)=((?:[^\\;=]|\\[\\;=rn])*)")


def records(part):
    return rows(part, HEADER)


def check(record, as_of=None):
    found = cells(record)
    if len(found) != 7:
        return [f"{len(found)} cells"]
    problems = formulas(found)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", found[0]):
        problems.append("Time")
    if any(units(cell) > 32_767 for cell in found):
        problems.append("a cell of more than 32 767 characters")
    others = found[6].removeprefix("'")
    names, at = set(), 0
    while at < len(others):
        match = PAIR.match(others, at)
        if not match:
            return problems + ["Others is not a list of pairs"]
        if match.group(1) in names:
            problems.append("a name stands twice")
        names.add(match.group(1))
        at = match.end()
        if at < len(others):
            if others[at] != ";" or at + 1 == len(others):
                return problems + ["Others is not a list of pairs"]
            at += 1
    return problems


def event_count(record):
    return 1


def check_request(part):
    return ["more rows than a table takes"] if part.count(b"\r\n") > 1_048_576 else []
