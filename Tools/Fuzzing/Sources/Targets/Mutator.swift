internal import WaybillSystem

/// Inputs made from others: bits flipped, pieces put in, taken out, repeated, and put inside each other.
///
/// libFuzzer calls it for every other input (`Tools/fuzz`), and the tests make all of theirs with it.
struct Mutator {
    /// How often a piece is repeated or nested: around powers of two, where memory grows, and around the limits of formats.
    private static let counts: [Int] = {
        let limits = [16, 62, 64, 200, 228, 250, 500, 1000, 2000, 4096, 10_000, 20_000]
        let powers = (0...20).map { 1 << $0 }
        return Set((limits + powers).flatMap { [$0 - 1, $0, $0 + 1] }).filter { $0 > 0 }.sorted()
    }()
    private static let runs = Array("a0 \"\\[{<&%\t\n\u{1}".utf8) + [0, 0xC3, 0xFF]

    private var generator: SeededGenerator
    private let shape: InputShape
    private let byteCountMax: Int

    init(_ shape: InputShape, seed: UInt64, byteCountMax: Int) {
        self.generator = SeededGenerator(seed: seed)
        self.shape = shape
        self.byteCountMax = byteCountMax
    }

    // MARK: Decisions

    private mutating func number(below bound: Int) -> Int {
        Int.random(in: 0..<max(1, bound), using: &self.generator)
    }

    private mutating func one<Element>(of list: [Element]) -> Element {
        list[self.number(below: list.count)]
    }

    /// A count up to `limit`; 0 if that is less than 1.
    private mutating func count(upTo limit: Int) -> Int {
        guard let last = Self.counts.lastIndex(where: { $0 <= limit }) else { return 0 }
        return Self.counts[self.number(below: last + 1)]
    }

    // MARK: Inputs

    /// An input that is made from `inputs`.
    mutating func next(of inputs: [[UInt8]]) -> [UInt8] {
        var bytes = inputs.isEmpty ? [] : self.one(of: inputs)
        for _ in 0..<(1 + self.number(below: 4)) {
            if self.number(below: 2) == 0 {
                self.changeBytes(of: &bytes, inputs)
            } else {
                self.changePieces(of: &bytes)
            }
        }
        return Array(bytes.prefix(self.byteCountMax))
    }

    private mutating func changeBytes(of bytes: inout [UInt8], _ inputs: [[UInt8]]) {
        let start = self.number(below: bytes.count + 1)
        let end = min(bytes.count, start + 1 + self.number(below: 16))
        switch self.number(below: 7) {
        case 0 where start < bytes.count: bytes[start] ^= 1 << UInt8(self.number(below: 8))
        case 1 where start < bytes.count: bytes[start] = UInt8(self.number(below: 256))
        case 2: bytes.removeSubrange(start..<end)
        case 3: bytes.insert(contentsOf: bytes[start..<end], at: self.number(below: bytes.count + 1))
        case 4: bytes.removeSubrange(start...)
        case 5:
            let other = inputs.isEmpty ? [] : self.one(of: inputs)
            bytes.replaceSubrange(start..., with: other[self.number(below: other.count + 1)...])
        default: bytes.insert(contentsOf: self.one(of: self.shape.words), at: start)
        }
    }

    private mutating func changePieces(of bytes: inout [UInt8]) {
        let piece = self.piece(of: bytes)
        let room = self.byteCountMax - bytes.count
        switch self.number(below: 9) {
        case 0, 1:
            let unit = self.one(of: self.shape.joints) + bytes[piece]
            guard !unit.isEmpty else { return }
            let count = self.count(upTo: room / unit.count)
            bytes.insert(contentsOf: Array(repeating: unit, count: count).joined(), at: piece.upperBound)
        case 2, 3:
            guard !self.shape.wrappers.isEmpty else { return }
            let (opening, closing) = self.one(of: self.shape.wrappers)
            let count = self.count(upTo: room / (opening.count + closing.count))
            // What is never closed is as likely.
            let closingCount = self.number(below: 2) == 0 ? count : 0
            let inside = bytes[piece]
            bytes.replaceSubrange(
                piece,
                with: Array(repeating: opening, count: count).joined() + inside
                    + Array(repeating: closing, count: closingCount).joined())
        case 4:
            let run = [UInt8](repeating: self.one(of: Self.runs), count: self.count(upTo: room))
            bytes.insert(contentsOf: run, at: self.number(below: 2) == 0 ? piece.lowerBound : piece.upperBound)
        case 5: bytes.replaceSubrange(piece, with: self.one(of: self.shape.words))
        case 6: bytes.insert(contentsOf: self.smallPieces(upTo: room), at: piece.upperBound)
        case 7: bytes = self.smallPieces(upTo: self.byteCountMax)
        default:
            let other = Array(bytes[self.piece(of: bytes)])
            bytes.replaceSubrange(piece, with: other)
        }
    }

    // MARK: Pieces

    /// As many pieces as bytes have room for, and then some inside each other that are never closed: where memory for pieces
    /// grows, and where their number is thought to follow from that of the bytes.
    private mutating func smallPieces(upTo limit: Int) -> [UInt8] {
        guard let joint = self.shape.joints.filter({ !$0.isEmpty }).min(by: { $0.count < $1.count }),
            !self.shape.wrappers.isEmpty
        else { return [] }
        let around = (0..<self.number(below: 3)).flatMap { _ in self.one(of: self.shape.wrappers).opening }
        let inside = self.one(of: self.shape.wrappers).opening
        let unit = joint + [UInt8(ascii: "0")]
        let room = max(0, limit - around.count)
        let depth = self.count(upTo: min(64, room / (unit.count + inside.count)))
        let count = self.count(upTo: (room - depth * inside.count) / unit.count)
        return around + unit.suffix(1) + Array(repeating: unit, count: count).joined() + joint
            + Array(repeating: inside, count: depth).joined()
    }

    /// One to four pieces that follow each other: `"a"`, `[1,{"b":2}]`, `word`, or `"a"`, `:` and `0`.
    private mutating func piece(of bytes: [UInt8]) -> Range<Int> {
        guard !bytes.isEmpty else { return 0..<0 }
        var start = self.number(below: bytes.count)
        while start > 0, Self.isWord(bytes[start]), Self.isWord(bytes[start - 1]) { start -= 1 }
        var end = start
        for _ in 0..<(1 + self.number(below: 4)) where end < bytes.count { end = Self.end(ofPieceAt: end, in: bytes) }
        return start..<end
    }

    private static func end(ofPieceAt start: Int, in bytes: [UInt8]) -> Int {
        switch bytes[start] {
        case UInt8(ascii: "\""): return Self.end(ofStringAt: start, in: bytes) ?? start + 1
        case UInt8(ascii: "["), UInt8(ascii: "{"): return Self.end(ofContainerAt: start, in: bytes) ?? start + 1
        case UInt8(ascii: "<"):
            return bytes[start...].firstIndex(of: UInt8(ascii: ">")).map { $0 + 1 } ?? start + 1
        default:
            guard Self.isWord(bytes[start]) else { return start + 1 }
            return bytes[start...].firstIndex { !Self.isWord($0) } ?? bytes.count
        }
    }

    private static func end(ofStringAt start: Int, in bytes: [UInt8]) -> Int? {
        var position = start + 1
        while position < bytes.count {
            if bytes[position] == UInt8(ascii: "\"") { return position + 1 }
            position += bytes[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        return nil
    }

    private static func end(ofContainerAt start: Int, in bytes: [UInt8]) -> Int? {
        var depth = 0
        for position in start..<bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                depth -= 1
                if depth == 0 { return position + 1 }
            default: break
            }
        }
        return nil
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte || byte >= 0x80
            || [0x2B, 0x2D, 0x2E, 0x5F].contains(byte)
    }
}
