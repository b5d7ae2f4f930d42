import Testing
import Waybill
import WaybillCommerce
import WaybillTesting

@Suite struct AmountTests {
    /// The amount as a line has it; `nil` if it is left out, which is counted.
    private func written(_ amount: Amount) throws -> String? {
        let recorder = try Recorder()
        recorder.waybill.track("a") { $0.put("amount", amount) }
        let text = try #require(recorder.events.last).fields.first?.text
        #expect(recorder.waybill.counters.repairs.nonFinite == (text == nil ? 1 : 0))
        return text
    }

    @Test(arguments: [
        (Amount(39.9), "39.9"), (Amount(39_900), "39900"), (39.9, "39.9"), (0, "0"), (-5, "-5"), (-0.5, "-0.5"),
        (Amount(minor: 3990), "39.9"), (Amount(minor: 39_900, decimals: 0), "39900"), (Amount(minor: 1), "0.01"),
        (Amount(minor: 1234, decimals: 3), "1.234"), (Amount(0.1) + Amount(0.2), "0.3"), (Amount(39.9) * 3, "119.7"),
        (Amount(1.000_000_4), "1"), (Amount(99_999_999.99), "99999999.99"),
        (Amount(9_000_000_000_000), "9000000000000"),
    ])
    func `an amount is written exactly`(amount: Amount, text: String) throws {
        #expect(try self.written(amount) == text)
    }

    @Test func `every amount in cents is written with its two decimals`() throws {
        let recorder = try Recorder()
        for cents in stride(from: 0, to: 3_000_000, by: 997) {
            recorder.waybill.track("a") { $0.put("amount", Amount(minor: cents)) }
            let (units, rest) = cents.quotientAndRemainder(dividingBy: 100)
            let decimals = rest == 0 ? "" : rest % 10 == 0 ? ".\(rest / 10)" : rest < 10 ? ".0\(rest)" : ".\(rest)"
            #expect(recorder.events.last?.fields.first?.text == "\(units)\(decimals)")
        }
    }

    @Test(arguments: [
        Amount(.nan), Amount(.infinity), Amount(1e300), Amount(Int.max), Amount(minor: .min), Amount(Int.max) + 1,
        Amount(9_000_000_000_000) + Amount(9_000_000_000_000), Amount(9_000_000_000_000) * 3, Amount(.nan) * 2,
    ])
    func `an amount without a number is left out and counted`(amount: Amount) throws {
        #expect(try self.written(amount) == nil)
    }

    @Test func `equal amounts are equal however they are written`() {
        #expect(Amount(minor: 3990) == 39.9 && Amount(1) == 1.0 && Amount(2) != 3)
    }
}
