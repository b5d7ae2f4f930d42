@available(watchOS, unavailable, message: "watchOS gives apps no sockets; hand the events to the app on the iPhone")
extension Dispatcher {
    #if canImport(UIKit) && !os(watchOS)
        /// Suspends the dispatcher, and drains the spool in the time that the system grants an app in the background.
        ///
        /// Call it when the app enters the background, and ``resume()`` when it returns. The background task begins before
        /// this waits for anything, and ends when it returns: then nothing is locked any more. It returns early when the
        /// system's time is over, and delivers nothing if the system grants none; the events stay in the spool.
        ///
        /// - Parameter limit: the longest time to use; the system grants about 30 seconds.
        @available(iOSApplicationExtension, unavailable, message: "Use drain(until:) in the extension's own time.")
        @available(tvOSApplicationExtension, unavailable, message: "Use drain(until:) in the extension's own time.")
        @available(visionOSApplicationExtension, unavailable, message: "Use drain(until:) in the extension's own time.")
        @MainActor @discardableResult
        public func drainInBackground(atMost limit: Duration = .seconds(25)) async -> DispatchResult {
            await self.drain(in: ApplicationTime(), atMost: limit)
        }
    #endif

    /// Suspends the dispatcher, and drains the spool in granted time.
    @MainActor
    package func drain(in time: some BackgroundTime, atMost limit: Duration) async -> DispatchResult {
        let expiry = Expiry()
        // Before anything is awaited: the app may be suspended from then on.
        guard let grant = time.begin({ expiry.expired() }) else {
            await self.suspend()
            return .failed(
                DispatchFailure(
                    code: .deadline,
                    message: "the system granted no time in the background; the events are sent in the next round"))
        }
        defer { time.end(grant) }
        let deadline = ContinuousClock.now + min(limit, grant.rest)
        let drain = Task {
            await self.suspend()
            return await self.drain(until: deadline)
        }
        expiry.ends(drain)
        return await withTaskCancellationHandler {
            await drain.value
        } onCancel: {
            drain.cancel()
        }
    }
}

/// Ends a drain when the system's time is over, which may be before the drain has begun.
@MainActor
private final class Expiry {
    private var drain: Task<DispatchResult, Never>?
    private var isOver = false

    func ends(_ drain: Task<DispatchResult, Never>) {
        self.drain = drain
        if self.isOver { drain.cancel() }
    }

    func expired() {
        self.isOver = true
        self.drain?.cancel()
    }
}
