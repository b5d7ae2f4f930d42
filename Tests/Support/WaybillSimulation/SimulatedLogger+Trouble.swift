internal import WaybillSystem
internal import WaybillTestSupport

/// What others have done to a log.
struct LogTrouble {
    /// How many copies they have made of it.
    var copyCount = 0
    /// When it was last cut.
    var cutAt: Int64?
    /// When they wrote it again, and what it had then.
    var mirrored: (time: Int64, bytes: [UInt8])?
    /// Holes in files that have had no other trouble.
    var holes: [(node: MemoryDisk.Node, range: Range<Int>)] = []
}

/// What programs other than its writer do to a log, and what may become of its lines then.
extension SimulatedLogger {
    /// What it writes into, under whatever name.
    var openNode: MemoryDisk.Node? { self.file.flatMap(self.agent.disk.memory.node(of:)) }

    /// Whether the agent may wait to see what the file has: what it sees meanwhile is of no content.
    var isUndecided: Bool {
        self.isCut || self.isRecent(self.trouble.mirrored?.time)
    }

    /// The same for what was cut alone.
    private var isCut: Bool { self.isRecent(self.trouble.cutAt) }

    private func isRecent(_ time: Int64?) -> Bool { (time ?? .min) > self.life.schedule.now - .seconds(15) }

    /// The file, when it is at rest: at its name, with whole lines alone.
    private var restingNode: MemoryDisk.Node? {
        guard self.agent.isPowered, self.file != nil, !self.isTearing, self.partial.isEmpty, let node = self.openNode,
            node.bytes.last == 0x0A, self.agent.disk.memory.node(at: self.path) === node
        else { return nil }
        return node
    }

    /// Does what cannot fail, and is on the disk then.
    private func withTool(_ body: (FaultyFiles) throws(FileSystemError) -> Void) {
        let tool = FaultyFiles(self.agent.disk.memory)
        do throws(FileSystemError) {
            try body(tool)
        } catch {
            preconditionFailure("a disk without faults does what it is told: \(error)")
        }
        tool.die()
        self.agent.disk.memory.node(at: SimulatedAgent.logs)?.settle()
    }

    // MARK: Written again

    /// Whether what was written again under its name cannot be known yet, after that other things may have happened to it.
    func excuseMirror() {
        let since = self.life.schedule.now - .seconds(60)
        guard let mirrored = self.trouble.mirrored, mirrored.time > since else { return }
        self.life.allowCopy(of: FileLines.of(mirrored.bytes))
        self.trouble.mirrored = nil
    }

    /// A file with these bytes takes the place of the log; its writer continues in it.
    ///
    /// - Parameter keepsOld: whether the old one gets another name, which is one of the source's, too.
    private func replace(with bytes: [UInt8], keepsOld: Bool) {
        self.trouble.copyCount += 1
        self.trouble.holes = []
        let (new, old) = ("\(self.path.dropLast(4)).tmp", "\(self.path).\(self.trouble.copyCount)~")
        self.agent.disk.memory.place(new, bytes)
        self.withTool { (tool) throws(FileSystemError) in
            if keepsOld { try tool.rename(self.path, to: old) }
            try tool.rename(new, to: self.path)
        }
        if let file { self.files.close(file) }
        self.file = nil
        if keepsOld { self.agent.changed(old) }
        self.agent.changed(self.path)
    }

    /// As `rsync`, an editor or `sed -i` does: all that it had is in another file of its name, and more.
    func mirror() {
        guard let node = self.restingNode else { return }
        let bytes = node.bytes
        let keepsOld = self.life.fileDice.chance(200)
        // Lines may have been heard of a copy, while it is open what this file has.
        let isProven = !keepsOld && !self.isCut && self.agent.isProven(bytes)
        self.life.note("\(self.path) is written again with its \(bytes.count) bytes\(isProven ? "" : ", not proven")")
        if !isProven {
            self.life.allowCopy(of: FileLines.of(bytes))
            // What the agent has not shipped of the old file is told, though the new one, or one before, has it.
            self.life.mayBeTold(lost: bytes.count)
            self.agent.forgetHeard(bytes)
        }
        self.trouble.mirrored = (self.life.schedule.now, bytes)
        self.replace(with: bytes, keepsOld: keepsOld)
        for _ in 0..<self.life.fileDice.pick([0, 1, 3]) { self.write() }
        self.agent.changed(self.path)
    }

    /// Another content in another file of its name, which begins as the old one did.
    func mirrorAnother() {
        guard let node = self.restingNode else { return }
        let bytes = node.bytes
        let ends = bytes.indices.filter { bytes[$0] == 0x0A }
        let end = self.life.fileDice.pick(ends) + 1
        let isKnown = FileLines.isKnown(bytes, node.readEnd) && !self.isUndecided
        self.excuseMirror()
        self.trouble.cutAt = self.life.schedule.now
        self.life.note(
            "\(self.path) is another file now, with the first \(end) of \(bytes.count) bytes, of \(node.seenEnd) seen")
        // The file with these bytes may be another content, of which nothing is shipped.
        self.life.mayBeTold(lost: end)
        self.life.takenAway(bytes[end...], seen: isKnown ? node.seenEnd - end : 0)
        // Of a line that was not whole yet, no one knows that it was one.
        let seen = bytes[end..<max(end, node.seenEnd)].lastIndex(of: 0x0A).map { $0 + 1 } ?? end
        self.life.cutAway(FileLines.of(bytes[end..<seen]), isKnown: isKnown)
        self.life.cutAway(FileLines.of(bytes[seen...]), isKnown: false)
        self.life.allowCopy(of: FileLines.of(bytes[..<end]))
        self.agent.forgetHeard(bytes)
        self.replace(with: Array(bytes[..<end]), keepsOld: false)
        for _ in 0..<self.life.fileDice.pick([0, 1, 40]) where self.isShorter(than: bytes.count) { self.write() }
        self.agent.changed(self.path)
    }

    private func isShorter(than byteCount: Int) -> Bool { (self.openNode?.bytes.count ?? 0) <= byteCount }

    // MARK: Copied

    /// The copy is beside its original and grows by itself: a file that is there is no predecessor.
    func copy() {
        guard let node = self.restingNode else { return }
        let path = self.placeCopy(of: node.bytes)
        for pause in [300, 4_000] {
            self.life.schedule.after(self.life.fileDice.milliseconds(0...pause)) { [self] in
                guard self.agent.isPowered, !self.life.isCalm, self.agent.disk.memory.node(at: path) != nil else {
                    return
                }
                self.append(self.agent.newLine(filledBy: 0), to: path)
                self.agent.changed(path)
            }
        }
    }

    private func placeCopy(of bytes: [UInt8]) -> String {
        self.trouble.copyCount += 1
        let path = "\(self.path).\(self.trouble.copyCount)c"
        self.excuseMirror()
        self.life.note("\(path) has the \(bytes.count) bytes of \(self.path)")
        self.life.allowCopy(of: FileLines.of(bytes))
        // What is lost of one of the two is told, though receivers have its lines of the other.
        self.life.mayBeTold(lost: bytes.count)
        self.agent.disk.memory.place(path, bytes)
        self.agent.fileRecord.copies[path] = self.path
        self.agent.changed(path)
        return path
    }

    private func append(_ bytes: [UInt8], to path: String) {
        self.withTool { (tool) throws(FileSystemError) in
            try tool.writeAll(try tool.open(path, .append), bytes)
        }
        self.agent.disk.memory.node(at: path)?.settle()
    }

    /// As `logrotate` does with `copytruncate`: what is cut away is in the copy.
    func copyAndCut() {
        guard let node = self.restingNode else { return }
        let bytes = node.bytes
        _ = self.placeCopy(of: bytes)
        self.life.takenAway(bytes[...], seen: 0)
        self.agent.forgetHeard(bytes)
        self.trouble.cutAt = self.life.schedule.now
        self.cut(to: 0)
        self.agent.changed(self.path)
    }

    private func cut(to byteCount: Int) {
        self.trouble.holes = []
        self.withTool { (tool) throws(FileSystemError) in
            try tool.truncate(try tool.open(self.path, .append), to: byteCount)
        }
        self.agent.disk.memory.node(at: self.path)?.settle()
    }

    // MARK: Shorter

    /// For a moment a mount shows an old length.
    func dip() {
        // Two in a row are one that lasts too long for an agent that looks seldom.
        guard !self.isUndecided, let node = self.restingNode else { return }
        let bytes = node.bytes
        let head = bytes.firstIndex(of: 0x0A).map { $0 + 1 } ?? 0
        // Below its first line it is another content at once.
        let start = self.life.fileDice.chance(900) ? head : 0
        let end = self.life.fileDice.int(start..<max(start + 1, bytes.count))
        let rest = Array(bytes[end...])
        self.life.note("\(self.path) has \(end) of its \(bytes.count) bytes for a moment")
        if end < head || self.life.knows(.bareRemounts) || !self.agent.isKept(node) {
            self.agent.forgetHeard(bytes)
            self.life.allowCopy(of: FileLines.of(bytes))
            // What was not shipped of it is told, though it comes back.
            self.life.mayBeTold(lost: bytes.count)
        }
        self.excuseMirror()
        self.trouble.cutAt = self.life.schedule.now
        self.cut(to: end)
        self.agent.changed(self.path)
        self.isTearing = true
        let path = self.path
        self.life.schedule.after(self.life.fileDice.milliseconds(10...4_500)) { [self] in
            self.append(rest, to: path)
            self.isTearing = false
            self.life.note("\(path) has them again")
            self.agent.changed(path)
        }
    }

    /// The last lines are taken back, and others follow.
    func takeBack() {
        guard let node = self.restingNode else { return }
        let (bytes, seen) = (node.bytes, node.seenEnd)
        let starts = [0] + bytes.indices.filter { bytes[$0] == 0x0A }.map { $0 + 1 }.dropLast()
        guard starts.count > 2 else { return }
        let end = starts[starts.count - self.life.fileDice.int(1...2)]
        let isKnown = FileLines.isKnown(bytes, node.readEnd) && !self.isUndecided
        self.excuseMirror()
        self.trouble.cutAt = self.life.schedule.now
        self.life.note("\(self.path) is cut from \(bytes.count) to \(end) bytes")
        let isRegrown = self.life.fileDice.chance(500)
        // At most one batch is shipped again, if the agent sees the file short, has all ends of batches, and has heard that
        // they are durable, and not of a copy.
        let isHeard = FileLines.of(bytes[..<end]).allSatisfy {
            self.agent.hasHeard($0) || self.life.ledger.isIgnored($0)
        }
        let isSure = !isRegrown && self.life.rules.boundsRereads && isHeard && self.trouble.copyCount == 0
        let start = isSure ? max(0, end - self.agent.fileRecord.batchByteCountMax) : 0
        self.life.allowCopy(of: FileLines.of(bytes[..<end]).filter { $0.endIndex >= start })
        self.life.takenAway(bytes[end...], seen: isKnown ? seen - end : 0)
        self.life.cutAway(FileLines.of(bytes[end...]), isKnown: isKnown)
        self.agent.forgetHeard(bytes[end...])
        // An agent that never sees it short ships all of it again, and tells so if that is cut, too.
        if isRegrown { self.life.mayBeTold(lost: end) }
        self.cut(to: end)
        self.agent.fileRecord.followers.insert(self.path)
        self.agent.changed(self.path)
        if isRegrown { for _ in 0..<self.life.fileDice.int(1...4) { self.write() } }
    }

    /// It is cut to nothing and soon longer than it was; the agent may see it short, or not.
    func regrow() {
        guard let node = self.restingNode else { return }
        let byteCount = node.bytes.count
        self.copyTruncate()
        guard node.bytes.isEmpty, self.file != nil else { return }
        let pause = self.life.fileDice.pick([0, 0, 300, 3_000])
        self.life.schedule.after(self.life.fileDice.milliseconds(0...pause)) { [weak self] in
            guard let self, self.openNode === node, self.agent.isPowered, !self.life.isCalm else { return }
            for _ in 0..<60 where self.isShorter(than: byteCount) { self.write() }
            self.agent.changed(self.path)
        }
    }

    // MARK: Holes

    /// Its writer continues behind NULs, after the file was cut or not; or a file system shows NULs for a moment.
    func leaveHole() {
        guard let node = self.restingNode else { return }
        if self.life.fileDice.chance(400) {
            self.copyTruncate()
            guard node.bytes.isEmpty, self.file != nil else { return }
        }
        if self.life.fileDice.chance(300) { return self.showNULs(in: node) }
        let start = node.bytes.count
        let end = start + self.life.fileDice.int(4_096...20_000)
        self.life.note("\(self.path) has a hole, \(start) to \(end)")
        self.append([UInt8](repeating: 0, count: end - start) + self.agent.newLine(filledBy: 0), to: self.path)
        self.trouble.holes.append((node, start..<end))
        self.agent.changed(self.path)
    }

    /// Lines are NULs for less than five seconds, and the line behind them is there.
    private func showNULs(in node: MemoryDisk.Node) {
        let start = node.bytes.count
        var lines: [UInt8] = []
        while lines.count < 4_096 { lines += self.agent.newLine(filledBy: self.life.fileDice.int(0...900)) }
        self.life.note("\(self.path) has \(lines.count) NULs for a moment, from \(start)")
        self.append([UInt8](repeating: 0, count: lines.count) + self.agent.newLine(filledBy: 0), to: self.path)
        self.agent.changed(self.path)
        self.isTearing = true
        self.life.schedule.after(self.life.fileDice.milliseconds(10...4_500)) { [self] in
            var bytes = node.bytes
            bytes.replaceSubrange(start..<(start + lines.count), with: lines)
            // Of a content that was not read yet no one knows that it begins with NULs.
            if start == 0 { self.life.mayBeTold(lost: bytes.count) }
            // Where days pass within the moment, they are no moment's NULs.
            if !self.life.rules.remembersFiles { self.life.allowRepeats(of: FileLines.of(bytes)) }
            self.agent.disk.memory.place(self.path, bytes)
            self.isTearing = false
            self.life.note("\(self.path) has bytes in their place")
            self.agent.changed(self.path)
        }
    }

    /// A hole that is still in a file of the host, and of which its agent has told nothing, though it heard that the line
    /// behind it is durable: where a receiver's journal rots, a life may end before the agent ships anything.
    var untoldHole: Range<Int>? {
        let disk = self.agent.disk.memory
        let nodes = disk.files(below: SimulatedAgent.logs).compactMap { disk.node(at: $0.path) }
        return self.trouble.holes.first { hole in
            guard let node = nodes.first(where: { $0 === hole.node }), node.bytes.count > hole.range.upperBound,
                let line = FileLines.of(node.bytes[hole.range.upperBound...]).first
            else { return false }
            return self.agent.hasHeard(line) && !self.agent.fileRecord.hasTold(hole.range)
        }?.range
    }
}
