internal import WaybillSystem
internal import WaybillTestSupport
@testable internal import WaybillFleet

/// Answers of stores: any bytes, and texts written from a tree, which must be read as that tree.
///
/// The first byte of an input chooses between them.
enum StoreAnswerFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        let choice = input.byte()
        if choice & 1 == 1 {
            try Self.checkTree(&input)
        } else {
            try Self.checkAnswer(input.rest(), choice)
        }
    }

    // MARK: Any bytes

    private static func checkAnswer(_ body: [UInt8], _ choice: UInt8) throws {
        let text = String(decoding: body.prefix(300), as: UTF8.self)
        let answer = StoreAnswer(
            status: 400, headers: [StoreRequest.Field("ETag", text), StoreRequest.Field("Content-Length", text)],
            body: body)
        let message = answer.problem.message ?? ""
        try require(message.count <= 200, "a message of \(message.count) characters: \(shown(body))")
        try require(
            !message.unicodeScalars.contains { $0.value < 0x20 || 0x7F...0x9F ~= $0.value },
            "a control character: \(shown(body))")
        let parsed = XMLElement.parse(body)
        try require(XMLElement.parse(body) == parsed, "read again as something else: \(shown(body))")
        if let parsed, Self.isNamed(parsed) {
            var written: [UInt8] = []
            Self.write(parsed, to: &written)
            try require(XMLElement.parse(written) == parsed, "written as \(shown(written)): \(shown(body))")
        }
        try Self.checkListing(answer, isFolded: choice & 2 == 2, after: choice & 4 == 4 ? "k5" : nil)
        if let count = Self.optional({ () throws(StoreError) in try answer.status(of: "k").byteCount }) {
            try require(count >= 0, "\(count) bytes")
        }
        if let time = HTTPDate.time(text) { try require(time.milliseconds >= 0, "a time before 1970: \(text)") }
        _ = HTTPDate.timestamp(text)
    }

    /// A name that is nothing but a prefix is empty.
    private static func isNamed(_ element: XMLElement) -> Bool {
        !element.name.isEmpty && element.children.allSatisfy(Self.isNamed)
    }

    private static func optional<Value>(_ body: () throws(StoreError) -> Value) -> Value? {
        do throws(StoreError) { return try body() } catch { return nil }
    }

    private static func checkListing(_ answer: StoreAnswer, isFolded: Bool, after: String?) throws {
        for prefix in ["", "p/"] {
            let found = Self.optional { () throws(StoreError) in
                try answer.listing(prefix: prefix, after: after, isFolded: isFolded)
            }
            guard let listing = found else { continue }
            let keys = listing.objects.map(\.key)
            for list in [keys, listing.folders] {
                let isAscending = zip(list, list.dropFirst()).allSatisfy { $0.utf8.lexicographicallyPrecedes($1.utf8) }
                try require(isAscending, "keys in no order: \(list.prefix(20))")
            }
            try require(listing.objects.allSatisfy { $0.byteCount >= 0 }, "an object of less than nothing")
            if let next = listing.next {
                let isLast = next == keys.last || next == listing.folders.last
                try require(isLast, "it continues after \(next), which it has not")
                let isLater = after.map { $0.utf8.lexicographicallyPrecedes(next.utf8) } ?? true
                try require(isLater, "it continues at \(next)")
            }
        }
    }

    // MARK: A tree

    private static let names = ["a", "Contents", "Key", "Size", "x-1.b_c"]

    private static func checkTree(_ input: inout FuzzInput) throws {
        var elementCount = 0
        let tree = Self.tree(&input, depth: 1, &elementCount)
        var text: [UInt8] = input.bool() ? Array("\u{FEFF}<?xml version=\"1.0\"?>\n".utf8) : []
        Self.write(tree, to: &text)
        if input.bool() { text += Array("\r\n ".utf8) }
        try require(XMLElement.parse(text) == tree, "read as another tree: \(shown(text))")
    }

    private static func tree(_ input: inout FuzzInput, depth: Int, _ elementCount: inout Int) -> XMLElement {
        elementCount += 1
        var element = XMLElement(name: Self.names[input.number(below: Self.names.count)])
        while !input.isAtEnd {
            switch input.number(below: 5) {
            case 0: return element
            case 1 where depth < 16 && elementCount < 20_000:
                element.children.append(Self.tree(&input, depth: depth + 1, &elementCount))
            case 2: element.text += "]]>&<\"'é\u{1F600}"
            default: element.text.unicodeScalars.append(Unicode.Scalar(input.byte()))
            }
        }
        return element
    }

    /// Writes text with every kind of escape, and with comments and instructions in between.
    private static func write(_ element: XMLElement, to text: inout [UInt8]) {
        text += Array("<\(element.name) a=\"<'>\" b='\"'>".utf8)
        for scalar in element.text.unicodeScalars {
            switch scalar {
            case "<": text += Array("&lt;".utf8)
            case "&": text += Array("&amp;".utf8)
            case ">": text += Array("<![CDATA[>]]>".utf8)
            case "\"": text += Array("&quot;<!-- <a> -->".utf8)
            case "'": text += Array("&apos;<?b ?>".utf8)
            case "\u{80}"...: text += Array("&#x\(String(scalar.value, radix: 16));".utf8)
            default: text += Array(String(Character(scalar)).utf8)
            }
        }
        for child in element.children { Self.write(child, to: &text) }
        text += Array("</\(element.name)>".utf8)
    }
}
