import Testing
import WaybillSystem

@Suite struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func `the examples of RFC 4648 are written and read`(bytes: String, text: String) {
        #expect(Base64.text(Array(bytes.utf8)) == text)
        #expect(Base64.bytes(text.utf8) == Array(bytes.utf8))
    }

    @Test func `every byte comes back at every place and length`() {
        var random = SeededGenerator(seed: 64)
        for count in 0...520 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            #expect(Base64.bytes(Base64.text(bytes).utf8) == bytes)
        }
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Zg===", "=", "==", "====", "A===", "Zh==", "Zm9=", "Zm9v====", "Zg==Zg==", "Z=g=", "=Zg=",
        "Zm9\n", " Zg==", "Zg== ", "Zm9-", "Zm9_", "Zm9\u{0}", "Zm9é",
    ])
    func `a text that no writer makes is refused`(text: String) {
        #expect(Base64.bytes(text.utf8) == nil)
    }
}
