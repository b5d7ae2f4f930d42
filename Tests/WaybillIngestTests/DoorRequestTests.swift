import Testing
import WaybillIngest
import WaybillSystem

@testable import WaybillDoor

/// Who sends a request, and what it asks for.
@Suite struct DoorRequestTests {
    @Test(
        arguments: [
            ("192.0.2.1:5678", "192.0.2.1"), ("[2001:db8::7]:443", "2001:db8::7"), ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:DB8:0:0:0:0:0:7", "2001:db8::7"), ("[::ffff:192.0.2.1]:9", "192.0.2.1"), ("unknown", nil),
            ("<script>", nil), ("192.0.2.1:", nil), ("192.0.2.1:70000", nil), ("[::1", nil), ("fe80::1%eth0", nil),
            ("", nil),
        ] as [(String, String?)])
    func `an address is plain, or none`(text: String, address: String?) {
        #expect(AddressText.plain(text) == address)
    }

    @Test(arguments: [
        ("/v1/t", "/v1/t", ""), ("/v1/t?a=b?c", "/v1/t", "a=b?c"),
        ("http://in.example.com/v1/t?key=a", "/v1/t", "key=a"),
        ("HTTPS://in.example.com:443/v1/t", "/v1/t", ""), ("http://in.example.com", "/", ""),
        ("http://in.example.com?a", "/", "a"), ("ftp://in.example.com/v1/t", "ftp://in.example.com/v1/t", ""),
        ("", "/", ""),
    ])
    func `a target is a path, also in absolute form`(text: String, path: String, query: String) {
        let target = RequestTarget(text)
        #expect(target.path == path)
        #expect(target.query == query)
    }
}
