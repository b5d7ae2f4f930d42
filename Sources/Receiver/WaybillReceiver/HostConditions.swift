package import WaybillData
internal import WaybillExport
package import WaybillSystem

/// What a receiver needs of its host, and what waits while it is missing.
///
///     clock that can be trusted    else seals, retention and the judgement of ages wait (``ClockTrust``)
///     space on the disk            else the exports wait first, then the archive (``DiskReserve``)
///     a disk that takes writes     else nothing is acknowledged, and agents are told why
package final class HostConditions: Sendable {
    package let clock: ClockTrust
    let reserve: DiskReserve
    package let marks: MarkDemand
    /// Where days are sealed in a merged journal; `nil`: by the clock.
    let barriers: SealBarriers?
    /// The lines that are not read, and how they are found.
    package let poison: PoisonWatch
    /// Whether a projection that ends completes what it seals, however long it takes; else the next start does.
    let finishesSeals: Bool
    private let refusal = Lock<String?>(nil)

    /// - Parameters:
    ///   - lastMark: the last time in the journal.
    ///   - sealInterval: how often days of the fleet may be sealed, if the journal goes to a bucket.
    package init(
        lastMark: WallTime, configuration: HostConfiguration, data: DataDirectory<some FileSystem>,
        telemetry: HostTelemetry, sealInterval: Duration? = nil, poison: PoisonWatch? = nil
    ) {
        self.poison = poison ?? PoisonWatch(in: data)
        self.barriers = nil
        self.finishesSeals = false
        self.clock = ClockTrust(
            lastMark: lastMark, programDate: configuration.programDate, acceptance: ClockAcceptance(in: data),
            telemetry: telemetry)
        self.reserve = DiskReserve(byteCount: configuration.reserveByteCount, in: data)
        self.marks = MarkDemand(configuration.exports.map(\.closeAfter) + [sealInterval].compactMap(\.self))
    }

    /// Of a merger, whose projections seal where the fleet's log says.
    package init(
        lastMark: WallTime, configuration: HostConfiguration, data: DataDirectory<some FileSystem>,
        telemetry: HostTelemetry, barriers: SealBarriers, finishesSeals: Bool, poison: PoisonWatch
    ) {
        self.poison = poison
        self.barriers = barriers
        self.finishesSeals = finishesSeals
        self.clock = ClockTrust(
            lastMark: lastMark, programDate: configuration.programDate, acceptance: ClockAcceptance(in: data),
            telemetry: telemetry)
        self.reserve = DiskReserve(byteCount: configuration.reserveByteCount, in: data)
        self.marks = MarkDemand([])
    }

    /// Why nothing is acknowledged, as agents are told; `nil` while the disk takes what comes.
    var withheld: String? {
        get { self.refusal.withLock { $0 } }
        set { self.refusal.withLock { $0 = newValue } }
    }
}

/// Whether projections wait for a later time in the journal, because the time of their open parts is to be over.
///
/// A receiver that gets nothing then writes its time once a minute, or more often if parts are closed or days sealed sooner.
package final class MarkDemand: Sendable {
    /// How long the journal may be without a new time; `nil` if no projection ever waits for one.
    let interval: Duration?
    private let names = Lock<Set<String>>([])

    /// - Parameter closeAfter: of each export; zero if its parts are closed at any age.
    init(_ closeAfter: [Duration]) {
        self.interval = closeAfter.filter { $0 > .zero }.min().map { min($0, .seconds(60)) }
    }

    /// Whether a projection waits now.
    var isWaiting: Bool { self.names.withLock { !$0.isEmpty } }

    package func set(_ isWaiting: Bool, for projection: String) {
        guard self.interval != nil else { return }
        self.names.withLock { names in
            if isWaiting { names.insert(projection) } else { names.remove(projection) }
        }
    }
}

/// The disk space that archive and exports leave to the journal.
///
///     free      2 × reserve          reserve              0
///     ────────────┼────────────────────┼──────────────────┤
///     all write   │ exports wait       │ archive waits    │ journal waits: nothing is acknowledged
///
/// What waits is in the journal. Of a small disk, at most a twentieth is reserved.
package struct DiskReserve: Sendable {
    private let byteCount: Int
    private let measure: @Sendable () -> DiskSpace?

    package init(byteCount: Int, in data: DataDirectory<some FileSystem>) {
        let (files, root) = (data.files, data.root)
        self.byteCount = byteCount
        self.measure = {
            do throws(FileSystemError) {
                return try files.space(at: root)
            } catch {
                // Unknown: the writes themselves find out.
                return nil
            }
        }
    }

    /// The free space now; `nil` if it is unknown.
    var free: Int? { self.measure()?.freeByteCount }

    /// What is free, what the disk has, and what is reserved.
    struct Standing: Hashable {
        let freeByteCount: Int
        let totalByteCount: Int
        let reservedByteCount: Int
    }

    /// The space now; `nil` if it is unknown.
    var standing: Standing? {
        guard let space = self.measure() else { return nil }
        return Standing(
            freeByteCount: space.freeByteCount, totalByteCount: space.totalByteCount,
            reservedByteCount: min(self.byteCount, space.totalByteCount / 20))
    }

    /// Whether a projection may write.
    func hasRoom(for projection: String) -> Bool {
        guard self.byteCount > 0, let space = self.standing else { return true }
        let reserve = space.reservedByteCount
        return space.freeByteCount >= (projection == "archive" ? reserve : 2 * reserve)
    }
}

/// How long to wait before a disk that refused is tried again: 1 s, and twice as long each time, up to 30 s.
enum DiskRetry {
    /// - Parameter count: failures in a row, at least 1.
    static func pause(afterFailures count: Int) -> Duration {
        .seconds(min(30, 1 << min(count - 1, 5)))
    }
}
