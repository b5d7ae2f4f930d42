import Testing
import WaybillEvent
import WaybillSystem

@testable import Waybill

/// Holds a line such as `{"seq":12}`, followed by spaces up to the byte count.
private func hold(_ sequence: UInt64, byteCount: Int = 0, in held: inout HeldLines) -> Int {
    let number = String(sequence)
    var line = Array("{\"seq\":\(number)}".utf8)
    line += [UInt8](repeating: UInt8(ascii: " "), count: max(0, byteCount - line.count - 1)) + [UInt8(ascii: "\n")]
    let box = EventDraftBox()
    box.draft.take(own: "wb.test") { _ in }
    return line.withUnsafeBufferPointer { held.append($0, number: 7..<7 + number.utf8.count, sequence, box.draft) }
}

/// What a writer that stores so many lines got, and what was reported as stored.
private struct Release: Equatable {
    var written = ""
    var stored: [String] = []
    var failure: FileSystemError?

    init(_ held: inout HeldLines, from sequence: UInt64, storing count: Int) {
        var written: [UInt8] = []
        var stored: [String] = []
        self.failure = held.release(from: sequence) { lines, byteCounts in
            written = Array(lines)
            let failure = count < byteCounts.count ? FileSystemError("write", path: "x", errno: Errno.noSpace) : nil
            return (min(count, byteCounts.count), failure)
        } stored: { line, sequence, kind, _ in
            stored.append("\(sequence) \(kind) \(String(decoding: line.dropLast(), as: UTF8.self))")
        }
        self.written = String(decoding: written, as: UTF8.self)
        self.stored = stored
    }
}

@Test func `lines are renumbered when lines before them were lost`() {
    var held = HeldLines(gathering: nil)
    for sequence in 9...11 { #expect(hold(UInt64(sequence), in: &held) == 0) }
    let release = Release(&held, from: 8, storing: 3)
    #expect(release.written == "{\"seq\":8}\n{\"seq\":9}\n{\"seq\":10}\n")
    #expect(release.stored == ["8 meta {\"seq\":8}", "9 meta {\"seq\":9}", "10 meta {\"seq\":10}"])
    #expect(release.failure == nil && held.isEmpty && held.recoveryCount == 1)
}

@Test func `lines that were not stored are kept, and a recovery is when all are`() {
    var held = HeldLines(gathering: nil)
    for sequence in 1...3 { #expect(hold(UInt64(sequence), in: &held) == 0) }
    let failed = Release(&held, from: 1, storing: 1)
    #expect(failed.failure?.errno == Errno.noSpace && failed.stored == ["1 meta {\"seq\":1}"])
    #expect(held.count == 2 && held.recoveryCount == 0)
    let release = Release(&held, from: 2, storing: 2)
    #expect(release.written == "{\"seq\":2}\n{\"seq\":3}\n" && held.recoveryCount == 1)
}

@Test func `more than 256 KiB drop the oldest quarter`() {
    var held = HeldLines(gathering: nil)
    let lostCounts = (1...257).map { hold(UInt64($0), byteCount: 1024, in: &held) }
    #expect(lostCounts == [Int](repeating: 0, count: 256) + [65])
    #expect(held.count == 192)
    #expect(Release(&held, from: 1, storing: 1).stored.first?.hasPrefix("1 meta {\"seq\":1}") == true)
    #expect(held.removeAll() == 191 && held.isEmpty && held.removeAll() == 0)
}

@Test func `gathered lines are due after the interval, or when they are many`() {
    var held = HeldLines(gathering: .seconds(1))
    #expect(hold(1, in: &held) == 0)
    let due = [0, 999, 1000].map { held.isDue(at: MonotonicTime(nanoseconds: $0 * 1_000_000)) }
    #expect(due == [false, false, true])
    // They are written together as planned: that is not a recovery.
    #expect(Release(&held, from: 1, storing: 1).failure == nil && held.recoveryCount == 0)
    let now = MonotonicTime(nanoseconds: 1_000_000_000)
    let dueByCount = [65_535, 0].map { byteCount in
        _ = hold(2, byteCount: byteCount, in: &held)
        return held.isDue(at: now)
    }
    #expect(dueByCount == [false, true])
}

@Test func `lines that are not gathered are never due`() {
    var held = HeldLines(gathering: nil)
    #expect(hold(1, byteCount: 65_536, in: &held) == 0)
    let due = [0, .max].map { held.isDue(at: MonotonicTime(nanoseconds: $0)) }
    #expect(due == [false, false])
}
