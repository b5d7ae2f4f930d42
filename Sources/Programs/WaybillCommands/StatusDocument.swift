import WaybillJSON
import WaybillHost

/// What a receiver, an agent, a service of deliveries, a merger or a door says about itself at `/status`, as far as it is shown; `Protocol/metrics.md` describes it.
struct StatusDocument {
    enum Part: String {
        case receiver, agent, deliver, merger, ingest
    }

    let part: Part
    let json: JSONValue
    let health: Health
    /// When it was asked, by its own clock, in milliseconds since 1970.
    let time: Int
    let lineCount: Int

    /// `nil` for anything else.
    init?(_ bytes: [UInt8]) {
        guard let json = JSONValue(bytes), let part = json["part"]?.string.flatMap({ Part(rawValue: $0) }),
            let health = json["health"]?.string.flatMap({ Health(rawValue: $0) }), let time = json["time"]?.integer
        else { return nil }
        self.json = json
        self.part = part
        self.health = health
        self.time = time
        self.lineCount = json["lines"]?.count ?? 0
    }

    /// `nil` for null and for an empty text.
    func text(_ name: StaticString, of object: JSONValue? = nil) -> String? {
        guard let text = (object ?? self.json)[name]?.string, !text.isEmpty else { return nil }
        return TerminalText.escaped(text)
    }

    func count(_ name: StaticString, of object: JSONValue? = nil) -> Int {
        (object ?? self.json)[name]?.integer ?? 0
    }

    /// `nil` for null.
    func optionalCount(_ name: StaticString, of object: JSONValue? = nil) -> Int? {
        (object ?? self.json)[name]?.integer
    }

    func objects(_ name: StaticString, of object: JSONValue? = nil) -> [JSONValue] {
        ((object ?? self.json)[name]?.elements ?? []).filter { $0.kind == .object }
    }

    /// The lines of each agent so far, by its name.
    var linesByAgent: [String: Int] {
        guard self.part == .receiver else { return [:] }
        let pairs = self.objects("agents").compactMap { agent in
            agent["name"]?.string.map { ($0, self.count("lines", of: agent)) }
        }
        return Dictionary(pairs) { first, _ in first }
    }
}

/// What two answers of one program say about the time between them.
struct StatusRates {
    /// Lines a second; `nil` if nothing can be said: there is one answer, or the program has started again.
    private(set) var lines: Int?
    private(set) var byAgent: [String: Int] = [:]

    init() {}

    init(from old: StatusDocument?, to new: StatusDocument) {
        guard let old, new.time > old.time, old.part == new.part,
            old.optionalCount("started") == new.optionalCount("started")
        else { return }
        let milliseconds = new.time - old.time
        self.lines = Self.perSecond(new.lineCount - old.lineCount, milliseconds)
        let before = old.linesByAgent
        for (name, count) in new.linesByAgent {
            // Its connection may be a new one, which counts from 0.
            guard let countBefore = before[name], countBefore <= count else { continue }
            self.byAgent[name] = Self.perSecond(count - countBefore, milliseconds)
        }
    }

    static func perSecond(_ count: Int, _ milliseconds: Int) -> Int? {
        guard count >= 0, milliseconds > 0 else { return nil }
        return Int((Double(count) * 1000 / Double(milliseconds)).rounded())
    }
}
