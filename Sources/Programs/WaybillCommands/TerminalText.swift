/// Text of others on a terminal: what it cannot do there, and how wide it is.
enum TerminalText {
    /// With everything that a terminal obeys, or that changes how the rest is read, as `\u{…}`.
    static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: Self.isActive) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            if Self.isActive(scalar) {
                escaped += "\\u{" + String(scalar.value, radix: 16) + "}"
            } else {
                escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// Controls, line separators, and marks of direction and of other invisible things.
    private static func isActive(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse: true
        default: false
        }
    }

    /// How many columns a text takes.
    static func width(_ text: String) -> Int {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
        return text.unicodeScalars.reduce(0) { $0 + Self.width($1) }
    }

    private static func width(_ scalar: Unicode.Scalar) -> Int {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        switch scalar.value {
        // East Asian Width (Unicode Standard Annex 11): wide and full-width characters, and emoji.
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE4F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }

    /// The beginning of a text, with `…` where it continues.
    static func prefix(_ text: String, width: Int) -> String {
        guard Self.width(text) > width else { return text }
        return Self.taken(text.unicodeScalars, width: width - 1) + (width > 0 ? "…" : "")
    }

    /// The end of a text, with `…` where it begins sooner: of a path, the name matters.
    static func suffix(_ text: String, width: Int) -> String {
        guard Self.width(text) > width else { return text }
        let end = String(
            Self.taken(text.unicodeScalars.reversed(), width: width - 1).unicodeScalars.reversed().map(Character.init))
        return (width > 0 ? "…" : "") + end
    }

    private static func taken(_ scalars: some Sequence<Unicode.Scalar>, width: Int) -> String {
        var rest = width
        var taken = String.UnicodeScalarView()
        for scalar in scalars {
            rest -= Self.width(scalar)
            if rest < 0 { break }
            taken.append(scalar)
        }
        return String(taken)
    }

    /// Filled up to a width with spaces.
    static func padded(_ text: String, to width: Int, isNumber: Bool) -> String {
        let space = String(repeating: " ", count: max(0, width - Self.width(text)))
        return isNumber ? space + text : text + space
    }
}

/// Numbers for people.
enum HumanText {
    /// `182.8 kB`.
    static func bytes(_ count: Int) -> String {
        guard abs(count) >= 1000 else { return "\(count) B" }
        var value = Double(count) / 1000
        var units = ["kB", "MB", "GB", "TB", "PB"][...]
        while abs(value) >= 999.95, units.count > 1 {
            value /= 1000
            units.removeFirst()
        }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(abs(tenths % 10)) \(units[units.startIndex])"
    }

    /// `1,204`.
    static func count(_ count: Int) -> String {
        let digits = String(count.magnitude)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
            text.append(digit)
        }
        return (count < 0 ? "-" : "") + text
    }

    /// `1 line`, `1,204 lines`.
    static func count(_ count: Int, _ noun: String) -> String { "\(Self.count(count)) \(noun)\(count == 1 ? "" : "s")" }

    /// `3 d 4 h`: the two largest units.
    static func seconds(_ count: Int) -> String {
        let (days, hours, minutes) = (count / 86_400, count / 3600 % 24, count / 60 % 60)
        if days > 0 { return hours > 0 ? "\(days) d \(hours) h" : "\(days) d" }
        if hours > 0 { return minutes > 0 ? "\(hours) h \(minutes) min" : "\(hours) h" }
        if minutes > 0 { return count % 60 > 0 ? "\(minutes) min \(count % 60) s" : "\(minutes) min" }
        return "\(count) s"
    }

    /// `+0.2 s`: how far a clock is ahead.
    static func difference(milliseconds: Int) -> String {
        let sign = milliseconds < 0 ? "-" : "+"
        let size = Int(milliseconds.magnitude)
        guard size < 10_000 else { return sign + Self.seconds(size / 1000) }
        return "\(sign)\(size / 1000).\(size / 100 % 10) s"
    }
}
