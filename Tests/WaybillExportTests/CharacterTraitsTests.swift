import Testing

@testable import WaybillExport

@Suite struct CharacterTraitsTests {
    @Test(
        arguments: [
            ("0123456789ABCDEFabcdef-", [.identifier, .insertID, .uuid]),
            ("GHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz", [.identifier, .insertID]),
            ("_.:", .identifier),
            (" /@[`{~\u{0}\u{7F}\u{E9}\u{10FFFF}", []),
        ] as [(String, CharacterTraits)])
    func `each character has its traits, and so have a text's characters together`(
        text: String, traits: CharacterTraits
    ) {
        for byte in text.utf8 {
            #expect(withUnsafeBytes(of: byte) { CharacterTraits(commonTo: $0) } == traits, "\(byte)")
        }
        #expect(Array(text.utf8).withUnsafeBytes { CharacterTraits(commonTo: $0) } == traits)
    }

    @Test func `no other byte has any`() {
        let counts = [CharacterTraits.identifier, .insertID, .uuid].map { trait in
            (0...UInt8.max).count { byte in
                withUnsafeBytes(of: byte) { CharacterTraits(commonTo: $0) }.contains(trait)
            }
        }
        #expect(counts == [66, 63, 23])
    }
}
