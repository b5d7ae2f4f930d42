/// A backend for swift-log: log calls become events, beside what the app tracks itself.
///
/// Constraints: a log call costs about twice a `track` of the same fields; at most 16 KiB of a line are its
/// fields; no value that is marked private is stored in clear; a log call never leads to another.
///
///     Logger ──▶ WaybillLogHandler ──▶ metadata of handler, provider, call ──▶ WaybillClient.track ──▶ one line
///                                      merged, sorted, flattened, cut
///
///     "data":{"level":"warning","message":"slow","logger":"shop.http","request.id":"r-1","user":"<private>"}
///
/// One call's life: the level is compared; a call out of another log call's own values, or from an observer of
/// events, is counted and left out; the metadata is merged and each value is judged, cut and put; what was cut is
/// counted here and in the event.
///
/// Why not every log call: events are kept for long and shipped; what libraries say at `debug` is worth neither.
public import Logging

/// A `LogHandler` whose log calls become events.
///
/// A value, as swift-log asks for: a change of level or metadata is seen by this copy alone.
public struct WaybillLogHandler: LogHandler {
    let label: String
    private let bridge: LogBridge
    /// The level from which on the logger calls; starts as the bridge's own minimum.
    public var logLevel: Logger.Level
    /// What every event of this handler says.
    public var metadata = Logger.Metadata()
    /// What says more of each call, as its task's trace.
    public var metadataProvider: Logger.MetadataProvider?

    /// A handler for the logger of that label.
    public init(
        label: String, bridge: LogBridge, metadataProvider: Logger.MetadataProvider? = LoggingSystem.metadataProvider
    ) {
        self.label = label
        self.bridge = bridge
        self.logLevel = bridge.options.minimumLevel
        self.metadataProvider = metadataProvider
    }

    /// One item of ``metadata``.
    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    /// Stores the call as an event, as `track` does.
    public func log(event: LogEvent) {
        self.bridge.record(event, by: self)
    }

    /// The handler's metadata, overridden by the provider's, overridden by the call's; with the error's type and text.
    func metadata(of event: LogEvent) -> Logger.Metadata {
        var merged = self.metadata
        if let provider = self.metadataProvider {
            merged.merge(provider.get()) { _, provided in provided }
        }
        if let explicit = event.metadata {
            merged.merge(explicit) { _, explicit in explicit }
        }
        if let error = event.error {
            merged["error.message"] = .string("\(error)")
            merged["error.type"] = "\(String(reflecting: type(of: error)), privacy: .public)"
        }
        return merged
    }
}
