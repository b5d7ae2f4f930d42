"""The build with ISA-L and the one with zlib read each other's batches, journals and files.

Needs both: `swift build … --traits ISAL --scratch-path .build/isal`, or its binary in $WAYBILL_ISAL.
"""

import os
import pathlib
import unittest
import zlib

import harness
from harness import REPOSITORY, SiteTest, succeed
from ledger import EventMaker, Ledger, stored

ZLIB = "zlib"
ISAL = "ISA-L"


def accelerated():
    path = pathlib.Path(os.environ.get("WAYBILL_ISAL", REPOSITORY / ".build/isal/release/waybill"))
    if not path.exists():
        raise unittest.SkipTest("there is no build with ISA-L; make one, or name it in $WAYBILL_ISAL")
    return str(path)


class CodecTests(SiteTest):
    def setUp(self):
        super().setUp()
        self.binaries = {ZLIB: harness.binary(), ISAL: accelerated()}
        self.addCleanup(setattr, harness, "binary", harness.binary)

    def use(self, codec):
        harness.binary = lambda: self.binaries[codec]

    def test_they_are_two_codecs(self):
        """The same lines have other bytes on the wire, and both inflate with Python's zlib."""
        wires = []
        for codec in (ZLIB, ISAL):
            self.use(codec)
            site = self.site.root / codec
            spool = site / "spool"
            spool.mkdir(parents=True)
            EventMaker(90).spool(spool, Ledger(), 300_000)
            receiver = self.site.receiver(exports="none", data=site / "data")
            succeed("agent", "--state", site / "agent", "--to", self.site.address, "--spool", spool, "--once")
            self.assertEqual(receiver.stop(), 0)
            journal = b"".join(path.read_bytes() for path in sorted((site / "data/journal").glob("*")))
            wires.append(journal)
            payload, position = b"", 0
            while position < len(journal):
                end = journal.index(b"\n", position) + 1
                words = journal[position:end].split()
                position = end + (int(words[5]) if words[0] == b"BATCH" else 0)
                if words[0] == b"BATCH":
                    payload += zlib.decompress(journal[end:position])
            self.assertGreater(len(payload), 299_000)
        self.assertNotEqual(*wires)

    def test_each_reads_what_the_other_wrote(self):
        maker, ledger = EventMaker(91), Ledger()
        for agent, before, after in ((ISAL, ZLIB, ISAL), (ZLIB, ISAL, ZLIB)):
            maker.spool(self.site.spool, ledger, 600_000)
            # Killed before its projections have a checkpoint, so that the other one reads its journal.
            self.use(before)
            receiver = self.site.receiver(exports="csv,mixpanel")
            self.use(agent)
            self.site.once()
            receiver.kill()
            self.use(after)
            receiver = self.site.receiver(exports="csv,mixpanel")
            self.assertEqual(receiver.stop(), 0, receiver.log())
            comparison = ledger.compare(stored(self.site.data))
            self.assertTrue(comparison.is_clean, str(comparison))
        for codec in (ZLIB, ISAL):
            self.use(codec)
            self.assert_verified()
