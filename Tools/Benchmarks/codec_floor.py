#!/usr/bin/env python3
"""Measures codecs alone on a backlog in 256 KiB pieces, on one core: the lower bound for a build with that codec.

zlib is Python's. libdeflate is fetched with apt-get download into .build/rivals if it is missing, and called with
ctypes; it has no streaming, which batches do not need. ISA-L is measured by `waybill-benchmark` of the shipped build,
on the same kind of lines.
"""
import ctypes
import json
import os
import subprocess
import tempfile
import time
import zlib

import bench
import rivals


class Libdeflate:
    def __init__(self, level):
        root = rivals.fetch("libdeflate")
        library = ctypes.CDLL(str(next(root.glob("**/libdeflate.so.0"))))
        size = ctypes.c_size_t
        for name, result, arguments in (
                ("libdeflate_alloc_compressor", ctypes.c_void_p, [ctypes.c_int]),
                ("libdeflate_zlib_compress", size, [ctypes.c_void_p, ctypes.c_char_p, size, ctypes.c_char_p, size]),
                ("libdeflate_alloc_decompressor", ctypes.c_void_p, []),
                ("libdeflate_zlib_decompress", ctypes.c_int,
                 [ctypes.c_void_p, ctypes.c_char_p, size, ctypes.c_char_p, size, ctypes.POINTER(size)])):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self.library = library
        self.compressor = library.libdeflate_alloc_compressor(level)
        self.decompressor = library.libdeflate_alloc_decompressor()
        self.room = ctypes.create_string_buffer(1 << 20)

    def compress(self, piece):
        count = self.library.libdeflate_zlib_compress(
            self.compressor, piece, len(piece), self.room, len(self.room))
        return self.room[:count]

    def decompress(self, compressed):
        count = ctypes.c_size_t()
        status = self.library.libdeflate_zlib_decompress(
            self.decompressor, compressed, len(compressed), self.room, len(self.room), ctypes.byref(count))
        if status:
            raise bench.Failure(f"libdeflate does not read its own: {status}")
        return self.room[:count.value]


class Zlib:
    def __init__(self, level):
        self.level = level

    def compress(self, piece):
        return zlib.compress(piece, self.level)

    def decompress(self, compressed):
        return zlib.decompress(compressed)


def measure(name, codec, level, pieces):
    start = time.process_time()
    compressed = [codec.compress(piece) for piece in pieces]
    deflated = time.process_time()
    for piece in compressed:
        codec.decompress(piece)
    inflated = time.process_time()
    # Each reads the output of the other.
    if zlib.decompress(compressed[0]) != pieces[0] or codec.decompress(zlib.compress(pieces[0])) != pieces[0]:
        raise bench.Failure(f"{name} and zlib do not read each other")
    raw, wire = sum(map(len, pieces)), sum(map(len, compressed))
    return {
        "codec": name, "level": level, "raw_bytes": raw, "wire_bytes": wire, "ratio": round(raw / wire, 2),
        "deflate_cpu_s_per_gb": round((deflated - start) / raw * 1e9, 2),
        "inflate_cpu_s_per_gb": round((inflated - deflated) / raw * 1e9, 2)}


def measure_isal():
    program = bench.REPOSITORY / ".build/isal/release/waybill-benchmark"
    if not program.exists():
        return {"codec": "isa-l", "skipped": "build waybill-benchmark with the flags of Tools/package"}
    result = {"codec": "isa-l", "level": 1}
    for path in ("deflate", "inflate"):
        line = json.loads(subprocess.run([program, "--only", path], check=True, capture_output=True).stdout)
        result[f"{path}_cpu_s_per_gb"] = round(1000 / line["mb_per_cpu_s"], 2)
    return result


def main(piece=256 << 10, level=1, runs=3):
    with tempfile.TemporaryDirectory() as spool:
        bench.Events(3).backlog(spool, 60 * 10**6)
        data = b"".join(open(os.path.join(spool, name), "rb").read() for name in sorted(os.listdir(spool)))
    pieces = [data[at:at + piece] for at in range(0, len(data), piece)]
    codecs = {"zlib": Zlib(level), "libdeflate": Libdeflate(level)}
    for run in range(1, runs + 1):
        for name, codec in codecs.items():
            print(json.dumps({"run": run, **measure(name, codec, level, pieces)}), flush=True)
        print(json.dumps({"run": run, **measure_isal()}), flush=True)


if __name__ == "__main__":
    main()
