import Testing
import WaybillIngest

/// Keys in bodies that no one has read yet.
@Suite struct KeySearchTests {
    private static func find(_ body: String) -> KeySearch.Finding {
        KeySearch.find(in: Array(body.utf8)) { $0 == "wk_test0001" || $0 == "wk_test0002" }
    }

    @Test(arguments: [
        #"{"api_key":"wk_test0001","batch":[]}"#, "\u{FEFF} {\"batch\" : [ ] , \"writeKey\" :\n\"wk_test0001\" } ",
        #"{"batch":[{"event":"a","properties":{"token":"of a door","x":[{"api_key":"b"}]}}],"api_key":"wk_test0001"}"#,
        #"{"batch":[{"properties":{"token":"x"},"token":"wk_test0001"},{"a":"\"api_key\":\"c\""},{"api_key":"wk_test0001"}]}"#,
        #"{"event":"a","properties":{"a":{"token":"x"},"token":"wk_test0001"}}"#,
        #"[{"a":1},7,"api_key",{"properties":{"token":"wk_test0001"}}]"#, #"{"data":[{"token":"wk_test0001"}]}"#,
        #"{"token":"","api_key":"wk_test0001","api_key":"wk_test0001","writeKey":null}"#,
        #"{"properties":{"token":"wk_test0001","x":NaN}}"#, #"[{"x":undefined,"y":[1,]},{"token":"wk_test0001"}]"#,
    ])
    func `a key is found wherever SDKs put it, and fields that are called so are none`(body: String) {
        #expect(Self.find(body) == .known("wk_test0001"))
    }

    @Test(arguments: [
        (#"[{"token":"wk_test0001"},{"token":"wk_test0002"}]"#, KeySearch.Finding.several),
        (#"{"batch":[{"token":"wk_test0001"},{"properties":{"token":"x"}}]}"#, .several),
        (#"{"batch":[{"token":"wk_test0001","api_key":"wk_test0002"}]}"#, .several),
        (#"{"api_key":"wk_other001","batch":[{"token":"wk_test0001"}]}"#, .unknown),
        (#"[{"token":"wk_other001"}]"#, .unknown), (#"{"batch":[{"token":"x"}]}"#, .unknown),
        (#"{}"#, .noKey), ("[]", .noKey), (#"{"batch":[{"event":"api_key"}],"key":"wk_test0001"}"#, .noKey),
        (#"{"events":[{"api_key":"wk_test0001"}]}"#, .noKey), (#"{"api_key":5,"token":["wk_test0001"]}"#, .noKey),
        ("", .unreadable), ("api_key", .unreadable), ("{", .unreadable), (#"{"a":1}}"#, .unreadable),
        (#"{"batch":[{"a":"}]}"#, .unreadable), (#"{"a"}"#, .unreadable), ("{}\u{0}", .unreadable),
        (#"[{"y":[1,},{"token":"wk_test0001"}]"#, .unreadable),
    ])
    func `two keys, no key, and a body that cannot be read are told apart`(body: String, expected: KeySearch.Finding) {
        #expect(Self.find(body) == expected)
    }

    @Test(arguments: [
        (#"{"api_key":"wk_test0001","token":"wk_test0002"}"#, true),
        (#"{"api_key":"wk_test0001","batch":[{"x":NaN}],"api_key":"wk_test0002"}"#, true),
        (#"{"writeKey":"wk_test0001","\u0074oken":"x"}"#, true),
        (#"{"writeKey":"wk_test0001","token":"","api_key":"wk_test000\u0031","a":{"token":"x"},"writeKey":5}"#, false),
        (#"[{"token":"wk_test0001"},{"token":"wk_test0002"}]"#, false), ("{", false), ("", false),
    ])
    func `another key of the body's own behind the one that was found is known to its reader`(
        body: String, expected: Bool
    ) {
        #expect(IngestBody(Array(body.utf8), as: .segment).hasSeveralKeys == expected)
    }

    @Test func `the search ends at the body's own key, and at the first key that is not known`() {
        #expect(Self.find(#"{"api_key":"wk_test0001","batch":[}"#) == .known("wk_test0001"))
        var asked: [String] = []
        let rest = String(repeating: #"{"token":"c"},"#, count: 1000)
        for body in [#"{"api_key":"a","token":"b","batch":["# + rest, #"[{"token":"a"},"# + rest] {
            asked = []
            let finding = KeySearch.find(in: Array(body.utf8)) { key in
                asked.append(key)
                return false
            }
            #expect(finding == .unknown)
            #expect(asked == ["a"])
        }
    }

    /// A body with the key at its end, cut anywhere, or with another byte anywhere.
    @Test func `no body is read beyond its end`() {
        let body = Array(
            #" {"batch":[{"a":"\\"},{"properties":{"token":"x\""}},[1]],"k":{},"api_key":"wk_test0001"} "#.utf8)
        for end in 0..<body.count {
            #expect(KeySearch.find(in: Array(body[..<end])) { _ in true } != .noKey)
            var changed = body
            for byte in Array("\"\\{}[],: x".utf8) {
                changed[end] = byte
                _ = KeySearch.find(in: changed) { _ in true }
            }
        }
    }
}
