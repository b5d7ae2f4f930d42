#if !canImport(os)
    internal import WaybillSystem

    /// The routes for events, best first.
    enum Route: Int, CaseIterable {
        case journal
        case syslogDatagram
        case syslogStream

        var next: Route? { Route(rawValue: self.rawValue + 1) }
    }

    /// Decides which route to offer an event to; opens nothing itself.
    ///
    /// An event goes to the route that accepted the last one. If there is none, if it is gone, or if it is not the
    /// best, all are tried in order, at most once per ``searchInterval``.
    struct RouteChoice {
        /// At most one second of events is lost when a log returns; a search costs three failing system calls.
        static let searchInterval = Duration.seconds(1)

        private var current: Route?
        private var isSearching = false
        /// The earliest time of the next search.
        private var searchTime = MonotonicTime(nanoseconds: .min)

        /// The first route to offer an event to; `nil` if there is none.
        mutating func first(at now: MonotonicTime) -> Route? {
            if self.current == .journal { return .journal }
            return self.search(from: .journal, at: now) ?? self.current
        }

        /// The next route to offer the event to after one was gone; `nil` if there is none.
        mutating func next(after route: Route, at now: MonotonicTime) -> Route? {
            if self.current == route { self.current = nil }
            if self.isSearching {
                self.isSearching = route.next != nil
                return route.next
            }
            return self.search(from: route == .journal ? .syslogDatagram : .journal, at: now)
        }

        /// Records that the route exists, whether or not it had room.
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
