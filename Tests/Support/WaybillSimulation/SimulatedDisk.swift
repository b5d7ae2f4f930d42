internal import WaybillCompression
internal import WaybillSystem
internal import WaybillTestSupport

/// One machine's disk, whose calls fail by chance for every process on it.
final class SimulatedDisk {
    let memory: MemoryDisk
    private let dice: Dice
    /// A write that fails may have stored everything.
    var failsAfterWrites = true
    /// Every write fails for want of space.
    var isFull = false
    /// Of a thousand changing calls so many fail.
    var errorPerMille = 0
    var syncErrorPerMille = 0
    var shortWritePerMille = 0
    /// How many files the agent's process may have open besides what it always has; `nil` for any number.
    var descriptorCountMax: Int?
    /// How many of these other parts of that process have.
    var otherDescriptorCount = 0
    /// Whether the link to the spool has led elsewhere.
    var hasOtherWay = false
    /// Hears of each fault.
    var trace: ((String) -> Void)?

    init(_ dice: Dice, _ clock: SimulatedClock, hasBirths: Bool = true) {
        self.dice = dice
        self.memory = MemoryDisk(hasBirths: hasBirths, clock: { clock.fileTime })
    }

    /// Ends every trouble that the disk makes by chance.
    func recover() {
        self.isFull = false
        self.errorPerMille = 0
        self.syncErrorPerMille = 0
        self.shortWritePerMille = 0
        // Of the eight that an agent keeps free, its registry, a copy of a line and that one's folder need three.
        self.otherDescriptorCount = min(self.otherDescriptorCount, 5)
    }

    // MARK: Processes

    /// The files of a new process.
    ///
    /// - Parameters:
    ///   - bugs: what is planted where it meets the disk.
    ///   - callCount: it dies in so many changing calls from now.
    ///   - isAgent: whether it is an agent, whose descriptors are few.
    ///   - unlinks: hears of each path before it is unlinked.
    func files(
        bugs: Set<PlantedBug> = [], dyingIn callCount: Int? = nil, isAgent: Bool = false,
        unlinks: ((String) -> Void)? = nil
    ) -> FaultyFiles {
        let files = FaultyFiles(self.memory)
        var rest = callCount
        files.setFaults { call in
            if !bugs.isEmpty, Self.skips(call, bugs) { return .skipped }
            if isAgent, bugs.contains(.searchParentAlone), Self.isSearch(call) { return .error(Errno.noEntry) }
            if isAgent, self.hasOtherWay, bugs.contains(.followLinksOnce), call.path.hasPrefix(SimulatedAgent.way) {
                return .error(Errno.noEntry)
            }
            if isAgent, self.lacksDescriptor(call) {
                return .error(bugs.contains(.ignoreFewDescriptors) ? Errno.inputOutput : Errno.tooManyFiles)
            }
            guard call.isChange else {
                guard call.verb == .read, call.byteCount > 1, self.dice.chance(self.shortWritePerMille) else {
                    return nil
                }
                return self.part(of: call.byteCount, 1...call.byteCount)
            }
            rest = rest.map { $0 - 1 }
            if call.verb == .unlink { unlinks?(call.path) }
            var fault = rest == 0 ? self.death(in: call) : self.chance(in: call)
            if !bugs.isEmpty { Self.plant(bugs, in: &fault, call) }
            if let fault, let trace = self.trace { trace(Self.text(fault, in: call)) }
            return fault
        }
        return files
    }

    /// Whether files are looked for in a folder that no pattern names.
    private static func isSearch(_ call: FaultyFiles.Call) -> Bool {
        call.verb == .list
            && ["/pods", "/releases", "/logs"].contains { call.path.hasPrefix(SimulatedAgent.links + $0) }
    }

    private func lacksDescriptor(_ call: FaultyFiles.Call) -> Bool {
        guard call.verb == .open || call.verb == .list, let most = self.descriptorCountMax else { return false }
        return call.openCount + self.otherDescriptorCount >= most
    }

    /// How a process dies in a call: before it, in the middle, or after it.
    private func death(in call: FaultyFiles.Call) -> FaultyFiles.Fault {
        let dead = Errno.inputOutput
        var fault =
            switch self.dice.int(0..<3) {
            case 0: FaultyFiles.Fault.error(dead)
            case 1: self.half(of: call, dead, mayBeWhole: true)
            default: FaultyFiles.Fault(share: 1)
            }
        fault.isFatal = true
        return fault
    }

    private func chance(in call: FaultyFiles.Call) -> FaultyFiles.Fault? {
        let (isWrite, room) = (call.verb == .write, Errno.noSpace)
        if isWrite, self.isFull {
            // The last room is used up; the next call finds none.
            return self.dice.chance(700) ? .error(room) : self.part(of: call.byteCount, 1...call.byteCount)
        }
        if call.verb == .synchronize && self.dice.chance(self.syncErrorPerMille) || self.dice.chance(self.errorPerMille)
        {
            let errno = Errno.inputOutput
            return self.dice.chance(500)
                ? .error(errno) : self.half(of: call, errno, mayBeWhole: self.failsAfterWrites)
        }
        if isWrite, self.dice.chance(self.shortWritePerMille) {
            return self.part(of: call.byteCount, 1...call.byteCount)
        }
        return self.isFull && (call.verb == .open || call.verb == .createDirectory) ? .error(room) : nil
    }

    private static func text(_ fault: FaultyFiles.Fault, in call: FaultyFiles.Call) -> String {
        let share = Int(fault.share * 100)
        let end = fault.isFatal ? ", and the process dies" : fault.errno.map { ", then error \($0)" } ?? ""
        return "  fault: \(share) % of the \(call.verb) of \(call.path)\(end)"
    }

    /// A part of the call happens, then the error; a name either changes or it does not, and the error comes all the same.
    private func half(of call: FaultyFiles.Call, _ errno: Int32, mayBeWhole: Bool) -> FaultyFiles.Fault {
        switch call.verb {
        case .write: self.part(of: call.byteCount, 0...(mayBeWhole ? call.byteCount : call.byteCount - 1), errno)
        case .synchronize: .half(errno)
        default: FaultyFiles.Fault(share: 1, errno: errno)
        }
    }

    /// So many bytes of `whole`, to the byte.
    private func part(of whole: Int, _ range: ClosedRange<Int>, _ errno: Int32? = nil) -> FaultyFiles.Fault {
        FaultyFiles.Fault(share: Double(self.dice.int(range)) / Double(whole), errno: errno)
    }

    // MARK: Planted bugs

    private static func skips(_ call: FaultyFiles.Call, _ bugs: Set<PlantedBug>) -> Bool {
        let path = call.path
        return bugs.contains { bug in
            switch bug {
            case .skipJournalSync: call.verb == .synchronize && path.contains("/journal/")
            case .skipSealSync: call.verb == .synchronize && path.hasSuffix(".gz.tmp")
            case .checkpointBeforeData: call.verb == .synchronize && path.contains("/archive/")
            case .skipDirectorySync: call.verb == .synchronizeDirectory
            case .keepTails: call.verb == .truncate && path.contains("/archive/")
            case .forgetSeals: call.verb == .status && (path.hasSuffix("/manifest.json") || path.hasSuffix(".gz"))
            case .skipErasureSync:
                call.verb == .synchronize && (path.hasSuffix(".erase") || path.hasSuffix(".erase.gz.tmp"))
            case .forgetPoison: call.verb == .status && path.contains("/_poison")
            case .forgetErasures: call.verb == .status && path.contains("erasures")
            case .ignoreLocks: call.verb == .lock
            default: false
            }
        }
    }

    private static func plant(_ bugs: Set<PlantedBug>, in fault: inout FaultyFiles.Fault?, _ call: FaultyFiles.Call) {
        if bugs.contains(.countInsteadOfCompare), call.verb == .write, call.path.contains("/archive/") {
            fault = fault ?? FaultyFiles.Fault(share: 1)
            fault?.doublesALine = true
        }
        let isTrusted =
            switch call.verb {
            case .write:
                bugs.contains(.trustFailedWrites) || bugs.contains(.trustShortWrites) && fault?.errno == nil
            case .synchronize: bugs.contains(.trustFailedSync)
            default: false
            }
        if isTrusted { fault?.isIgnored = true }
    }

    // MARK: What is on it

    /// Every file of lines of archive and quarantine, open or sealed, by its path before it was sealed.
    func storedFiles() -> [(path: String, bytes: [UInt8])] {
        (self.files(below: "/data/archive") + self.files(below: "/data/quarantine")).filter {
            $0.path.hasSuffix(".ndjson")
        }
    }

    /// The files below a folder, compressed ones as they were before.
    func files(below folder: String) -> [(path: String, bytes: [UInt8])] {
        var files: [String: [UInt8]] = [:]
        let stored = self.memory.files(below: folder)
        for (path, bytes) in stored where !path.hasSuffix(".gz") && !path.hasSuffix(".gz.tmp") { files[path] = bytes }
        for (path, bytes) in stored where path.hasSuffix(".gz") {
            // While a file is compressed it is there in both forms.
            let path = String(path.dropLast(3))
            if files[path] == nil { files[path] = Self.inflate(bytes) }
        }
        return files.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// As far as it can be inflated.
    static func inflate(_ bytes: [UInt8]) -> [UInt8] {
        var inflater = GzipInflater()
        var output: [UInt8] = []
        bytes.withUnsafeBytes { input in
            let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
            defer { room.deallocate() }
            var position = 0
            while true {
                let rest = UnsafeRawBufferPointer(rebasing: input[position...])
                guard let (taken, filled) = try? inflater.inflate(rest, into: room), taken + filled > 0 else { return }
                position += taken
                output += room[..<filled]
            }
        }
        return output
    }

    // MARK: What happens to it

    /// One bit of a file at rest flips.
    func rot(_ path: String) {
        guard var bytes = self.memory.bytes(of: path), !bytes.isEmpty else { return }
        bytes[self.dice.int(0..<bytes.count)] ^= 1 << UInt8(self.dice.int(0..<8))
        self.memory.place(path, bytes)
    }

    /// The power fails: every process is dead already, memory is lost.
    func cutPower() {
        var dice = self.dice
        self.memory.crash(using: &dice)
    }
}
