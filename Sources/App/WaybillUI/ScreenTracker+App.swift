#if canImport(UIKit) && !os(watchOS)
    internal import Foundation
    internal import UIKit

    extension ScreenTracker {
        /// Creates a tracker for the running app that follows its background and foreground changes.
        public convenience init(_ waybill: WaybillClient) {
            self.init(waybill, now: { .now })
            self.lifecycle = AppLifecycle(self)
        }
    }

    /// Reports the app's background and foreground changes to a tracker.
    private final class AppLifecycle {
        private let observers: [any NSObjectProtocol]

        init(_ tracker: ScreenTracker) {
            // Without a queue, observers run on the posting thread, which is the main thread, before the app is
            // suspended.
            self.observers = [
                NotificationCenter.default.addObserver(
                    forName: UIApplication.didEnterBackgroundNotification, object: nil, queue: nil
                ) { [weak tracker] _ in
                    MainActor.assumeIsolated { tracker?.appEnteredBackground() }
                },
                NotificationCenter.default.addObserver(
                    forName: UIApplication.willEnterForegroundNotification, object: nil, queue: nil
                ) { [weak tracker] _ in
                    MainActor.assumeIsolated { tracker?.appEnteredForeground() }
                },
            ]
        }

        deinit {
            for observer in self.observers { NotificationCenter.default.removeObserver(observer) }
        }
    }
#elseif canImport(SwiftUI)
    extension ScreenTracker {
        /// Creates a tracker for the running app; `.waybill(_:)` reports background and foreground changes to it.
        public convenience init(_ waybill: WaybillClient) {
            self.init(waybill, now: { .now })
        }
    }
#endif
