#if !canImport(os)
    internal import WaybillSystem

    /// Where an event can go, the best first.
    enum Route: Int, CaseIterable {
        case journal
        case syslogDatagram
        case syslogStream

        var next: Route? { Route(rawValue: self.rawValue + 1) }
    }

    /// Which route to offer an event to; decides, and opens nothing.
    ///
    /// An event goes to the route that took the last one. When there is none, when it is gone, and when it is not the
    /// best, all are tried in order, at most once in ``searchInterval``.
    struct RouteChoice {
        /// A second of events is lost at most when a log comes back; a search is three system calls that fail.
        static let searchInterval = Duration.seconds(1)

        private var current: Route?
        private var isSearching = false
        /// When the next search may begin.
        private var searchTime = MonotonicTime(nanoseconds: .min)

        /// The route to offer an event to first; `nil` when none can be.
        mutating func first(at now: MonotonicTime) -> Route? {
            if self.current == .journal { return .journal }
            return self.search(from: .journal, at: now) ?? self.current
        }

        /// The route to offer the event to when one is gone; `nil` when none can be.
        mutating func next(after route: Route, at now: MonotonicTime) -> Route? {
            if self.current == route { self.current = nil }
            if self.isSearching {
                self.isSearching = route.next != nil
                return route.next
            }
            return self.search(from: route == .journal ? .syslogDatagram : .journal, at: now)
        }

        /// The route is there, whether it had room or not.
        mutating func found(_ route: Route) {
            self.current = route
            self.isSearching = false
        }

        private mutating func search(from route: Route, at now: MonotonicTime) -> Route? {
            guard now >= self.searchTime else { return nil }
            self.searchTime = now + Self.searchInterval
            self.isSearching = true
            return route
        }
    }
#endif
