internal import WaybillEvent
internal import WaybillIngest
import WaybillSystem
internal import WaybillTestSupport

/// Whole requests at the door: what it reads of a head, and the text in a body, against plain readers of the same.
///
///     POST /v1/b?data=%7B HTTP/1.1 CR LF
///     Content-Encoding: gzip CR LF
///     CR LF
///     body
enum HTTPFuzz {
    private struct Request {
        var method = ""
        var target = ""
        var headers: [(name: String, value: String)] = []
        var body: [UInt8] = []

        init(_ input: [UInt8]) {
            var rest = input[...]
            let first = Self.line(&rest).split(separator: " ", maxSplits: 2)
            self.method = first.first.map { String($0) } ?? ""
            self.target = first.dropFirst().first.map { String($0) } ?? ""
            while !rest.isEmpty {
                let line = Self.line(&rest)
                if line.isEmpty { break }
                let parts = line.split(separator: ":", maxSplits: 1)
                guard parts.count == 2 else { continue }
                self.headers.append((parts[0].lowercased(), String(parts[1].drop { $0 == " " })))
            }
            self.body = Array(rest)
        }

        private static func line(_ rest: inout ArraySlice<UInt8>) -> String {
            let end = rest.firstIndex(of: 0x0A) ?? rest.endIndex
            let line = rest[..<end]
            rest = rest[min(end + 1, rest.endIndex)...]
            return String(decoding: line.last == 0x0D ? line.dropLast() : line, as: UTF8.self)
        }

        func header(_ name: String) -> String? {
            self.headers.first { $0.name == name.lowercased() }?.value
        }
    }

    @Sendable static func run(_ input: [UInt8]) throws {
        let request = Request(input)
        let parts = request.target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts.first ?? ""
        let query = parts.count > 1 ? parts[1] : ""
        try Self.checkHeaders(request)
        try Self.checkForm(Array(query.utf8))
        try Self.checkForm(request.body)
        try Self.checkBase64(request.body)
        let route: IngestRoute
        do throws(IngestRoute.Refusal) {
            route = try IngestRoute(method: request.method, path: path)
        } catch {
            if case .method(let allowed) = error {
                try require(!allowed.isEmpty && !allowed.contains(request.method), "\(allowed): \(shown(input))")
                for method in allowed { _ = try IngestRoute(method: method, path: path) }
            }
            return
        }
        try require(try IngestRoute(method: request.method, path: path + "/") == route, "a slash: \(shown(input))")
        guard case .events(let dialect, _) = route else { return }
        try Self.checkBody(request, query, dialect)
    }

    private static func checkBody(_ request: Request, _ query: Substring, _ dialect: Dialect) throws {
        let byteCountMax = 256 << 10
        let encoding = request.header("Content-Encoding")?.lowercased()
        let text: [UInt8]
        do throws(RequestBody.Refusal) {
            text = try RequestBody.text(
                of: request.body, encoding: encoding, query: query, dialect, byteCountMax: byteCountMax)
        } catch {
            return
        }
        // A pixel's text is made of its query, whose bytes may each become an escape of six.
        let limit = max(byteCountMax, request.body.count, dialect == .pixel ? 8 * query.utf8.count : query.utf8.count)
        try require(text.count <= limit + 256, "\(text.count) bytes of a body of \(request.body.count)")
        _ = IngestBody(text, as: dialect)
        _ = KeySearch.find(in: text) { _ in true }
    }

    // MARK: Heads

    private static func checkHeaders(_ request: Request) throws {
        var visitor = Visitor()
        visitor.readHeaders(countryHeader: "CF-IPCountry") { request.header($0) }
        for text in [visitor.language, visitor.country] {
            try require(text.map { 1...35 ~= $0.utf8.count && $0.utf8.allSatisfy { $0 < 0x80 } } ?? true, "\(visitor)")
        }
        for (_, value) in request.headers {
            for text in value.split(separator: ",").prefix(100).map({ String($0) }) {
                if let bytes = AddressBytes.parse(text) {
                    try require([4, 16].contains(bytes.count), "an address of \(bytes.count) bytes: \(text)")
                    try require(AddressRange(text)?.contains(text) == true, "\(text) is not in itself")
                }
                if let range = AddressRange(text), let address = text.split(separator: "/").first {
                    try require(range.contains(String(address)), "\(text) has not its own address")
                }
            }
        }
    }

    // MARK: Bodies

    /// The first value of `data` in a form, as a plain reader finds it.
    private static func checkForm(_ text: [UInt8]) throws {
        var expected: [UInt8]?
        for pair in text.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false) where expected == nil {
            guard let end = pair.firstIndex(of: UInt8(ascii: "=")) else { continue }
            if Self.unescaped(pair[..<end]).elementsEqual("data".utf8) { expected = Self.unescaped(pair[(end + 1)...]) }
        }
        let value = FormText.value(of: "data", in: text)
        try require(value == expected, "data is \(value.map(shown) ?? "-"): \(shown(text))")
    }

    private static func unescaped(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), rest.count >= 2,
                let value = Self.hexadecimal(rest[rest.startIndex], rest[rest.startIndex + 1])
            {
                result.append(value)
                rest = rest.dropFirst(2)
            } else {
                result.append(byte == UInt8(ascii: "+") ? 0x20 : byte)
            }
        }
        return result
    }

    private static func hexadecimal(_ high: UInt8, _ low: UInt8) -> UInt8? {
        guard let high = Character(Unicode.Scalar(high)).hexDigitValue, high < 16,
            let low = Character(Unicode.Scalar(low)).hexDigitValue, low < 16
        else { return nil }
        return UInt8(high << 4 | low)
    }

    /// Any bytes, written in either alphabet, with and without what fills the end.
    private static func checkBase64(_ bytes: [UInt8]) throws {
        _ = Base64Text.decode(bytes)
        guard !bytes.isEmpty else { return }
        for (alphabet, isPadded) in [("+/", true), ("-_", false)] {
            let text = Self.base64(bytes, Array(alphabet.utf8), isPadded: isPadded)
            try require(Base64Text.decode(text) == bytes, "read otherwise: \(shown(text))")
        }
    }

    private static func base64(_ bytes: [UInt8], _ last: [UInt8], isPadded: Bool) -> [UInt8] {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8) + last
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            text += (0...group.count).map { digits[bits >> (18 - 6 * $0) & 63] }
            if isPadded { text += [UInt8](repeating: 0x3D, count: 3 - group.count) }
        }
        return text
    }
}
