import WaybillExport
import WaybillYAML

/// Makes the keys of an export's section `options` from what its provider says of them.
struct ExportOptionKeys: ProviderOptionKeys {
    func flag(
        _ name: String, _ path: WritableKeyPath<ExportOptions, Bool>, _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        self.key(name, .flag, path, help)
    }

    func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String, _ path: WritableKeyPath<ExportOptions, Choice>, _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        self.key(name, .choice, path, help)
    }

    func integer(
        _ name: String, _ range: ClosedRange<Int>, _ path: WritableKeyPath<ExportOptions, Int>, _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        self.key(name, .integer(range), path, help)
    }

    func byteCount(
        _ name: String, _ range: ClosedRange<Int>, _ path: WritableKeyPath<ExportOptions, Int>, _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        let text = "\(range.lowerBound) to \(range.upperBound)"
        let rule = "0 for no limit, or a whole number from \(text)"
        let type = ValueType<Int>.scalar("whole number", range: text, rule: rule, show: { "\($0)" }) { node in
            node.int.flatMap { $0 == 0 || range ~= $0 ? $0 : nil }
        }
        return self.key(name, type, path, unit: "bytes", help)
    }

    func text(
        _ name: String, _ path: WritableKeyPath<ExportOptions, String>, _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        self.key(name, .text, path, help)
    }

    func text(
        _ name: String, rule: String, isValid: @escaping (String) -> Bool,
        _ path: WritableKeyPath<ExportOptions, String>, _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        self.key(name, .text(rule: rule, isValid: isValid), path, help)
    }

    func text(
        _ name: String, rule: String, isValid: @escaping (String) -> Bool,
        optional path: WritableKeyPath<ExportOptions, String?>, default fallback: String, example: String,
        _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        ConfigurationKey(
            name, in: "options", .text(rule: rule, isValid: isValid), optional: path, applies: .reload,
            default: fallback, example: example, help)
    }

    private func key<Value>(
        _ name: String, _ type: ValueType<Value>, _ path: WritableKeyPath<ExportOptions, Value>, unit: String = "",
        _ help: String
    ) -> ConfigurationKey<ExportOptions> {
        ConfigurationKey(name, in: "options", type, path, unit: unit, applies: .reload, help)
    }
}
