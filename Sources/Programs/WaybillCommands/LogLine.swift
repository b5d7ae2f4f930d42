internal import Logging
internal import WaybillJSON
internal import WaybillHost
internal import WaybillSystem

/// One line of a log, before it has a format.
struct LogLine: Sendable {
    let level: Logger.Level
    /// The program's part that logs.
    let part: String
    let notice: Notice?
    let message: String
    var fields: Logger.Metadata

    /// The line without its end.
    ///
    /// - Parameter repeatedCount: how often its cause occurred since its last line; 0 for a cause's first line.
    func text(in format: LogFormat, at time: WallTime, repeatedCount: Int) -> String {
        var line = self
        if repeatedCount > 0 { line.fields["repeated"] = .number(repeatedCount) }
        switch format {
        case .text: return "\(time.text) \(line.level) " + line.sentence
        case .json: return line.json(time)
        case .journal: return "<\(line.level.priority)>" + line.sentence
        }
    }

    /// The members that name the object of ``notice``.
    var object: String {
        (self.notice?.text.object ?? []).map { self.fields[$0].map { "\($0)" } ?? "" }.joined(separator: "\u{1F}")
    }

    private var sorted: [(key: String, value: Logger.MetadataValue)] {
        self.fields.sorted { $0.key < $1.key }
    }

    private var sentence: String {
        let id = self.notice.map { "\($0.id) " } ?? ""
        let details = self.sorted.map { " \($0.key)=\(Self.plain($0.value))" }.joined()
        return "\(id)\(self.part): \(Self.printable(self.message))\(details)"
    }

    private static func plain(_ value: Logger.MetadataValue) -> String {
        switch value {
        case .stringConvertible(let value as LoggedObject): return value.json
        case .string, .stringConvertible:
            let text = Self.printable("\(value)")
            return text.isEmpty || text.contains(" ") ? "\"\(text)\"" : text
        case .array(let values): return "[\(values.map(Self.plain).joined(separator: ","))]"
        case .dictionary(let members):
            let members = members.sorted { $0.key < $1.key }
            return "{\(members.map { "\($0.key)=\(Self.plain($0.value))" }.joined(separator: " "))}"
        }
    }

    private func json(_ time: WallTime) -> String {
        JSONWriter.text { json in
            json.member("ts", time.text)
            json.member("level", self.level.rawValue)
            if let notice { json.member("id", notice.id) }
            json.member("part", self.part)
            json.member("message", self.message)
            for (key, value) in self.sorted {
                json.key(text: key)
                Self.write(value, to: &json)
            }
        }
    }

    private static func write(_ value: Logger.MetadataValue, to json: inout JSONWriter) {
        switch value {
        case .string(let text): json.string(text)
        case .stringConvertible(let value as Bool): json.bool(value)
        case .stringConvertible(let value as any BinaryInteger): json.integer(Int64(clamping: value))
        case .stringConvertible(let value as Double) where value.isFinite: Self.write(verbatim: "\(value)", to: &json)
        case .stringConvertible(let value as LoggedObject): Self.write(verbatim: value.json, to: &json)
        case .stringConvertible(let value): json.string("\(value)")
        case .array(let values):
            json.beginArray()
            for value in values { Self.write(value, to: &json) }
            json.endArray()
        case .dictionary(let members):
            json.beginObject()
            for (key, value) in members.sorted(by: { $0.key < $1.key }) {
                json.key(text: key)
                Self.write(value, to: &json)
            }
            json.endObject()
        }
    }

    private static func write(verbatim text: String, to json: inout JSONWriter) {
        Array(text.utf8).withUnsafeBytes { json.verbatim($0) }
    }

    /// Control characters of paths and messages from peers must not reach a terminal, nor begin a line.
    private static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { $0 == "\n" ? " " : $0.value < 0x20 || $0.value == 0x7F ? "?" : $0 }))
    }
}

extension Logger.Level {
    /// A priority of syslog(3).
    fileprivate var priority: Int {
        switch self {
        case .critical: 2
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug, .trace: 7
        }
    }
}
