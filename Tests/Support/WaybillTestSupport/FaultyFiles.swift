/// A process on a disk in memory, whose calls fail and which can die in any of them.
///
/// Before each call but a close it is asked what goes wrong, in this order: the fault of this call by its number, of
/// the call by its verb and path, then of the plan, which sees the whole call: it may count, throw dice, or plant a bug.
///
///     let disk = FaultyFiles()
///     disk.fail(call: 3, .error(EIO))                   the third call from now
///     disk.fail(.unlink, of: "/spool/a", .error(EIO))   each such call
///     disk.setFaults { $0.isChange ? .short : nil }     the plan
///     disk.stop(atCall: 7); …; disk.crash(seed: 1)      the process dies in the call, and the power fails
///
/// A process that is dead has closed its files; each call of it fails, and what its values still close is not the next
/// one's. ``kill()`` and ``crash(seed:)`` put the next process in its place.
package import WaybillSystem

/// A verb of ``FileSystem``, in an open folder or by a path.
package enum FileVerb: String, Hashable, Sendable {
    case open, read, write, synchronize, truncate, status, setPermissions, lock, rename, exchange, unlink,
        createDirectory
    case removeDirectory, list, synchronizeDirectory, synchronizeAll, space
}

/// The files of one process on a disk in memory.
///
/// `@unchecked Sendable`: what changes is reached under `mutex`; the plan is called under it.
package final class FaultyFiles: MemoryFiles, @unchecked Sendable {
    /// A call that is about to be made.
    package struct Call {
        /// How many calls came before it.
        package let number: Int
        package let verb: FileVerb
        package let path: String
        /// Of a write, and of a read that stands at its end.
        package let byteCount: Int
        /// Whether the disk is another one after it; a sync is a change, too.
        package let isChange: Bool
        /// Of an open.
        package let mode: OpenMode?
        /// How many files the process has open.
        package let openCount: Int
    }

    /// What goes wrong in a call.
    package struct Fault: Hashable, Sendable {
        /// How much of a write is stored, or of a sync; other changes are made or not.
        package var share: Double
        /// What the caller gets; `nil`: the call returns what it did.
        package var errno: Int32?
        /// What the next call fails with.
        package var nextErrno: Int32?
        /// Whether the process dies in the call.
        package var isFatal = false
        /// A planted bug: the caller takes the call for a good one, whatever it did.
        package var isIgnored = false
        /// A planted bug: of two lines of one length in a write, the first is stored twice.
        package var doublesALine = false

        package init(share: Double, errno: Int32? = nil, nextErrno: Int32? = nil) {
            self.share = share
            self.errno = errno
            self.nextErrno = nextErrno
        }

        /// The call does nothing but fail; a sync that fails loses the pages.
        package static func error(_ errno: Int32) -> Fault { Fault(share: 0, errno: errno) }
        /// A write stores half of its bytes and fails; a sync loses the pages of the other half; other calls fail.
        package static func half(_ errno: Int32) -> Fault { Fault(share: 0.5, errno: errno) }
        /// A write stores half of its bytes and a read gives half, and both return that; other calls work.
        package static let short = Fault(share: 0.5)
        /// A write is ``short`` and the next call fails; other calls fail themselves.
        package static func short(thenError errno: Int32) -> Fault { Fault(share: 0.5, nextErrno: errno) }
        /// A planted bug: the call does nothing and works; nothing is at a path, every lock is free.
        package static let skipped = {
            var fault = Fault(share: 0)
            fault.isIgnored = true
            return fault
        }()

        /// The process dies in the middle of the call.
        fileprivate static let death = {
            var fault = Fault.half(Errno.inputOutput)
            fault.isFatal = true
            return fault
        }()

        /// Whether a change that cannot be made in part is made.
        fileprivate var isDone: Bool { self.share == 1 || self.share > 0 && self.errno == nil }

        /// The share of so many bytes; what returns less than one would be an error, what fails may have done nothing.
        fileprivate func part(of byteCount: Int) -> Int {
            // The sum is for shares that were bytes of these.
            let count = Int(Double(byteCount) * self.share + 0.001)
            return self.errno == nil && !self.isIgnored ? max(1, count) : count
        }
    }

    package let memory: MemoryDisk
    /// Whether other machines use the disk, too.
    package let isShared = Lock(false)
    private let mutex = Lock(())
    private var plan: ((Call) -> Fault?)?
    private var faults: [Int: Fault] = [:]
    private var pathFaults: [String: Fault] = [:]
    private var nextErrno: Int32?
    private var openPaths: [Int32: String] = [:]
    private var counts = (calls: 0, faults: 0)
    private var stopCall: Int?
    private var isDead = false
    private var unlinked: [String] = []
    private var recording: [(path: String, bytes: [UInt8])]?

    package init(_ memory: MemoryDisk = MemoryDisk()) {
        self.memory = memory
    }

    // MARK: Faults

    /// Calls that can fail, since the process began.
    package var callCount: Int { self.mutex.withLock { _ in self.counts.calls } }

    /// Faults that struck.
    package var faultCount: Int { self.mutex.withLock { _ in self.counts.faults } }

    /// Every path that the process has unlinked, in order.
    package var unlinkedPaths: [String] { self.mutex.withLock { _ in self.unlinked } }

    /// Whether the process has died and no other has taken its place.
    package var isStopped: Bool { self.mutex.withLock { _ in self.isDead } }

    /// Puts a fault on the `number`th call from now on; 1 is the next.
    package func fail(call number: Int, _ fault: Fault) {
        self.mutex.withLock { _ in self.faults[self.counts.calls + number - 1] = fault }
    }

    /// Makes every call of a kind on a path fail; `nil` ends it.
    package func fail(_ verb: FileVerb, of path: String, _ fault: Fault?) {
        self.mutex.withLock { _ in self.pathFaults["\(verb) \(path)"] = fault }
    }

    /// Lets the process die in the middle of the `number`th call from now on.
    package func stop(atCall number: Int) {
        self.mutex.withLock { _ in self.stopCall = self.counts.calls + number - 1 }
    }

    /// Asks `plan` before every call.
    package func setFaults(_ plan: @escaping (Call) -> Fault?) {
        self.mutex.withLock { _ in self.plan = plan }
    }

    /// Makes calls that change something fail at random, so many of a thousand.
    package func failAtRandom(seed: UInt64, perMille: Int) {
        var generator = SeededGenerator(seed: seed)
        let faults: [Fault] = [
            .error(Errno.inputOutput), .error(Errno.noSpace), .short,
            .half(Errno.noSpace), .half(Errno.inputOutput),
        ]
        self.setFaults { call in
            guard call.isChange || call.mode == .append, Int.random(in: 0..<1000, using: &generator) < perMille else {
                return nil
            }
            return faults.randomElement(using: &generator)
        }
    }

    package func clearFaults() {
        self.mutex.withLock { _ in
            self.plan = nil
            self.faults = [:]
            self.pathFaults = [:]
            self.nextErrno = nil
            self.stopCall = nil
        }
    }

    // MARK: Life and death

    /// The process dies, and its kernel closes what it had open.
    package func die() {
        let open = self.mutex.withLock { _ in
            self.isDead = true
            defer { self.openPaths = [:] }
            return self.openPaths.keys.sorted()
        }
        for number in open { self.memory.close(FileID(rawValue: number)) }
    }

    /// The process dies and another takes its place; the kernel and its pages live on.
    package func kill() {
        self.die()
        self.clearFaults()
        self.mutex.withLock { _ in self.isDead = false }
    }

    /// The power fails and comes back, and another process takes the place of this one.
    package func crash(seed: UInt64) {
        self.kill()
        var generator = SeededGenerator(seed: seed)
        self.memory.crash(using: &generator)
    }

    /// From now on what is written is kept for ``recorded()``.
    package func record() {
        self.mutex.withLock { _ in self.recording = [] }
    }

    /// What was stored since ``record()``, by the path that it was written to.
    package func recorded() -> [(path: String, bytes: [UInt8])] {
        self.mutex.withLock { _ in
            defer { self.recording = nil }
            return self.recording ?? []
        }
    }

    // MARK: What happens in a call

    private func requireLife(_ verb: FileVerb, _ path: String) throws(FileSystemError) {
        if self.isDead { throw FileSystemError(verb.rawValue, path: path, errno: Errno.inputOutput) }
    }

    /// Counts a call that can fail, and says what goes wrong in it.
    private func fault(
        in verb: FileVerb, _ path: String, byteCount: Int = 1, isChange: Bool = true, mode: OpenMode? = nil
    ) throws(FileSystemError) -> Fault? {
        try self.mutex.withLock { _ throws(FileSystemError) in
            try self.requireLife(verb, path)
            let number = self.counts.calls
            self.counts.calls += 1
            var fault = number == self.stopCall ? .death : self.nextErrno.map { .error($0) } ?? self.faults[number]
            if fault == nil, !self.pathFaults.isEmpty { fault = self.pathFaults["\(verb) \(path)"] }
            let call = Call(
                number: number, verb: verb, path: path, byteCount: byteCount, isChange: isChange, mode: mode,
                openCount: self.openPaths.count)
            if fault == nil { fault = self.plan?(call) }
            guard var fault else { return nil }
            self.nextErrno = nil
            self.counts.faults += 1
            if let errno = fault.nextErrno {
                if verb == .write { self.nextErrno = errno } else { fault = .error(errno) }
            }
            return fault
        }
    }

    /// Ends a call in which something went wrong.
    private func end(_ verb: FileVerb, _ path: String, _ fault: Fault) throws(FileSystemError) {
        if fault.isFatal {
            self.die()
            throw FileSystemError(verb.rawValue, path: path, errno: Errno.inputOutput)
        }
        guard let errno = fault.errno, !fault.isIgnored else { return }
        throw FileSystemError(verb.rawValue, path: path, errno: errno)
    }

    /// Makes a change, unless it fails before.
    private func change(
        _ verb: FileVerb, _ path: String, _ body: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard let fault = try self.fault(in: verb, path) else { return try body() }
        if fault.isDone { try body() }
        try self.end(verb, path, fault)
    }

    /// Asks the disk, unless the call fails; `skipped` is what a planted bug hears.
    private func ask<Answer>(
        _ verb: FileVerb, _ path: String, skipped: Answer? = nil, _ body: () throws(FileSystemError) -> Answer
    ) throws(FileSystemError) -> Answer {
        guard let fault = try self.fault(in: verb, path, isChange: false) else { return try body() }
        try self.end(verb, path, fault)
        if let skipped, fault == .skipped { return skipped }
        return try body()
    }

    private func path(of file: FileID, _ verb: FileVerb) throws(FileSystemError) -> String {
        try self.mutex.withLock { _ throws(FileSystemError) in
            try self.requireLife(verb, "")
            guard let path = self.openPaths[file.rawValue] else { preconditionFailure("\(verb) of a closed file") }
            return path
        }
    }

    // MARK: FileSystem

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        let isReading = mode == .read || mode == .folder
        let isChange = mode == .replace || !isReading && self.memory.node(at: path) == nil
        return try self.open(path, isChange: isChange, mode) { () throws(FileSystemError) in
            try self.memory.open(path, mode)
        }
    }

    private func open(
        _ path: String, isChange: Bool, _ mode: OpenMode, _ body: () throws(FileSystemError) -> FileID
    ) throws(FileSystemError) -> FileID {
        let fault = try self.fault(in: .open, path, isChange: isChange, mode: mode)
        guard fault?.isDone ?? true else {
            try self.end(.open, path, fault ?? .skipped)
            preconditionFailure("an open cannot be skipped")
        }
        let file = try body()
        self.mutex.withLock { _ in self.openPaths[file.rawValue] = path }
        guard let fault else { return file }
        do throws(FileSystemError) {
            try self.end(.open, path, fault)
        } catch {
            self.close(file)
            throw error
        }
        return file
    }

    package func close(_ file: FileID) {
        guard self.mutex.withLock({ _ in self.openPaths.removeValue(forKey: file.rawValue) != nil }) else { return }
        self.memory.close(file)
    }

    package func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        let path = try self.path(of: file, .read)
        let count = try self.memory.read(file, at: offset, into: buffer)
        guard let fault = try self.fault(in: .read, path, byteCount: count, isChange: false) else { return count }
        try self.end(.read, path, fault)
        return count == 0 ? 0 : fault.part(of: count)
    }

    package func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        try self.write(file, vector: [bytes])
    }

    package func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        let path = try self.path(of: file, .write)
        let whole = vector.reduce(0) { $0 + $1.count }
        guard whole > 0 else { return 0 }
        guard let fault = try self.fault(in: .write, path, byteCount: whole) else {
            if self.recording != nil { self.recording?.append((path, Array(vector.joined()))) }
            return try self.memory.write(file, vector: vector)
        }
        var bytes = Array(vector.joined().prefix(fault.part(of: whole)))
        if fault.doublesALine { Self.doubleALine(&bytes) }
        try self.memory.writeAll(file, bytes)
        self.recording?.append((path, bytes))
        try self.end(.write, path, fault)
        return fault.isIgnored ? whole : bytes.count
    }

    private static func doubleALine(_ bytes: inout [UInt8]) {
        let lines = bytes.split(separator: 0x0A)
        for (first, second) in zip(lines, lines.dropFirst()) where first.count == second.count {
            return bytes.replaceSubrange(second.indices, with: Array(first))
        }
    }

    package func synchronize(_ file: FileID) throws(FileSystemError) {
        let path = try self.path(of: file, .synchronize)
        guard let fault = try self.fault(in: .synchronize, path) else { return try self.memory.synchronize(file) }
        if fault.isDone {
            try self.memory.synchronize(file)
        } else if fault.errno != nil, !fault.isFatal {
            // A process that dies in the call learns nothing of the disk's errors, and there was none.
            self.memory.losePages(file, after: fault.share)
        }
        try self.end(.synchronize, path, fault)
    }

    package func synchronizeAll(in folder: FileID) throws(FileSystemError) -> Bool {
        let path = try self.path(of: folder, .synchronizeAll)
        guard let fault = try self.fault(in: .synchronizeAll, path) else {
            return try self.memory.synchronizeAll(in: folder)
        }
        if fault.isDone {
            _ = try self.memory.synchronizeAll(in: folder)
        } else if fault.errno != nil, !fault.isFatal {
            self.memory.losePages(nil, after: fault.share)
        }
        try self.end(.synchronizeAll, path, fault)
        return true
    }

    package func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        let path = try self.path(of: file, .truncate)
        try self.change(.truncate, path) { () throws(FileSystemError) in
            try self.memory.truncate(file, to: byteCount)
        }
    }

    package func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        let path = try self.path(of: file, .status)
        return try self.ask(.status, path) { () throws(FileSystemError) in try self.memory.status(file) }
    }

    package func status(at path: String) throws(FileSystemError) -> FileStatus? {
        try self.ask(.status, path, skipped: .some(nil)) { () throws(FileSystemError) in
            try self.memory.status(at: path)
        }
    }

    package func realPath(of path: String) throws(FileSystemError) -> String? {
        try self.ask(.status, path, skipped: .some(nil)) { () throws(FileSystemError) in
            try self.memory.realPath(of: path)
        }
    }

    package func status(ofEntry path: String) throws(FileSystemError) -> FileStatus? {
        try self.ask(.status, path, skipped: .some(nil)) { () throws(FileSystemError) in
            try self.memory.status(ofEntry: path)
        }
    }

    package func setPermissions(_ permissions: UInt16, of file: FileID) throws(FileSystemError) {
        let path = try self.path(of: file, .setPermissions)
        try self.change(.setPermissions, path) { () throws(FileSystemError) in
            try self.memory.setPermissions(permissions, of: file)
        }
    }

    package func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        let path = try self.path(of: file, .lock)
        return try self.ask(.lock, path, skipped: true) { () throws(FileSystemError) in
            try self.memory.lock(file, mode)
        }
    }

    package func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        try self.change(.rename, path) { () throws(FileSystemError) in try self.memory.rename(path, to: newPath) }
    }

    package func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        try self.change(.exchange, path) { () throws(FileSystemError) in
            try self.memory.exchange(path, with: otherPath)
        }
    }

    package func unlink(_ path: String) throws(FileSystemError) {
        try self.change(.unlink, path) { () throws(FileSystemError) in
            try self.memory.unlink(path)
            self.mutex.withLock { _ in self.unlinked.append(path) }
        }
    }

    package func createDirectory(_ path: String) throws(FileSystemError) {
        try self.change(.createDirectory, path) { () throws(FileSystemError) in
            try self.memory.createDirectory(path)
        }
    }

    package func removeDirectory(_ path: String) throws(FileSystemError) {
        try self.change(.removeDirectory, path) { () throws(FileSystemError) in
            try self.memory.removeDirectory(path)
        }
    }

    package func list(_ path: String) throws(FileSystemError) -> [String] {
        try self.ask(.list, path) { () throws(FileSystemError) in try self.memory.list(path) }
    }

    package func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        try self.change(.synchronizeDirectory, path) { () throws(FileSystemError) in
            try self.memory.synchronizeDirectory(path)
        }
    }

    package func space(at path: String) throws(FileSystemError) -> DiskSpace {
        try self.ask(.space, path) { () throws(FileSystemError) in try self.memory.space(at: path) }
    }

    package func isShared(at path: String) -> Bool { self.isShared.withLock { $0 } }

    // MARK: In an open folder

    private func path(of name: String, in folder: FileID, _ verb: FileVerb) throws(FileSystemError) -> String {
        Path.join(try self.path(of: folder, verb), name)
    }

    package func open(_ path: String, in folder: FileID) throws(FileSystemError) -> FileID {
        try self.open(try self.path(of: path, in: folder, .open), isChange: false, .read) {
            () throws(FileSystemError) in try self.memory.open(path, in: folder)
        }
    }

    package func status(of name: String, in folder: FileID) throws(FileSystemError) -> FileStatus? {
        try self.ask(.status, try self.path(of: name, in: folder, .status), skipped: .some(nil)) {
            () throws(FileSystemError) in try self.memory.status(of: name, in: folder)
        }
    }

    package func rename(_ name: String, to newName: String, in folder: FileID) throws(FileSystemError) {
        try self.change(.rename, try self.path(of: name, in: folder, .rename)) { () throws(FileSystemError) in
            try self.memory.rename(name, to: newName, in: folder)
        }
    }

    package func unlink(_ name: String, in folder: FileID) throws(FileSystemError) {
        let path = try self.path(of: name, in: folder, .unlink)
        try self.change(.unlink, path) { () throws(FileSystemError) in
            try self.memory.unlink(name, in: folder)
            self.mutex.withLock { _ in self.unlinked.append(path) }
        }
    }
}
