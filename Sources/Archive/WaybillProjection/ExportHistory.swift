package import WaybillData
package import WaybillExport
package import WaybillSystem

/// The options that an export was written with so far; they decide whether other options can follow.
///
///     mapping:3 9f86d081884c7d65      version 3 of the operator's mapping had this content
///     extension csv                   custom providers: the format of the parts
package struct ExportHistory: Hashable, Sendable {
    private static var mappingPrefix: String { "mapping:" }
    private static var extensionKey: String { "extension" }

    private var entries: [String: String] = [:]

    /// Reads a live export's checkpoint; empty if no checkpoint can be read.
    package init(ofExport name: String, in data: DataDirectory<some FileSystem>) throws(FileSystemError) {
        let state = try StateImage.read(data.statePath("export-\(name)"), files: data.files)
        self.entries = (state?.entries ?? [:]).filter {
            $0.key.hasPrefix(Self.mappingPrefix) || $0.key == Self.extensionKey
        }
    }

    /// The entries for these options in an export's checkpoint.
    static func entries(of options: ExportOptions) -> [String: String] {
        var entries: [String: String] = [:]
        if let mapping = options.mapping { entries["\(Self.mappingPrefix)\(mapping.version)"] = mapping.fingerprint }
        if let custom = options.custom { entries[Self.extensionKey] = custom.format.rawValue }
        return entries
    }

    /// Whether the export was ever written with a mapping.
    package var hasMapping: Bool {
        self.entries.keys.contains { $0.hasPrefix(Self.mappingPrefix) }
    }

    /// Why the export cannot continue with these options, for people; `nil` if it can.
    package func conflict(with options: ExportOptions) -> String? {
        let name = options.provider.rawValue
        for (key, value) in Self.entries(of: options) {
            guard let known = self.entries[key], known != value else { continue }
            if key == Self.extensionKey {
                return "\(name) was written as \(known) so far, not as \(value); give the export another name"
            }
            return
                "\(options.mapping?.path ?? name): version \(options.mappingVersion) had different content when "
                + "\(name) was written with it; raise version: with every change"
        }
        return nil
    }

    /// Records options that the export continues with.
    package mutating func add(_ options: ExportOptions) {
        self.entries.merge(Self.entries(of: options)) { _, new in new }
    }
}

/// Options that a running export uses from its next batch on.
package final class PendingOptions: Sendable {
    private let options = Lock<ExportOptions?>(nil)
    private let report: @Sendable (ExportOptions, String) -> Void

    /// - Parameter applied: called on the export's thread once the options are in effect, with a report.
    package init(applied: @escaping @Sendable (_ options: ExportOptions, _ report: String) -> Void) {
        self.report = applied
    }

    /// Sets the options; the last call wins.
    package func put(_ options: ExportOptions) {
        self.options.withLock { $0 = options }
    }

    func take() -> ExportOptions? {
        self.options.withLock { options in
            defer { options = nil }
            return options
        }
    }

    /// Puts back options that could not be applied, unless there are newer ones.
    func putBack(_ options: ExportOptions) {
        self.options.withLock { if $0 == nil { $0 = options } }
    }

    func applied(_ options: ExportOptions, _ report: String) {
        self.report(options, report)
    }
}
