import Foundation

/// The floor of every way whose lines survive the process: one `write(2)` of a line that is made already.
///
/// Only the event's index changes from line to line; a line has as many bytes as one of `WaybillRecorder`.
final class WriteRecorder: Recorder {
    private static let lineByteCount = 589
    private static let mark = "\"productIndex\":"
    private static let digitCount = 8

    private let path: String
    private let descriptor: CInt
    private let line: [UInt8]

    init(_ directory: String) throws {
        self.path = directory + "/events.ndjson"
        self.descriptor = open(self.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard self.descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
        let end = "\"," + Self.mark + String(repeating: "0", count: Self.digitCount) + "}\n"
        let start = "{\"name\":\"Product Tapped\",\"padding\":\""
        let padding = String(repeating: "x", count: Self.lineByteCount - start.utf8.count - end.utf8.count)
        self.line = Array((start + padding + end).utf8)
    }

    func record(_ index: Int) {
        withUnsafeTemporaryAllocation(byteCount: self.line.count, alignment: 8) { line in
            line.copyBytes(from: self.line)
            var rest = index
            for place in 0..<Self.digitCount {
                line[line.count - 3 - place] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            }
            let count = write(self.descriptor, line.baseAddress, line.count)
            if count != line.count { fatalError("a line could not be written: error \(errno)") }
        }
    }

    func close() throws {
        guard Foundation.close(self.descriptor) == 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    func count(into ledger: inout Ledger) throws {
        try ledger.add(linesOf: self.path, mark: Self.mark)
    }
}
