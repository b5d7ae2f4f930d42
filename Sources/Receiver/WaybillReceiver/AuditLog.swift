internal import WaybillProtocol
package import WaybillSystem

/// What an entry of the audit log is about.
enum AuditEvent: String {
    case connected, disconnected, refused, opened, adopted, described, skipped, sealed
    /// A stream's `OPEN`, `SKIP` or `SEAL` was refused.
    case denied
}

/// Who did what: JSON lines in a file of its own.
///
///     {"time":"2026-11-22T18:00:00.000Z","event":"connected","principal":"web","agent":"web-1","peer":"10.0.0.1:4000"}
///
/// Bounded three times: entries a second, bytes that wait for the disk, and bytes on the disk, where a full file becomes
/// `PATH.1`. Entries that are left out are counted in the next one. No entry holds a secret: tokens and keys are not
/// passed here.
package final class AuditLog: Sendable {
    private struct State {
        var waiting: [UInt8] = []
        var leftOutCount = 0
        var isClosed = false
        /// Entries that may be taken now.
        var credit = AuditLog.burst
        var creditedAt: MonotonicTime
    }

    private static let burst = 2_000
    private static let entryRate = 200
    private static let waitingByteCountMax = 1 << 20
    private static let fileByteCountMax = 64 << 20

    private let path: String
    private let clock: any SystemClock
    private let state: Monitor<State>

    package init(path: String, clock: any SystemClock) {
        self.path = path
        self.clock = clock
        self.state = Monitor(State(creditedAt: clock.monotonicTime()))
    }

    func add(_ event: AuditEvent, _ members: [(String, String)]) {
        let now = self.clock.monotonicTime()
        self.state.update { state in
            let earned = (now - state.creditedAt).nanoseconds / (1_000_000_000 / Int64(Self.entryRate))
            if earned > 0 {
                state.credit += Int(min(earned, Int64(Self.burst - state.credit)))
                state.creditedAt = now
            }
            guard state.credit > 0, state.waiting.count < Self.waitingByteCountMax else {
                state.leftOutCount += 1
                return
            }
            state.credit -= 1
            var text = "{\"time\":\"\(self.clock.wallTime().text)\",\"event\":\"\(event.rawValue)\""
            for (name, value) in members { text += ",\"\(name)\":\(FreeText.quoted(value))" }
            if state.leftOutCount > 0 { text += ",\"left_out_before\":\(state.leftOutCount)" }
            state.leftOutCount = 0
            state.waiting += (text + "}\n").utf8
        }
    }

    /// Lets ``run(on:failed:)`` return once everything is written.
    func close() {
        self.state.update { $0.isClosed = true }
    }

    /// The thread's body.
    ///
    /// - Parameter failed: called for each write that the disk refused; its entries are lost.
    func run(on files: some FileSystem, failed: (FileSystemError) -> Void) {
        while true {
            let bytes: [UInt8]? = self.state.wait { state in
                if state.waiting.isEmpty { return state.isClosed ? [] : nil }
                defer { state.waiting = [] }
                return state.waiting
            }
            guard let bytes, !bytes.isEmpty else { return }
            do throws(FileSystemError) {
                try self.write(bytes, on: files)
            } catch {
                failed(error)
            }
        }
    }

    private func write(_ bytes: [UInt8], on files: some FileSystem) throws(FileSystemError) {
        if let status = try files.status(at: self.path), status.byteCount >= Self.fileByteCountMax {
            try files.rename(self.path, to: self.path + ".1")
        }
        let file = try files.open(self.path, .append)
        defer { files.close(file) }
        try bytes.withBytes { (bytes) throws(FileSystemError) in try files.writeAll(file, bytes) }
    }
}
