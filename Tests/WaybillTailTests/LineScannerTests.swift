import Testing
import WaybillSystem

@testable import WaybillTail

struct LineScannerTests {
    @Test
    func `every arrangement of line ends in up to twenty bytes is found and counted`() {
        var random = SeededGenerator(seed: 1)
        for count in 0...20 {
            for _ in 0..<2000 {
                // Neighbours of LF, and bytes with the top bit, are what a word-wise search gets wrong.
                let bytes = (0..<count).map { _ in
                    [0x0A, 0x0A, 0x09, 0x0B, 0x8A, 0x00, 0xFF, 0x0A ^ 0x01].randomElement(using: &random) ?? 0
                }.map { UInt8($0) }
                let found = bytes.withUnsafeBytes { buffer in
                    [
                        LineScanner.firstLineFeed(in: buffer), LineScanner.lastLineFeed(in: buffer),
                        LineScanner.lineFeedCount(in: buffer),
                        LineScanner.firstNUL(in: buffer), LineScanner.firstNonNUL(in: buffer),
                    ]
                }
                let expected = [
                    bytes.firstIndex(of: 0x0A), bytes.lastIndex(of: 0x0A), bytes.count { $0 == 0x0A },
                    bytes.firstIndex(of: 0), bytes.firstIndex { $0 != 0 } ?? bytes.count,
                ]
                #expect(found == expected)
            }
        }
    }
}
