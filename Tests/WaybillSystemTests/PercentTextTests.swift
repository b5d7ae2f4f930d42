import Testing
import WaybillSystem

@Test(arguments: ["", "a b", "100%", "\u{301}x", "\u{600} \u{600}", "line\nfeed", "%41", "한국어", "\u{7F}"])
func `text comes back from its encoding, which has no space and no control character`(text: String) {
    let encoded = PercentText.encode(text)
    #expect(!encoded.utf8.contains { $0 <= 0x20 || $0 == 0x7F })
    #expect(PercentText.decode(encoded[...]) == text)
}

@Test(arguments: ["%", "%4", "%zz", "a%", "%%41"])
func `an encoding that is cut or has no digits is none`(text: String) {
    #expect(PercentText.decode(text[...]) == nil)
}
