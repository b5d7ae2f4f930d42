internal import WaybillSystem

/// The agents that were connected since the start and are not, as far as there is room for their names.
struct AbsentAgents {
    /// More are not counted: memory does not depend on how many there were.
    static let countMax = 10_000
    /// For less, an agent may just connect again.
    static let silence = Duration.seconds(600)

    private var times: [String: MonotonicTime] = [:]

    mutating func came(_ name: String) {
        self.times[name] = nil
    }

    mutating func left(_ name: String, at time: MonotonicTime) {
        if self.times.count < Self.countMax { self.times[name] = time }
    }

    /// How many have been absent for ``silence`` or longer.
    func silentCount(at now: MonotonicTime) -> Int {
        self.times.values.count { now - $0 >= Self.silence }
    }
}
