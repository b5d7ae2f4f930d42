/// A size of QR codes, and how it splits codewords into blocks; for error correction level L.
///
/// - SeeAlso: ISO/IEC 18004:2015, tables 7 and 9, and annex E.
struct QRVersion {
    /// 1 to 10.
    let number: Int
    /// Codewords of data in each block.
    let blocks: [Int]
    /// Codewords of error correction for each block.
    let correctionCount: Int
    /// Where alignment patterns are centered, in both directions.
    let alignmentCenters: [Int]

    static let all: [QRVersion] = [
        QRVersion(number: 1, blocks: [19], correctionCount: 7, alignmentCenters: []),
        QRVersion(number: 2, blocks: [34], correctionCount: 10, alignmentCenters: [6, 18]),
        QRVersion(number: 3, blocks: [55], correctionCount: 15, alignmentCenters: [6, 22]),
        QRVersion(number: 4, blocks: [80], correctionCount: 20, alignmentCenters: [6, 26]),
        QRVersion(number: 5, blocks: [108], correctionCount: 26, alignmentCenters: [6, 30]),
        QRVersion(number: 6, blocks: [68, 68], correctionCount: 18, alignmentCenters: [6, 34]),
        QRVersion(number: 7, blocks: [78, 78], correctionCount: 20, alignmentCenters: [6, 22, 38]),
        QRVersion(number: 8, blocks: [97, 97], correctionCount: 24, alignmentCenters: [6, 24, 42]),
        QRVersion(number: 9, blocks: [116, 116], correctionCount: 30, alignmentCenters: [6, 26, 46]),
        QRVersion(number: 10, blocks: [68, 68, 69, 69], correctionCount: 18, alignmentCenters: [6, 28, 50]),
    ]

    /// How many modules are on a side.
    var size: Int { 17 + 4 * self.number }

    private var dataCount: Int { self.blocks.reduce(0, +) }

    /// How many bits have the number of bytes.
    private var countBitCount: Int { self.number < 10 ? 8 : 16 }

    /// How many bytes fit.
    var byteCountMax: Int { self.dataCount - (4 + self.countBitCount + 4) / 8 }

    /// The codewords of data and of error correction, in the order of their modules (7.4 to 7.6).
    func codewords(of bytes: [UInt8]) -> [UInt8] {
        let data = self.dataCodewords(of: bytes)
        let code = ReedSolomon(correctionCount: self.correctionCount)
        var start = 0
        let blocks = self.blocks.map { count in
            defer { start += count }
            return Array(data[start..<(start + count)])
        }
        return Self.interleaved(blocks) + Self.interleaved(blocks.map(code.correction))
    }

    /// The mode, the count, the bytes, and what fills the rest.
    private func dataCodewords(of bytes: [UInt8]) -> [UInt8] {
        var bits: [Bool] = []
        func append(_ value: Int, _ count: Int) {
            for index in (0..<count).reversed() { bits.append(value >> index & 1 != 0) }
        }
        append(0b0100, 4)
        append(bytes.count, self.countBitCount)
        for byte in bytes { append(Int(byte), 8) }
        // The end, as far as there is room for it, and zeros up to a whole codeword.
        append(0, min(4, self.dataCount * 8 - bits.count))
        append(0, (8 - bits.count % 8) % 8)
        var codewords = stride(from: 0, to: bits.count, by: 8).map { start in
            bits[start..<(start + 8)].reduce(UInt8(0)) { $0 << 1 | ($1 ? 1 : 0) }
        }
        while codewords.count < self.dataCount {
            codewords.append((codewords.count - (bits.count / 8)) % 2 == 0 ? 0xEC : 0x11)
        }
        return codewords
    }

    /// The first codewords of all blocks, then the second ones, and so on.
    private static func interleaved(_ blocks: [[UInt8]]) -> [UInt8] {
        let countMax = blocks.map(\.count).max() ?? 0
        return (0..<countMax).flatMap { index in blocks.filter { index < $0.count }.map { $0[index] } }
    }
}

/// The Reed-Solomon code of QR codes: over GF(2^8) with the polynomial 0x11D, roots from 1 on.
struct ReedSolomon {
    /// The coefficients of the generator without the leading 1, highest power first.
    private let generator: [UInt8]

    init(correctionCount: Int) {
        var generator = [UInt8](repeating: 0, count: correctionCount)
        generator[correctionCount - 1] = 1
        var root: UInt8 = 1
        for _ in 0..<correctionCount {
            for index in generator.indices {
                generator[index] = Self.product(generator[index], root)
                if index + 1 < correctionCount { generator[index] ^= generator[index + 1] }
            }
            root = Self.product(root, 2)
        }
        self.generator = generator
    }

    /// The codewords that correct a block.
    func correction(of data: [UInt8]) -> [UInt8] {
        var rest = [UInt8](repeating: 0, count: self.generator.count)
        for byte in data {
            let factor = byte ^ rest.removeFirst()
            rest.append(0)
            for index in rest.indices { rest[index] ^= Self.product(self.generator[index], factor) }
        }
        return rest
    }

    private static func product(_ x: UInt8, _ y: UInt8) -> UInt8 {
        var product = 0
        for index in (0..<8).reversed() {
            product = product << 1 ^ (product >> 7) * 0x11D
            if y >> index & 1 != 0 { product ^= Int(x) }
        }
        return UInt8(product)
    }
}
