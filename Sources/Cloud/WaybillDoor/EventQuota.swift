internal import WaybillIngest
internal import WaybillSystem

/// How many events a key may send, and of these an address: buckets that fill with time.
///
///     request ─▶ more events than the address's burst? 413 ─▶ address in debt? 429 ─▶ key in debt? 429 ─▶ both pay
///
/// Burst: 20 s of the rate, and at least 500 events, so that a batch of any SDK fits. A request is taken as soon as both buckets
/// have something, and may leave them in debt: so large batches are not starved by small ones. An address pays for all events
/// that it sends, and pays its debt whole; the key pays for those that are stored, and its debt is one second at most, so that
/// no request keeps other addresses waiting for longer.
///
/// Memory: 40 bytes for each address that has not refilled its bucket, at most ``addressCountMax`` of them.
struct EventQuota {
    /// Events a second.
    struct Rates: Hashable {
        let key: Int
        let address: Int
    }

    enum Refusal: Hashable {
        /// The address may send so many at once.
        case tooMany(countMax: Int)
        /// The address has sent too many.
        case address(wait: Duration)
        /// All together have.
        case key(wait: Duration)
    }

    private struct Bucket {
        private let rate: Double
        private var available: Double
        private var last: MonotonicTime

        init(rate: Int, now: MonotonicTime) {
            self.rate = Double(rate)
            self.available = Double(EventQuota.burst(of: rate))
            self.last = now
        }

        var capacity: Double { Double(EventQuota.burst(of: Int(self.rate))) }
        var isFull: Bool { self.available >= self.capacity }

        mutating func fill(until now: MonotonicTime) {
            self.add((now - self.last) / .seconds(1) * self.rate)
            self.last = now
        }

        mutating func add(_ count: Double) { self.available = min(self.capacity, self.available + count) }

        mutating func take(_ count: Int, debtMax: Double = .infinity) {
            self.available = max(-debtMax, self.available - Double(count))
        }

        /// How long until it has something; `nil`: it has.
        var wait: Duration? {
            guard self.available <= 0 else { return nil }
            return .milliseconds(Int64((-self.available / self.rate * 1000).rounded(.down)) + 1)
        }
    }

    /// Of further addresses only the key's bucket is asked.
    static let addressCountMax = 4096

    private let rates: Rates
    private var key: Bucket
    /// Of addresses that are not full.
    private var addresses: [AddressGroup: Bucket] = [:]
    /// When it was last looked which are full again.
    private var lookedAt: MonotonicTime

    init(_ rates: Rates, now: MonotonicTime) {
        self.rates = rates
        self.key = Bucket(rate: rates.key, now: now)
        self.lookedAt = now
    }

    /// The most events at once.
    static func burst(of rate: Int) -> Int { max(500, rate * 20) }

    /// Addresses that are known.
    var addressCount: Int { self.addresses.count }

    /// Takes a request's events out of both buckets, or says why not.
    ///
    /// - Parameter faultCount: those of them that are not stored, which only their sender pays for.
    mutating func take(
        _ count: Int, faultCount: Int, from address: AddressGroup, at now: MonotonicTime
    ) -> Refusal? {
        let countMax = Self.burst(of: self.rates.address)
        guard count <= countMax else { return .tooMany(countMax: countMax) }
        var bucket = self.addresses[address] ?? Bucket(rate: self.rates.address, now: now)
        bucket.fill(until: now)
        self.key.fill(until: now)
        if let wait = bucket.wait { return .address(wait: wait) }
        if let wait = self.key.wait { return .key(wait: wait) }
        bucket.take(count)
        self.key.take(count - faultCount, debtMax: Double(self.rates.key))
        if self.addresses[address] != nil || self.hasRoom(at: now) { self.addresses[address] = bucket }
        return nil
    }

    /// Gives events back to the key that were not stored: only who sent them pays for repeats.
    mutating func giveBack(_ count: Int) { self.key.add(Double(count)) }

    private mutating func hasRoom(at now: MonotonicTime) -> Bool {
        if self.addresses.count >= Self.addressCountMax, now - self.lookedAt >= .seconds(1) {
            self.lookedAt = now
            self.addresses = self.addresses.filter { _, bucket in
                var bucket = bucket
                bucket.fill(until: now)
                return !bucket.isFull
            }
        }
        return self.addresses.count < Self.addressCountMax
    }
}

extension DoorKey {
    var rates: EventQuota.Rates {
        EventQuota.Rates(
            key: self.eventRateMax, address: self.addressEventRateMax ?? max(1, self.eventRateMax / 5))
    }
}
