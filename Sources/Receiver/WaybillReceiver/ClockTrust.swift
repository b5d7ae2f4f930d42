package import WaybillData
package import WaybillSystem

/// Whether the receiver's clock can be believed.
///
///     trusted ◀──▶ doubted     it shows a time more than a minute before the floor
///        ▲             │       floor: the last time in the journal, and the date of the program
///        └─────────────┘       it reaches the floor again, or `waybill clock --accept` lowers the floor
///
/// While it is doubted, what arrives is stored as always, with an unknown time of receipt: no event's age is judged.
/// Sealing and retention wait, because a wrong time would make them act on the wrong days.
///
/// A clock that is ahead cannot be told from a right one. It shows once it is set back: that time is then before the
/// last one in the journal.
package final class ClockTrust: Sendable {
    private struct State {
        var floor: WallTime
        var isDoubted = false
        /// An accepted time that the journal does not have yet.
        var hasAcceptance: Bool
        var lastTold: MonotonicTime?
    }

    /// A clock may be set back by this much without being doubted; times of receipt then stand still.
    package static var toleranceMilliseconds: Int64 { 60_000 }

    private let programDate: WallTime
    private let acceptance: ClockAcceptance
    private let telemetry: HostTelemetry
    private let state: Lock<State>

    /// - Parameters:
    ///   - lastMark: the last time in the journal.
    ///   - programDate: the date of the program; the clock cannot be right before it.
    package init(
        lastMark: WallTime, programDate: WallTime, acceptance: ClockAcceptance, telemetry: HostTelemetry
    ) {
        let accepted = acceptance.read()
        self.programDate = programDate
        self.acceptance = acceptance
        self.telemetry = telemetry
        self.state = Lock(
            State(floor: accepted ?? max(lastMark, programDate), hasAcceptance: accepted != nil))
    }

    /// The time of receipt of a group that is committed now: ``WallTime/unknown`` while the clock is doubted.
    func receiptTime(_ clock: any SystemClock) -> WallTime {
        let now = clock.wallTime()
        return self.state.withLock { state in
            Self.isBelievable(now, state.floor) ? max(now, state.floor) : .unknown
        }
    }

    /// A group with this time of receipt is durable.
    func committed(at time: WallTime) {
        guard time != .unknown else { return }
        let isSettled = self.state.withLock { state in
            state.floor = max(state.floor, time)
            guard state.hasAcceptance, time >= self.programDate else { return false }
            state.hasAcceptance = false
            return true
        }
        // The journal has a time from after the acceptance, and a restart will begin with it.
        if isSettled { self.acceptance.remove() }
    }

    /// Whether the time can be believed; reads what an operator accepted, and logs once a minute while it is not.
    func isTrusted(_ clock: any SystemClock) -> Bool {
        let (wall, now) = (clock.wallTime(), clock.monotonicTime())
        if self.isBelievable(wall) { return self.found(isDoubted: false, wall, now) }
        if let accepted = self.acceptance.read() {
            let isNew = self.state.withLock { state in
                guard accepted < state.floor else { return false }
                state.floor = accepted
                state.hasAcceptance = true
                return true
            }
            if isNew { self.telemetry.clockAccepted(accepted) }
        }
        return self.found(isDoubted: !self.isBelievable(wall), wall, now)
    }

    /// What is wrong with the clock, for people; `nil` if it is trusted.
    package func problem(_ clock: any SystemClock) -> String? {
        let now = clock.wallTime()
        let floor = self.state.withLock { $0.floor }
        return Self.isBelievable(now, floor) ? nil : Self.text(now, floor)
    }

    static func text(_ now: WallTime, _ floor: WallTime) -> String {
        "the clock shows \(now.text), before \(floor.text), the last time in the journal or the date of the program"
    }

    private func isBelievable(_ time: WallTime) -> Bool {
        self.state.withLock { Self.isBelievable(time, $0.floor) }
    }

    /// Whether a clock that shows this time can be right.
    package static func isBelievable(_ time: WallTime, _ floor: WallTime) -> Bool {
        time > .unknown && time.milliseconds.saturatingSum(Self.toleranceMilliseconds) >= floor.milliseconds
    }

    /// - Returns: whether the clock is trusted.
    private func found(isDoubted: Bool, _ wall: WallTime, _ now: MonotonicTime) -> Bool {
        let (floor, isDue, isOver) = self.state.withLock { state in
            let wasDoubted = state.isDoubted
            state.isDoubted = isDoubted
            guard isDoubted else {
                state.lastTold = nil
                return (state.floor, false, wasDoubted)
            }
            if let last = state.lastTold, now - last < .seconds(60) { return (state.floor, false, false) }
            state.lastTold = now
            return (state.floor, true, false)
        }
        if isDue { self.telemetry.clockDoubted(Self.text(wall, floor)) }
        if isOver { self.telemetry.clockTrusted(wall) }
        return !isDoubted
    }
}

/// The time that an operator accepted with `waybill clock --accept`, until the journal has a later one.
///
///     state/clock.accepted     1795165200005 LF     milliseconds since 1970
package struct ClockAcceptance: Sendable {
    private let readFile: @Sendable () -> WallTime?
    private let removeFile: @Sendable () -> Void
    private let writeFile: @Sendable (WallTime) throws(FileSystemError) -> Void

    package init(in data: DataDirectory<some FileSystem>) {
        let (files, path) = (data.files, Path.join(data.state, "clock.accepted"))
        self.readFile = {
            do throws(FileSystemError) {
                guard let bytes = try files.contents(of: path, byteCountMax: 64), bytes.last == 0x0A,
                    let milliseconds = Int64(String(decoding: bytes.dropLast(), as: UTF8.self)), milliseconds > 0
                else { return nil }
                return WallTime(milliseconds: milliseconds)
            } catch {
                // The clock stays doubted, which is logged every minute, and the file is read again.
                return nil
            }
        }
        self.removeFile = {
            do throws(FileSystemError) {
                try files.unlink(path)
            } catch {
                // A file that stays does no harm: the next start begins with its time instead of the journal's.
                return
            }
        }
        self.writeFile = { (time) throws(FileSystemError) in
            try files.replace(path, with: Array("\(time.milliseconds)\n".utf8))
        }
    }

    func read() -> WallTime? { self.readFile() }
    func remove() { self.removeFile() }

    /// Accepts a time; a running receiver notices it within seconds, another one at its start.
    package func write(_ time: WallTime) throws(FileSystemError) {
        try self.writeFile(time)
    }
}
