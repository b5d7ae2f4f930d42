internal import WaybillEvent

/// Counts the different event names exported for each environment, up to a bound.
///
/// GA4 keeps 500 names for each app user and drops the others, so the driver warns before that. Names are stored as
/// 64-bit hashes: two of 1000 names collide with a probability of 3 in 10^14.
struct NameCensus {
    /// The number of names after which new ones are no longer counted.
    static let countMax = 1000
    private static let capacity = 2048

    /// Open addressing, one range of slots per environment; 0 is free.
    private var hashes = [UInt64](repeating: 0, count: Self.capacity * DeploymentEnvironment.allCases.count)
    private var counts = [0, 0, 0]

    func count(in env: DeploymentEnvironment) -> Int {
        self.counts[Self.index(env)]
    }

    mutating func insert(_ name: UnsafeRawBufferPointer, env: DeploymentEnvironment) {
        // FNV-1a, written out because the generic one takes a sequence of bytes.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        hash |= 1
        let start = Self.index(env) * Self.capacity
        var at = Int(truncatingIfNeeded: hash >> 32) & (Self.capacity - 1)
        while self.hashes[start + at] != 0 {
            if self.hashes[start + at] == hash { return }
            at = (at + 1) & (Self.capacity - 1)
        }
        guard self.counts[Self.index(env)] < Self.countMax else { return }
        self.hashes[start + at] = hash
        self.counts[Self.index(env)] += 1
    }

    private static func index(_ env: DeploymentEnvironment) -> Int {
        switch env {
        case .dev: 0
        case .internal: 1
        case .prod: 2
        }
    }
}
