import WaybillAgent
import WaybillExport
import WaybillProjection
import WaybillSystem
import WaybillTail
import Yams

/// One mapping of a configuration file: values are taken by key, what is left over or wrong becomes a problem.
struct ConfigurationSection {
    private(set) var problems: [ConfigurationFile.Problem] = []

    private let path: String
    private let line: Int
    private var values: [String: Node] = [:]
    private var lines: [String: Int] = [:]

    init(_ node: Node, path: String) {
        self.path = path
        self.line = node.mark?.line ?? 1
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
            self.lines[name] = key.mark?.line ?? self.line
        }
    }

    private func full(_ key: String) -> String {
        self.path.isEmpty ? key : "\(self.path).\(key)"
    }

    mutating func complain(_ key: String, _ text: String) {
        self.problems.append(
            ConfigurationFile.Problem(line: self.lines[key] ?? self.line, key: self.full(key), text: text))
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
        let text = node.scalar?.string ?? ""
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 }), let hour = Int(parts[0]),
            let minute = Int(parts[1]), (0..<24).contains(hour), (0..<60).contains(minute)
        else {
            self.complain(key, "is a time of day from \"00:00\" to \"23:59\", e.g. \"04:00\"")
            return CutOff.usualSecondOfDay
        }
        return hour * 3600 + minute * 60
    }

    mutating func provider(_ key: String) -> ProviderID? {
        let name = self.requiredText(key)
        guard !name.isEmpty else { return nil }
        do throws(UnknownProvider) {
            return try ProviderID(named: name)
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
