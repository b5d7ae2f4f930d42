"""RFC 5424, one message a line: https://www.rfc-editor.org/rfc/rfc5424#section-6."""

import re

from common import Invalid, decode, lines as records

EXTENSION = "log"
# The grammar of section 6, for what we write: no NILVALUE for time and structured data.
HEADER = re.compile(
    r"<(0|[1-9][0-9]{0,2})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128})"
    r" ([!-~]{1,32}) ")
NAME = re.compile(r'[!#-<>-\\^-~]{1,32}')
VALUE = re.compile(r'"((?:[^"\\\]]|\\.)*)"', re.DOTALL)


def message(record):
    """Header fields, parameters in order, and the text of a message."""
    text = decode(record)
    match = HEADER.match(text)
    if not match:
        raise Invalid("header")
    at = match.end()
    if text[at:at + 1] != "[":
        raise Invalid("no structured data")
    element = NAME.match(text, at + 1)
    if not element:
        raise Invalid("name of the element")
    at, parameters = element.end(), []
    while text[at:at + 1] == " ":
        name = NAME.match(text, at + 1)
        value = VALUE.match(text, name.end() + 1) if name and text[name.end():name.end() + 1] == "=" else None
        if not value:
            raise Invalid(f"a parameter at {at}")
        parameters.append((name.group(), re.sub(r'\\(["\\\]])', r"\1", value.group(1))))
        at = value.end()
    if text[at:at + 2] != "] ":
        raise Invalid(f"the end of the structured data at {at}")
    return match.groups(), parameters, text[at + 2:]


def check(record, as_of=None):
    header, parameters, text = message(record)
    problems = []
    if int(header[0]) > 191:
        problems.append("PRI")
    if len(record) > 2048:
        problems.append("more than 2048 octets")
    if any(character < " " or character == "\x7f" for character in decode(record)):
        problems.append("a control character")
    names = [name for name, _ in parameters]
    if len(set(names)) != len(names):
        problems.append("a parameter stands twice")
    if "user" in names:
        problems.append("the user is named")
    if text.startswith("\ufeff") == text.removeprefix("\ufeff").isascii() and text:
        problems.append("a byte order mark belongs before text beyond ASCII, and nowhere else")
    return problems


def event_count(record):
    return 1


def check_request(part):
    return []
