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

    /// Reads a file; an unreadable file is a problem.
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
            root = try ConfigurationFile.compose(yaml, hint: "is empty; begin it with version: 1")
        } catch {
            self.problems = [error.inFile(path)]
            return
        }
        var section = ConfigurationSection(root, path: "", directory: Path.parent(of: path))
        self.read(&section, path: path)
        section.finish()
        self.problems = section.problems.sorted { $0.line < $1.line }.map { $0.inFile(path) }
        if !self.problems.isEmpty {
            self.mapping = nil
            self.custom = nil
        }
    }

    private mutating func read(_ section: inout ConfigurationSection, path: String) {
        section.require("version", "a whole number from 1, raised with every change")
        var rules = OperatorMapping.Rules(version: section.value("version", .integer(1...999_999_999)) ?? 1)
        rules.take = section.read("take", Self.selection) ?? rules.take
        rules.leave = section.read("leave", Self.selection) ?? rules.leave
        rules.renames = section.value("rename", .renames) ?? []
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
        selection.kinds = section.value("kinds", ValueType<EventKind>.choices) ?? []
        selection.names = section.value("names", .patterns) ?? []
        selection.apps = section.value("apps", .patterns) ?? []
        selection.environments = section.value("env", ValueType<DeploymentEnvironment>.choices) ?? []
        return selection
    }

    private static func fieldRule(_ section: inout ConfigurationSection) -> OperatorMapping.FieldRule {
        var rule = OperatorMapping.FieldRule()
        rule.names = section.value("names", .patterns) ?? []
        rule.renames = section.value("rename", .renames) ?? []
        rule.drops = section.value("drop", .patterns) ?? []
        rule.constants = section.value("constant", .constants) ?? []
        if rule.renames.isEmpty, rule.drops.isEmpty, rule.constants.isEmpty {
            section.complain("rename", "is missing: a rule needs rename:, drop: or constant:")
        }
        return rule
    }

    // MARK: Columns

    private static func custom(_ section: inout ConfigurationSection) -> CustomOptions {
        section.require("format", choiceList(CustomOptions.Format.self))
        let format = section.value("format", ValueType<CustomOptions.Format>.choice) ?? .ndjson
        section.require("columns", "a list of {name: …, from: …}")
        var columns: [CustomOptions.Column] = []
        var names: Set<String> = []
        section.each("columns") { column in
            let read = Self.column(&column)
            if !names.insert(read.name).inserted { column.complain("name", "appears twice; remove one") }
            columns.append(read)
        }
        if columns.count > Limits.Custom.columnCountMax {
            section.complain("columns", "has at most \(Limits.Custom.columnCountMax)")
        }
        var options = CustomOptions(format: format, columns: columns)
        if let kinds = section.value("kinds", ValueType<EventKind>.choices) { options.kinds = KindSet(kinds) }
        if let guarded = section.value("guard", .flag) {
            options.isGuarded = guarded
            if format == .ndjson { section.complain("guard", "is for format: csv only; remove it") }
        }
        if let size = section.value("record_kib", .integer(1...1 << 20, factor: 1 << 10)) {
            options.recordByteCountMax = size
        }
        section.read("part") { part in
            if let count = part.value("records", .integer(1...1_000_000_000)) { options.recordsPerPartMax = count }
            if let size = part.value("mib", .integer(1...1 << 20, factor: 1 << 20)) {
                options.partByteCountMax = size
            }
        }
        return options
    }

    private static func column(_ section: inout ConfigurationSection) -> CustomOptions.Column {
        section.require("name")
        var column = CustomOptions.Column(
            name: section.value("name", .name) ?? "", from: section.requiredText("from"))
        if !column.from.isEmpty, !CustomOptions.isSource(column.from) {
            section.complain(
                "from",
                "must be a member of an event: a name of the event schema, received_at, or data.FIELD, traits.FIELD, "
                    + "traits_once.FIELD, traits_add.FIELD, ids.FIELD, consent.FIELD")
        }
        if let type = section.value("type", ValueType<CustomOptions.ColumnType>.choice) { column.type = type }
        column.characterCountMax = section.value("max", .integer(1...1 << 30))
        switch column.type {
        case .string, .json: break
        case .number, .boolean, .time:
            if column.characterCountMax != nil { section.complain("max", "is for strings and JSON only; remove it") }
        }
        column.isRequired = section.value("required", .flag) ?? false
        column.defaultValue = section.value("default", .columnDefault(of: column.type))
        if column.isRequired, column.defaultValue != nil {
            section.complain("required", "has no effect with default:; remove one")
        }
        return column
    }
}
