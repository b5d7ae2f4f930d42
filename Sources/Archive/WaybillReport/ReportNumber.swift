/// Numbers of reports as people read them.
enum ReportNumber {
    /// 1234567 as "1,234,567".
    static func grouped(_ number: Int) -> String {
        let digits = Array(String(number.magnitude))
        var text = number < 0 ? "−" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
            text.append(digit)
        }
        return text
    }

    /// A number with at most `decimals` digits after the point and no zeros at its end.
    static func rounded(_ number: Double, decimals: Int) -> String {
        guard number.isFinite else { return "–" }
        var scale = 1.0
        for _ in 0..<decimals { scale *= 10 }
        let scaled = (number.magnitude * scale).rounded()
        // Past this, a number has no digits after the point.
        guard scaled < 1e15 else { return number.description }
        let whole = Int(scaled / scale)
        var digits = String(Int(scaled) - whole * Int(scale))
        digits = String(repeating: "0", count: decimals - min(decimals, digits.count)) + digits
        while digits.last == "0" { digits.removeLast() }
        let sign = number < 0 && scaled > 0 ? "−" : ""
        return sign + Self.grouped(whole) + (digits.isEmpty ? "" : "." + digits)
    }

    /// A share of 1 as percent.
    static func percent(_ share: Double) -> String {
        Self.rounded(share * 100, decimals: 1) + " %"
    }

    /// A cell as text that is not escaped yet; `nil` where there is no value.
    static func text(of cell: Report.Cell, unit: Report.Unit) -> String? {
        switch cell {
        case .text(let text): text
        case .count(let count): unit == .share ? Self.percent(Double(count)) : Self.grouped(count)
        case .number(let number):
            switch unit {
            case .share: Self.percent(number)
            case .milliseconds: Self.rounded(number, decimals: 0)
            case .seconds: Self.rounded(number, decimals: 1)
            case .text, .count, .day: Self.rounded(number, decimals: 2)
            }
        case .empty: nil
        }
    }

    /// The value of a cell as far as a chart can draw it.
    static func value(of cell: Report.Cell) -> Double? {
        switch cell {
        case .count(let count): Double(count)
        case .number(let number): number.isFinite ? number : nil
        case .text, .empty: nil
        }
    }
}
