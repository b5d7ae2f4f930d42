internal import NIOCore
internal import WaybillSystem

/// Limits how many connections are open, of all addresses and of each.
///
/// For one more than an address may have, its own that has been silent longest ends; for one more than all may have, the
/// one of all that has been silent longest. A connection that waits for the answer of a whole request is not silent.
final class DoorPlaces: Sendable {
    struct Limits: Equatable {
        let countMax: Int
        /// For one address.
        let shareCountMax: Int
    }

    /// Why a connection ended for another one, or was not taken; the set is closed.
    enum Ended: String, Hashable, Sendable, CaseIterable {
        /// Its address had its share.
        case share
        /// All places were taken.
        case full
        /// It was not taken: none of the others was silent.
        case busy
    }

    fileprivate struct Place {
        let channel: any Channel
        /// `nil`: a proxy's, whose connections are many senders'.
        let address: AddressGroup?
        /// Grows with each connection that comes and each answer.
        var turn: Int
        /// It has sent a request, which is not answered.
        var isBusy = false
    }

    /// Connections in the order of their last answers; what is out of date is skipped.
    fileprivate struct Silence {
        typealias Entry = (id: ObjectIdentifier, turn: Int)

        private var entries: [Entry] = []
        private var start = 0

        mutating func append(_ entry: Entry, live count: Int, _ isLive: (Entry) -> Bool) {
            self.entries.append(entry)
            guard self.entries.count > 2 * count + 64 else { return }
            self.entries = self.entries[self.start...].filter(isLive)
            self.start = 0
        }

        mutating func popFirst(where isSilent: (Entry) -> Bool) -> ObjectIdentifier? {
            while self.start < self.entries.count {
                let entry = self.entries[self.start]
                self.start += 1
                if isSilent(entry) { return entry.id }
            }
            return nil
        }
    }

    fileprivate struct Share {
        var count = 0
        var silence = Silence()
    }

    fileprivate struct State {
        var places: [ObjectIdentifier: Place] = [:]
        var turn = 0
        var silence = Silence()
        var shares: [AddressGroup: Share] = [:]
        var ended: [Ended: Int] = [:]
    }

    private let state = Lock(State())

    var count: Int { self.state.withLock { $0.places.count } }
    var ended: [Ended: Int] { self.state.withLock { $0.ended } }

    /// - Parameter address: `nil` for a proxy's.
    /// - Returns: whether a place was free or became free; the channel releases it when it closes.
    func take(for channel: any Channel, of address: AddressGroup?, _ limits: Limits) -> Bool {
        let (isAdmitted, silent) = self.state.withLock { $0.take(channel, address, limits) }
        silent?.close(promise: nil)
        guard isAdmitted else { return false }
        channel.closeFuture.whenComplete { _ in
            self.state.withLock { _ = $0.leave(ObjectIdentifier(channel)) }
        }
        return true
    }

    /// Ends the connection of all that has been silent longest, because no file is left for another one.
    func endSilent() {
        let silent = self.state.withLock { state in
            let silent = state.endSilent()
            _ = state.count(silent == nil ? .busy : .full)
            return silent
        }
        silent?.close(promise: nil)
    }

    /// The channel has sent its request.
    func asked(_ channel: any Channel) {
        self.state.withLock { $0.places[ObjectIdentifier(channel)]?.isBusy = true }
    }

    /// The channel's request was answered, and it may send another one.
    func rested(_ channel: any Channel) {
        self.state.withLock { state in
            let id = ObjectIdentifier(channel)
            guard state.places[id] != nil else { return }
            state.turn += 1
            state.places[id]?.turn = state.turn
            state.places[id]?.isBusy = false
            state.fall(silent: id)
        }
    }
}

extension DoorPlaces.State {
    fileprivate mutating func take(
        _ channel: any Channel, _ address: AddressGroup?, _ limits: DoorPlaces.Limits
    ) -> (isAdmitted: Bool, silent: (any Channel)?) {
        var silent: (any Channel)?
        if let address, let share = self.shares[address], share.count >= limits.shareCountMax {
            guard let found = self.endSilent(of: address) else { return (self.count(.busy), nil) }
            silent = found
            _ = self.count(.share)
        } else if self.places.count >= limits.countMax {
            guard let found = self.endSilent() else { return (self.count(.busy), nil) }
            silent = found
            _ = self.count(.full)
        }
        self.turn += 1
        let id = ObjectIdentifier(channel)
        self.places[id] = DoorPlaces.Place(channel: channel, address: address, turn: self.turn)
        if let address { self.shares[address, default: DoorPlaces.Share()].count += 1 }
        self.fall(silent: id)
        return (true, silent)
    }

    fileprivate mutating func count(_ ended: DoorPlaces.Ended) -> Bool {
        self.ended[ended, default: 0] += 1
        return false
    }

    fileprivate mutating func fall(silent id: ObjectIdentifier) {
        guard let place = self.places[id] else { return }
        // Taken out, so that nothing is copied.
        var silence = DoorPlaces.Silence()
        swap(&silence, &self.silence)
        silence.append((id, place.turn), live: self.places.count) { self.isLive($0) }
        swap(&silence, &self.silence)
        guard let address = place.address, var share = self.shares.removeValue(forKey: address) else { return }
        share.silence.append((id, place.turn), live: share.count) { self.isLive($0) }
        self.shares[address] = share
    }

    private func isLive(_ entry: DoorPlaces.Silence.Entry) -> Bool { self.places[entry.id]?.turn == entry.turn }

    private func isSilent(_ entry: DoorPlaces.Silence.Entry) -> Bool {
        self.places[entry.id].map { $0.turn == entry.turn && !$0.isBusy } ?? false
    }

    fileprivate mutating func endSilent() -> (any Channel)? {
        var silence = DoorPlaces.Silence()
        swap(&silence, &self.silence)
        let id = silence.popFirst { self.isSilent($0) }
        swap(&silence, &self.silence)
        return id.flatMap { self.leave($0) }
    }

    private mutating func endSilent(of address: AddressGroup) -> (any Channel)? {
        guard var share = self.shares.removeValue(forKey: address) else { return nil }
        let id = share.silence.popFirst { self.isSilent($0) }
        self.shares[address] = share
        return id.flatMap { self.leave($0) }
    }

    fileprivate mutating func leave(_ id: ObjectIdentifier) -> (any Channel)? {
        guard let place = self.places.removeValue(forKey: id) else { return nil }
        if let address = place.address, let share = self.shares[address] {
            if share.count == 1 { self.shares[address] = nil } else { self.shares[address]?.count -= 1 }
        }
        return place.channel
    }
}
