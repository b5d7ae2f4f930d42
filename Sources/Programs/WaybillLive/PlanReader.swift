internal import WaybillExport
internal import WaybillJSON

/// Reads a plan strictly: what it does not know is an error, with its place and what to write.
struct PlanReader {
    let bytes: [UInt8]
    let providers: [String]

    private typealias Member = (name: String, position: Int, value: JSONValue)

    func read() throws(EventPlan.Failure) -> EventPlan {
        guard self.bytes.count <= EventPlan.byteCountMax else {
            throw self.failure(0, "a plan has at most \(EventPlan.byteCountMax >> 20) MiB; split it")
        }
        let root: JSONValue
        do throws(JSONError) {
            root = try self.bytes.withUnsafeBufferPointer { (bytes) throws(JSONError) in
                try JSONValue(parsing: UnsafeRawBufferPointer(bytes))
            }
        } catch {
            throw self.failure(error.offset, "this is not one JSON object: \(error.code.rawValue)")
        }
        var plan = EventPlan()
        for (name, position, value) in try self.members(of: root, of: ["expect", "never", "settle_seconds", "$schema"])
        {
            switch name {
            case "expect": plan.expectations = try self.list(value, name, self.expectation)
            case "never": plan.never = try self.list(value, name, self.pattern)
            case "settle_seconds":
                plan.settle = .seconds(try self.number(value, name, in: 0...EventPlan.settleSecondsMax))
            default:
                guard value.kind == .string else { throw self.failure(position, "$schema is an address in quotes") }
            }
        }
        guard !plan.expectations.isEmpty || !plan.never.isEmpty else {
            throw self.failure(0, "the plan is empty: list events in expect, or in never")
        }
        guard plan.expectations.count + plan.never.count <= EventPlan.entryCountMax else {
            throw self.failure(0, "a plan lists at most \(EventPlan.entryCountMax) events; split it")
        }
        return plan
    }

    private func expectation(_ value: JSONValue) throws(EventPlan.Failure) -> EventPlan.Expectation {
        var expectation = EventPlan.Expectation()
        let members = try self.members(of: value, of: ["name", "count", "members", "providers"])
        for (name, _, value) in members where name == "count" {
            (expectation.countMin, expectation.countMax) = try self.count(value)
        }
        expectation.pattern = try self.pattern(members, value)
        return expectation
    }

    private func pattern(_ value: JSONValue) throws(EventPlan.Failure) -> EventPlan.Pattern {
        try self.pattern(try self.members(of: value, of: ["name", "members", "providers"]), value)
    }

    private func pattern(_ members: [Member], _ object: JSONValue) throws(EventPlan.Failure) -> EventPlan.Pattern {
        var pattern = EventPlan.Pattern()
        for (name, _, value) in members {
            switch name {
            case "name":
                guard let text = value.string, !text.isEmpty else {
                    throw self.failure(value, "name is the name of an event, in quotes")
                }
                pattern.name = text
            case "members": pattern.members = try self.wantedMembers(value)
            case "providers": pattern.providers = try self.providerEntries(value)
            default: break
            }
        }
        guard !pattern.name.isEmpty else { throw self.failure(object, "the entry has no name") }
        return pattern
    }

    // MARK: What an entry says

    /// `2`, or `{"min": 1, "max": 3}`.
    private func count(_ value: JSONValue) throws(EventPlan.Failure) -> (min: Int, max: Int?) {
        guard value.kind == .object else {
            if value.count == 0 {
                throw self.failure(
                    value, "an event that must not come belongs in never, and not in expect with count 0")
            }
            let count = try self.number(value, "count", in: 1...EventPlan.countMax)
            return (count, count)
        }
        var (countMin, countMax) = (1, Int?.none)
        let members = try self.members(of: value, of: ["min", "max"])
        for (name, _, value) in members {
            let count = try self.number(value, name, in: (name == "min" ? 0 : 1)...EventPlan.countMax)
            if name == "min" { countMin = count } else { countMax = count }
        }
        guard !members.isEmpty else { throw self.failure(value, "count has min, max or both, or is a number") }
        if let countMax, countMax < countMin {
            throw self.failure(value, "max is less than min, which is \(countMin)")
        }
        return (countMin, countMax)
    }

    private func wantedMembers(_ value: JSONValue) throws(EventPlan.Failure) -> [EventPlan.Member] {
        var wanted: [EventPlan.Member] = []
        for (name, position, value) in try self.anyMembers(of: value, "members") {
            guard name.split(separator: ".", omittingEmptySubsequences: false).allSatisfy({ !$0.isEmpty }) else {
                throw self.failure(position, "a member is named by its path, such as data.currency, user or screen")
            }
            guard name != "name" else { throw self.failure(position, "the entry's own name is the event's name") }
            wanted.append(EventPlan.Member(name: name, wanted: try self.wanted(value)))
        }
        guard wanted.count <= EventPlan.memberCountMax else {
            throw self.failure(value, "an entry has at most \(EventPlan.memberCountMax) members")
        }
        return wanted
    }

    private func wanted(_ value: JSONValue) throws(EventPlan.Failure) -> EventPlan.Wanted {
        let literal = value.string ?? value.literal
        switch value.kind {
        case .string: return .value(type: .string, text: literal)
        case .true, .false: return .value(type: .boolean, text: literal)
        case .null: return .value(type: .null, text: literal)
        case .number: return .value(type: Int(literal) == nil ? .number : .integer, text: literal)
        case .array: throw self.failure(value, "a list cannot be compared; write {\"type\": \"array\"}")
        case .object: break
        }
        let types = EventPlan.MemberType.allCases.map(\.rawValue)
        let members = try self.members(of: value, of: ["type"])
        guard let type = members.first?.value else {
            throw self.failure(value, "a member's value, or {\"type\": T}, is expected")
        }
        guard let found = type.string.flatMap(EventPlan.MemberType.init) else {
            throw self.failure(type, "type is one of: \(types.joined(separator: ", "))")
        }
        return .type(found)
    }

    private func providerEntries(_ value: JSONValue) throws(EventPlan.Failure) -> [EventPlan.ProviderEntry] {
        var entries: [EventPlan.ProviderEntry] = []
        for (name, position, value) in try self.anyMembers(of: value, "providers") {
            guard self.providers.contains(name) else {
                throw self.failure(
                    position, "\(name) is not among the exports, which are: \(self.providers.joined(separator: ", "))")
            }
            guard let outcome = value.string.flatMap(ProviderOutcome.Kind.init) else {
                throw self.failure(value, "the outcome is one of: exported, refused, held, skipped")
            }
            entries.append(EventPlan.ProviderEntry(provider: name, outcome: outcome))
        }
        return entries
    }

    // MARK: JSON

    private func list<Entry>(
        _ value: JSONValue, _ name: String, _ read: (JSONValue) throws(EventPlan.Failure) -> Entry
    ) throws(EventPlan.Failure) -> [Entry] {
        guard let elements = value.elements else { throw self.failure(value, "\(name) is a list of events: [{…}, …]") }
        var entries: [Entry] = []
        for element in elements { entries.append(try read(element)) }
        return entries
    }

    private func number(
        _ value: JSONValue, _ name: String, in range: ClosedRange<Int>
    ) throws(EventPlan.Failure) -> Int {
        guard let number = value.count, range.contains(number) else {
            throw self.failure(value, "\(name) is a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// The members of an object that has only these.
    private func members(of value: JSONValue, of known: [String]) throws(EventPlan.Failure) -> [Member] {
        let members = try self.anyMembers(of: value, nil)
        for (name, position, _) in members where !known.contains(name) {
            let names = known.filter { !$0.hasPrefix("$") }
            let nearest = NearestName.find(name, in: names).map { "did you mean \"\($0)\"?" }
            throw self.failure(
                position, "unknown member \"\(name)\"; \(nearest ?? "known here: \(names.joined(separator: ", "))")")
        }
        return members
    }

    /// - Parameter name: what the object is, for errors.
    private func anyMembers(of value: JSONValue, _ name: String?) throws(EventPlan.Failure) -> [Member] {
        guard let members = value.keyedMembers else {
            throw self.failure(value, "\(name ?? "an entry") is an object: {…}")
        }
        var seen: Set<String> = []
        for (name, position, _) in members where !seen.insert(name).inserted {
            throw self.failure(position, "\"\(name)\" is there twice")
        }
        return members.map { ($0.name, $0.position, $0.value) }
    }

    private func failure(_ value: JSONValue, _ text: String) -> EventPlan.Failure {
        // A string's range begins after its quote.
        self.failure(value.range.lowerBound - (value.kind == .string ? 1 : 0), text)
    }

    private func failure(_ position: Int, _ text: String) -> EventPlan.Failure {
        let before = self.bytes.prefix(position)
        let line = before.count { $0 == 0x0A } + 1
        let column = String(decoding: before.suffix(while: { $0 != 0x0A }), as: UTF8.self).count + 1
        return EventPlan.Failure(line: line, column: column, text: text)
    }
}

extension Collection where Self: BidirectionalCollection, Element == UInt8 {
    /// The longest end of which all elements fulfil a condition.
    fileprivate func suffix(while isIncluded: (UInt8) -> Bool) -> SubSequence {
        var start = self.endIndex
        while start > self.startIndex, isIncluded(self[self.index(before: start)]) { self.formIndex(before: &start) }
        return self[start...]
    }
}
