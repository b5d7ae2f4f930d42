import WaybillServerTestSupport
import WaybillSystem

/// Random events with everything that may go wrong on the way to a provider; the same for the same seed.
struct RandomEvents {
    private var random: SeededGenerator
    private var count = 0

    init(seed: UInt64) {
        self.random = SeededGenerator(seed: seed)
    }

    private static let names = [
        "login", "Product Tapped", "session_start", "first_open", "error", "firebase_x", "ga_y", "google_z", "_hidden",
        "gtag.a", "로그인", "로그인 버튼", "a", "9lives", "", " ", "___", "productName", "HTTPServer", "page_location",
        "page_title", "items", "session_id", "screen_name", "user_id", "time", "token", "ip", "$ignore", "mp_x",
        "distinct_id", "bucket", "wb_seq", "x_time", "=1+1", "＝x", "'q", "emoji 👩‍👩‍👧‍👦", "new\nline", "tab\t", "nul\u{0}",
        "a;b", "a=b", "back\\slash", "com,ma", "quote\"", "\u{202E}rtl",
    ]
    private static let pieces = [
        "a", "Z", "0", " ", "_", "-", "한", "글", "👩‍👩‍👧‍👦", "🇰🇷", "e\u{301}", "\u{0}", "\n", "\r\n", "\t", "\"", "\\", ",", ";",
        "=", "'", "＠", "+", "ß", "\u{1F}", "\u{7F}",
    ]

    mutating func next() -> String {
        self.count += 1
        let number = String(self.count)
        let id = "019550fc-2dfb-7b1c-82d3-" + String(repeating: "0", count: 12 - number.utf8.count) + number
        // Around the time of receipt, from three months before to three weeks after.
        let offset = self.chance(5) ? Int64.random(in: -90...21, using: &self.random) * 86_400_000 : 0
        let time = receivedAt.milliseconds + offset + Int64.random(in: -7_200_000...5_400_000, using: &self.random)
        var members = [
            "\"v\":1", "\"ts\":\"\(Self.rfc3339(time))\"", "\"name\":\(self.literal(self.name(orText: true)))",
            "\"env\":\"\(["dev", "internal", "prod"].randomElement(using: &self.random) ?? "prod")\"",
            "\"bundle\":\"com.example\"",
        ]
        if !self.chance(30) { members.append("\"id\":\(self.chance(20) ? self.scalar() : "\"\(id)\"")") }
        self.add(
            "kind", to: &members, ["\"screen\"", "\"action\"", "\"event\"", "\"user\"", "\"meta\"", "\"later\"", "7"])
        self.add("user", to: &members, ["\"u-1\"", "\"u-2\"", "\"null\"", "\"\"", "5", self.text(limit: 400)])
        self.add(
            "anon", to: &members, ["\"b5372db0\"", "\"b5372db1\"", "\"unknown\"", "null", self.text(limit: 400)])
        self.add(
            "ids", to: &members,
            [
                "{\"ga4\":\"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"}", "{\"ga4\":\"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"}",
                "{\"ga4\":\"short\"}", "[]",
            ])
        self.add("seq", to: &members, [number, "1e3", "\"7\""])
        self.add("dt", to: &members, ["0", "-5", "3077", "1.5", "\"9\"", "99999999999999999999"])
        self.add("session", to: &members, ["\"019550fb-32b4-7000-8000-000000000001\"", "\"x\"", "1"])
        let texts = [
            "screen", "screen_class", "screen_id", "os", "os_version", "build", "app", "model", "log", "country",
            "user_agent",
        ]
        for key in texts {
            if self.chance(2) { members.append("\"\(key)\":\(self.chance(4) ? self.scalar() : self.text(limit: 20))") }
        }
        self.add("data", to: &members, [self.object(depth: 1), self.object(depth: 1), self.scalar()])
        self.add("traits", to: &members, [self.object(depth: 1), "null"])
        self.add("traits_once", to: &members, [self.object(depth: 1), self.scalar()], odds: 4)
        self.add("traits_add", to: &members, ["{\"n\":1,\"a\":-2.5}", self.object(depth: 1), self.scalar()], odds: 4)
        self.add(
            "providers", to: &members, ["[]", "[\"ga4\",\"csv\"]", "[\"mixpanel\",7]", "null", "\"csv\""], odds: 8)
        self.add(
            "consent", to: &members, ["{\"analytics\":false}", "{\"ads\":true}", "{\"ads\":false,\"analytics\":true}"],
            odds: 6)
        self.add(
            "overrides", to: &members,
            [
                "{\"ga4\":{\"skip\":true}}", "{\"csv\":{\"name\":\(self.text(limit: 60))}}",
                "{\"mixpanel\":{\"data\":\(self.object(depth: 2))}}", "{\"ga4\":7}",
            ],
            odds: 6)
        return "{" + members.joined(separator: ",") + "}"
    }

    static func rfc3339(_ milliseconds: Int64) -> String {
        let day = CalendarDay(daysSince1970: Int32(milliseconds / 86_400_000))
        func two(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let rest = milliseconds % 86_400_000
        let fraction = String(rest % 1000 + 1000).dropFirst()
        return "\(day)T\(two(rest / 3_600_000)):\(two(rest / 60_000 % 60)):\(two(rest / 1000 % 60)).\(fraction)Z"
    }

    private mutating func chance(_ odds: Int) -> Bool {
        Int.random(in: 0..<odds, using: &self.random) == 0
    }

    private mutating func add(_ key: String, to members: inout [String], _ values: [String], odds: Int = 0) {
        if odds > 0 ? self.chance(odds) : !self.chance(12) {
            members.append("\"\(key)\":\(values.randomElement(using: &self.random) ?? "null")")
        }
    }

    mutating func name(orText: Bool) -> String {
        let name = Self.names.randomElement(using: &self.random) ?? "a"
        guard orText, name.isEmpty || self.chance(8) else { return name }
        return (0..<Int.random(in: 1...60, using: &self.random)).reduce("n") { text, _ in
            text + (Self.pieces.randomElement(using: &self.random) ?? "")
        }
    }

    private mutating func text(limit: Int) -> String {
        let most = self.chance(5) ? limit : min(limit, 9)
        let count = self.chance(200) ? limit * 10 : Int.random(in: 0...most, using: &self.random)
        var text = ""
        for _ in 0..<count { text += Self.pieces.randomElement(using: &self.random) ?? "" }
        return self.literal(text)
    }

    /// A JSON string; now and then with escapes that it does not need.
    private mutating func literal(_ text: String) -> String {
        var literal = "\""
        for scalar in text.unicodeScalars {
            if scalar.value < 0x20 || scalar == "\"" || scalar == "\\" || (scalar.value < 0x7F && self.chance(50)) {
                literal += "\\u" + Hexadecimal.text(scalar.value, digitCount: 4)
            } else {
                literal.unicodeScalars.append(scalar)
            }
        }
        return literal + (self.chance(60) ? "\\ud83d\"" : "\"")
    }

    private mutating func scalar() -> String {
        switch Int.random(in: 0..<6, using: &self.random) {
        case 0: "null"
        case 1: "true"
        case 2:
            ["0", "-17", "1.10", "1e400", "123456789012345678901234567890"].randomElement(using: &self.random) ?? "0"
        default: self.text(limit: 150)
        }
    }

    private mutating func value(depth: Int) -> String {
        switch Int.random(in: 0..<10, using: &self.random) {
        case 0 where depth < 6: return self.object(depth: depth + 1)
        case 1 where depth < 6:
            let count = self.chance(40) ? 300 : Int.random(in: 0...4, using: &self.random)
            return "[" + (0..<count).map { _ in count > 4 ? "12" : self.value(depth: depth + 1) }.joined(separator: ",")
                + "]"
        case 2 where depth < 3:
            let items = (0..<Int.random(in: 1...3, using: &self.random)).map { _ in self.flatObject() }
            return "[" + items.joined(separator: ", ") + "]"
        default: return self.scalar()
        }
    }

    private mutating func flatObject() -> String {
        let count = Int.random(in: 0...14, using: &self.random)
        let members = (0..<count).map { "\"\(self.chance(3) ? "item_id" : "custom\($0)")\":\(self.scalar())" }
        return "{" + members.joined(separator: ",") + "}"
    }

    private mutating func object(depth: Int) -> String {
        let count = self.chance(60) ? 300 : Int.random(in: 0...8, using: &self.random)
        let members = (0..<count).map { index in
            let key = count > 8 ? "field\(index)" : self.name(orText: self.chance(10))
            return self.literal(key) + (self.chance(9) ? " : " : ":") + (count > 8 ? "1" : self.value(depth: depth))
        }
        return "{" + members.joined(separator: ",") + "}"
    }
}
