internal import WaybillSystem
internal import WaybillTestSupport

/// A program that appends lines of its own to a file, which someone rotates, cuts and deletes.
final class SimulatedLogger {
    let agent: SimulatedAgent
    let path: String
    private(set) var files: FaultyFiles
    var file: FileID?
    private(set) var partial: [UInt8] = []
    private var rotatedCount = 0
    var trouble = LogTrouble()

    var life: any Life { self.agent.life }

    init(on agent: SimulatedAgent, name: String) {
        self.agent = agent
        self.path = SimulatedAgent.logs + "/\(name).log"
        self.files = agent.disk.files()
    }

    /// Writes some lines.
    func act() {
        guard self.agent.isPowered else { return }
        for _ in 0..<self.life.dice.pick([1, 1, 2, 4]) { self.write() }
        self.agent.changed(self.path)
    }

    func write() {
        guard !self.isTearing else { return }
        do throws(FileSystemError) {
            if self.file == nil {
                self.file = try self.files.open(self.path, .append)
                self.partial = Self.tail(of: self.agent.disk.memory.bytes(of: self.path) ?? [])
            }
            guard let file = self.file else { return }
            try self.head(file)
            let day = self.life.dice.int(18...21)
            let isLong = self.life.rules.logs.haveLongLines && self.life.dice.chance(60)
            let filler = String(
                repeating: "z", count: isLong ? self.life.dice.int(1_900...5_000) : self.life.dice.int(0...150))
            // Some are no events, and go to quarantine.
            let head = self.life.dice.chance(900) ? "{\"time\":\"2026-11-\(day)T09:00:00.000Z\",\"name\":\"x\"," : "["
            let token = self.life.nextToken()
            let text = "\(head)\"n\":\"\(token)\",\"f\":\"\(filler)\",\"end\":\"\(token.dropFirst())\"}\n"
            var bytes = Array(text.utf8)
            if self.life.rules.logs.haveTornLines, self.life.dice.chance(100) {
                // In two pieces; a reader in between sees half a line.
                let half = bytes.count / 2
                try self.append(file, Array(bytes[..<half]))
                bytes.removeFirst(half)
                self.life.schedule.after(self.life.dice.milliseconds(1...2_000)) { [weak self] in
                    self?.finish(file, bytes)
                }
                self.isTearing = true
                return
            }
            try self.append(file, bytes)
        } catch {
            // It is a log: what cannot be written now is gone.
        }
    }

    var isTearing = false

    /// Where files are rewritten, all of them begin alike.
    private func head(_ file: FileID) throws(FileSystemError) {
        guard self.life.rules.logs.haveHeads, self.openNode?.bytes.isEmpty ?? false else { return }
        self.life.ledger.ignore(Self.firstLine)
        self.files.record()
        defer {
            // A disk without room may take a part of it: it becomes the beginning of the next line.
            self.partial += self.files.recorded().flatMap(\.bytes)
            if self.partial.last == 0x0A { self.partial = [] }
        }
        try self.files.writeAll(file, Self.firstLine + [0x0A])
    }

    static let firstLine = Array("# every file begins so".utf8)[...]

    private func finish(_ file: FileID, _ bytes: [UInt8]) {
        self.isTearing = false
        guard self.file == file, self.agent.isPowered else { return }
        do throws(FileSystemError) { try self.append(file, bytes) } catch {}
        self.agent.changed(self.path)
    }

    private func append(_ file: FileID, _ bytes: [UInt8]) throws(FileSystemError) {
        self.files.record()
        defer { self.observe(self.files.recorded().flatMap(\.bytes)) }
        try self.files.writeAll(file, bytes)
    }

    /// Each line that is whole in the file now must arrive.
    private func observe(_ written: [UInt8]) {
        self.partial += written
        while let end = self.partial.firstIndex(of: 0x0A) {
            if end > 0 { self.life.promise(self.partial[..<end], on: self.agent) }
            self.partial.removeFirst(end + 1)
        }
    }

    private static func tail(of bytes: [UInt8]) -> [UInt8] {
        guard let end = bytes.lastIndex(of: 0x0A) else { return bytes }
        return Array(bytes[(end + 1)...])
    }

    // MARK: What others do to the file

    /// Whether another file was in its place.
    var isRotated: Bool { self.rotatedCount > 0 }

    func rotate() {
        guard self.agent.isPowered, self.file != nil, !self.isTearing else { return }
        self.rotatedCount += 1
        self.excuseMirror()
        do throws(FileSystemError) {
            let old = "\(self.path).\(self.rotatedCount)"
            try self.files.rename(self.path, to: old)
            self.agent.changed(self.path)
            self.agent.changed(old)
            // The writer may not know for a while.
            if self.life.rules.logs.haveLateWrites {
                for _ in 0..<self.life.dice.int(0...3) { self.write() }
                guard !self.isTearing else { return }
            }
            self.leave()
        } catch {}
    }

    /// No one will finish the line; the file's end is a line too, once the file is over.
    private func leave() {
        if let file { self.files.close(file) }
        self.file = nil
        if !self.partial.isEmpty { self.life.ledger.allow(self.partial[...]) }
        self.partial = []
    }

    func copyTruncate() {
        guard self.agent.isPowered, let file, !self.isTearing else { return }
        guard let node = self.openNode else { return }
        let bytes = node.bytes
        let readByteCount = node.readEnd
        let seenByteCount = node.seenEnd
        self.excuseMirror()
        do throws(FileSystemError) { try self.files.truncate(file, to: 0) } catch {}
        // The disk may have failed and done it all the same.
        guard node.bytes.isEmpty else { return }
        // What comes back after a power cut would be a third file.
        node.settle()
        self.life.note("\(self.path) was cut, \(readByteCount) of its \(bytes.count) bytes were read")
        let isKnown = FileLines.isKnown(bytes, readByteCount) && !self.isUndecided
        self.trouble.cutAt = self.life.schedule.now
        self.trouble.holes = []
        self.life.takenAway(bytes[...], seen: isKnown ? seenByteCount : 0)
        self.agent.forgetHeard(bytes)
        self.life.cutAway(FileLines.of(bytes), isKnown: isKnown)
        self.partial = []
        self.agent.changed(self.path)
    }

    /// Another content takes the place of the file's, in the same inode, often of the same length.
    func rewrite() {
        guard self.agent.isPowered, self.file != nil, !self.isTearing, let node = self.openNode else { return }
        let byteCount = node.bytes.count
        self.copyTruncate()
        guard node.bytes.isEmpty else { return }
        for _ in 0..<self.life.dice.pick([0, 1, 3, 6]) { self.write() }
        let token = self.life.nextToken()
        let missing = byteCount - node.bytes.count - Self.closingLine(token, filledBy: 0).count
        guard !self.isTearing, self.partial.isEmpty, missing > 0, let file, self.life.dice.chance(700) else { return }
        do throws(FileSystemError) {
            try self.append(file, Self.closingLine(token, filledBy: min(missing, 1_500)))
        } catch {}
        self.agent.changed(self.path)
    }

    /// The most bytes at the end of a rewritten file that say nothing.
    ///
    /// A proof covers the last 512: of two contents that are equal there, equally long, and in one inode with one first
    /// line, the second is not told from the first.
    private static let plainEndByteCountMax = 400

    /// A line that no one else writes, with so many bytes that say nothing before and after its token.
    private static func closingLine(_ token: String, filledBy byteCount: Int) -> [UInt8] {
        let endByteCount = min(byteCount, Self.plainEndByteCountMax)
        let start = String(repeating: "w", count: byteCount - endByteCount)
        let end = String(repeating: "w", count: endByteCount)
        return Array(
            "{\"time\":\"2026-11-20T09:00:00.000Z\",\"name\":\"x\",\"f\":\"\(start)\",\"n\":\"\(token)\(end)\"}\n".utf8)
    }

    /// Deletes an old file, read or not.
    func deleteOld() {
        guard self.agent.isPowered, self.rotatedCount > 0 else { return }
        let path = "\(self.path).\(self.life.dice.int(1...self.rotatedCount))"
        guard let node = self.agent.disk.memory.node(at: path), node !== self.openNode else { return }
        do throws(FileSystemError) { try self.files.unlink(path) } catch {}
        guard self.agent.disk.memory.node(at: path) == nil else { return }
        // As above: it does not come back.
        self.agent.disk.memory.node(at: SimulatedAgent.logs)?.settle()
        self.life.note("\(path) was deleted, \(node.readEnd) of its \(node.bytes.count) bytes were read")
        let isKnown = FileLines.isKnown(node.bytes, node.readEnd) && !self.isUndecided
        self.life.takenAway(node.bytes[...], seen: isKnown ? node.seenEnd : 0)
        self.life.cutAway(FileLines.of(node.bytes), isKnown: isKnown)
        self.agent.changed(path)
    }

    func powerCut() {
        self.files.die()
        self.files = self.agent.disk.files()
        self.file = nil
        self.partial = []
        self.isTearing = false
    }

    func end() {
        self.leave()
    }
}
