import ArgumentParser
import WaybillReceiver

/// A key of the configuration file: the single definition of its type, range, default, help and command-line option.
///
/// Reading, `waybill check`, `--help`, what a reload reports and `Protocol/configuration.md` are derived from it.
struct ConfigurationKey<Root: ConfigurationRoot> {
    let facts: KeyFacts
    let read: (inout ConfigurationSection, inout Root) -> Void
    let show: (Root) -> String

    /// A key with a default.
    init<Value>(
        _ name: String, in section: String = "", _ type: ValueType<Value>, _ path: WritableKeyPath<Root, Value>,
        unit: String = "", applies: KeyFacts.Application = .restart, option: String? = nil,
        default fallback: String? = nil, required hint: String? = nil, example: String = "", _ help: String
    ) {
        self.facts = KeyFacts(
            section: section, name: name, type: type.name, range: type.range, unit: unit,
            fallback: hint == nil ? fallback ?? type.show(Root.defaults[keyPath: path]) : "required",
            applies: applies, option: option, help: help,
            example: example.isEmpty ? type.show(Root.defaults[keyPath: path]) : example,
            standing: fallback == nil && hint == nil ? type.show(Root.defaults[keyPath: path]) : nil)
        self.read = { section, root in
            if let hint { section.require(name, hint) }
            if let value = section.value(name, type) { root[keyPath: path] = value }
        }
        self.show = { type.show($0[keyPath: path]) }
    }

    /// An optional key; the text `none` is its default.
    init<Value>(
        _ name: String, in section: String = "", _ type: ValueType<Value>, optional path: WritableKeyPath<Root, Value?>,
        unit: String = "", applies: KeyFacts.Application = .restart, option: String? = nil,
        default fallback: String = "none", example: String, _ help: String
    ) {
        self.facts = KeyFacts(
            section: section, name: name, type: type.name, range: type.range, unit: unit, fallback: fallback,
            applies: applies, option: option, help: help, example: example, standing: "none")
        self.read = { section, root in
            if section.takeNone(name) { return }
            if let value = section.value(name, type) { root[keyPath: path] = value }
        }
        self.show = { $0[keyPath: path].map(type.show) ?? fallback }
    }

    /// A key that other code reads: a list of sections, or a file whose content matters.
    init(
        _ name: String, type: String, applies: KeyFacts.Application = .restart, option: String? = nil,
        default fallback: String = "none", standing: String? = nil, example: String = "", _ help: String,
        show: @escaping (Root) -> String = { _ in "" }
    ) {
        self.facts = KeyFacts(
            section: "", name: name, type: type, range: "", unit: "", fallback: fallback, applies: applies,
            option: option, help: help, example: example, standing: standing)
        self.read = { _, _ in }
        self.show = show
    }
}

/// What the keys of a section are read into.
protocol ConfigurationRoot {
    /// The values for keys that are left out.
    static var defaults: Self { get }
}

/// The documentation of a key.
struct KeyFacts {
    /// When a changed value applies.
    enum Application: String {
        case reload, restart
    }

    /// The section within its list or program; may be empty.
    let section: String
    let name: String
    let type: String
    let range: String
    let unit: String
    let fallback: String
    let applies: Application
    let option: String?
    let help: String
    /// A value for the sample file: the default, if it can be written.
    let example: String
    /// What a file writes for the default; `nil` if it has no words for it.
    let standing: String?

    var isRequired: Bool { self.fallback == "required" }
    var key: String { self.section.isEmpty ? self.name : "\(self.section).\(self.name)" }

    /// A value as a file must write it: YAML reads a time of day without quotes as a number.
    func written(_ value: String) -> String {
        self.type == "time of day" ? "\"\(value)\"" : value
    }

    /// Type, range and unit in words.
    var value: String {
        var text = self.range.isEmpty ? self.type : "\(self.type), \(self.range)"
        if !self.unit.isEmpty { text += ", in \(self.unit)" }
        return text
    }
}

/// Builds the table's rows, so that the compiler checks them one by one.
@resultBuilder enum KeyList<Root: ConfigurationRoot> {
    static func buildExpression(_ key: ConfigurationKey<Root>) -> [ConfigurationKey<Root>] { [key] }
    static func buildExpression(_ keys: [ConfigurationKey<Root>]) -> [ConfigurationKey<Root>] { keys }
    static func buildBlock(_ keys: [ConfigurationKey<Root>]...) -> [ConfigurationKey<Root>] { keys.flatMap(\.self) }
}

extension ConfigurationSection {
    /// Reads keys, including those of subsections.
    mutating func read<Root>(_ keys: [ConfigurationKey<Root>], into root: inout Root) {
        var sections: [String] = []
        for key in keys {
            if key.facts.section.isEmpty {
                key.read(&self, &root)
            } else if !sections.contains(key.facts.section) {
                sections.append(key.facts.section)
            }
        }
        for name in sections {
            self.read(name) { section in
                for key in keys where key.facts.section == name { key.read(&section, &root) }
            }
        }
    }
}

extension ArgumentHelp {
    /// The help of an option that corresponds to a key of the configuration file.
    static func key(_ path: String, _ more: String = "") -> ArgumentHelp {
        guard let facts = ConfigurationTable.facts(path) else { preconditionFailure("\(path) is not in the table") }
        var notes = facts.range.isEmpty ? [] : [facts.range]
        if !facts.fallback.hasPrefix("required"), facts.fallback != "none" {
            notes.append("default: \(facts.fallback)")
        }
        let note = notes.isEmpty ? "" : " (\(notes.joined(separator: "; ")))"
        return ArgumentHelp(stringLiteral: "\(facts.help)\(more)\(note)")
    }
}
