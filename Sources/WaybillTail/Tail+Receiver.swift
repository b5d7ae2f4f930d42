internal import WaybillProtocol
internal import WaybillSystem

/// Handles the receiver's answers for a stream.
extension Tail {
    /// Handles the receiver's durable position (`AT`): reading continues there, whatever the registry has.
    ///
    /// If the file is shorter, its content was replaced: this stream ends at `offset`, and a new incarnation of the
    /// file begins. Does nothing for a removed stream.
    package mutating func positionLearned(_ stream: StreamKey, at offset: Int) {
        guard self.table.contains(stream), self.table[stream].isIdentified else { return }
        precondition(offset >= 0, "an offset is not negative: \(offset)")
        self.table[stream].overlong = nil
        self.table[stream].replaceAnchors(self.table[stream].anchors.filter { $0.end == offset })
        self.refresh(stream)
        let file = self.table[stream]
        if file.reach == .gone {
            self.positionGone(stream, at: offset)
        } else if offset > file.byteCount {
            let id = self.id(of: stream)
            self.notices.append(
                .receiverAhead(id, path: file.path, receiverOffset: offset, byteCount: file.byteCount))
            self.table[stream].cursor = offset
            self.table[stream].acked = offset
            self.table[stream].byteCount = file.isSegment ? file.byteCount : offset
            if !file.isSegment { self.beginIncarnation(replacing: stream) }
        } else {
            self.table[stream].cursor = offset
            self.table[stream].acked = offset
        }
        self.table[stream].isPositioned = true
        self.table[stream].isAsking = false
        self.table[stream].examined = 0
        if self.table[stream].phase == .sealOffered { self.table[stream].phase = .complete }
        self.changed.insert(stream)
        self.enqueue(stream)
        if self.table[stream].isDrained { self.enqueueProbe(stream) }
    }

    /// Ends the stream of a file that is gone: bytes that did not arrive cannot be read again.
    private mutating func positionGone(_ stream: StreamKey, at offset: Int) {
        self.tellEnding(stream, at: offset)
        self.table[stream].cursor = offset
        self.table[stream].acked = offset
    }

    /// Checks a file again, so that the receiver's position is not compared with an old length.
    private mutating func refresh(_ stream: StreamKey) {
        let file = self.table[stream]
        do throws(FileSystemError) {
            switch file.reach {
            case .path:
                if let status = try self.files.status(at: file.path), status.identity == file.identity {
                    self.observeLength(stream, status)
                }
            case .descriptor:
                if let descriptor = file.descriptor {
                    self.observeLength(stream, try self.files.status(descriptor))
                }
            case .gone: break
            }
        } catch {
            self.complain(file.path, .unreadable(path: file.path, error))
        }
    }

    /// Records that the receiver holds the stream up to `offset`; ignores offsets below the known one and beyond what
    /// was returned.
    package mutating func acked(_ stream: StreamKey, upTo offset: Int) {
        guard self.table.contains(stream) else { return }
        guard offset > self.table[stream].acked, offset <= self.table[stream].cursor else { return }
        self.table[stream].removeAnchors(before: offset)
        self.table[stream].acked = offset
        self.changed.insert(stream)
    }

    /// Handles a change to a receiver that may hold less: every stream asks for its position, even if all of it was
    /// acknowledged.
    package mutating func receiverChanged() {
        self.connectionLost()
        for key in self.table.keys {
            if case .sealed = self.table[key].phase { continue }
            self.table[key].isAsking = true
            self.enqueue(key)
        }
    }

    /// Handles the loss of the connection: streams ask for their position before they are read again, and
    /// unacknowledged bytes are read again.
    package mutating func connectionLost() {
        for key in self.table.keys {
            if case .sealed(let byteCount) = self.table[key].phase, self.table[key].byteCount > byteCount {
                // It was sealed below its end; the next receiver is asked for the offset.
                self.table[key].phase = .following
            }
            self.table[key].isPositioned = false
            self.table[key].cursor = self.table[key].acked
            self.table[key].examined = 0
            self.table[key].overlong = nil
            if self.table[key].phase == .sealOffered { self.table[key].phase = .complete }
            self.enqueue(key)
        }
    }

    /// Handles `SEALED`: deletes a segment, and removes the stream of a foreign file.
    ///
    /// Without a request, it means that the stream ended in an earlier session. A longer foreign file that may still
    /// grow is then a new stream: it was truncated and begins with the same head, and the registry that recorded this
    /// is lost.
    package mutating func sealedByReceiver(_ stream: StreamKey) {
        guard self.table.contains(stream) else { return }
        let file = self.table[stream]
        guard file.isSegment, file.reach == .path else {
            if file.isSegment || file.reach == .gone || !file.mayGrow {
                self.forget(stream)
            } else if file.byteCount > file.acked {
                self.table[stream].cursor = file.acked
                self.table[stream].byteCount = file.acked
                self.beginIncarnation(replacing: stream)
                self.forget(stream)
            }
            return
        }
        self.closeDescriptor(stream)
        // An unrequested seal covers the receiver's reported position, not bytes sent since.
        self.table[stream].phase = .sealed(byteCount: file.phase == .sealOffered ? file.cursor : file.acked)
        self.deleteSealedSegment(stream)
    }

    /// Deletes a sealed segment if it has no bytes after the sealed length; retried with each scan.
    mutating func deleteSealedSegment(_ key: StreamKey) {
        let file = self.table[key]
        guard case .sealed(let sealedByteCount) = file.phase else { return }
        let id = self.id(of: key)
        do throws(FileSystemError) {
            let folder = try self.openSpool(of: file.path)
            defer { if let folder { self.files.close(folder) } }
            let name = Path.name(of: file.path)
            if let folder, let status = try self.files.status(of: name, in: folder), status.identity == file.identity {
                guard status.byteCount <= sealedByteCount else {
                    self.complain(
                        file.path,
                        .segmentGrewAfterSeal(
                            id, path: file.path, sealedByteCount: sealedByteCount, byteCount: status.byteCount))
                    return
                }
                try self.files.unlink(name, in: folder)
                self.notices.append(.segmentDeleted(id))
            }
            self.forget(key)
        } catch  where error.errno == Errno.noEntry || error.errno == Errno.notADirectory {
            // Its folder is gone.
            self.forget(key)
        } catch {
            self.complain(file.path, .segmentUndeletable(id, path: file.path, error))
        }
    }

    /// Removes all state of a file, and its registry entry with the next checkpoint.
    mutating func forget(_ key: StreamKey) {
        self.closeDescriptor(key)
        let file = self.table[key]
        if let id = self.streamID(of: file) {
            self.unregister(file, id)
            if file.reach == .gone { self.goneIDs.remove(id.description) }
        }
        if case .segment(let id) = file.origin, self.bySegment[id] == key { self.bySegment[id] = nil }
        self.changed.remove(key)
        self.table.remove(key)
    }
}
