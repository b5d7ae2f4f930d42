"""Writes the vectors beside it: `python3 make.py`, with the standard library alone."""
import pathlib
import random
import zlib

here = pathlib.Path(__file__).parent
generator = random.Random(20261121)
event = b'{"v":1,"id":"01939a3e-0000-7000-8000-%012x","ts":"2026-11-20T09:00:00.000Z","name":"screen_view"}\n'
inputs = {
    "one-byte": b"\n",
    "lines": b"".join(event % number for number in range(40)),
    "zeros": bytes(10_000),
    "random": generator.randbytes(2_000),
    "utf8": "주문 완료 ☕️ – naïve\n".encode() * 30,
}
for name, raw in inputs.items():
    (here / f"{name}.raw").write_bytes(raw)
    for level in (0, 1, 6, 9):
        (here / f"{name}.{level}.zlib").write_bytes(zlib.compress(raw, level))
    flushing = zlib.compressobj(6)
    pieces = [flushing.compress(raw[:len(raw) // 2]), flushing.flush(zlib.Z_SYNC_FLUSH)]
    pieces += [flushing.compress(raw[len(raw) // 2:]), flushing.flush()]
    (here / f"{name}.flushed.zlib").write_bytes(b"".join(pieces))
    small = zlib.compressobj(9, zlib.DEFLATED, 9)
    (here / f"{name}.window9.zlib").write_bytes(small.compress(raw) + small.flush())

dictionary = zlib.compressobj(zdict=b"screen_view")
(here / "dictionary.bad").write_bytes(dictionary.compress(inputs["lines"]) + dictionary.flush())
naked = zlib.compressobj(6, zlib.DEFLATED, -15)
(here / "no-header.bad").write_bytes(naked.compress(inputs["lines"]) + naked.flush())
gzip = zlib.compressobj(6, zlib.DEFLATED, 31)
(here / "gzip.bad").write_bytes(gzip.compress(inputs["lines"]) + gzip.flush())
whole = zlib.compress(inputs["lines"], 6)
(here / "checksum.bad").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
