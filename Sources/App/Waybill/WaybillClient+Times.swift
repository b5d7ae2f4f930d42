public import WaybillEvent
internal import WaybillSystem

/// A time at which something happened before it is tracked.
public struct EventTime: Hashable, Sendable {
    private enum Kind: Hashable {
        case absolute(Int64)
        case ago(Duration)
    }

    private let kind: Kind

    /// A number of milliseconds since 1970-01-01T00:00:00Z, as in `Date().timeIntervalSince1970 * 1000`.
    public static func milliseconds(since1970 milliseconds: Int64) -> EventTime {
        EventTime(kind: .absolute(milliseconds))
    }

    /// This long before the call that tracks the event.
    public static func ago(_ duration: Duration) -> EventTime {
        EventTime(kind: .ago(duration))
    }

    /// Milliseconds since 1970.
    func milliseconds(at now: WallTime) -> Int64 {
        switch self.kind {
        case .absolute(let milliseconds): milliseconds
        case .ago(let duration):
            // Above the times that lines can have, and far from an overflow.
            now.milliseconds - min(max(duration, .seconds(-1 << 38)), .seconds(1 << 38)).components.seconds * 1000
                - duration.components.attoseconds / 1_000_000_000_000_000
        }
    }
}

/// Events of earlier times, and durations.
extension WaybillClient {
    /// Stores an event that happened earlier, with its own fields and those added by `body`.
    ///
    ///     waybill.track(CallEnded(), at: .ago(.seconds(90)))
    ///
    /// Its time `ts` is that time, or now if `time` is in the future. It is numbered in the order of the calls, belongs
    /// to the current session and user, has no current screen, and does not count for the time between events.
    @discardableResult
    public func track<E: Event>(
        _ event: E, at time: EventTime, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        let milliseconds = time.milliseconds(at: self.core.now().wall)
        return self.store { draft, rules, salt in
            draft.take(event, rules, salt, adding: body)
            draft.happened(at: milliseconds)
        }
    }

    /// Stores an event that happened earlier, without a type of its own.
    @discardableResult
    public func track(
        _ name: String, _ kind: EventKind = .event, at time: EventTime,
        adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        let milliseconds = time.milliseconds(at: self.core.now().wall)
        return self.store { draft, rules, salt in
            draft.take(kind, name, nil, rules, salt, adding: body)
            draft.happened(at: milliseconds)
        }
    }

    /// Starts measuring a duration, which later events carry as the field `duration_ms`.
    ///
    ///     let checkout = waybill.startTimer()
    ///     checkout.track(CheckoutCompleted(total: 39_900))
    public func startTimer() -> EventTimer {
        EventTimer(self, start: self.core.now().monotonic)
    }
}

/// Measures a duration with the monotonic clock, which stops while a device sleeps.
///
/// Copies measure from the same start, and each may track several events.
public struct EventTimer: Sendable {
    private let waybill: WaybillClient
    private let start: MonotonicTime

    init(_ waybill: WaybillClient, start: MonotonicTime) {
        self.waybill = waybill
        self.start = start
    }

    /// The time since the start, in whole milliseconds.
    public var elapsed: Duration {
        .milliseconds(self.milliseconds)
    }

    private var milliseconds: UInt64 {
        self.waybill.core.now().milliseconds(since: self.start)
    }

    /// Stores an event with the duration so far in the field `duration_ms`, if it has no field of that name.
    @discardableResult
    public func track(_ event: some Event, adding body: (inout Fields) -> Void = { _ in }) -> TrackOutcome {
        let milliseconds = self.milliseconds
        return self.waybill.track(event) { fields in
            body(&fields)
            fields.put("duration_ms", milliseconds)
        }
    }

    /// Stores an event without a type of its own, with the duration so far in the field `duration_ms`.
    @discardableResult
    public func track(
        _ name: String, _ kind: EventKind = .event, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        let milliseconds = self.milliseconds
        return self.waybill.track(name, kind) { fields in
            body(&fields)
            fields.put("duration_ms", milliseconds)
        }
    }
}
