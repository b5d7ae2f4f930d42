import WaybillExport
import WaybillYAML

/// One mapping of a configuration file: values are taken by key; unknown keys and wrong values become problems.
struct ConfigurationSection {
    private(set) var problems: [ConfigurationFile.Problem] = []
    /// The lines of keys, including those of subsections that were taken.
    private(set) var lines: [String: Int] = [:]
    /// The written texts of keys whose values name environment variables, including those of subsections that were
    /// taken.
    private(set) var writtenTexts: [String: String] = [:]
    /// The base of relative paths.
    let directory: String

    private let path: String
    private let line: Int
    private var values: [String: YAMLNode] = [:]
    /// Keys that were requested.
    private var known: [String] = []

    init(_ node: YAMLNode, path: String, directory: String) {
        self.path = path
        self.line = node.line
        self.directory = directory
        guard let mapping = node.mapping else {
            self.complain("", at: node.line, "must be a section; indent key: value below it")
            return
        }
        for (key, value) in mapping {
            guard let name = key.string else { continue }
            self.lines[self.full(name)] = key.line
            let scalars = value.sequence ?? [value]
            let failed = scalars.filter { $0.substitutionError != nil }
            for scalar in failed { self.complain(name, at: scalar.line, scalar.substitutionError?.description ?? "") }
            if scalars.contains(where: { $0.originalText != nil }) {
                self.writtenTexts[self.full(name)] =
                    scalars.map { $0.originalText ?? $0.string ?? "" }.joined(separator: ", ")
            }
            if failed.isEmpty { self.values[name] = value }
        }
    }

    private func full(_ key: String) -> String {
        self.path.isEmpty || key.isEmpty ? self.path + key : "\(self.path).\(key)"
    }

    mutating func complain(_ key: String, at line: Int? = nil, _ text: String) {
        let section = self.full(String(key.prefix { $0 != "." }))
        let key = self.full(key)
        let line = line ?? self.lines[key] ?? self.lines[section] ?? self.line
        self.problems.append(ConfigurationFile.Problem(line: line, key: key, text: text))
    }

    /// Complains about an entry of a list that was taken.
    mutating func complain(inEntry index: Int, of list: String, _ key: String, _ text: String) {
        let entry = "\(self.full(list))[\(index)]"
        let line = self.lines["\(entry).\(key)"] ?? self.lines["\(entry).name"] ?? self.line
        self.problems.append(ConfigurationFile.Problem(line: line, key: "\(entry).\(key)", text: text))
    }

    /// Adds the problems of a file that this section names.
    mutating func add(_ problems: [ConfigurationFile.Problem]) {
        self.problems += problems
    }

    /// Forgets the values not taken, whose meaning is unknown.
    mutating func forget() {
        self.values = [:]
    }

    /// Reads a subsection; `nil` if it is not here.
    @discardableResult mutating func read<Content>(
        _ key: String, _ read: (inout ConfigurationSection) -> Content
    ) -> Content? {
        guard let node = self.node(key) else { return nil }
        var section = ConfigurationSection(node, path: self.full(key), directory: self.directory)
        defer { self.take(&section) }
        return read(&section)
    }

    /// Finishes a subsection and adds what it found.
    private mutating func take(_ section: inout ConfigurationSection) {
        section.finish()
        self.problems += section.problems
        self.lines.merge(section.lines) { $1 }
        self.writtenTexts.merge(section.writtenTexts) { $1 }
    }

    /// Reports every key that was not taken.
    mutating func finish() {
        for key in self.values.keys.sorted() {
            let place = self.path.isEmpty ? "this file" : "\(self.path):"
            let keys =
                self.known.isEmpty ? "it has none" : "its keys are \(self.known.sorted().joined(separator: ", "))"
            let advice = NearestName.find(key, in: self.known).map { "did you mean \($0)?" } ?? keys
            self.complain(key, "is not a key of \(place); \(advice)")
        }
        self.values = [:]
    }

    // MARK: Values

    private mutating func node(_ key: String) -> YAMLNode? {
        if !self.known.contains(key) { self.known.append(key) }
        return self.values.removeValue(forKey: key)
    }

    mutating func each(_ key: String, _ body: (inout ConfigurationSection) -> Void) {
        guard let node = self.node(key) else { return }
        guard let sequence = node.sequence else {
            return self.complain(key, "must be a list; begin each entry with \"- \"")
        }
        for (index, node) in sequence.enumerated() {
            var section = ConfigurationSection(node, path: "\(self.full(key))[\(index)]", directory: self.directory)
            body(&section)
            self.take(&section)
        }
    }

    mutating func value<Value>(_ key: String, _ type: ValueType<Value>) -> Value? {
        guard let node = self.node(key) else { return nil }
        var reading = ValueReading(directory: self.directory)
        let value = type.read(node, &reading)
        for problem in reading.problems { self.complain(key, at: problem.line, problem.text) }
        return value
    }

    /// - Parameter hint: what to write, for a section without the key.
    mutating func require(_ key: String, _ hint: String = "") {
        guard self.lines[self.full(key)] == nil else { return }
        self.complain(key, hint.isEmpty ? "is missing" : "is missing: \(hint)")
    }

    mutating func requiredText(_ key: String) -> String {
        self.require(key)
        return self.value(key, .text) ?? ""
    }

    /// Takes a key that is in another place now.
    ///
    /// - Returns: whether it is here.
    mutating func takeFormer(_ key: String) -> Bool { self.values.removeValue(forKey: key) != nil }

    func has(_ key: String) -> Bool {
        self.values[key] != nil
    }

    /// Whether the key has one value, not a section or a list.
    func isScalar(_ key: String) -> Bool {
        self.values[key]?.isScalar ?? false
    }

    /// Takes the key if its value is the text `none`.
    mutating func takeNone(_ key: String) -> Bool {
        self.isText(key, "none") && self.node(key) != nil
    }

    func isText(_ key: String, _ text: String) -> Bool {
        self.values[key]?.string == text
    }
}
