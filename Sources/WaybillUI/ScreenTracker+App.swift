#if canImport(UIKit) && !os(watchOS)
    internal import Foundation
    internal import UIKit

    extension ScreenTracker {
        /// Tracks the screens of the app that is running, through background and foreground.
        public convenience init(_ waybill: WaybillClient) {
            self.init(waybill, now: { .now })
            self.lifecycle = AppLifecycle(self)
        }
    }

    /// Tells a tracker when the app goes to the background and comes back.
    private final class AppLifecycle {
        private let observers: [any NSObjectProtocol]

        init(_ tracker: ScreenTracker) {
            // Without a queue they run where UIKit posts them, on the main thread, before the app is suspended.
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
        /// Tracks the screens of the app that is running; `.waybill(_:)` tells it of background and foreground.
        public convenience init(_ waybill: WaybillClient) {
            self.init(waybill, now: { .now })
        }
    }
#endif
