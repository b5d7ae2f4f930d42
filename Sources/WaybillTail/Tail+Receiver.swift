internal import WaybillProtocol
internal import WaybillSystem

/// What the receiver says about a stream, and what becomes durable of it here.
extension Tail {
    /// The receiver's durable position (`AT`): reading goes on there, whatever the registry holds.
    ///
    /// When the file is shorter, its content is another: this stream ends at `offset`, and a new incarnation of the
    /// file begins. Does nothing for a forgotten stream.
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

    /// What was handed out of a file that is gone, and did not arrive, cannot be handed out again.
    private mutating func positionGone(_ stream: StreamKey, at offset: Int) {
        self.tellEnding(stream, at: offset)
        self.table[stream].cursor = offset
        self.table[stream].acked = offset
    }

    /// Looks at a file again, so that an old length is not held against the receiver's position.
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

    /// The receiver holds the stream durably up to `offset`; what is below what is known already is passed over, as
    /// is what was never handed out.
    package mutating func acked(_ stream: StreamKey, upTo offset: Int) {
        guard self.table.contains(stream) else { return }
        guard offset > self.table[stream].acked, offset <= self.table[stream].cursor else { return }
        self.table[stream].removeAnchors(before: offset)
        self.table[stream].acked = offset
        self.changed.insert(stream)
    }

    /// The connection is lost, and the next one leads to a receiver that may know less: every stream asks for its
    /// position, also where everything was acknowledged.
    package mutating func receiverChanged() {
        self.connectionLost()
        for key in self.table.keys {
            if case .sealed = self.table[key].phase { continue }
            self.table[key].isAsking = true
            self.enqueue(key)
        }
    }

    /// The connection is lost: streams ask for their position before they are read again, and what was not
    /// acknowledged is read again.
    package mutating func connectionLost() {
        for key in self.table.keys {
            if case .sealed(let byteCount) = self.table[key].phase, self.table[key].byteCount > byteCount {
                // Sealed below its end; the next receiver is asked where it stands.
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

    /// The receiver sealed the stream (`SEALED`): a segment is deleted, a foreign file's stream forgotten.
    ///
    /// Unasked, it means that the stream ended in an earlier session. A foreign file that is longer than that and may
    /// still grow is not it any more: it was cut and begins as before, and the registry that knew is lost.
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
        // A seal that nobody asked for covers what the receiver said it holds, not what was sent since.
        self.table[stream].phase = .sealed(byteCount: file.phase == .sealOffered ? file.cursor : file.acked)
        self.deleteSealedSegment(stream)
    }

    /// Deletes a sealed segment if it holds no byte behind what was sealed; otherwise it is tried again each scan.
    mutating func deleteSealedSegment(_ key: StreamKey) {
        let file = self.table[key]
        guard case .sealed(let sealedByteCount) = file.phase else { return }
        let id = self.id(of: key)
        do throws(FileSystemError) {
            if let status = try self.files.status(at: file.path), status.identity == file.identity {
                guard status.byteCount <= sealedByteCount else {
                    self.complain(
                        file.path,
                        .segmentGrewAfterSeal(
                            id, path: file.path, sealedByteCount: sealedByteCount, byteCount: status.byteCount))
                    return
                }
                try self.files.unlink(file.path)
                self.notices.append(.segmentDeleted(id))
            }
            self.forget(key)
        } catch {
            self.complain(file.path, .segmentUndeletable(id, path: file.path, error))
        }
    }

    /// Drops everything that is known about a file, and its registry entry with the next checkpoint.
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
