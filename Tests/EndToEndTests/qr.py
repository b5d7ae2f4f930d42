"""Reads a QR code from what a program writes to a terminal: level L, byte mode, versions 1 to 10.

It shares nothing with the program's encoder: the numbers are those of ISO/IEC 18004, and a code that is drawn wrongly does
not give its text.
"""

import re

CELL = re.compile("\x1b\\[38;5;(\\d+);48;5;(\\d+)m▀")
DARK, LIGHT = "16", "231"
BORDER = 4
# For each version: codewords of data in each block, and where alignment patterns are centered.
BLOCKS = [[19], [34], [55], [80], [108], [68] * 2, [78] * 2, [97] * 2, [116] * 2, [68, 68, 69, 69]]
CENTERS = [[], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50]]
FORMAT_MASK = 0b101010000010010
MASKS = [
    lambda row, column: (row + column) % 2, lambda row, column: row % 2, lambda row, column: column % 3,
    lambda row, column: (row + column) % 3, lambda row, column: (row // 2 + column // 3) % 2,
    lambda row, column: row * column % 2 + row * column % 3, lambda row, column: (row * column % 2 + row * column % 3) % 2,
    lambda row, column: ((row + column) % 2 + row * column % 3) % 2]


def modules(screen):
    """The modules of the code on a screen, `True` for dark, without the light ones around it."""
    rows = []
    for line in screen.splitlines():
        cells = CELL.findall(line)
        if not cells:
            continue
        assert all(colour in (DARK, LIGHT) for cell in cells for colour in cell), line
        rows += [[upper == DARK for upper, _ in cells], [lower == DARK for _, lower in cells]]
    size = len(rows[0]) - 2 * BORDER
    code = [row[BORDER:BORDER + size] for row in rows[BORDER:BORDER + size]]
    around = [row for row in rows[:BORDER] + rows[BORDER + size:]]
    assert not any(map(any, around)) and len(around) >= 2 * BORDER - 1, "the code has light modules around it"
    assert not any(any(row[:BORDER] + row[BORDER + size:]) for row in rows)
    return code


def is_fixed(row, column, size, version):
    """Whether a module belongs to no codeword."""
    if row == 6 or column == 6 or (row < 9 and (column < 9 or column >= size - 8)) or (row >= size - 8 and column < 9):
        return True
    if version >= 7 and (row < 6 and column >= size - 11 or column < 6 and row >= size - 11):
        return True
    centers = CENTERS[version - 1]
    corners = {(6, 6), (6, size - 7), (size - 7, 6)}
    return any(abs(row - y) <= 2 and abs(column - x) <= 2 for y in centers for x in centers if (y, x) not in corners)


def codewords(code, version, mask):
    size, bits, upward = len(code), [], True
    right = size - 1
    while right > 0:
        right -= right == 6
        for row in reversed(range(size)) if upward else range(size):
            for column in (right, right - 1):
                if not is_fixed(row, column, size, version):
                    bits.append(code[row][column] ^ (MASKS[mask](row, column) == 0))
        upward = not upward
        right -= 2
    return [int("".join(str(int(bit)) for bit in bits[start:start + 8]), 2) for start in range(0, len(bits) - 7, 8)]


def text(code):
    """What a code says."""
    size = len(code)
    version = (size - 17) // 4
    bits = [code[8][column] for column in (0, 1, 2, 3, 4, 5, 7, 8)] + [code[row][8] for row in (7, 5, 4, 3, 2, 1, 0)]
    format_bits = int("".join(str(int(bit)) for bit in bits), 2) ^ FORMAT_MASK
    level, mask = format_bits >> 13, format_bits >> 10 & 7
    assert level == 0b01, "the level is L"
    blocks, words = [[] for _ in BLOCKS[version - 1]], iter(codewords(code, version, mask))
    for place in range(max(BLOCKS[version - 1])):
        for block, count in zip(blocks, BLOCKS[version - 1]):
            if place < count:
                block.append(next(words))
    stream = "".join(f"{word:08b}" for block in blocks for word in block)
    assert stream[:4] == "0100", "the mode is that of bytes"
    width = 8 if version < 10 else 16
    count = int(stream[4:4 + width], 2)
    start = 4 + width
    return bytes(int(stream[start + 8 * index:start + 8 * index + 8], 2) for index in range(count)).decode()
