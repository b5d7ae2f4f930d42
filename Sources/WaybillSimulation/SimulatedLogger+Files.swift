internal import WaybillSystem
internal import WaybillTestSupport

/// What programs other than its writer do to a log, and what may become of its lines then.
extension SimulatedLogger {
    /// Whether all files begin alike.
    var haveHeads: Bool {
        self.site.knows(.rewrites) || self.site.knows(.regrowths) || self.site.knows(.likeMirrors)
    }

    /// Whether the agent may wait to see what the file has: what it sees meanwhile is of no content.
    var isUndecided: Bool {
        let time = max(self.cutAt ?? .min, self.mirrored?.time ?? .min)
        return time > self.site.schedule.now - .seconds(15)
    }

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

    private static func lines(_ bytes: some Collection<UInt8>) -> [ArraySlice<UInt8>] {
        Array(bytes).split(separator: 0x0A)
    }

    // MARK: Written again

    /// Whether what was written again under its name cannot be known yet, after that other things may have happened to it.
    func excuseMirror() {
        guard let mirrored, mirrored.time > self.site.schedule.now - .seconds(60) else { return }
        self.site.allowCopy(of: Self.lines(mirrored.bytes))
        self.mirrored = nil
    }

    /// A file with these bytes takes the place of the log; its writer goes on in it.
    ///
    /// - Parameter keepsOld: whether the old one gets another name, which is one of the source's, too.
    private func replace(with bytes: [UInt8], keepsOld: Bool) {
        self.copyCount += 1
        let (new, old) = ("\(self.path.dropLast(4)).tmp", "\(self.path).\(self.copyCount)~")
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
        let keepsOld = self.site.fileDice.chance(200)
        let isProven = !keepsOld && self.site.isProven(bytes)
        self.site.note("\(self.path) is written again with its \(bytes.count) bytes\(isProven ? "" : ", not proven")")
        if !isProven {
            self.site.allowCopy(of: Self.lines(bytes))
            // What the agent has not shipped of the old file is told, though the new one has it.
            self.site.takenAway(bytes[...], seen: 0)
            self.site.forgetHeard(bytes)
        }
        self.mirrored = (self.site.schedule.now, bytes)
        self.replace(with: bytes, keepsOld: keepsOld)
        for _ in 0..<self.site.fileDice.pick([0, 1, 3]) { self.write() }
        self.agent.changed(self.path)
    }

    /// Another content in another file of its name, which begins as the old one did.
    func mirrorAnother() {
        guard let node = self.restingNode else { return }
        let bytes = node.bytes
        let ends = bytes.indices.filter { bytes[$0] == 0x0A }
        let end = self.site.fileDice.pick(ends) + 1
        let isKnown = Self.isKnown(bytes, node.readEnd) && !self.isUndecided
        self.excuseMirror()
        self.cutAt = self.site.schedule.now
        self.site.note("\(self.path) is another file now, with the first \(end) of its \(bytes.count) bytes")
        self.site.takenAway(bytes[..<end], seen: 0)
        self.site.takenAway(bytes[end...], seen: isKnown ? node.seenEnd - end : 0)
        for line in Self.lines(bytes[end...]) { self.site.ledger.cutAway(line, isKnown: isKnown) }
        self.site.allowCopy(of: Self.lines(bytes[..<end]))
        self.site.forgetHeard(bytes)
        self.replace(with: Array(bytes[..<end]), keepsOld: false)
        for _ in 0..<self.site.fileDice.pick([0, 1, 40]) where self.isShorter(than: bytes.count) { self.write() }
        self.agent.changed(self.path)
    }

    private func isShorter(than byteCount: Int) -> Bool { (self.openNode?.bytes.count ?? 0) <= byteCount }

    // MARK: Copied

    /// The copy is beside its original and grows by itself: a file that is there is no predecessor.
    func copy() {
        guard let node = self.restingNode else { return }
        let path = self.placeCopy(of: node.bytes)
        for pause in [300, 4_000] {
            self.site.schedule.after(self.site.fileDice.milliseconds(0...pause)) { [self] in
                guard self.agent.isPowered, !self.site.isCalm, self.agent.disk.memory.node(at: path) != nil else {
                    return
                }
                let token = self.site.nextToken()
                let line = Array("{\"time\":\"2026-11-20T09:00:00.000Z\",\"name\":\"x\",\"n\":\"\(token)\"}".utf8)
                self.site.ledger.promise(line[...])
                self.append(line + [0x0A], to: path)
                self.agent.changed(path)
            }
        }
    }

    private func placeCopy(of bytes: [UInt8]) -> String {
        self.copyCount += 1
        let path = "\(self.path).\(self.copyCount)c"
        self.excuseMirror()
        self.site.note("\(path) has the \(bytes.count) bytes of \(self.path)")
        self.site.allowCopy(of: Self.lines(bytes))
        self.agent.disk.memory.place(path, bytes)
        self.agent.copies[path] = self.path
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
        self.site.takenAway(bytes[...], seen: 0)
        self.site.forgetHeard(bytes)
        self.cutAt = self.site.schedule.now
        self.cut(to: 0)
        self.agent.changed(self.path)
    }

    private func cut(to byteCount: Int) {
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
        let start = self.site.fileDice.chance(900) ? head : 0
        let end = self.site.fileDice.int(start..<max(start + 1, bytes.count))
        let rest = Array(bytes[end...])
        self.site.note("\(self.path) has \(end) of its \(bytes.count) bytes for a moment")
        if end < head { self.site.forgetHeard(bytes) }
        let isKept = !self.site.knows(.bareRemounts) && self.site.isKept(node)
        if end < head || !isKept { self.site.allowCopy(of: Self.lines(bytes)) }
        self.excuseMirror()
        self.cutAt = self.site.schedule.now
        self.cut(to: end)
        self.agent.changed(self.path)
        self.isTearing = true
        let path = self.path
        self.site.schedule.after(self.site.fileDice.milliseconds(10...4_500)) { [self] in
            self.append(rest, to: path)
            self.isTearing = false
            self.site.note("\(path) has them again")
            self.agent.changed(path)
        }
    }

    /// The last lines are taken back, and others follow.
    func takeBack() {
        guard let node = self.restingNode else { return }
        let (bytes, seen) = (node.bytes, node.seenEnd)
        let starts = [0] + bytes.indices.filter { bytes[$0] == 0x0A }.map { $0 + 1 }.dropLast()
        guard starts.count > 2 else { return }
        let end = starts[starts.count - self.site.fileDice.int(1...2)]
        let isKnown = Self.isKnown(bytes, node.readEnd) && !self.isUndecided
        self.excuseMirror()
        self.cutAt = self.site.schedule.now
        self.site.note("\(self.path) is cut from \(bytes.count) to \(end) bytes")
        let isRegrown = self.site.fileDice.chance(500)
        // At most one batch is shipped again, if the agent sees the file short and has all ends of batches.
        let isSure =
            self.site.remembersFiles && self.site.openFileCountMax == 512 && !isRegrown
            && self.site.troubles.isDisjoint(with: [.agentDeaths, .agentStops, .missedHints, .noHints])
            && self.site.fileTroubles.isDisjoint(with: [.fewDescriptors, .deviceNumbers, .bareRemounts])
        let start = isSure ? max(0, end - self.agent.batchByteCountMax) : 0
        self.site.allowCopy(of: Self.lines(bytes[..<end]).filter { $0.endIndex >= start })
        self.site.takenAway(bytes[end...], seen: isKnown ? seen - end : 0)
        for line in Self.lines(bytes[end...]) { self.site.ledger.cutAway(line, isKnown: isKnown) }
        self.site.forgetHeard(bytes[end...])
        self.cut(to: end)
        self.agent.followers.insert(self.path)
        self.agent.changed(self.path)
        if isRegrown { for _ in 0..<self.site.fileDice.int(1...4) { self.write() } }
    }

    /// It is cut to nothing and soon longer than it was; the agent may see it short, or not.
    func regrow() {
        guard let node = self.restingNode else { return }
        let byteCount = node.bytes.count
        self.copyTruncate()
        guard node.bytes.isEmpty, self.file != nil else { return }
        let pause = self.site.fileDice.pick([0, 0, 300, 3_000])
        self.site.schedule.after(self.site.fileDice.milliseconds(0...pause)) { [weak self] in
            guard let self, self.openNode === node, self.agent.isPowered, !self.site.isCalm else { return }
            for _ in 0..<60 where self.isShorter(than: byteCount) { self.write() }
            self.agent.changed(self.path)
        }
    }
}
