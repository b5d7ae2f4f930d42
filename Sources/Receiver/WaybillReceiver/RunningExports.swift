internal import WaybillSystem
internal import WaybillExport
internal import WaybillProjection

/// The exports of a running receiver, and the options that each continues with.
///
/// All or nothing: when one export cannot continue with its new options, all keep their old ones.
final class RunningExports: Sendable {
    private struct Export {
        var options: ExportOptions
        var history: ExportHistory
        let pending: PendingOptions
    }

    private struct State {
        var exports: [String: Export] = [:]
        /// Options for exports that had not started yet.
        var early: [String: ExportOptions] = [:]
    }

    private let names: Set<String>
    private let state = Lock(State())

    /// - Parameter names: the exports that will be added.
    init(names: Set<String>) {
        self.names = names
    }

    /// Adds an export that is about to start.
    ///
    /// - Returns: why it cannot continue with the options of an earlier reload, if it cannot.
    func add(_ options: ExportOptions, _ history: ExportHistory, _ pending: PendingOptions) -> String? {
        self.state.withLock { state in
            let name = options.provider.rawValue
            var export = Export(options: options, history: history, pending: pending)
            export.history.add(options)
            defer { state.exports[name] = export }
            guard let early = state.early.removeValue(forKey: name) else { return nil }
            if let conflict = export.history.conflict(with: early) { return conflict }
            export.options = early
            export.history.add(early)
            pending.put(early)
            return nil
        }
    }

    /// Gives each running export its new options.
    ///
    /// - Returns: why exports cannot continue with theirs; if there is any reason, nothing changed.
    func reload(_ options: [ExportOptions]) -> [String] {
        self.state.withLock { state in
            let conflicts = options.compactMap { state.exports[$0.provider.rawValue]?.history.conflict(with: $0) }
            guard conflicts.isEmpty else { return conflicts }
            for new in options {
                let name = new.provider.rawValue
                guard self.names.contains(name), state.exports[name]?.options.fingerprint != new.fingerprint else {
                    continue
                }
                if let export = state.exports[name] {
                    state.exports[name]?.options = new
                    state.exports[name]?.history.add(new)
                    export.pending.put(new)
                } else {
                    state.early[name] = new
                }
            }
            return []
        }
    }
}
