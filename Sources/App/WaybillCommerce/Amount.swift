public import WaybillEvent

/// An amount of money, exact to a millionth of the currency's unit.
///
///     Amount(39.9)                 39.9
///     Amount(39_900)               39900
///     Amount(minor: 3990)          39.9, from cents
///     Amount(39.9) * 3             119.7, where 39.9 * 3 is 119.69999999999999
///
/// Amounts that are not finite, or above nine trillion units, are left out of events and counted like such numbers.
public struct Amount: Hashable, Sendable {
    /// Millionths of the unit; `nil` if the amount has no number.
    private let millionths: Int64?

    private init(millionths: Int64?) {
        self.millionths = millionths
    }

    /// An amount in units, rounded to millionths.
    public init(_ units: Double) {
        self.millionths = Int64(exactly: (units * 1_000_000).rounded())
    }

    /// An amount in whole units.
    public init(_ units: Int) {
        self.init(minor: units, decimals: 0)
    }

    /// An amount in the currency's smallest units, such as cents.
    ///
    /// - Parameter decimals: how many decimals a unit has, 0 to 6: 2 for EUR, 0 for KRW, 3 for KWD.
    public init(minor: Int, decimals: Int = 2) {
        precondition((0...6).contains(decimals), "an amount has 0 to 6 decimals, not \(decimals)")
        let scale = (decimals..<6).reduce(Int64(1)) { scale, _ in scale * 10 }
        let (millionths, overflows) = Int64(minor).multipliedReportingOverflow(by: scale)
        self.millionths = overflows ? nil : millionths
    }

    /// The sum of two amounts of one currency.
    public static func + (left: Amount, right: Amount) -> Amount {
        guard let first = left.millionths, let second = right.millionths else { return Amount(millionths: nil) }
        let (sum, overflows) = first.addingReportingOverflow(second)
        return Amount(millionths: overflows ? nil : sum)
    }

    /// The amount, a number of times.
    public static func * (amount: Amount, count: Int) -> Amount {
        guard let millionths = amount.millionths else { return amount }
        let (product, overflows) = millionths.multipliedReportingOverflow(by: Int64(count))
        return Amount(millionths: overflows ? nil : product)
    }
}

extension Amount: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// An amount in whole units.
    public init(integerLiteral units: Int) { self.init(units) }
    /// An amount in units.
    public init(floatLiteral units: Double) { self.init(units) }
}

extension Amount: ScalarFieldValue {
    /// Whether the amount has a number.
    public var isFinite: Bool { self.millionths != nil }

    /// Writes the shortest decimal of the amount.
    public func append(to fields: inout Fields) {
        guard let millionths else { return }
        let (units, rest) = millionths.quotientAndRemainder(dividingBy: 1_000_000)
        // The quotient is rounded correctly, so that its shortest decimal is the amount's.
        if rest == 0 { units.append(to: &fields) } else { (Double(millionths) / 1_000_000).append(to: &fields) }
    }
}
