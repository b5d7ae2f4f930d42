internal import WaybillProtocol

/// What a message holds, from before it is read until it is answered; and, of the archive's time, until it is archived.
package struct AdmissionCharge: Hashable, Sendable {
    /// A part of the admission budget, with a queue of its own.
    enum Room: String, CaseIterable, Sendable {
        /// Bytes of messages and short batches, which never wait for long ones.
        case short
        /// Bytes of long payloads, as they arrive.
        case wire
        /// Bytes of long batches, inflated.
        case raw
        /// The archive's time for short batches, in nanoseconds.
        case shortTurn = "short-turn"
        /// The archive's time for long batches, in nanoseconds.
        case turn
    }

    private var short = 0
    private var wire = 0
    private var raw = 0
    private var shortTurn = 0
    private var turn = 0

    subscript(room: Room) -> Int {
        get {
            switch room {
            case .short: self.short
            case .wire: self.wire
            case .raw: self.raw
            case .shortTurn: self.shortTurn
            case .turn: self.turn
            }
        }
        set {
            switch room {
            case .short: self.short = newValue
            case .wire: self.wire = newValue
            case .raw: self.raw = newValue
            case .shortTurn: self.shortTurn = newValue
            case .turn: self.turn = newValue
            }
        }
    }

    init() {}

    /// The charge of a message that is not a batch.
    static var message: AdmissionCharge {
        var charge = AdmissionCharge()
        charge.short = ProtocolLimits.messageByteCountMax
        return charge
    }

    /// Bytes of memory.
    var byteCount: Int { self.short + self.wire + self.raw }

    static func += (left: inout AdmissionCharge, right: AdmissionCharge) {
        for room in Room.allCases { left[room] += right[room] }
    }

    static func -= (left: inout AdmissionCharge, right: AdmissionCharge) {
        for room in Room.allCases { left[room] -= right[room] }
    }
}

extension BatchHeader {
    /// Whether it counts as short in memory: all of it, compressed and inflated, is at most this long.
    private static var shortByteCountMax: Int { 64 << 10 }
    /// What the archive is assumed to need for a line, until it has shown how fast it is.
    private static var lineNanoseconds: Int { 1000 }
    /// Batches of so much work, about 2,000 lines, have turns of their own.
    private static var shortTurnMax: Int { 2_000_000 }

    var isShort: Bool {
        self.rawByteCount + self.wireByteCount + ProtocolLimits.messageByteCountMax <= Self.shortByteCountMax
    }

    /// What the batch holds when it has arrived.
    var charge: AdmissionCharge {
        var charge = self.turn
        if self.isShort {
            charge[.short] = self.rawByteCount + self.wireByteCount + ProtocolLimits.messageByteCountMax
        } else {
            charge[.wire] = self.wireByteCount
            charge[.raw] = self.rawByteCount
        }
        return charge
    }

    /// The archive's time that it is assumed to need: a nanosecond a byte, and as much again as a line costs.
    var turn: AdmissionCharge {
        var charge = AdmissionCharge()
        let cost = self.rawByteCount + self.lineCount * Self.lineNanoseconds
        charge[cost <= Self.shortTurnMax ? .shortTurn : .turn] = cost
        return charge
    }
}
