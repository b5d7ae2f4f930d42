import WaybillAgent
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillSystem
import WaybillTail
import WaybillYAML

/// One mapping of a configuration file: values are taken by key, what is left over or wrong becomes a problem.
struct ConfigurationSection {
    private(set) var problems: [ConfigurationFile.Problem] = []

    private let path: String
    private let line: Int
    private var values: [String: YAMLNode] = [:]
    private var lines: [String: Int] = [:]

    init(_ node: YAMLNode, path: String) {
        self.path = path
        self.line = node.line
        guard let mapping = node.mapping else {
            self.problems = [
                ConfigurationFile.Problem(line: self.line, key: path, text: "is a section; indent key: value below it")
            ]
            return
        }
        for (key, value) in mapping {
            guard let name = key.string else { continue }
            if self.values[name] != nil { self.complain(name, "is given twice; remove one") }
            self.values[name] = value
            self.lines[name] = key.line
        }
    }

    private func full(_ key: String) -> String {
        self.path.isEmpty ? key : "\(self.path).\(key)"
    }

    mutating func complain(_ key: String, _ text: String) {
        self.problems.append(
            ConfigurationFile.Problem(line: self.lines[key] ?? self.line, key: self.full(key), text: text))
    }

    /// Takes over the problems of a file that this section names.
    mutating func add(_ problems: [ConfigurationFile.Problem]) {
        self.problems += problems
    }

    /// Forgets what nobody took: what it means is not known.
    mutating func forget() {
        self.values = [:]
    }

    /// Takes over the problems of a section inside this one.
    mutating func take(_ section: inout ConfigurationSection) {
        section.finish()
        self.problems += section.problems
    }

    /// Complains of every key that nobody took.
    mutating func finish() {
        for key in self.values.keys.sorted() { self.complain(key, "is no key here; correct it or remove it") }
        self.values = [:]
    }

    // MARK: Values

    mutating func section(_ key: String) -> ConfigurationSection? {
        self.values.removeValue(forKey: key).map { ConfigurationSection($0, path: self.full(key)) }
    }

    mutating func each(_ key: String, _ body: (inout ConfigurationSection) -> Void) {
        guard let node = self.values.removeValue(forKey: key) else { return }
        guard let sequence = node.sequence else { return self.complain(key, "is a list; begin each entry with \"- \"") }
        for (index, node) in sequence.enumerated() {
            var section = ConfigurationSection(node, path: "\(self.full(key))[\(index)]")
            body(&section)
            self.take(&section)
        }
    }

    mutating func text(_ key: String) -> String? {
        guard let node = self.values.removeValue(forKey: key) else { return nil }
        guard let text = node.string, !text.isEmpty else {
            self.complain(key, "is a text")
            return nil
        }
        return text
    }

    mutating func requiredText(_ key: String) -> String {
        if self.values[key] == nil { self.complain(key, "is missing") }
        return self.text(key) ?? ""
    }

    mutating func require(_ key: String, _ text: String) {
        if self.values[key] == nil { self.complain(key, text) }
    }

    mutating func texts(_ key: String) -> [String] {
        guard let node = self.values.removeValue(forKey: key) else { return [] }
        if let text = node.string { return [text] }
        let texts = node.sequence.map { $0.compactMap(\.string) } ?? []
        if texts.isEmpty { self.complain(key, "is a text or a list of texts") }
        return texts
    }

    mutating func integer(_ key: String, in range: ClosedRange<Int>) -> Int? {
        guard let node = self.values.removeValue(forKey: key) else { return nil }
        guard let value = node.int, range.contains(value) else {
            self.complain(key, "is a whole number from \(range.lowerBound) to \(range.upperBound)")
            return nil
        }
        return value
    }

    func has(_ key: String) -> Bool {
        self.values[key] != nil
    }

    /// Whether the key has one value, no section and no list.
    func isScalar(_ key: String) -> Bool {
        self.values[key]?.isScalar ?? false
    }

    func isText(_ key: String, _ text: String) -> Bool {
        self.values[key]?.string == text
    }

    mutating func flag(_ key: String) -> Bool? {
        guard let node = self.values.removeValue(forKey: key) else { return nil }
        guard let value = node.bool else {
            self.complain(key, "is on or off")
            return nil
        }
        return value
    }

    /// The texts that one of a closed set has, for errors.
    static func list<Choice: RawRepresentable<String> & CaseIterable>(_ type: Choice.Type) -> String {
        let names = Choice.allCases.map(\.rawValue)
        return names.count < 2
            ? names.joined() : names.dropLast().joined(separator: ", ") + " or " + names[names.count - 1]
    }

    mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: String, _ type: Choice.Type
    ) -> Choice? {
        guard let text = self.text(key) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            self.complain(key, "is \(Self.list(type))")
            return nil
        }
        return choice
    }

    mutating func choices<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: String, _ type: Choice.Type
    ) -> [Choice] {
        self.nodes(key).compactMap { node in
            guard let choice = node.string.flatMap(Choice.init(rawValue:)) else {
                self.complain(key, at: node, "is a list of \(Self.list(type))")
                return nil
            }
            return choice
        }
    }

    /// The elements of a list, or the one value that stands in its place; an empty list is a problem.
    private mutating func nodes(_ key: String) -> [YAMLNode] {
        guard let node = self.values.removeValue(forKey: key) else { return [] }
        if node.isScalar { return [node] }
        let nodes = node.sequence ?? []
        if nodes.isEmpty { self.complain(key, "is a text or a list of texts; remove it if it says nothing") }
        return nodes
    }

    /// Names, or beginnings of names that end in `*`.
    mutating func patterns(_ key: String) -> [String] {
        self.nodes(key).compactMap { node in
            guard let name = node.string, Self.isName(name), !name.dropLast().contains("*") else {
                self.complain(key, at: node, "is a list of names; only the end of one may be *")
                return nil
            }
            return name
        }
    }

    /// New names by the old ones.
    mutating func renames(_ key: String) -> [OperatorMapping.Rename] {
        self.pairs(key).compactMap { name, node in
            guard let new = node.string, Self.isName(name), Self.isName(new), !name.contains("*"), !new.contains("*")
            else {
                self.complain(key, at: node, "is OLD: NEW, two names without *")
                return nil
            }
            if name == new { self.complain(key, at: node, "\(name) has that name already; remove it") }
            return OperatorMapping.Rename(from: name, to: new)
        }
    }

    mutating func constants(_ key: String) -> [OperatorMapping.Constant] {
        self.pairs(key).compactMap { name, node in
            guard Self.isName(name), let json = Self.json(node) else {
                self.complain(key, at: node, "is FIELD: VALUE; a value is a text, a number, true or false")
                return nil
            }
            return OperatorMapping.Constant(name: name, json: json)
        }
    }

    /// What a column has where an event has nothing: text for strings and times, JSON for others.
    mutating func defaultValue(_ key: String, of type: CustomOptions.ColumnType) -> String? {
        guard let node = self.values.removeValue(forKey: key) else { return nil }
        let text = node.string
        let json = Self.json(node)
        switch type {
        case .string where text != nil: return text
        case .time where text.flatMap(TimeText.parse(text:)) != nil: return text
        case .number where json.flatMap(Self.jsonKind) == .number: return json
        case .boolean where json == "true" || json == "false": return json
        case .json where json != nil: return json
        case .string, .time, .number, .boolean, .json:
            self.complain(key, "is no value of a column of type \(type.rawValue)")
            return nil
        }
    }

    private mutating func pairs(_ key: String) -> [(name: String, value: YAMLNode)] {
        guard let node = self.values.removeValue(forKey: key) else { return [] }
        guard let mapping = node.mapping, !mapping.isEmpty else {
            self.complain(key, "is a section; indent NAME: VALUE below it")
            return []
        }
        return mapping.compactMap { key, value in key.string.map { ($0, value) } }
    }

    private mutating func complain(_ key: String, at node: YAMLNode, _ text: String) {
        self.problems.append(
            ConfigurationFile.Problem(
                line: node.line, key: self.full(key), text: text))
    }

    /// 1 to 1024 bytes without control characters.
    private static func isName(_ name: String) -> Bool {
        1...1024 ~= name.utf8.count && name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
    }

    /// A scalar as compact JSON; plain `true`, `false` and numbers are no texts.
    private static func json(_ node: YAMLNode) -> String? {
        guard let text = node.string else { return nil }
        if node.isPlain {
            if text.isEmpty || ["null", "~", "Null", "NULL"].contains(text) { return nil }
            switch Self.jsonKind(text) {
            case .true, .false, .number: return text
            case .null, .string, .array, .object, nil: break
            }
        }
        var json = JSONWriter()
        json.string(text)
        return String(decoding: json.output.bytes, as: UTF8.self)
    }

    private static func jsonKind(_ text: String) -> JSONKind? {
        var text = text
        return text.withUTF8 { bytes in
            do throws(JSONError) {
                return try JSONScanner.scanValue(UnsafeRawBufferPointer(bytes))
            } catch {
                return nil
            }
        }
    }

    /// A text that names something of ours: 1 to 128 bytes without control characters.
    mutating func requiredName(_ key: String) -> String {
        let name = self.requiredText(key)
        if !name.isEmpty, name.utf8.count > 128 || !Self.isName(name) {
            self.complain(key, "has 1 to 128 bytes and no control characters")
        }
        return name
    }

    /// Who Snowplow's schemas belong to.
    mutating func vendor(_ key: String) -> String? {
        guard let vendor = self.text(key) else { return nil }
        guard SnowplowOptions.isVendor(vendor) else {
            self.complain(
                key,
                "has 1 to \(Limits.Snowplow.vendorCharacterCountMax) letters, digits, '.', '_' and '-', "
                    + "e.g. com.example")
            return nil
        }
        return vendor
    }

    mutating func address(_ key: String) -> NetworkAddress? {
        guard let text = self.text(key) else { return nil }
        guard let address = NetworkAddress(text) else {
            self.complain(key, "is HOST:PORT, e.g. 127.0.0.1:4390")
            return nil
        }
        return address
    }

    mutating func addresses(_ key: String) -> [NetworkAddress] {
        if self.values[key] == nil { self.complain(key, "is missing: a receiver, HOST:PORT") }
        return self.texts(key).compactMap { text in
            guard let address = NetworkAddress(text) else {
                self.complain(key, "is HOST:PORT, e.g. 127.0.0.1:4390")
                return nil
            }
            return address
        }
    }

    /// UTC when it is not given.
    mutating func zone(_ key: String) -> TimeZoneRules {
        guard let name = self.text(key) else { return .utc }
        do throws(TimeZoneError) {
            return try TimeZoneRules(named: name, from: POSIXFileSystem())
        } catch {
            self.complain(key, "\(error)")
            return .utc
        }
    }

    /// A time of day, in seconds after midnight; 04:00 when it is not given.
    mutating func cutOff(_ key: String) -> Int {
        guard let node = self.values.removeValue(forKey: key) else { return CutOff.usualSecondOfDay }
        // Without quotes YAML 1.1 reads 04:00 as the number 240; the node still has the text.
        let text = node.string ?? ""
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 }), let hour = Int(parts[0]),
            let minute = Int(parts[1]), (0..<24).contains(hour), (0..<60).contains(minute)
        else {
            self.complain(key, "is a time of day from \"00:00\" to \"23:59\", e.g. \"04:00\"")
            return CutOff.usualSecondOfDay
        }
        return hour * 3600 + minute * 60
    }

    mutating func provider(_ key: String) -> Destination? {
        let name = self.requiredText(key)
        guard !name.isEmpty else { return nil }
        do throws(UnknownProvider) {
            return try Destination(named: name)
        } catch {
            self.complain(key, "\(error)")
            return nil
        }
    }

    mutating func environment(_ key: String) -> DeploymentEnvironment? {
        guard let name = self.text(key) else { return nil }
        guard let environment = DeploymentEnvironment(rawValue: name) else {
            self.complain(key, "is dev, internal or prod")
            return nil
        }
        return environment
    }

    mutating func agentName(_ key: String) -> AgentName? {
        guard let text = self.text(key) else { return nil }
        guard let name = AgentName(text) else {
            self.complain(key, "has 1 to 32 letters, digits, '.', '_', ':' and '-'")
            return nil
        }
        return name
    }
}
