/// The bytes that each connection skipped: the first few skips are logged one by one, the rest as a sum when the
/// connection ends.
struct Skips {
    struct Sum {
        var count = 0
        var byteCount: UInt64 = 0
    }

    private static let toldCountMax = 10

    private var told: [ObjectIdentifier: Int] = [:]
    private var untold: [ObjectIdentifier: Sum] = [:]

    /// - Returns: whether to log this skip by itself.
    mutating func note(_ connection: ConnectionHandle, byteCount: UInt64) -> Bool {
        let key = ObjectIdentifier(connection)
        let told = self.told[key, default: 0]
        guard told == Self.toldCountMax else {
            self.told[key] = told + 1
            return true
        }
        var sum = self.untold[key, default: Sum()]
        sum.count += 1
        sum.byteCount &+= byteCount
        self.untold[key] = sum
        return false
    }

    /// - Returns: the sum of the skips not logged yet; `nil` when there are none.
    mutating func close(_ connection: ConnectionHandle) -> Sum? {
        self.told[ObjectIdentifier(connection)] = nil
        return self.untold.removeValue(forKey: ObjectIdentifier(connection))
    }
}
