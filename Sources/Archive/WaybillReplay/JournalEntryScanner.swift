internal import WaybillData
internal import WaybillSystem

/// Finds the entries in systemd's journal export format, whose values may hold any byte.
///
/// systemd's docs/JOURNAL_EXPORT_FORMATS.md.
struct JournalEntryScanner {
    private enum State {
        case lineStart
        /// In a name, or in the text after `=`.
        case line(hasEquals: Bool)
        case length(byteCount: Int, value: UInt64)
        case value(rest: UInt64)
        case valueEnd
        /// Not in the format: nothing more is found.
        case lost
    }

    private var state = State.lineStart
    private(set) var entryCount = 0
    private(set) var offset = 0
    /// After the last complete entry.
    private(set) var entriesEnd = 0
    var isLost: Bool {
        if case .lost = self.state { true } else { false }
    }

    /// - Returns: the range of the entry that ends with this byte, if any.
    mutating func take(_ byte: UInt8) -> Range<Int>? {
        self.offset += 1
        switch self.state {
        case .lineStart where byte == 0x0A:
            let entry = self.entriesEnd..<self.offset
            self.entriesEnd = self.offset
            // Several empty lines end one entry.
            guard entry.count > 1 else { return nil }
            self.entryCount += 1
            return entry
        case .lineStart:
            self.state = byte == UInt8(ascii: "=") ? .lost : .line(hasEquals: false)
        case .line(let hasEquals):
            if byte == 0x0A {
                self.state = hasEquals ? .lineStart : .length(byteCount: 0, value: 0)
            } else if byte == UInt8(ascii: "=") {
                self.state = .line(hasEquals: true)
            }
        case .length(let byteCount, let value):
            let value = value | UInt64(byte) << UInt64(byteCount * 8)
            if byteCount < 7 {
                self.state = .length(byteCount: byteCount + 1, value: value)
            } else {
                self.state = value == 0 ? .valueEnd : .value(rest: value)
            }
        case .value(let rest): self.state = rest == 1 ? .valueEnd : .value(rest: rest - 1)
        case .valueEnd: self.state = byte == 0x0A ? .lineStart : .lost
        case .lost: break
        }
        return nil
    }
}

extension Inspector {
    /// Reports the entries of a part for the systemd journal.
    mutating func inspectEntries(_ path: String, _ status: FileStatus) throws(FileSystemError) {
        let file = try self.files.open(path, .read)
        defer { self.files.close(file) }
        var scanner = JournalEntryScanner()
        var entries: [Range<Int>] = []
        try self.files.visit(file, 0..<status.byteCount) { (piece) throws(FileSystemError) in
            for byte in piece {
                if let entry = scanner.take(byte) { entries.append(entry) }
            }
        }
        for entry in entries {
            self.item(InspectItem("record").with("offset", entry.lowerBound).with("bytes", entry.count))
        }
        if scanner.entriesEnd < scanner.offset {
            self.damage(
                path, at: scanner.entriesEnd, byteCount: scanner.offset - scanner.entriesEnd,
                scanner.isLost ? "a value does not have its stated length" : "the last entry is cut off",
                keeps: "what the checkpoint covers")
        }
    }
}
