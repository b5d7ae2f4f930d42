internal import WaybillProtocol
internal import WaybillSystem

/// Copies lines that are too long for events into the quarantine folder, one buffer at a time, as far as the limit allows.
///
/// The copy is durable before the skip is returned. For a line that is still growing, copying continues where the copy
/// ends; an interrupted copy starts over. It has a temporary name until it is complete: another receiver may ask for
/// the line again, and a failed copy must not replace the one that a skip relies on.
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
            let room = max(0, line.offset + self.limits.overlongCopyByteCountMax - line.scanned)
            let isEnd = end != nil || (count < buffer.count && self.table[stream].phase == .complete)
            do throws(FileSystemError) {
                try self.files.writeAll(copy, UnsafeRawBufferPointer(rebasing: bytes[..<min(end ?? count, room)]))
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
            if isEnd { return try self.endOverlong(stream, descriptor, id, line, path) }
            let isAllThereIs = count < buffer.count
            self.reportGrowth(of: &line, id, path: self.table[stream].path, isAllThereIs: isAllThereIs)
            if isAllThereIs {
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
        _ stream: StreamKey, _ descriptor: FileID, _ id: StreamID, _ line: OverlongLine, _ path: String
    ) throws(FileSystemError) -> TailRead {
        let length = line.scanned - line.offset
        let range = try self.skippedRange(descriptor, from: line.offset, to: line.scanned, .tooLong)
        self.table[stream].overlong = nil
        self.passed(stream, range)
        self.notices.append(
            .tooLong(
                id, offset: line.offset, length: length,
                keptByteCount: min(length, self.limits.overlongCopyByteCountMax), quarantinePath: path))
        if self.table[stream].isDrained { self.enqueueProbe(stream) }
        return .skip(range)
    }

    /// Reports a line without an end, again whenever it is twice as long.
    private mutating func reportGrowth(
        of line: inout OverlongLine, _ id: StreamID, path: String, isAllThereIs: Bool
    ) {
        let length = line.scanned - line.offset
        guard isAllThereIs || length >= self.limits.overlongCopyByteCountMax, length >= line.toldLength else { return }
        line.toldLength = 2 * length
        self.notices.append(.tooLongSoFar(id, path: path, offset: line.offset, length: length))
    }

    /// Opens the copy at its end, or from the start if it is shorter than expected.
    private func openCopy(_ path: String, _ line: inout OverlongLine) throws(FileSystemError) -> FileID {
        if line.scanned > line.offset {
            let copy = try self.files.open(path, .append)
            do throws(FileSystemError) {
                let expected = min(line.scanned - line.offset, self.limits.overlongCopyByteCountMax)
                if try self.files.status(copy).byteCount == expected { return copy }
            } catch {
                self.files.close(copy)
                throw error
            }
            self.files.close(copy)
        }
        line.scanned = line.offset
        return try self.files.open(path, .replace)
    }

    /// No line is skipped without its copy: it waits for the next scan and is then copied from its start.
    private mutating func quarantineFailed(
        _ stream: StreamKey, _ id: StreamID, _ line: OverlongLine, _ path: String, _ error: FileSystemError
    ) {
        self.notices.complain(path, .quarantineFailed(id, offset: line.offset, error))
        self.table[stream].overlong = OverlongLine(
            offset: line.offset, scanned: line.offset, toldLength: line.toldLength)
        self.table[stream].isFaulty = true
        self.queues.faulty.append(stream)
    }
}
