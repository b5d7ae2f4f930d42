import WaybillReport
import WaybillSystem
import WaybillTestSupport

/// Forty lines of a shop's app around three days, worked out by hand: two people on one install, one person on two, a
/// late line, a repeated id, a session across midnight, steps at one millisecond, a lost number.
///
///     Oct 30  a4 u5  20:00:00 Home · 20:00:30 Feed
///     Nov 02  a1     09:00:00 Home · :10 SignUp · :40 tap · :41 set_user u1 · :41.5 login · :42 Welcome · 09:01:42 its end
///             a2     10:00:00 Home · :20 SignUp · 10:05:20 Home · 23:59:00 Feed, late
///             a3     12:00:00 Login · :15 login u3 · :16 Feed · :46 Home · 12:01:00 signs out · :05 Login · :20 login u4 · Feed
///             a4 u5  23:50:00 Feed        a7 only meta        a8 env dev
///     Nov 03  a4 u5  00:10:00 Like · :30 Home · 00:11:00 Feed        a5 u1 09:00:00 Home · :05 Feed, twice
///             a2     10:00:00 tap         a6 11:00:00 tap · :10 SignUp · :30 tap · :30 set_user u6        a server's line
///     Nov 04  a2 09:00:00 SignUp · :05 tap        a3 u4 15:00 Feed        a4 u5 10:00 Feed
struct ShopFixture {
    static let app = "com.example.shop"
    /// 2026-11-20T00:00:00Z, long after the last day.
    static let now: Int64 = 1_795_132_800_000

    /// What a line says besides the time and who it is from.
    struct Line {
        var kind = "screen"
        var name = "screen_view"
        var screen: String?
        var previous: (String, Int)?
        var session: String?
        var version = "1.4.0"
        var system = "18.1"
        var sequence: Int?
        var data: String?
        var isLate = false
        var environment = "prod"
        var id: Int?
    }

    let disk = MemoryDisk()
    private var files: [String: String] = [:]
    private var sessionStarts: [String: Int64] = [:]

    init() {
        self.addOctober()
        self.addFirstDay()
        self.addSecondDay()
        self.addThirdDay()
        for (path, text) in self.files { self.disk.place(path, Array(text.utf8)) }
    }

    /// Asks for reports of these lines.
    func reports(
        _ names: [ReportName], from: String? = "2026-11-02", to: String? = "2026-11-04", now: Int64 = Self.now,
        jobs: Int = 1, cache: String? = nil, wantsNames: Bool = false,
        _ change: (inout ReportOptions) -> Void = { _ in }
    ) throws -> ReportSet {
        var options = ReportOptions()
        options.from = from
        options.to = to
        options.zone = "Asia/Seoul"
        change(&options)
        var request = try ReportRequest(
            names: names, options, now: WallTime(milliseconds: now), files: POSIXFileSystem())
        request.jobCount = jobs
        request.cache = cache
        request.wantsNames = wantsNames
        request.isEverything = names.count == ReportName.allCases.count
        return try Reporter(dataDirectory: "/data", files: self.disk, request: request).run()
    }

    static func folder(_ day: String, environment: String = "prod") -> String {
        "/data/archive/env=\(environment)/bundle=\(Self.app)/date=2026-\(day)"
    }

    static func uuid(_ time: Int64, _ number: Int) -> String {
        let head = Hexadecimal.text(UInt64(time), digitCount: 12)
        return "\(head.prefix(8))-\(head.dropFirst(8))-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))"
    }

    // MARK: Lines

    /// Adds a line.
    ///
    /// - Parameter at: `11-02 09:00:41.5`, in Seoul.
    private mutating func add(_ number: Int, _ at: String, _ install: String?, _ user: String?, _ line: Line) {
        let day = String(at.prefix(5))
        let time = Self.time(at)
        var text = "{\"v\":1,\"id\":\"\(Self.uuid(time, line.id ?? number))\""
        if let install, let writer = Int(install.dropFirst()), let sequence = line.sequence {
            text += ",\"writer\":\"\(Self.uuid(1, writer))\",\"seq\":\(sequence)"
        }
        text += ",\"ts\":\"\(WallTime(milliseconds: time).text)\",\"kind\":\"\(line.kind)\",\"name\":\"\(line.name)\""
        if let screen = line.screen { text += ",\"screen\":\"\(screen)\"" }
        if let previous = line.previous { text += ",\"prev\":\"\(previous.0)\",\"prev_ms\":\(previous.1)" }
        if let session = line.session, let digits = Int(session.dropFirst()) {
            self.sessionStarts[session] = self.sessionStarts[session] ?? time
            text += ",\"session\":\"\(Self.uuid(self.sessionStarts[session] ?? time, digits))\""
        }
        if let user { text += ",\"user\":\"\(user)\"" }
        if let install { text += ",\"anon\":\"\(install)\"" }
        text +=
            ",\"app\":\"\(line.version)\",\"bundle\":\"\(Self.app)\",\"os\":\"iOS\",\"os_version\":\"\(line.system)\""
        text += ",\"env\":\"\(line.environment)\""
        if let data = line.data { text += ",\"data\":\(data)" }
        let file = Self.folder(day, environment: line.environment) + (line.isLate ? "/late-00001" : "/part-00001")
        self.files[file + ".ndjson", default: ""] += text + "}\n"
    }

    private static func time(_ text: String) -> Int64 {
        let parts = text.split(separator: " ").map(String.init)
        let clock = parts[1].split(separator: ":").compactMap { Double($0) }
        let day = CalendarDay("2026-" + parts[0])?.daysSince1970 ?? 0
        return Int64(day) * 86_400_000 + Int64((clock[0] * 3600 + clock[1] * 60 + clock[2]) * 1000) - 9 * 3_600_000
    }

    private mutating func addOctober() {
        self.add(
            1, "10-30 20:00:00", "a4", "u5",
            Line(screen: "Home", session: "s51", version: "1.3.0", system: "17.6", sequence: 1))
        self.add(
            2, "10-30 20:00:30", "a4", "u5",
            Line(
                screen: "Feed", previous: ("Home", 30_000), session: "s51", version: "1.3.0", system: "17.6",
                sequence: 2))
    }

    private mutating func addFirstDay() {
        func signUp(_ line: Line, _ sequence: Int) -> Line {
            var line = line
            line.session = "s11"
            line.system = "17.6"
            line.sequence = sequence
            return line
        }
        self.add(3, "11-02 09:00:00", "a1", nil, signUp(Line(screen: "Home"), 1))
        self.add(4, "11-02 09:00:10", "a1", nil, signUp(Line(screen: "SignUp", previous: ("Home", 10_000)), 2))
        self.add(
            5, "11-02 09:00:40", "a1", nil, signUp(Line(kind: "action", name: "Sign Up Tapped", screen: "SignUp"), 3))
        self.add(6, "11-02 09:00:41", "a1", "u1", signUp(Line(kind: "user", name: "set_user", screen: "SignUp"), 4))
        let kakao = "{\"method\":\"kakao\"}"
        self.add(
            7, "11-02 09:00:41.5", "a1", "u1",
            signUp(Line(kind: "event", name: "login", screen: "SignUp", data: kakao), 5))
        self.add(8, "11-02 09:00:42", "a1", "u1", signUp(Line(screen: "Welcome", previous: ("SignUp", 32_000)), 6))
        self.add(
            9, "11-02 09:01:42", "a1", "u1",
            signUp(Line(kind: "event", name: "screen_end", screen: "Welcome", data: "{\"duration_ms\":60000}"), 7))
        self.add(10, "11-02 10:00:00", "a2", nil, Line(screen: "Home", session: "s21", sequence: 1))
        self.add(
            11, "11-02 10:00:20", "a2", nil,
            Line(screen: "SignUp", previous: ("Home", 20_000), session: "s21", sequence: 2))
        self.add(
            12, "11-02 10:05:20", "a2", nil,
            Line(screen: "Home", previous: ("SignUp", 300_000), session: "s21", sequence: 3))
        func shared(_ line: Line, _ sequence: Int) -> Line {
            var line = line
            line.session = "s31"
            line.version = "1.3.0"
            line.system = "17.6"
            line.sequence = sequence
            return line
        }
        self.add(13, "11-02 12:00:00", "a3", nil, shared(Line(screen: "Login"), 1))
        self.add(
            14, "11-02 12:00:15", "a3", "u3",
            shared(Line(kind: "event", name: "login", screen: "Login", data: "{\"method\":\"email\"}"), 2))
        self.add(15, "11-02 12:00:16", "a3", "u3", shared(Line(screen: "Feed", previous: ("Login", 16_000)), 3))
        self.add(16, "11-02 12:00:46", "a3", "u3", shared(Line(screen: "Home", previous: ("Feed", 30_000)), 4))
        self.add(17, "11-02 12:01:00", "a3", nil, shared(Line(kind: "user", name: "set_user", screen: "Home"), 5))
        self.add(18, "11-02 12:01:05", "a3", nil, shared(Line(screen: "Login", previous: ("Home", 19_000)), 6))
        self.add(
            19, "11-02 12:01:20", "a3", "u4",
            shared(Line(kind: "event", name: "login", screen: "Login", data: kakao), 7))
        // Number 8 is missing.
        self.add(20, "11-02 12:01:21", "a3", "u4", shared(Line(screen: "Feed", previous: ("Login", 16_000)), 9))
        self.add(
            21, "11-02 23:50:00", "a4", "u5",
            Line(screen: "Feed", session: "s52", version: "1.3.0", system: "17.6", sequence: 3))
        self.add(24, "11-02 23:59:00", "a2", nil, Line(screen: "Feed", session: "s22", sequence: 4, isLate: true))
        self.add(
            39, "11-02 08:00:00", "a8", "u8", Line(screen: "Home", session: "s91", sequence: 1, environment: "dev"))
        self.add(
            40, "11-02 08:30:00", "a7", nil,
            Line(kind: "meta", name: "wb.dropped", session: "s81", sequence: 1, data: "{\"count\":2}"))
    }

    private mutating func addSecondDay() {
        func old(_ line: Line, _ sequence: Int) -> Line {
            var line = line
            line.session = "s52"
            line.version = "1.3.0"
            line.system = "17.6"
            line.sequence = sequence
            return line
        }
        self.add(22, "11-03 00:10:00", "a4", "u5", old(Line(kind: "action", name: "Like", screen: "Feed"), 4))
        self.add(23, "11-03 00:10:30", "a4", "u5", old(Line(screen: "Home", previous: ("Feed", 1_230_000)), 5))
        self.add(32, "11-03 00:11:00", "a4", "u5", old(Line(screen: "Feed", previous: ("Home", 30_000)), 6))
        self.add(25, "11-03 09:00:00", "a5", "u1", Line(screen: "Home", session: "s61", sequence: 1))
        let feed = Line(screen: "Feed", previous: ("Home", 5000), session: "s61", sequence: 2, id: 26)
        self.add(26, "11-03 09:00:05", "a5", "u1", feed)
        self.add(
            27, "11-03 10:00:00", "a2", nil,
            Line(kind: "action", name: "Sign Up Tapped", screen: "SignUp", session: "s23", sequence: 5))
        self.add(
            28, "11-03 11:00:00", "a6", nil,
            Line(kind: "action", name: "Sign Up Tapped", screen: "Banner", session: "s71", sequence: 1))
        self.add(29, "11-03 11:00:10", "a6", nil, Line(screen: "SignUp", session: "s71", sequence: 2))
        self.add(
            30, "11-03 11:00:30", "a6", nil,
            Line(kind: "action", name: "Sign Up Tapped", screen: "SignUp", session: "s71", sequence: 3))
        self.add(
            31, "11-03 11:00:30", "a6", "u6",
            Line(kind: "user", name: "set_user", screen: "SignUp", session: "s71", sequence: 4))
        self.add(33, "11-03 12:00:00", nil, nil, Line(kind: "event", name: "request", data: "{\"path\":\"/\"}"))
        self.add(38, "11-03 09:00:05", "a5", "u1", feed)
    }

    private mutating func addThirdDay() {
        self.add(34, "11-04 09:00:00", "a2", nil, Line(screen: "SignUp", session: "s24", sequence: 6))
        self.add(
            35, "11-04 09:00:05", "a2", nil,
            Line(kind: "action", name: "Sign Up Tapped", screen: "SignUp", session: "s24", sequence: 7))
        self.add(36, "11-04 15:00:00", "a3", "u4", Line(screen: "Feed", session: "s32", system: "17.6", sequence: 10))
        self.add(37, "11-04 10:00:00", "a4", "u5", Line(screen: "Feed", session: "s53", system: "17.6", sequence: 7))
    }
}

extension Report {
    /// The rows as a person writes them: cells with spaces between, `-` for an empty one.
    var lines: [String] {
        self.rows.map { row in
            row.map { cell in
                switch cell {
                case .text(let text): text
                case .count(let count): "\(count)"
                case .number(let number): Int(exactly: number).map { "\($0)" } ?? "\(number)"
                case .empty: "-"
                }
            }.joined(separator: " ")
        }
    }
}
