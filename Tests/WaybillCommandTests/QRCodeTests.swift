import Testing
import WaybillDigest
import WaybillSystem

@testable import WaybillCommands

/// Codes are compared with those of other encoders: qrcodegen 1.8.0 and qrcode 8.2 made the ones here.
@Suite struct QRCodeTests {
    private static let alphabet = Array("waybill://192.168.0.12:4390#AbCdEfGh_-".utf8)

    /// A text of so many bytes; another one for each number.
    private static func text(_ count: Int) -> [UInt8] {
        (0..<count).map { Self.alphabet[($0 * 7 + count) % Self.alphabet.count] }
    }

    private static func digest(_ codes: [QRCode]) -> String {
        let lines = codes.map { code in String(code.modules.map { $0 ? "1" : "0" }) + "\n" }
        return Hexadecimal.text(SHA256.digest(Array(lines.joined().utf8)))
    }

    @Test func `a code of version 1 has the modules that other encoders give it`() throws {
        let code = try #require(QRCode(Array("waybill".utf8)))
        let rows = (0..<code.size).map { row in
            String((0..<code.size).map { code[row, $0] ? "#" : "." })
        }
        #expect(
            rows == [
                "#######.....#.#######", "#.....#...#.#.#.....#", "#.###.#...###.#.###.#", "#.###.#.#.#.#.#.###.#",
                "#.###.#.##..#.#.###.#", "#.....#..#.#..#.....#", "#######.#.#.#.#######", ".....................",
                "##...###...#....##...", "#.####.#######..#.#..", ".####.##.#..#.##.###.", ".###.#.#..#####..####",
                "..#.###....####.....#", "........##..#...#..##", "#######.##.#.#...###.", "#.....#.#.....#.####.",
                "#.###.#...##.#..#..#.", "#.###.#..#.####.#.#..", "#.###.#..#####..##.##", "#.....#.########.##..",
                "#######.#.#.#..##..#.",
            ])
    }

    @Test func `texts of every length have the code and the mask of another encoder`() throws {
        let codes = try (1...271).map { try #require(QRCode(Self.text($0))) }
        #expect(Self.digest(codes) == "93c5364c68c0912c05b42c3f25b361cfb7c959513917624f4f3b92a3a30588bf")
        #expect(Set(codes.map(\.size)) == Set(stride(from: 21, through: 57, by: 4)))
    }

    @Test func `with each mask a code is that of two other encoders`() throws {
        let codes = try (0..<8).flatMap { mask in
            try [5, 60, 120, 200, 260].map { try #require(QRCode(Self.text($0), mask: mask)) }
        }
        #expect(Self.digest(codes) == "12ab8c4153c9c76cedb7dbfe48e1c8b3487feeb4f47670dbdcd906a9df5323a7")
    }

    @Test func `codewords of error correction are those of a known example`() {
        let data: [UInt8] = [32, 91, 11, 120, 209, 114, 220, 77, 67, 64, 236, 17, 236, 17, 236, 17]
        #expect(
            ReedSolomon(correctionCount: 10).correction(of: data) == [196, 35, 39, 119, 235, 215, 231, 226, 93, 23])
    }

    @Test func `a text that is too long has no code`() {
        #expect(QRCode(Self.text(272)) == nil)
        #expect(QRScreen.lines(of: String(repeating: "a", count: 272), columns: 200) == .failure(.init(.tooLong)))
    }

    @Test func `on a terminal each character shows two modules, and light ones are around the code`() throws {
        let lines = try QRScreen.lines(of: "waybill", columns: 29).get()
        #expect(lines.count == 15)
        let dark = "\u{1B}[38;5;16;48;5;16m▀", light = "\u{1B}[38;5;231;48;5;231m▀"
        #expect(lines[0] == String(repeating: light, count: 29) + "\u{1B}[0m")
        let (upperDark, lowerDark) = ("\u{1B}[38;5;16;48;5;231m▀", "\u{1B}[38;5;231;48;5;16m▀")
        // The first two rows of the code: "#######.....#.#######" and "#.....#...#.#.#.....#".
        let finder = dark + String(repeating: upperDark, count: 5) + dark
        let middle = light + light + light + lowerDark + light + dark + light
        let border = String(repeating: light, count: 4)
        #expect(lines[2] == border + finder + middle + finder + border + "\u{1B}[0m")
    }

    @Test func `a code that does not fit beside its border is not shown`() {
        #expect(QRScreen.lines(of: "waybill", columns: 28) == .failure(.init(.tooNarrow(columns: 28, needed: 29))))
        #expect(QRScreen.lines(of: "waybill", columns: nil) == .failure(.init(.noTerminal)))
    }
}
