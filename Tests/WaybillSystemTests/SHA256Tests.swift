import Testing
import WaybillSystem

@Suite struct SHA256Tests {
    private static func digest(_ bytes: some Collection<UInt8>) -> String {
        Self.text(SHA256.digest(bytes))
    }

    private static func text(_ digest: [UInt8]) -> String {
        digest.map { byte in
            let digits = String(byte, radix: 16)
            return digits.utf8.count == 1 ? "0" + digits : digits
        }.joined()
    }

    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
        (
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"
        ),
    ])
    func `the examples of FIPS 180 give their digests`(message: String, digest: String) {
        #expect(Self.digest(message.utf8) == digest)
    }

    @Test func `a million letters give their digest`() {
        #expect(
            Self.digest(repeatElement(UInt8(ascii: "a"), count: 1_000_000))
                == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    /// Lengths around the block and around the room for the length in the last block.
    @Test(arguments: [1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 600])
    func `a message in pieces has the digest of the whole`(count: Int) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37) }
        for piece in [1, 3, 64, 65, 100] {
            var hash = SHA256()
            for start in stride(from: 0, to: count, by: piece) { hash.update(bytes[start..<min(start + piece, count)]) }
            #expect(Self.text(hash.finish()) == Self.digest(bytes))
        }
    }

    @Test(arguments: [
        (55, "463eb28e72f82e0a96c0a4cc53690c571281131f672aa229e0d45ae59b598b59"),
        (56, "da2ae4d6b36748f2a318f23e7ab1dfdf45acdc9d049bd80e59de82a60895f562"),
        (64, "fdeab9acf3710362bd2658cdc9a29e8f9c757fcf9811603a8c447cd1d9151108"),
        (512, "110009dcee21620b166f3abfecb5eff7a873be729d1c2d53822e7acc5f34eb9b"),
    ])
    func `bytes that count up give the digest that another implementation gives`(count: Int, digest: String) {
        #expect(Self.digest((0..<count).map { UInt8(truncatingIfNeeded: $0) }) == digest)
    }

    @Test(arguments: [0, 1, 0x0102_0304_0506_0708, UInt64.max])
    func `a digest and a number have the digest of their bytes`(number: UInt64) {
        let seed = SHA256.digest("seed".utf8)
        let message = seed + (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * UInt64($0))) }
        let words = SHA256.firstWords(ofDigest: seed, number)
        let whole = SHA256.digest(message)
        let first = whole[..<8].reduce(0) { $0 << 8 | UInt64($1) }
        let second = whole[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
        #expect(words.0 == first)
        #expect(words.1 == second)
    }

    @Test func `every length around a block has another digest`() {
        let digests = (0...130).map { SHA256.digest([UInt8](repeating: 0x61, count: $0)) }
        #expect(Set(digests).count == 131)
        // 55 bytes are the most that fit one block with their length, from an independent implementation.
        #expect(Self.text(digests[55]) == "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318")
        #expect(Self.text(digests[56]) == "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a")
        #expect(Self.text(digests[64]) == "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb")
    }
}
