/// A backend for swift-log that stores log calls as events, in addition to the events the app tracks.
///
/// Constraints: a log call costs about twice a `track` with the same fields; its fields take at most 16 KiB of a line;
/// values marked private are never stored; a log call never causes another one.
///
///     Logger ──▶ WaybillLogHandler ──▶ metadata of handler, provider, call ──▶ WaybillClient.track ──▶ one line
///                                      merged, sorted, flattened, truncated
///
///     "data":{"level":"warning","message":"slow","logger":"shop.http","request.id":"r-1","user":"<private>"}
///
/// Life of a call: the level is compared; a call made by values of another log call, or by an observer of events, is
/// counted and ignored; metadata is merged, and each value is checked, truncated and added; truncated values are
/// counted here and in the event.
///
/// Why not every log call: events are shipped and kept for a long time, which libraries' `debug` output is not worth.
public import Logging

/// A `LogHandler` that stores log calls as events.
///
/// It has value semantics, as swift-log requires: a change of level or metadata affects only this copy.
public struct WaybillLogHandler: LogHandler {
    let label: String
    private let bridge: LogBridge
    /// The minimum level of calls to handle; initially the bridge's minimum.
    public var logLevel: Logger.Level
    /// The metadata of every event of this handler.
    public var metadata = Logger.Metadata()
    /// A provider of additional metadata for each call, such as a trace id.
    public var metadataProvider: Logger.MetadataProvider?

    /// Creates a handler for the logger with this label.
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

    /// The handler's metadata, overridden by the provider's and then by the call's, with the error's type and text.
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
