internal import WaybillSystem
internal import WaybillExport
internal import WaybillProjection

/// What a reload changes for running projections; each reads it once a minute.
package final class LiveSettings: Sendable {
    private struct State {
        var retention: RetentionPolicy
        /// By the projection's name.
        var cutOffSeconds: [String: Int]

        init(_ configuration: HostConfiguration) {
            self.retention = configuration.retention
            self.retention.sentExports = configuration.exports.map(\.provider).filter(\.isDelivered).map(\.rawValue)
            self.cutOffSeconds = ["archive": configuration.archiveCutOffSecond]
            for export in configuration.exports {
                self.cutOffSeconds[export.provider.rawValue] = export.cutOffSecond
            }
        }
    }

    private let state: Lock<State>

    package init(_ configuration: HostConfiguration) {
        self.state = Lock(State(configuration))
    }

    /// Applies a reloaded configuration; a projection that it no longer names keeps its cut-off.
    package func update(_ configuration: HostConfiguration) {
        let new = State(configuration)
        self.state.withLock { state in
            state.retention = new.retention
            state.cutOffSeconds.merge(new.cutOffSeconds) { $1 }
        }
    }

    /// How long sealed days are kept.
    var retention: RetentionPolicy {
        self.state.withLock { $0.retention }
    }

    /// The projections that must have read the journal before its limits delete it: with a condition on days also the
    /// exports that are sent, because a day is not delivered before they have it.
    var required: Set<String> {
        let retention = self.retention
        return Set(["archive"] + (retention.condition == .delivered ? retention.sentExports : []))
    }

    /// When the days of a projection end, in seconds after midnight of the next day.
    func cutOffSecond(of projection: String) -> Int {
        self.state.withLock { $0.cutOffSeconds[projection] ?? CutOff.usualSecondOfDay }
    }
}
