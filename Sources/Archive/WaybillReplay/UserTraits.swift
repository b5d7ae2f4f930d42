internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// Removes a user's properties from a line if newer lines set them again.
///
///     {…,"user":"u-1","traits":{"tier":"A","age":null}}  ──▶  {…,"user":"u-1","traits":{"age":null}}
///
/// What is set once stays unless a newer line sets or removes it: the provider keeps the first. Numbers are never added
/// again. Nothing else of the line changes: its id, time and user stay.
struct UserTraits: ~Copyable {
    private var tape = JSONTape()
    private var subjects = SubjectReader()
    private var output = ByteBuilder()

    /// The line that the last call of ``reduce(_:_:_:for:isKept:)`` produced.
    var line: UnsafeRawBufferPointer { self.output.bytes }

    /// What a line does to a property, as far as a replay may repeat it.
    enum Change {
        case set, setOnce
    }

    /// Keeps the properties for which `isKept` returns `true`.
    ///
    /// - Returns: whether any remains.
    mutating func reduce(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, for provider: Destination,
        isKept: (_ property: Digest128, _ change: Change) -> Bool
    ) -> Bool {
        self.output.removeAll()
        guard self.traits(of: line) != nil, self.isFor(provider) else { return false }
        let subject = self.subjects.subject(of: line, facts, source, for: provider)
        let names: [(name: StaticString, change: Change?)] = [
            ("traits", .set), ("traits_once", .setOnce), ("traits_add", nil),
        ]
        let objects = names.compactMap { name, change in
            self.object(name).map { (index: $0, change: change) }
        }.sorted { $0.index < $1.index }
        var end = 0
        var isAnyLeft = false
        for (index, change) in objects {
            let entry = self.tape[index]
            self.output.append(UnsafeRawBufferPointer(rebasing: line[end..<Int(entry.start)]))
            self.output.append(UInt8(ascii: "{"))
            let start = self.output.count
            if let change {
                self.appendMembers(of: index) { name in
                    isKept(Self.property(name, of: subject, facts.env, provider), change)
                }
            }
            if self.output.count > start { isAnyLeft = true }
            self.output.append(UInt8(ascii: "}"))
            end = Int(entry.end)
        }
        self.output.append(UnsafeRawBufferPointer(rebasing: line[end...]))
        return isAnyLeft
    }

    private mutating func appendMembers(of object: Int, where isKept: (_ name: [UInt8]) -> Bool) {
        var isFirst = true
        var members = self.tape.members(of: object)
        while let (key, value) = members.next(in: self.tape) {
            guard isKept(self.unescaped(key)) else { continue }
            if !isFirst { self.output.append(UInt8(ascii: ",")) }
            isFirst = false
            self.output.append(UInt8(ascii: "\""))
            self.output.append(self.tape.bytes(of: key))
            self.output.append("\":")
            let isText = self.tape[value].kind == .string
            if isText { self.output.append(UInt8(ascii: "\"")) }
            self.output.append(self.tape.bytes(of: value))
            if isText { self.output.append(UInt8(ascii: "\"")) }
        }
    }

    /// Calls `body` with each property that a line sets or removes, for each provider that takes it.
    mutating func visit(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription,
        for providers: [Destination], _ body: (Digest128) -> Void
    ) {
        guard let traits = self.traits(of: line) else { return }
        for provider in providers where self.isFor(provider) {
            let subject = self.subjects.subject(of: line, facts, source, for: provider)
            var members = self.tape.members(of: traits)
            while let (key, _) = members.next(in: self.tape) {
                body(Self.property(self.unescaped(key), of: subject, facts.env, provider))
            }
        }
    }

    private mutating func traits(of line: UnsafeRawBufferPointer) -> Int? {
        // The exporter refuses a line that is not an object; it has no properties.
        guard self.tape.accepts(line, from: JSONText.byteOrderMarkByteCount(line)) else { return nil }
        return self.object("traits")
    }

    private func object(_ name: StaticString) -> Int? {
        guard let index = self.tape.firstValue(of: name, in: 0), self.tape[index].kind == .object else { return nil }
        return index
    }

    /// Whether an event is meant for a provider and allowed to go there; other lines set nothing.
    private func isFor(_ provider: Destination) -> Bool {
        let name = provider.subscriptionName
        if let consent = self.tape.firstValue(of: "consent", in: 0),
            let answer = self.tape.firstValue(of: "analytics", in: consent), self.tape[answer].kind == .false
        {
            return false
        }
        guard let list = self.tape.firstValue(of: "providers", in: 0), self.tape[list].kind == .array else {
            return true
        }
        var element = list + 1
        while element < Int(self.tape[list].next) {
            if self.tape[element].kind == .string, self.unescaped(element).elementsEqual(name.utf8) { return true }
            element = Int(self.tape[element].next)
        }
        return false
    }

    private func unescaped(_ index: Int) -> [UInt8] {
        let bytes = self.tape.bytes(of: index)
        return self.tape[index].traits.contains(.hasEscapes) ? Array(JSONText.string(bytes).utf8) : Array(bytes)
    }

    private static func property(
        _ name: [UInt8], of subject: [UInt8], _ environment: DeploymentEnvironment, _ provider: Destination
    ) -> Digest128 {
        let place = Array("\(provider.rawValue) \(environment.rawValue)".utf8)
        return name.withUnsafeBytes { name in
            subject.withUnsafeBytes { subject in
                place.withUnsafeBytes { place in Digest128([place, subject, name]) }
            }
        }
    }
}
