internal import WaybillProtocol
internal import WaybillSystem

/// Moves lines that are too long to be events past, into the quarantine folder, a buffer at a time.
///
/// The copy is durable before the skip is handed out. A line that is still growing is gone on with where the copy
/// ends; a copy that was interrupted begins anew. It has a name of its own until it is whole: another receiver may
/// ask for the line again, and the copy that a skip promised must not go for one that fails.
extension Tail {
    mutating func beginOverlong(
        _ stream: StreamKey, _ descriptor: FileID, _ buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> TailRead {
        let offset = self.table[stream].cursor
        self.table[stream].overlong = OverlongLine(offset: offset, scanned: offset)
        return try self.continueOverlong(stream, descriptor, buffer)
    }

    mutating func continueOverlong(
        _ stream: StreamKey, _ descriptor: FileID, _ buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> TailRead {
        guard var line = self.table[stream].overlong else { return .nothing }
        guard try self.isUnchanged(stream, descriptor) else {
            self.table[stream].overlong = nil
            self.truncated(stream)
            return .nothing
        }
        let id = self.id(of: stream)
        let path = Path.join(self.quarantineDirectory, "\(id)-\(line.offset).line")
        let unfinished = path + ".new"
        let copy: FileID
        do throws(FileSystemError) {
            copy = try self.openCopy(unfinished, &line)
        } catch {
            self.quarantineFailed(stream, id, line, path, error)
            return .nothing
        }
        defer { self.files.close(copy) }
        let stop = line.scanned + max(self.limits.overlongByteCountPerRead, buffer.count)
        while line.scanned < stop {
            let count = try self.files.readFully(descriptor, at: line.scanned, into: buffer)
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            let end = LineScanner.firstLineFeed(in: bytes).map { $0 + 1 }
            let isEnd = end != nil || (count < buffer.count && self.table[stream].phase == .complete)
            do throws(FileSystemError) {
                try self.files.writeAll(copy, UnsafeRawBufferPointer(rebasing: bytes[..<(end ?? count)]))
                if isEnd {
                    try self.files.synchronize(copy)
                    try self.files.rename(unfinished, to: path)
                    try self.files.synchronizeDirectory(self.quarantineDirectory)
                }
            } catch {
                self.quarantineFailed(stream, id, line, path, error)
                return .nothing
            }
            line.scanned += end ?? count
            self.table[stream].byteCount = max(self.table[stream].byteCount, line.scanned)
            if isEnd { return self.endOverlong(stream, id, line, path) }
            if count < buffer.count {
                self.table[stream].examined = line.scanned
                self.table[stream].overlong = line
                self.enqueueProbe(stream)
                return .nothing
            }
        }
        self.table[stream].overlong = line
        return .nothing
    }

    private mutating func endOverlong(
        _ stream: StreamKey, _ id: StreamID, _ line: OverlongLine, _ path: String
    ) -> TailRead {
        let length = line.scanned - line.offset
        self.table[stream].overlong = nil
        self.table[stream].cursor = line.scanned
        self.notices.append(.tooLong(id, offset: line.offset, length: length, quarantinePath: path))
        if self.table[stream].isDrained { self.enqueueProbe(stream) }
        return .skip(offset: line.offset, length: length, reason: .tooLong)
    }

    /// Opens the copy where it ends, or from the start when it is not as long as it should be.
    private func openCopy(_ path: String, _ line: inout OverlongLine) throws(FileSystemError) -> FileID {
        if line.scanned > line.offset {
            let copy = try self.files.open(path, .append)
            do throws(FileSystemError) {
                if try self.files.status(copy).byteCount == line.scanned - line.offset { return copy }
            } catch {
                self.files.close(copy)
                throw error
            }
            self.files.close(copy)
        }
        line.scanned = line.offset
        return try self.files.open(path, .replace)
    }

    /// Nothing is skipped without its copy: the line waits for the next scan and is copied from its start then.
    private mutating func quarantineFailed(
        _ stream: StreamKey, _ id: StreamID, _ line: OverlongLine, _ path: String, _ error: FileSystemError
    ) {
        self.complain(path, .quarantineFailed(id, offset: line.offset, error))
        self.table[stream].overlong = OverlongLine(offset: line.offset, scanned: line.offset)
        self.table[stream].isFaulty = true
        self.faulty.append(stream)
    }
}
