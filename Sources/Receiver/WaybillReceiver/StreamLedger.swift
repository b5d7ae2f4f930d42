internal import WaybillSystem
internal import WaybillProjection

/// What the descriptions of all open streams take in memory, by account.
///
/// When they take more than they may, the account that has most loses its connections, and not the one that came last.
final class StreamLedger: Sendable {
    /// What to do with a description.
    enum Verdict {
        case kept
        /// The account has as many streams open as it may.
        case tooManyStreams
        /// The account has most of all, and there is no room.
        case tooManyBytes
        /// Kept; these connections end for it.
        case keptInsteadOf([ConnectionHandle])
    }

    private struct Holding {
        let account: Account
        let connection: ConnectionHandle
        var byteCount = 0
        var streamCount = 0
    }

    private struct Sum {
        var byteCount = 0
        var streamCount = 0
    }

    private struct State {
        var holdings: [ObjectIdentifier: Holding] = [:]
        var sums: [Account: Sum] = [:]
        var byteCount = 0
    }

    let byteCountMax: Int
    private let streamCountMax: Int
    private let state = Lock(State())

    init(byteCountMax: Int, streamCountMax: Int) {
        self.byteCountMax = byteCountMax
        self.streamCountMax = streamCountMax
    }

    /// The bytes of all descriptions.
    var byteCount: Int { self.state.withLock { $0.byteCount } }

    /// How many streams a connection has open.
    func streamCount(of connection: ConnectionHandle) -> Int {
        self.state.withLock { $0.holdings[ObjectIdentifier(connection)]?.streamCount ?? 0 }
    }

    /// Counts a description of a connection, or a longer or shorter one in its place.
    ///
    /// - Parameters:
    ///   - byteCount: the change in bytes.
    ///   - isNew: whether the stream was not open before.
    func keep(_ byteCount: Int, isNew: Bool, for connection: ConnectionHandle) -> Verdict {
        self.state.withLock { state in
            let account = connection.account
            let sum = state.sums[account] ?? Sum()
            let streamCountMax = account.limits.streamCountMax ?? self.streamCountMax
            guard !isNew || sum.streamCount < streamCountMax else { return .tooManyStreams }
            var ended: [ConnectionHandle] = []
            while state.byteCount + byteCount > self.byteCountMax {
                let fattest = state.sums.max { $0.value.byteCount < $1.value.byteCount }
                guard let fattest, fattest.key != account, fattest.value.byteCount > sum.byteCount + byteCount else {
                    return .tooManyBytes
                }
                ended += Self.remove(fattest.key, from: &state)
            }
            Self.change(connection, by: byteCount, streams: isNew ? 1 : 0, in: &state)
            return ended.isEmpty ? .kept : .keptInsteadOf(ended)
        }
    }

    /// A stream of a connection was sealed; a connection that lost its place has none.
    func forget(_ byteCount: Int, of connection: ConnectionHandle) {
        self.state.withLock { state in
            guard state.holdings[ObjectIdentifier(connection)] != nil else { return }
            Self.change(connection, by: -byteCount, streams: -1, in: &state)
        }
    }

    /// The connection has ended.
    func left(_ connection: ConnectionHandle) {
        self.state.withLock { state in
            guard let holding = state.holdings[ObjectIdentifier(connection)] else { return }
            Self.change(connection, by: -holding.byteCount, streams: -holding.streamCount, in: &state)
            state.holdings[ObjectIdentifier(connection)] = nil
            if state.sums[holding.account]?.streamCount == 0 { state.sums[holding.account] = nil }
        }
    }

    private static func change(_ connection: ConnectionHandle, by byteCount: Int, streams: Int, in state: inout State) {
        let key = ObjectIdentifier(connection)
        let holding = Holding(account: connection.account, connection: connection)
        state.holdings[key, default: holding].byteCount += byteCount
        state.holdings[key, default: holding].streamCount += streams
        state.sums[connection.account, default: Sum()].byteCount += byteCount
        state.sums[connection.account, default: Sum()].streamCount += streams
        state.byteCount += byteCount
    }

    private static func remove(_ account: Account, from state: inout State) -> [ConnectionHandle] {
        let keys = state.holdings.filter { $0.value.account == account }.map(\.key)
        state.byteCount -= state.sums.removeValue(forKey: account)?.byteCount ?? 0
        return keys.compactMap { state.holdings.removeValue(forKey: $0)?.connection }
    }
}
