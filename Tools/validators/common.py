"""What several validators need: strict JSON, lengths as providers count them, rows of RFC 4180.

Nothing here or in the other files is shared with the exporters. Each rule names the page of the provider, or the
standard, that it comes from; a rule marked "ours" is this project's, where a page leaves a choice.
"""

import json
import math
import re
import sys

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)

UUID = re.compile(r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Invalid(Exception):
    """A part or a record that cannot even be read."""


class Object(dict):
    """A JSON object; it has each name once."""


def _object(pairs):
    value = Object(pairs)
    if len(value) != len(pairs):
        # https://www.rfc-editor.org/rfc/rfc8259#section-4, https://www.rfc-editor.org/rfc/rfc7493#section-2.3
        raise Invalid("a name stands twice in an object")
    return value


def _constant(name):
    raise Invalid(f"{name} is not JSON")


# Digits stay text: a number of a thousand digits is valid and needs no conversion here.
def _number(text):
    # serde_json, which PostHog's capture is built on, refuses the whole body for a number beyond binary64:
    # https://www.rfc-editor.org/rfc/rfc8259#section-6, https://github.com/serde-rs/json/issues/495
    if len(text) > 4 and math.isinf(float(text)):
        raise Invalid(f"{text[:20]} is beyond binary64")
    return Number(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_int=_number, parse_float=_number)


class Number(str):
    """A number as it was written."""

    def is_integer(self):
        return bool(re.fullmatch(r"-?\d{1,18}", self))


def parse(text):
    """The one JSON value of a text (bytes or str)."""
    if isinstance(text, bytes):
        text = decode(text)
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"no JSON: {error}") from None
    if "\\u" in text and not all(map(is_unicode, texts(value))):
        # https://www.rfc-editor.org/rfc/rfc8259#section-8.2, https://github.com/serde-rs/json/issues/827
        raise Invalid("half a character: an unpaired surrogate")
    return value


def decode(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"no UTF-8: {error}") from None


def is_unicode(text):
    """Whether text has no half of a character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_text(value):
    return isinstance(value, str) and not isinstance(value, Number)


def is_number(value):
    return isinstance(value, Number)


def is_integer(value):
    return isinstance(value, Number) and value.is_integer()


def units(text):
    """UTF-16 units: where a provider says "characters"."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 if not text.isascii() else len(text)


def size(text):
    return len(text.encode("utf-8", "surrogatepass"))


def depth(value):
    """0 for a scalar, 1 for a flat list or object."""
    deepest, stack = 0, [(value, 0)]
    while stack:
        item, level = stack.pop()
        if isinstance(item, (dict, list)):
            deepest = max(deepest, level + 1)
            stack.extend((child, level + 1) for child in (item.values() if isinstance(item, dict) else item))
    return deepest


def texts(value):
    """All strings in a value, names too."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for name in item:
                yield name
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif is_text(item):
            yield item


def lines(part):
    """The records of a part that has one on each line."""
    if part and not part.endswith(b"\n"):
        raise Invalid("the last line does not end")
    return part.split(b"\n")[:-1]


def members(value, required, optional=()):
    """Problems with the names in an object."""
    problems = [f"{name} is missing" for name in required if name not in value]
    return problems + [f"{name} is not known" for name in value if name not in required and name not in optional]


def rows(part, header):
    """The rows of RFC 4180 after a header, each with its final CR LF."""
    start = header.encode() + b"\r\n"
    if not part.startswith(start):
        raise Invalid("the header is missing")
    # Outside quotes a row ends; two quotes in a row leave the count even.
    found, begin, at, quotes = [], len(start), len(start), 0
    while True:
        end = part.find(b"\n", at)
        if end < 0:
            break
        quotes += part.count(b'"', at, end)
        at = end + 1
        if quotes % 2 == 0:
            found.append(part[begin:at])
            begin, quotes = at, 0
    if begin != len(part):
        raise Invalid("the last row does not end")
    return found


_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)', re.DOTALL)


def cells(row):
    """The cells of one row; raises for what RFC 4180 does not allow."""
    text, at, found = decode(row), 0, []
    while True:
        match = _CELL.match(text, at)
        if not match:
            raise Invalid(f"no cell at {at}")
        quoted, plain, end = match.groups()
        if plain is not None and (plain.startswith(" ") or plain.endswith(" ")):
            raise Invalid("a cell loses its space")
        found.append(plain if quoted is None else quoted.replace('""', '"'))
        at = match.end()
        if end == "\r\n":
            if at != len(text):
                raise Invalid("text follows the row")
            return found


def formulas(found):
    """Problems with cells that a spreadsheet would calculate."""
    problems = []
    for number, cell in enumerate(found):
        if cell[:1] in tuple("=+-@\t\r＝＋－＠"):
            if cell:
                problems.append(f"cell {number} is a formula")
        if "\0" in cell:
            problems.append(f"cell {number} holds NUL")
    return problems
