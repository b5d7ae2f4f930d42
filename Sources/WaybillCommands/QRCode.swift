/// A QR code of bytes: byte mode, error correction level L, versions 1 to 10.
///
///     bytes ─▶ codewords with Reed-Solomon ─▶ modules around the fixed patterns ─▶ the mask with the least penalty
///
/// It is for a screen, where nothing is torn or dirty, so level L is enough: each level above makes the code larger. 271
/// bytes fit into version 10, which has 57 modules on a side.
///
/// - SeeAlso: ISO/IEC 18004:2015; the numbers of its sections are in the comments.
struct QRCode {
    /// How many modules are on a side.
    let size: Int
    /// Whether a module is dark, row by row.
    private(set) var modules: [Bool]
    /// Modules of the fixed patterns, which no mask changes.
    private var isFixed: [Bool]
    private let version: QRVersion

    /// - Returns: `nil` if there are too many bytes.
    init?(_ bytes: [UInt8]) {
        let codes = (0..<8).compactMap { QRCode(bytes, mask: $0) }
        guard let best = codes.min(by: { $0.penalty < $1.penalty }) else { return nil }
        self = best
    }

    /// - Parameter mask: 0 to 7 (7.8.2).
    init?(_ bytes: [UInt8], mask: Int) {
        guard let version = QRVersion.all.first(where: { bytes.count <= $0.byteCountMax }) else { return nil }
        self.version = version
        self.size = version.size
        self.modules = Array(repeating: false, count: version.size * version.size)
        self.isFixed = self.modules
        self.drawFixedPatterns()
        self.drawFormat(mask)
        self.drawCodewords(version.codewords(of: bytes))
        self.apply(mask)
    }

    /// - Returns: whether the module is dark; everything around the code is light.
    subscript(row: Int, column: Int) -> Bool {
        guard (0..<self.size).contains(row), (0..<self.size).contains(column) else { return false }
        return self.modules[row * self.size + column]
    }

    private mutating func fix(_ row: Int, _ column: Int, _ isDark: Bool) {
        self.modules[row * self.size + column] = isDark
        self.isFixed[row * self.size + column] = true
    }

    // MARK: Fixed patterns (6.3)

    private mutating func drawFixedPatterns() {
        for index in 0..<self.size {
            self.fix(6, index, index % 2 == 0)
            self.fix(index, 6, index % 2 == 0)
        }
        for (row, column) in [(3, 3), (3, self.size - 4), (self.size - 4, 3)] { self.drawFinder(row, column) }
        let centers = self.version.alignmentCenters
        for row in centers {
            // Not where a finder is.
            for column in centers
            where (row, column) != (6, 6) && (row, column) != (6, self.size - 7) && (row, column) != (self.size - 7, 6)
            {
                for y in -2...2 {
                    for x in -2...2 { self.fix(row + y, column + x, max(abs(x), abs(y)) != 1) }
                }
            }
        }
        self.drawVersion()
    }

    private mutating func drawFinder(_ row: Int, _ column: Int) {
        for y in -4...4 {
            for x in -4...4 where (0..<self.size).contains(row + y) && (0..<self.size).contains(column + x) {
                let distance = max(abs(x), abs(y))
                self.fix(row + y, column + x, distance != 2 && distance != 4)
            }
        }
    }

    /// The mask and the level, twice (7.9).
    private mutating func drawFormat(_ mask: Int) {
        let bits = Self.withRemainder(1 << 3 | mask, generator: 0x537, count: 10) ^ 0x5412
        func isDark(_ index: Int) -> Bool { bits >> index & 1 != 0 }
        for index in 0..<6 { self.fix(index, 8, isDark(index)) }
        self.fix(7, 8, isDark(6))
        self.fix(8, 8, isDark(7))
        self.fix(8, 7, isDark(8))
        for index in 9..<15 { self.fix(8, 14 - index, isDark(index)) }
        for index in 0..<8 { self.fix(8, self.size - 1 - index, isDark(index)) }
        for index in 8..<15 { self.fix(self.size - 15 + index, 8, isDark(index)) }
        self.fix(self.size - 8, 8, true)
    }

    /// The version, twice, from version 7 on (7.10).
    private mutating func drawVersion() {
        guard self.version.number >= 7 else { return }
        let bits = Self.withRemainder(self.version.number, generator: 0x1F25, count: 12)
        for index in 0..<18 {
            let isDark = bits >> index & 1 != 0
            self.fix(self.size - 11 + index % 3, index / 3, isDark)
            self.fix(index / 3, self.size - 11 + index % 3, isDark)
        }
    }

    /// A value, followed by its remainder of so many bits.
    private static func withRemainder(_ value: Int, generator: Int, count: Int) -> Int {
        var rest = value
        for _ in 0..<count { rest = rest << 1 ^ (rest >> (count - 1)) * generator }
        return value << count | rest
    }

    // MARK: Codewords (7.7.3)

    /// Writes the bits in columns of two, from the right, upwards and downwards in turn.
    private mutating func drawCodewords(_ codewords: [UInt8]) {
        var index = 0
        var right = self.size - 1
        var isUpward = true
        while right > 0 {
            // The column of the timing pattern is passed over.
            if right == 6 { right = 5 }
            for step in 0..<self.size {
                let row = isUpward ? self.size - 1 - step : step
                for column in [right, right - 1] where !self.isFixed[row * self.size + column] {
                    if index < codewords.count * 8 {
                        self.modules[row * self.size + column] = codewords[index >> 3] >> (7 - index & 7) & 1 != 0
                    }
                    index += 1
                }
            }
            isUpward.toggle()
            right -= 2
        }
    }

    // MARK: Masks (7.8)

    private mutating func apply(_ mask: Int) {
        for row in 0..<self.size {
            for column in 0..<self.size
            where !self.isFixed[row * self.size + column] && Self.isInverted(mask, row, column) {
                self.modules[row * self.size + column].toggle()
            }
        }
    }

    private static func isInverted(_ mask: Int, _ row: Int, _ column: Int) -> Bool {
        switch mask {
        case 0: (row + column) % 2 == 0
        case 1: row % 2 == 0
        case 2: column % 3 == 0
        case 3: (row + column) % 3 == 0
        case 4: (row / 2 + column / 3) % 2 == 0
        case 5: row * column % 2 + row * column % 3 == 0
        case 6: (row * column % 2 + row * column % 3) % 2 == 0
        case 7: ((row + column) % 2 + row * column % 3) % 2 == 0
        default: preconditionFailure("a mask is 0 to 7, and not \(mask)")
        }
    }

    /// How hard the code is to read (7.8.3).
    private var penalty: Int {
        var penalty = 0
        for line in 0..<self.size {
            penalty += Self.penalty(ofLine: (0..<self.size).map { self[line, $0] })
            penalty += Self.penalty(ofLine: (0..<self.size).map { self[$0, line] })
        }
        for row in 1..<self.size {
            for column in 1..<self.size {
                let isDark = self[row, column]
                guard self[row - 1, column] == isDark, self[row, column - 1] == isDark,
                    self[row - 1, column - 1] == isDark
                else { continue }
                penalty += 3
            }
        }
        // 10 for each 5 % that the share of dark modules is away from 45 % to 55 %. The number of modules is odd.
        let total = self.modules.count
        let distance = abs(self.modules.count(where: \.self) * 20 - total * 10)
        return penalty + ((distance + total - 1) / total - 1) * 10
    }

    /// For runs of five and more of one colour, and for what a reader could take for a finder.
    private static func penalty(ofLine line: [Bool]) -> Int {
        // Light and dark in turn, beginning and ending with light: around the code all is light.
        var runs = [0]
        for (index, isDark) in line.enumerated() {
            if index > 0 ? isDark == line[index - 1] : !isDark { runs[runs.count - 1] += 1 } else { runs.append(1) }
        }
        var penalty = runs.filter { $0 >= 5 }.reduce(0) { $0 + $1 - 2 }
        if runs.count % 2 == 0 { runs.append(0) }
        runs[0] += line.count
        runs[runs.count - 1] += line.count
        for start in stride(from: 1, to: runs.count - 5, by: 2) {
            let unit = runs[start]
            guard Array(runs[start..<(start + 5)]) == [unit, unit, 3 * unit, unit, unit] else { continue }
            let (before, after) = (runs[start - 1], runs[start + 5])
            if before >= 4 * unit, after >= unit { penalty += 40 }
            if after >= 4 * unit, before >= unit { penalty += 40 }
        }
        return penalty
    }
}
