#!/usr/bin/env python3
"""What zlib alone takes for the benchmark's data in 256 KiB pieces, on one core: the floor under agent and receiver."""
import json
import os
import tempfile
import time
import zlib

import bench


def main(piece=256 << 10, level=1):
    with tempfile.TemporaryDirectory() as spool:
        bench.Events(3).backlog(spool, 60 * 10**6)
        data = b"".join(open(os.path.join(spool, name), "rb").read() for name in sorted(os.listdir(spool)))
    start = time.process_time()
    pieces = [zlib.compress(data[at:at + piece], level) for at in range(0, len(data), piece)]
    deflated = time.process_time()
    for compressed in pieces:
        zlib.decompress(compressed)
    inflated = time.process_time()
    gigabytes = len(data) / 1e9
    print(json.dumps({
        "level": level, "raw_bytes": len(data), "wire_bytes": sum(map(len, pieces)),
        "deflate_cpu_s_per_gb": round((deflated - start) / gigabytes, 2),
        "inflate_cpu_s_per_gb": round((inflated - deflated) / gigabytes, 2)}))


if __name__ == "__main__":
    main()
