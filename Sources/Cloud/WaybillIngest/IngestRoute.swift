/// What a request asks for, by its method and path.
package enum IngestRoute: Hashable, Sendable {
    /// Events. Segment's single calls say the event's type by their path.
    case events(Dialect, type: SegmentType?)
    /// Segment's SDKs ask for settings, which name the host that they send to from then on.
    case settings(key: String)
    /// PostHog's SDKs ask for feature flags; there are none.
    case flags
    case script

    /// - Parameter path: without its query.
    /// - Throws: how many methods it has: none, or others.
    package init(method: String, path: Substring) throws(Refusal) {
        let end = path.utf8.lastIndex { $0 != UInt8(ascii: "/") }
        let path = end.map { Substring(path.utf8[...$0]) } ?? path.prefix(1)
        guard let (route, allowed) = Self.known(path) else { throw .notFound }
        guard allowed.contains(method) else { throw .method(allowed: allowed) }
        self = route
    }

    package enum Refusal: Error, Hashable, Sendable {
        case notFound
        case method(allowed: [String])
    }

    private static func known(_ path: Substring) -> (IngestRoute, [String])? {
        switch path {
        case "/v1/b", "/v1/batch", "/v1/import": return (.events(.segment, type: nil), ["POST"])
        case "/v1/events": return (.events(.native, type: nil), ["POST"])
        case "/v1/pixel.gif": return (.events(.pixel, type: nil), ["GET"])
        case "/waybill.js": return (.script, ["GET", "HEAD"])
        // Amplitude's SDKs send there, too; `IngestBody` tells.
        case "/batch": return (.events(.posthog, type: nil), ["POST"])
        // In a query, too, where a page closes.
        case "/e", "/i/v0/e", "/capture": return (.events(.posthog, type: nil), ["POST", "GET"])
        case "/2/httpapi": return (.events(.amplitude, type: nil), ["POST"])
        case "/flags", "/decide": return (.flags, ["POST", "GET"])
        default: break
        }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        if parts.count == 3, parts[0].isEmpty, parts[1] == "v1", let type = SegmentType(path: parts[2]) {
            return (.events(.segment, type: type), ["POST"])
        }
        if parts.count == 5, parts[1] == "v1", parts[2] == "projects", parts[4] == "settings" {
            return (.settings(key: String(parts[3])), ["GET"])
        }
        return nil
    }
}

/// The type of one of Segment's calls.
package enum SegmentType: String, Hashable, Sendable, CaseIterable {
    case track
    case identify
    case page
    case screen
    case group
    case alias

    /// - Parameter path: the last part of a path: `track`, or `t`.
    init?(path: Substring) {
        guard let type = Self.allCases.first(where: { $0.rawValue == path || $0.letter == path }) else { return nil }
        self = type
    }

    private var letter: String { String(self.rawValue.prefix(1)) }
}
