internal import WaybillSystem

/// The memory of the bodies that arrive or wait, and whose it is.
///
///     enter ─▶ take, take, … ─▶ settle ─▶ resize ─▶ leave
///              │      a body arrives      │  its events wait for the disk
///              └── the largest one gives way to a smaller one, when all room is taken
///
/// An address holds a share at most, whatever it sends. When all addresses together fill the room, a body that needs some takes
/// it from one of a larger size, by powers of two: so many peers that send large bodies slowly keep others like them out, and
/// not those who send what SDKs send. What gave way is held until its connection has given it back: one body, or an eighth of
/// the room, at most.
final class DoorMemory: Sendable {
    struct Limits {
        let byteCountMax: Int
        /// For one address.
        let shareByteCountMax: Int
    }

    /// A request's room.
    final class Place: Sendable {
        fileprivate let number: Int
        fileprivate let address: AddressGroup
        /// Called on any thread, once at most.
        fileprivate let giveWay: @Sendable () -> Void

        fileprivate init(_ number: Int, _ address: AddressGroup, _ giveWay: @escaping @Sendable () -> Void) {
            self.number = number
            self.address = address
            self.giveWay = giveWay
        }
    }

    fileprivate struct Holding {
        let place: Place
        var byteCount = 0
        var isArriving = true
        var isDisplaced = false
    }

    fileprivate struct State {
        var nextNumber = 0
        var holdings: [Int: Holding] = [:]
        var byteCount = 0
        /// Of bodies that gave way and are not given back yet.
        var displacedByteCount = 0
        var shares: [AddressGroup: Int] = [:]
        /// Bodies that arrive, by the bit count of their length.
        var arriving = [Set<Int>](repeating: [], count: Int.bitWidth + 1)
    }

    private let state = Lock(State())

    /// Bytes that are held.
    var byteCount: Int { self.state.withLock { $0.byteCount + $0.displacedByteCount } }

    /// - Parameter giveWay: called when the body has to go; the place is left then.
    func enter(_ address: AddressGroup, giveWay: @escaping @Sendable () -> Void) -> Place {
        self.state.withLock { state in
            state.nextNumber += 1
            let place = Place(state.nextNumber, address, giveWay)
            state.holdings[place.number] = Holding(place: place)
            return place
        }
    }

    /// Takes room for bytes that came.
    ///
    /// - Returns: why there is none; `nil` if there is.
    func take(_ count: Int, for place: Place, _ limits: Limits) -> DoorTelemetry.RefusalReason? {
        var displaced: [Place] = []
        let refusal = self.state.withLock { state -> DoorTelemetry.RefusalReason? in
            guard let holding = state.holdings[place.number] else { return .memory }
            if holding.isDisplaced { return .displaced }
            guard state.shares[place.address, default: 0] + count <= limits.shareByteCountMax else { return .share }
            let size = Self.size(holding.byteCount + count)
            while state.byteCount + count > limits.byteCountMax {
                guard let largest = state.displaceLargest(above: size, limits) else { return .memory }
                displaced.append(largest)
            }
            state.change(place.number, by: count)
            return nil
        }
        for place in displaced { place.giveWay() }
        return refusal
    }

    /// The body is whole: it gives way to none any more.
    ///
    /// - Returns: whether it has not done so before.
    func settle(_ place: Place) -> Bool {
        self.state.withLock { state in
            guard let holding = state.holdings[place.number], !holding.isDisplaced else { return false }
            state.arriving[Self.size(holding.byteCount)].remove(place.number)
            state.holdings[place.number]?.isArriving = false
            return true
        }
    }

    func isDisplaced(_ place: Place) -> Bool {
        self.state.withLock { $0.holdings[place.number]?.isDisplaced ?? false }
    }

    /// What a settled place holds from now on; it may be more than its share, for a moment.
    ///
    /// - Returns: whether all have room for that.
    func resize(_ place: Place, to byteCount: Int, _ limits: Limits) -> Bool {
        self.state.withLock { state in
            guard let holding = state.holdings[place.number] else { return false }
            let change = byteCount - holding.byteCount
            guard change <= 0 || state.byteCount + change <= limits.byteCountMax else { return false }
            state.change(place.number, by: change)
            return true
        }
    }

    func leave(_ place: Place) {
        self.state.withLock { state in
            guard let holding = state.holdings[place.number] else { return }
            if holding.isDisplaced {
                state.displacedByteCount -= holding.byteCount
            } else {
                state.change(place.number, by: -holding.byteCount)
            }
            state.holdings[place.number] = nil
        }
    }

    /// A class of lengths, each twice as long as the one before.
    fileprivate static func size(_ byteCount: Int) -> Int { Int.bitWidth - byteCount.leadingZeroBitCount }
}

extension DoorMemory.State {
    fileprivate mutating func change(_ number: Int, by count: Int) {
        guard var holding = self.holdings[number] else { return }
        let before = DoorMemory.size(holding.byteCount)
        holding.byteCount += count
        self.holdings[number] = holding
        self.byteCount += count
        let address = holding.place.address
        let share = self.shares[address, default: 0] + count
        self.shares[address] = share == 0 ? nil : share
        let after = DoorMemory.size(holding.byteCount)
        guard holding.isArriving, before != after else { return }
        self.arriving[before].remove(number)
        if holding.byteCount > 0 { self.arriving[after].insert(number) }
    }

    /// Makes one of the largest bodies give way, if it is of a larger size.
    fileprivate mutating func displaceLargest(above size: Int, _ limits: DoorMemory.Limits) -> DoorMemory.Place? {
        guard let largest = self.arriving.indices.last(where: { !self.arriving[$0].isEmpty }), largest > size,
            let number = self.arriving[largest].first, let holding = self.holdings[number]
        else { return nil }
        let after = self.displacedByteCount + holding.byteCount
        guard self.displacedByteCount == 0 || after <= limits.byteCountMax / 8 else { return nil }
        let byteCount = holding.byteCount
        self.change(number, by: -byteCount)
        self.holdings[number]?.byteCount = byteCount
        self.holdings[number]?.isDisplaced = true
        self.displacedByteCount = after
        return holding.place
    }
}
