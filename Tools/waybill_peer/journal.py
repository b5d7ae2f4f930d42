"""Lists and verifies the frames of a journal segment, as specified in Protocol/formats/journal.md."""
import contextlib
import pathlib
import re
import zlib

from .wire import LINE_MAX, Refused, decode, digest, inflate_batch


class Segment:
    """A journal segment (Protocol/formats/journal.md), read from MARK to MARK and from BATCH to BATCH."""

    def __init__(self, name):
        path = pathlib.Path(name)
        self.base = int(path.stem)
        # A segment ends where the next one begins, though its file may be longer.
        later = sorted(int(other.stem) for other in path.parent.glob("*.journal") if int(other.stem) > self.base)
        self.content = path.read_bytes()[:later[0] - self.base if later else None]
        self.streams, self.stands, self.proof, self.unmarked, self.rows = {}, {}, None, b"", []
        self.damaged_bytes = self.frames = 0

    def inspect(self):
        """Prints each frame with its position, and what is damaged; returns the exit code."""
        at = 0
        while at < len(self.content):
            try:
                at = self.frame(at)
            except Refused as reason:
                start = at - len(self.unmarked)
                at = self.next_mark(start)
                self.rows, self.unmarked, self.stands = [], b"", {}
                self.damaged_bytes += at - start
                print(f"{self.base + start:>20}  DAMAGED {at - start} bytes: {reason}")
        if self.unmarked:
            self.damaged_bytes += len(self.unmarked)
            print(f"{self.base + at - len(self.unmarked):>20}  DAMAGED {len(self.unmarked)} bytes: no MARK follows")
        print(f"{self.frames} frames, {len(self.streams)} streams, {self.damaged_bytes} damaged bytes")
        return 1 if self.damaged_bytes else 0

    def frame(self, at):
        end = self.content.find(b"\n", at, at + LINE_MAX) + 1
        if not end:
            raise Refused("no line")
        line = self.content[at:end]
        message = decode(line[:-1])
        word, number = message["type"], message.get("number")
        row = (self.base + at, line[:-1].decode())
        if word == "MARK":
            self.check_mark(message, self.base + at, self.unmarked + line[:-9])
            for position, text in [*self.rows, row]:
                print(f"{position:>20}  {text}")
            self.frames += len(self.rows) + 1
            self.rows, self.unmarked = [], b""
            return end
        if word not in ("START", "RESTING", "OPEN", "AT", "TAIL", "SEALED", "BATCH", "SKIP", "SEAL"):
            raise Refused(f"{word} in a journal")
        if word not in ("START", "RESTING", "OPEN") and number not in self.streams:
            raise Refused(f"stream {number} was not opened")
        if word == "OPEN":
            # A number may be opened again: the stream is described again, and continues.
            if number not in self.streams:
                self.stands[number] = 0
            if self.streams.setdefault(number, message["stream"]) != message["stream"]:
                raise Refused(f"number {number} names another stream")
        elif word == "AT":
            self.proof = message["count"], message["digest"]
        elif word == "TAIL":
            tail = bytes.fromhex(message["tail"])
            if self.proof != (len(tail), digest(self.streams[number], self.stands[number], tail)):
                raise Refused(f"the tail of stream {number} is not what its AT proves")
        if word in ("BATCH", "SKIP", "SEAL"):
            start = message["offset"]
            if self.stands.get(number, start) != start:
                raise Refused(f"stream {number} stands at {self.stands[number]}")
        if word == "BATCH":
            if self.unmarked:
                raise Refused("no MARK between lines and a BATCH")
            inflate_batch(self.streams[number], message, self.content[end:end + message["wire"]])
            end += message["wire"]
            print(f"{row[0]:>20}  {row[1]}")
            self.frames += 1
        else:
            self.unmarked += line
            self.rows.append(row)
        if word in ("AT", "BATCH", "SKIP", "SEAL"):
            self.stands[number] = message["offset"] + message.get("raw", 0) + message.get("length", 0)
        return end

    def check_mark(self, mark, position, covered):
        if mark["position"] != position:
            raise Refused("a MARK of another position")
        if zlib.crc32(covered) != mark["crc"]:
            raise Refused("checksum")

    def next_mark(self, start):
        """Where reading resumes after damage: a MARK with its own position that covers only itself."""
        for found in re.finditer(rb"MARK [0-9]+ [0-9]+ [0-9a-f]{8}\n", self.content[start + 1:]):
            with contextlib.suppress(Refused):
                self.check_mark(decode(found[0][:-1]), self.base + start + 1 + found.start(), found[0][:-9])
                return start + 1 + found.start()
        return len(self.content)
