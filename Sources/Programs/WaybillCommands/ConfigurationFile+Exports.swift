import WaybillEvent
import WaybillExport

/// The exports of a receiver.
///
///     exports:
///       - {provider: ga4, zone: Asia/Seoul, env: [prod], mapping: ga4.yaml, options: {too_old: clamp}}
///       - {provider: custom, name: warehouse, file: warehouse.yaml}
extension ConfigurationFile {
    static func exports(
        _ section: inout ConfigurationSection, _ providers: ProviderRegistry
    ) -> [ExportOptions] {
        var exports: [ExportOptions] = []
        section.each("exports") { section in
            guard var options = Self.export(&section, providers) else { return section.forget() }
            if exports.contains(where: { $0.provider == options.provider }) {
                section.complain("provider", "appears twice; remove one")
            }
            section.read(ConfigurationTable.export + ConfigurationTable.options(of: options.provider), into: &options)
            // For a provider that has no options.
            section.read("options") { _ in }
            exports.append(options)
        }
        return exports
    }

    private static func export(
        _ section: inout ConfigurationSection, _ providers: ProviderRegistry
    ) -> ExportOptions? {
        let name = section.requiredText("provider")
        if name == "custom" { return Self.custom(&section, providers) }
        let provider: Destination
        do throws(UnknownProvider) {
            provider = try Destination(named: name, in: providers)
        } catch {
            if !name.isEmpty { section.complain("provider", "\(error)") }
            return nil
        }
        var options = ExportOptions(provider: provider)
        guard let path = section.value("mapping", .file) else { return options }
        let file = MappingFile.read(path)
        section.add(file.problems)
        if file.custom != nil {
            section.complain(
                "mapping", "has columns, as a custom provider's file has; name it with provider: custom, file:")
        }
        options.mapping = file.mapping
        return options
    }

    private static func custom(
        _ section: inout ConfigurationSection, _ providers: ProviderRegistry
    ) -> ExportOptions? {
        let name = section.requiredText("name")
        section.require("file")
        if section.value("mapping", .text) != nil {
            section.complain(
                "mapping", "is not for custom providers; write take:, leave:, rename: and fields: in file:")
        }
        guard let path = section.value("file", ValueType<String>.file) else { return nil }
        let file = MappingFile.read(path)
        section.add(file.problems)
        guard let provider = Destination(customName: name, in: providers) else {
            if !name.isEmpty {
                section.complain(
                    "name",
                    "must be a letter a to z and up to 31 of a to z, 0 to 9 and -, and not another provider's name")
            }
            return nil
        }
        guard file.problems.isEmpty else { return nil }
        guard let custom = file.custom, !custom.columns.isEmpty else {
            section.complain("file", "has no columns; add format: and columns:")
            return nil
        }
        var options = ExportOptions(provider: provider)
        options.mapping = file.mapping
        options.custom = custom
        return options
    }
}
