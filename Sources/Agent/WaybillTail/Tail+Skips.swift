internal import WaybillProtocol
internal import WaybillSystem

/// Tells an agent's own skips from those that someone else of its principal made.
extension Tail {
    /// Whether so many bytes of a segment below `offset` may have been skipped by this agent.
    ///
    /// It skips lines of which it has a copy in the quarantine, and a last line without its LF. File and copies say so, also
    /// where the registry is older than the `SKIP`. Streams of foreign files are believed: nothing is deleted for them, nor
    /// for what this receiver says of a segment that waits for another one (``awaitedHolder(of:)``).
    func explains(
        _ skippedByteCount: UInt64, of stream: StreamKey, _ descriptor: FileID, below offset: Int
    ) throws(FileSystemError) -> Bool {
        guard skippedByteCount > 0, self.table[stream].isSegment, self.awaitedHolder(of: stream) == nil else {
            return true
        }
        let fileByteCount = self.table[stream].byteCount
        var own = 0
        var end = 0
        for start in try self.quarantinedOffsets(of: self.id(of: stream)) where start >= end && start < offset {
            let lineEnd = try self.lineEnd(descriptor, from: start) ?? fileByteCount
            guard lineEnd <= offset else { break }
            own += lineEnd - start
            end = lineEnd
        }
        if offset == fileByteCount { own += offset - (try self.lastLineEnd(descriptor, in: end..<offset)) }
        return skippedByteCount <= UInt64(own)
    }

    /// Where the lines of a stream begin whose copies are in the quarantine, in order.
    private func quarantinedOffsets(of id: StreamID) throws(FileSystemError) -> [Int] {
        let prefix = "\(id)-"
        let suffix = ".line"
        return try self.files.list(self.quarantineDirectory)
            .filter { $0.hasPrefix(prefix) && $0.hasSuffix(suffix) }
            .compactMap { $0.dropFirst(prefix.count).dropLast(suffix.count).asCount }
            .sorted()
    }

    /// The end of the line that begins at `start`; `nil` if the file ends without its LF.
    private func lineEnd(_ descriptor: FileID, from start: Int) throws(FileSystemError) -> Int? {
        var buffer = [UInt8](repeating: 0, count: Self.skipChunkByteCount)
        var offset = start
        while true {
            let count = try self.files.readFully(descriptor, at: offset, into: &buffer)
            if let index = buffer[..<count].firstIndex(of: LineScanner.lineFeed) { return offset + index + 1 }
            guard count == buffer.count else { return nil }
            offset += count
        }
    }

    /// The end of the last whole line in a range of a file; the range's start without one.
    private func lastLineEnd(_ descriptor: FileID, in range: Range<Int>) throws(FileSystemError) -> Int {
        var end = range.upperBound
        while end > range.lowerBound {
            let bytes = try self.lastBytes(
                descriptor, below: end, count: min(Self.skipChunkByteCount, end - range.lowerBound))
            if let index = bytes.lastIndex(of: LineScanner.lineFeed) { return end - bytes.count + index + 1 }
            guard !bytes.isEmpty else { break }
            end -= bytes.count
        }
        return range.lowerBound
    }

    private static var skipChunkByteCount: Int { 64 << 10 }
}
