import Testing
import WaybillSpool
import WaybillSystem
import WaybillTestSupport

private let writerID = "0195505e-aaaa-7000-8000-0000000000aa"
private typealias Fault = FaultyFiles.Fault

/// The payload of line `index`: lengths that fill segments of 200 bytes unevenly.
private func payload(_ index: Int) -> String {
    String(repeating: Character(UnicodeScalar(UInt8(97 + index % 26))), count: 1 + index * 37 % 120)
}

extension SpoolWriter {
    /// Appends a line that carries the writer's next sequence; returns it when it was stored.
    fileprivate mutating func appendLine(_ payload: String) throws(FileSystemError) -> String {
        let line = "\(self.nextSequence):\(payload)\n"
        let bytes = Array(line.utf8)
        var failure: FileSystemError?
        bytes.withUnsafeBytes { buffer in
            do throws(FileSystemError) { try self.append(buffer) } catch { failure = error }
        }
        if let failure { throw failure }
        return line
    }
}

/// The whole lines of every segment, in the order of the names, and what is torn.
private func spooledLines(on disk: FaultyFiles) -> [String] {
    var lines: [String] = []
    for name in disk.names(in: "/spool") where SegmentName(parsing: name) != nil {
        let text = String(decoding: disk.bytes(of: "/spool/\(name)") ?? [], as: UTF8.self)
        let parts = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        if let first = parts.first {
            #expect(first.hasPrefix("\(SegmentName(parsing: name)?.firstSequence ?? 0):"))
        }
        lines += parts.map { $0 + "\n" }
    }
    return lines
}

/// Appends 40 lines, each once; returns those that were reported stored.
private func appendAll(on disk: FaultyFiles) -> (stored: [String], failures: [FileSystemError]) {
    var stored: [String] = []
    var failures: [FileSystemError] = []
    do throws(FileSystemError) {
        var spool = try SpoolWriter(
            directory: "/spool", writer: writerID, on: disk, segmentByteCountMax: 200)
        for index in 0..<40 {
            do throws(FileSystemError) {
                stored.append(try spool.appendLine(payload(index)))
            } catch {
                failures.append(error)
            }
        }
    } catch {
        failures.append(error)
    }
    return (stored, failures)
}

@Test func `lines go whole into segments named by their first sequence`() throws {
    let disk = FaultyFiles()
    let (stored, failures) = appendAll(on: disk)
    #expect(failures == [])
    #expect(stored.count == 40)
    #expect(spooledLines(on: disk) == stored)
    #expect(disk.names(in: "/spool").count > 10)
    for name in disk.names(in: "/spool") {
        #expect((disk.bytes(of: "/spool/\(name)") ?? []).count <= 200)
    }
    #expect(disk.memory.openDescriptorCount == 0)
}

@Test(arguments: [
    Fault.short, .error(Errno.noSpace), .error(Errno.inputOutput),
    .short(thenError: Errno.noSpace), .short(thenError: Errno.inputOutput),
    .half(Errno.inputOutput),
])
private func `a fault at any one call loses no stored line and doubles none`(fault: Fault) {
    let callCount = {
        let disk = FaultyFiles()
        _ = appendAll(on: disk)
        return disk.callCount
    }()
    for faulty in 0..<callCount {
        let disk = FaultyFiles()
        disk.setFaults { $0.number == faulty ? fault : nil }
        let (stored, failures) = appendAll(on: disk)
        #expect(spooledLines(on: disk) == stored, "\(fault) at call \(faulty)")
        #expect(stored.count + failures.count == 40 || failures.isEmpty, "\(fault) at call \(faulty)")
        #expect(stored.count >= 39, "\(fault) at call \(faulty)")
        #expect(disk.memory.openDescriptorCount == 0, "\(fault) at call \(faulty)")
    }
}

@Test(arguments: 0..<UInt64(300))
func `a disk that fails at random keeps exactly what was reported stored`(seed: UInt64) {
    let disk = FaultyFiles()
    var generator = SeededGenerator(seed: seed)
    let rate = [2, 4, 10, 30][Int(seed % 4)]
    disk.setFaults { _ in
        guard generator.next() % UInt64(rate) == 0 else { return nil }
        switch generator.next() % 6 {
        case 0: return .error(Errno.noSpace)
        case 1: return .error(Errno.inputOutput)
        case 2: return .short(thenError: Errno.noSpace)
        case 3: return .short(thenError: Errno.inputOutput)
        case 4: return .short
        default: return .half(Errno.inputOutput)
        }
    }
    let (stored, _) = appendAll(on: disk)
    #expect(spooledLines(on: disk) == stored)
}

@Test(arguments: [Fault.half(Errno.inputOutput), .short(thenError: Errno.inputOutput), .short])
private func `of lines that are written at once, those that a failed write left whole are stored`(
    fault: Fault
) throws {
    for faulty in 0..<24 {
        let disk = FaultyFiles()
        var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk, segmentByteCountMax: 400)
        let first = try spool.appendLine("first")
        let before = disk.callCount
        disk.setFaults { $0.number == before + faulty ? fault : nil }
        let lines = (0..<20).map { "\($0 + 2):\(payload($0))\n" }
        var rest = lines
        for _ in 0..<2 where !rest.isEmpty {
            let byteCounts = rest.map(\.utf8.count)
            let result = Array(rest.joined().utf8).withUnsafeBytes { bytes in
                byteCounts.withUnsafeBufferPointer { spool.append(lines: bytes, byteCounts: $0) }
            }
            #expect(spooledLines(on: disk) == [first] + lines.prefix(lines.count - rest.count + result.storedCount))
            rest.removeFirst(result.storedCount)
        }
        #expect(spooledLines(on: disk) == [first] + lines, "\(fault) at call \(faulty)")
    }
}

@Test func `a line that tore goes whole to the next segment and the torn bytes stay`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
    _ = try spool.appendLine("one")
    let before = disk.callCount
    disk.setFaults { $0.number == before ? .short(thenError: Errno.inputOutput) : nil }
    _ = try spool.appendLine("twotwo")
    disk.clearFaults()
    _ = try spool.appendLine("three")
    #expect(
        disk.names(in: "/spool") == [
            "\(writerID)-00000000000000000001.ndjson", "\(writerID)-00000000000000000002.ndjson",
        ])
    #expect(disk.bytes(of: "/spool/\(writerID)-00000000000000000001.ndjson") == Array("1:one\n2:tw".utf8))
    #expect(disk.bytes(of: "/spool/\(writerID)-00000000000000000002.ndjson") == Array("2:twotwo\n3:three\n".utf8))
    #expect(spool.tornLineCount == 1)
}

/// Of several lines written together, a failed write may have stored whole ones.
@Test(arguments: [[], ["one"], ["one", "two"]], [1, 2, 3, 5, 8])
func `lines of a write that failed are stored once, whatever of it the file has`(before: [String], count: Int) throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
    var expected: [String] = []
    for payload in before { expected.append(try spool.appendLine(payload)) }
    let lines = (0..<count).map { "\(before.count + 1 + $0):\(payload($0))\n" }
    expected += lines
    let byteCounts = lines.map(\.utf8.count)
    // Three calls make a segment.
    let faulty = disk.callCount + (before.isEmpty ? 3 : 0)
    disk.setFaults { $0.number == faulty ? .half(Errno.inputOutput) : nil }
    let result = Array(lines.joined().utf8).withUnsafeBytes { bytes in
        byteCounts.withUnsafeBufferPointer { spool.append(lines: bytes, byteCounts: $0) }
    }
    #expect(result.storedCount == count)
    #expect(result.failure == nil)
    #expect(spooledLines(on: disk) == expected)
    #expect(spool.tornLineCount == 1)
}

@Test func `a segment whose first line tore is emptied under its lock and used again`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
    let path = "/spool/\(writerID)-00000000000000000001.ndjson"
    let named = disk.callCount + 3  // Opened, locked, renamed.
    disk.setFaults { $0.number >= named ? .half(Errno.inputOutput) : nil }
    #expect(throws: FileSystemError.self) { try spool.appendLine("first") }
    #expect(disk.bytes(of: path) == Array("1:fi".utf8))
    #expect(disk.isLocked(path))
    disk.clearFaults()
    _ = try spool.appendLine("first")
    #expect(disk.bytes(of: path) == Array("1:first\n".utf8))
    #expect(spool.nextSequence == 2)
}

@Test func `a full disk is reported and work continues by itself`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
    _ = try spool.appendLine("one")
    disk.setFaults { _ in .error(Errno.noSpace) }
    for _ in 0..<5 {
        #expect(throws: FileSystemError.self) { try spool.appendLine("lost") }
    }
    disk.clearFaults()
    _ = try spool.appendLine("two")
    #expect(spooledLines(on: disk) == ["1:one\n", "2:two\n"])
    #expect(disk.names(in: "/spool").count == 1)
}

@Test func `a segment is locked under its name as long as it is open`() throws {
    let disk = FaultyFiles()
    let path = "/spool/\(writerID)-00000000000000000001.ndjson"
    do {
        var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
        _ = try spool.appendLine("one")
        #expect(disk.isLocked(path))
    }
    #expect(!disk.isLocked(path))
}

@Test func `a sync makes every segment since the last one durable`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk, segmentByteCountMax: 20)
    for _ in 0..<5 { _ = try spool.appendLine("0123456789") }
    let sync = spool.sync
    try sync.perform(on: disk)
    spool.synced(sync)
    let paths = disk.names(in: "/spool").map { "/spool/\($0)" }
    #expect(paths.count == 5)
    #expect(paths.map(disk.durableByteCount(of:)) == [13, 13, 13, 13, 13])
    _ = try spool.appendLine("0123456789")
    let calls = disk.callCount
    let next = spool.sync
    try next.perform(on: disk)
    // Two segments opened and synchronized, and the folder: the four before are durable already.
    #expect(disk.callCount - calls == 2 * 2 + 1)
}

@Test func `a segment's name is made durable once`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk, segmentByteCountMax: 40)
    // Each segment opened and synchronized, the folder; later only the segment.
    for callCount in [2 + 1, 2, 2, 2 * 2 + 1, 2, 2, 2 * 2 + 1] {
        _ = try spool.appendLine("0123456789")
        #expect(try flushCallCount(&spool, disk) == callCount)
    }
    #expect(disk.names(in: "/spool").map { "/spool/\($0)" }.map(disk.durableByteCount(of:)) == [39, 39, 13])
}

@Test func `a segment that begins where a closed one was synced has its name made durable`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
    _ = try spool.appendLine("one")
    #expect(try flushCallCount(&spool, disk) == 2 + 1)
    spool.closeSegment()
    #expect(try flushCallCount(&spool, disk) == 2 + 1)
    #expect(try flushCallCount(&spool, disk) == 0)
    _ = try spool.appendLine("two")
    #expect(try flushCallCount(&spool, disk) == 2 + 1)
}

private func flushCallCount(
    _ spool: inout SpoolWriter<FaultyFiles>, _ disk: FaultyFiles
) throws -> Int {
    let sync = spool.sync
    let before = disk.callCount
    try sync.perform(on: disk)
    spool.synced(sync)
    return disk.callCount - before
}

@Test func `after a failed sync the lines go to a new segment`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
    _ = try spool.appendLine("one")
    let sync = spool.sync
    // The segment's opening, its sync, the folder.
    for failing in 0...2 {
        let call = disk.callCount + failing
        disk.setFaults { $0.number == call ? .error(Errno.inputOutput) : nil }
        #expect(throws: SpoolSyncFailure.self) { try sync.perform(on: disk) }
    }
    disk.clearFaults()
    let failure = try #require(syncFailure(sync, disk, at: 1))
    spool.syncFailed(sync, failure)
    _ = try spool.appendLine("two")
    #expect(disk.names(in: "/spool").count == 2)
}

@Test func `a segment whose sync failed is not durable by another sync, and in the way until it is gone`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: disk)
    _ = try spool.appendLine("one")
    let first = spool.sync
    spool.syncFailed(first, try #require(syncFailure(first, disk, at: 1)))
    _ = try spool.appendLine("two")
    for _ in 0..<2 {
        let sync = spool.sync
        let failure = try #require(syncFailure(sync, disk, at: nil))
        #expect(failure.error.description.contains("-00000000000000000001.ndjson"))
        spool.syncFailed(sync, failure)
    }
    let paths = disk.names(in: "/spool").map { "/spool/\($0)" }
    // The other lines are, and no sync begins another segment.
    #expect(paths.map(disk.durableByteCount(of:)) == [0, 6])
    try disk.unlink(paths[0])
    _ = try spool.appendLine("six")
    for callCount in [3, 2] { #expect(try flushCallCount(&spool, disk) == callCount) }
    #expect(disk.names(in: "/spool").count == 1)
}

/// Why a sync fails when its n-th call does; `nil` when it does not.
private func syncFailure(_ sync: SpoolSync, _ disk: FaultyFiles, at failing: Int?) -> SpoolSyncFailure? {
    let before = disk.callCount
    disk.setFaults { failing == $0.number - before ? .error(Errno.inputOutput) : nil }
    defer { disk.clearFaults() }
    do throws(SpoolSyncFailure) {
        try sync.perform(on: disk)
        return nil
    } catch {
        return error
    }
}

@Test func `a folder that was cleared away is made again`() throws {
    let disk = FaultyFiles()
    var spool = try SpoolWriter(directory: "/a/b/spool", writer: writerID, on: disk)
    try disk.removeDirectory("/a/b/spool")
    try disk.removeDirectory("/a/b")
    _ = try spool.appendLine("one")
    #expect(disk.bytes(of: "/a/b/spool/\(writerID)-00000000000000000001.ndjson") == Array("1:one\n".utf8))
}

@Test func `a spool path that is a file is refused with what to do`() {
    let disk = FaultyFiles()
    disk.place("/spool", [1])
    let error = #expect(throws: FileSystemError.self) {
        _ = try SpoolWriter(directory: "/spool", writer: writerID, on: disk).nextSequence
    }
    #expect(
        error?.description == "createDirectory /spool: Not a directory (not-a-directory); name a directory")
}

@Test func `a folder that may not be read is refused and a full disk is not`() throws {
    let denied = FaultyFiles()
    denied.setFaults { _ in .error(13) }
    let error = #expect(throws: FileSystemError.self) {
        _ = try SpoolWriter(directory: "/spool", writer: writerID, on: denied).nextSequence
    }
    #expect(error?.code == .permission)
    let full = FaultyFiles()
    full.setFaults { _ in .error(Errno.noSpace) }
    var spool = try SpoolWriter(directory: "/spool", writer: writerID, on: full)
    full.clearFaults()
    _ = try spool.appendLine("one")
    #expect(spooledLines(on: full) == ["1:one\n"])
}

@Test(arguments: ["", ".new", ".evicted", ".purged"])
func `a writer says whether its folder had segments or what is left of some`(suffix: String) throws {
    let disk = FaultyFiles()
    for name in ["install.json", "install.lock", "0195505e.ndjson", "\(writerID).ndjson"] {
        try disk.createDirectory("/spool")
        disk.close(try disk.open("/spool/\(name)", .append))
    }
    let empty = try SpoolWriter(directory: "/spool", writer: writerID, on: disk).hadSegments
    #expect(!empty)
    disk.close(try disk.open("/spool/\(writerID)-00000000000000000007.ndjson\(suffix)", .append))
    let full = try SpoolWriter(directory: "/spool", writer: writerID, on: disk).hadSegments
    #expect(full)
}
