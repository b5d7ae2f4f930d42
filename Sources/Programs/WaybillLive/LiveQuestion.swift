internal import WaybillSystem

/// What a page asks for.
package enum LiveQuestion: Sendable {
    case status
    case events(Filter, before: LineID?, limit: Int, fields: [[String]])
    case eventAt(LineID)
    case eventNamed(String)
    case person(String, before: LineID?)
    case names
    case refusals
    case stream(Filter, fields: [[String]], after: LineID?)
    /// The parameters, as `waybill report` has them.
    case report([(name: String, value: String)])

    package static let limitMax = 1000
    package static let fieldCountMax = 16

    /// Reads a path and its query.
    package init(_ head: RequestHead) throws(Access.Refusal) {
        var query = try Query(head.uri)
        switch head.path {
        case "/api/status": self = .status
        case "/api/events":
            self = .events(
                try query.filter(), before: try query.place("before"),
                limit: try query.number("limit", 1...Self.limitMax) ?? 200, fields: try query.fields())
        case "/api/event":
            if let id = query.take("id") {
                self = .eventNamed(id)
            } else if let place = try query.place("at") {
                self = .eventAt(place)
            } else {
                throw Access.Refusal(400, "name the event: at=POSITION or id=ID")
            }
        case "/api/person":
            guard let key = query.take("key"), !key.isEmpty else {
                throw Access.Refusal(400, "name the person: key=USER, or the id of an install")
            }
            self = .person(key, before: try query.place("before"))
        case "/api/names": self = .names
        case "/api/refusals": self = .refusals
        case "/api/stream":
            // A browser's own reconnection has the header, a new page the parameter.
            let last = head.values("last-event-id").last.flatMap { $0.isEmpty ? nil : $0 }
            let after = try query.place("after")
            self = .stream(
                try query.filter(), fields: try query.fields(), after: try last.map(Query.place) ?? after)
        case "/api/report":
            self = .report(query.takeAll())
        default:
            throw Access.Refusal(404, "there is nothing at this path")
        }
        if let name = query.names.first {
            throw Access.Refusal(400, "\(head.path) has no parameter \"\(ShownText.cut(name, to: 40))\"")
        }
    }
}

/// The parameters of a request.
private struct Query {
    private var parameters: [(name: String, value: String)] = []

    init(_ uri: String) throws(Access.Refusal) {
        let query = uri.drop { $0 != "?" }.dropFirst()
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            self.parameters.append((try Self.decoded(parts[0]), try parts.count > 1 ? Self.decoded(parts[1]) : ""))
        }
    }

    /// `+` and `%20` are spaces.
    private static func decoded(_ text: Substring) throws(Access.Refusal) -> String {
        guard let bytes = URIText.bytes(text) else {
            throw Access.Refusal(400, "% in an address is followed by two hexadecimal digits; % itself is %25")
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            throw Access.Refusal(400, "the address is not UTF-8")
        }
        return decoded
    }

    var names: [String] { self.parameters.map(\.name) }

    /// The first value of a parameter, which is then gone.
    mutating func take(_ name: String) -> String? {
        let value = self.parameters.first { $0.name == name }?.value
        self.parameters.removeAll { $0.name == name }
        return value
    }

    mutating func takeAll() -> [(name: String, value: String)] {
        defer { self.parameters = [] }
        return self.parameters
    }

    mutating func filter() throws(Access.Refusal) -> Filter {
        do throws(Filter.Failure) {
            return try Filter(self.take("q") ?? "")
        } catch {
            throw Access.Refusal(400, error.description)
        }
    }

    mutating func place(_ name: String) throws(Access.Refusal) -> LineID? {
        guard let text = self.take(name), !text.isEmpty else { return nil }
        return try Self.place(text)
    }

    static func place(_ text: String) throws(Access.Refusal) -> LineID {
        guard let place = LineID(text) else {
            throw Access.Refusal(400, "a place is a position and a line's number, such as 182786.3")
        }
        return place
    }

    mutating func number(_ name: String, _ range: ClosedRange<Int>) throws(Access.Refusal) -> Int? {
        guard let text = self.take(name) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw Access.Refusal(400, "\(name) is a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Paths of members, separated by commas.
    mutating func fields() throws(Access.Refusal) -> [[String]] {
        let paths = (self.take("fields") ?? "").split(separator: ",").map { $0.split(separator: ".").map(String.init) }
        guard paths.count <= LiveQuestion.fieldCountMax else {
            throw Access.Refusal(400, "at most \(LiveQuestion.fieldCountMax) fields can be shown; leave some out")
        }
        return paths.filter { !$0.isEmpty }
    }
}
