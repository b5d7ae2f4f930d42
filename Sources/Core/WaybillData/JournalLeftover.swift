internal import WaybillProtocol
package import WaybillSystem

/// What a segment has after the start of the next one: a group that a failing disk neither stored nor let go.
///
/// The receiver leaves such bytes where it can neither copy nor cut them (`Protocol/formats/journal.md`, section 4).
package struct JournalLeftover<Files: FileSystem> {
    /// A line that is cut off must say at least what it is.
    private static var verbs: [String] { ["MARK ", "OPEN ", "BATCH ", "SKIP ", "SEAL ", "AT ", "TAIL ", "SEALED "] }

    private let path: String
    private let segment: JournalPosition
    private let files: Files

    /// - Parameter path: the segment's.
    package init(path: String, segment: JournalPosition, files: Files) {
        self.path = path
        self.segment = segment
        self.files = files
    }

    /// Whether a receiver wrote the bytes from `offset` on: entries of a journal, of which the last may be cut off, and what
    /// the disk dropped of them.
    package func isExplained(from offset: Int, to end: Int) throws(FileSystemError) -> Bool {
        let file = try self.files.open(self.path, .read)
        defer { self.files.close(file) }
        var offset = offset
        while offset < end {
            var bytes = [UInt8](repeating: 0, count: min(ProtocolLimits.messageByteCountMax, end - offset))
            bytes.removeLast(bytes.count - (try self.files.readFully(file, at: offset, into: &bytes)))
            switch bytes.withUnsafeBytes({ self.entry(at: offset, $0) }) {
            case .whole(let byteCount): offset += byteCount
            case .cut: return true
            case .foreign: return false
            }
        }
        return true
    }

    private enum Entry {
        /// With its payload, which may be cut off; or NULs.
        case whole(byteCount: Int)
        case cut
        case foreign
    }

    private func isBeginning(_ bytes: UnsafeRawBufferPointer) -> Bool {
        Self.verbs.contains { bytes.starts(with: $0.utf8) }
    }

    private func entry(at offset: Int, _ bytes: UnsafeRawBufferPointer) -> Entry {
        // A file that is longer than what the disk stored of it reads as NULs.
        let nulCount = bytes.prefix { $0 == 0 }.count
        guard nulCount == 0 else { return .whole(byteCount: nulCount) }
        let decoded: (message: Message, byteCount: Int)?
        do throws(WireError) {
            decoded = try Message.decode(prefixOf: bytes)
        } catch {
            // What a longer group before it left may follow.
            return self.isBeginning(bytes) ? .cut : .foreign
        }
        guard let (message, byteCount) = decoded else { return self.isBeginning(bytes) ? .cut : .foreign }
        switch message {
        case .mark(let position, _, _):
            return position == UInt64(self.segment.rawValue + offset) ? .whole(byteCount: byteCount) : .foreign
        case .batch(let header): return .whole(byteCount: byteCount + header.wireByteCount)
        case .open, .at, .tail, .sealed, .skip, .seal: return .whole(byteCount: byteCount)
        default: return .foreign
        }
    }
}
