internal import WaybillArchive
internal import WaybillSystem

/// Verifies the state of commands: deliveries, replays and requeued lines.
extension DataVerifier {
    /// - Parameter names: of the checkpoints that were already verified.
    mutating func verifyState(except names: [String]) {
        let folder = Path.name(of: self.data.state)
        do throws(FileSystemError) {
            guard try self.data.files.status(at: self.data.state) != nil else { return }
            for name in try self.data.files.list(self.data.state) {
                let path = Path.join(folder, name)
                if name.hasSuffix(".state"), !names.contains(String(name.dropLast(6))) {
                    try self.verifyStore(path)
                } else if name.hasSuffix(".state.previous") {
                    try self.verifyStore(path)
                } else if name == "requeue.ids" {
                    try self.verifyRequeued(path)
                } else if name.contains(".damaged-") {
                    self.report.note("\(path) was set aside by an earlier start")
                }
            }
        } catch {
            self.unreadable(error)
        }
    }

    private mutating func verifyStore(_ path: String) throws(FileSystemError) {
        guard let bytes = try self.data.files.contents(of: self.absolute(path), byteCountMax: 1 << 30) else { return }
        let valid = StateImage(bytes: bytes)?.validByteCount ?? 0
        guard valid < bytes.count, !self.isInUse else { return }
        self.report.add(
            Problem(
                .damaged, path, at: valid, byteCount: bytes.count - valid,
                valid == 0 ? "it has no complete commit" : "a commit is torn or its checksum does not match"))
    }

    /// The digests of requeued lines have a fixed form.
    private mutating func verifyRequeued(_ path: String) throws(FileSystemError) {
        let store = try StateImage.read(self.data.statePath("requeue"), files: self.data.files)
        let length = store?.entries["ids"].flatMap { Int($0) } ?? 0
        let byteCount = try self.checkedLength(path, length)
        try self.lookPastEnd(of: path, length, .max)
        var damaged: Range<Int>?
        try self.visitLines(of: path, byteCount) { line, range in
            let isDigest =
                line.count == 32 && line.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
            if !isDigest, damaged == nil { damaged = range }
        }
        guard let damaged else { return }
        self.report.add(
            Problem(
                .damaged, path, at: damaged.lowerBound, byteCount: damaged.count,
                "the line is not the digest of a requeued event"))
    }
}
