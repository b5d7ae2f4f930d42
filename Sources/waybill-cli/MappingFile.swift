import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillSystem
import WaybillYAML

/// A mapping file, or the file of a custom provider, which is a mapping with columns.
///
///     version: 3                                    version: 1
///     take: {kinds: [screen, action]}               format: csv
///     leave: {names: [debug_*]}                     columns:
///     rename: {moment_like: select_content}           - {name: at, from: ts, type: time, required: true}
///     fields:                                         - {name: event, from: name, max: 40}
///       - rename: {productName: item_name}            - {name: price, from: data.price, type: number}
///         drop: [note]
///         constant: {channel: app}
struct MappingFile {
    private(set) var mapping: OperatorMapping?
    private(set) var custom: CustomOptions?
    private(set) var problems: [ConfigurationFile.Problem] = []

    /// Reads a file; one that cannot be read is a problem.
    static func read(_ path: String) -> MappingFile {
        do throws(ConfigurationFile.Problem) {
            return MappingFile(yaml: try ConfigurationFile.contents(of: path), path: path)
        } catch {
            var file = MappingFile()
            file.problems = [error]
            return file
        }
    }

    private init() {}

    init(yaml: String, path: String) {
        let root: YAMLNode
        do throws(ConfigurationFile.Problem) {
            root = try ConfigurationFile.compose(yaml, hint: "holds nothing; begin it with version: 1")
        } catch {
            self.problems = [error.inFile(path)]
            return
        }
        var section = ConfigurationSection(root, path: "")
        self.read(&section, path: path)
        section.finish()
        self.problems = section.problems.sorted { $0.line < $1.line }.map { $0.inFile(path) }
        if !self.problems.isEmpty {
            self.mapping = nil
            self.custom = nil
        }
    }

    private mutating func read(_ section: inout ConfigurationSection, path: String) {
        section.require("version", "is missing: a whole number from 1 on, raised with every change")
        var rules = OperatorMapping.Rules(version: section.integer("version", in: 1...999_999_999) ?? 1)
        if var take = section.section("take") {
            rules.take = Self.selection(&take)
            section.take(&take)
        }
        if var leave = section.section("leave") {
            rules.leave = Self.selection(&leave)
            section.take(&leave)
        }
        rules.renames = section.renames("rename")
        section.each("fields") { rules.fields.append(Self.fieldRule(&$0)) }
        if rules.fields.count > OperatorMapping.fieldRuleCountMax {
            section.complain("fields", "has at most \(OperatorMapping.fieldRuleCountMax) rules; join some")
            rules.fields = []
        }
        if section.has("columns") || section.has("format") { self.custom = Self.custom(&section) }
        self.mapping = OperatorMapping(rules, path: path, columns: self.custom?.canonicalText ?? "")
    }

    private static func selection(_ section: inout ConfigurationSection) -> OperatorMapping.Selection {
        var selection = OperatorMapping.Selection()
        selection.kinds = section.choices("kinds", EventKind.self)
        selection.names = section.patterns("names")
        selection.apps = section.patterns("apps")
        selection.environments = section.choices("env", DeploymentEnvironment.self)
        return selection
    }

    private static func fieldRule(_ section: inout ConfigurationSection) -> OperatorMapping.FieldRule {
        var rule = OperatorMapping.FieldRule()
        rule.names = section.patterns("names")
        rule.renames = section.renames("rename")
        rule.drops = section.patterns("drop")
        rule.constants = section.constants("constant")
        if rule.renames.isEmpty, rule.drops.isEmpty, rule.constants.isEmpty {
            section.complain("rename", "a rule has rename:, drop: or constant:")
        }
        return rule
    }

    // MARK: Columns

    private static func custom(_ section: inout ConfigurationSection) -> CustomOptions {
        section.require("format", "is missing: \(ConfigurationSection.list(CustomOptions.Format.self))")
        let format = section.choice("format", CustomOptions.Format.self) ?? .ndjson
        section.require("columns", "is missing: a list of {name: …, from: …}")
        var columns: [CustomOptions.Column] = []
        var names: Set<String> = []
        section.each("columns") { column in
            let read = Self.column(&column)
            if !names.insert(read.name).inserted { column.complain("name", "is given twice; remove one") }
            columns.append(read)
        }
        if columns.count > Limits.Custom.columnCountMax {
            section.complain("columns", "has at most \(Limits.Custom.columnCountMax)")
        }
        var options = CustomOptions(format: format, columns: columns)
        let kinds = section.choices("kinds", EventKind.self)
        if !kinds.isEmpty { options.kinds = KindSet(kinds) }
        if let guarded = section.flag("guard") {
            options.isGuarded = guarded
            if format == .ndjson { section.complain("guard", "is for format: csv alone; remove it") }
        }
        if let size = section.integer("record_kib", in: 1...1 << 20) { options.recordByteCountMax = size << 10 }
        if var part = section.section("part") {
            if let count = part.integer("records", in: 1...1_000_000_000) { options.recordsPerPartMax = count }
            if let size = part.integer("mib", in: 1...1 << 20) { options.partByteCountMax = size << 20 }
            section.take(&part)
        }
        return options
    }

    private static func column(_ section: inout ConfigurationSection) -> CustomOptions.Column {
        var column = CustomOptions.Column(name: section.requiredName("name"), from: section.requiredText("from"))
        if !column.from.isEmpty, !CustomOptions.isSource(column.from) {
            section.complain(
                "from",
                "is no member of an event: a name of the event schema, received_at, or data.FIELD, traits.FIELD, "
                    + "ids.FIELD, consent.FIELD")
        }
        if let type = section.choice("type", CustomOptions.ColumnType.self) { column.type = type }
        column.characterCountMax = section.integer("max", in: 1...1 << 30)
        switch column.type {
        case .string, .json: break
        case .number, .boolean, .time:
            if column.characterCountMax != nil { section.complain("max", "is for strings and JSON alone; remove it") }
        }
        column.isRequired = section.flag("required") ?? false
        column.defaultValue = section.defaultValue("default", of: column.type)
        if column.isRequired, column.defaultValue != nil {
            section.complain("required", "means nothing beside default:; remove one")
        }
        return column
    }
}
