#if canImport(SwiftUI)
    public import SwiftUI

    private struct ScreenTrackerKey: EnvironmentKey {
        static let defaultValue: ScreenTracker? = nil
    }

    extension EnvironmentValues {
        /// What the modifiers of Waybill report to; `nil` where no `.waybill(_:)` is above, as in previews.
        public internal(set) var screenTracker: ScreenTracker? {
            get { self[ScreenTrackerKey.self] }
            set { self[ScreenTrackerKey.self] = newValue }
        }

        /// Where a view's own code tracks; `nil` where no `.waybill(_:)` is above, as in previews.
        public var waybill: Waybill? {
            self.screenTracker?.waybill
        }
    }

    extension View {
        /// Gives the modifiers of Waybill in this view what they report to.
        ///
        /// Put it at the root of each window, and keep the tracker for as long as the app runs. Without it the
        /// modifiers track nothing.
        public func waybill(_ tracker: ScreenTracker) -> some View {
            self.modifier(ScreenTrackerModifier(tracker))
        }
    }

    private struct ScreenTrackerModifier: ViewModifier {
        private let tracker: ScreenTracker

        init(_ tracker: ScreenTracker) {
            self.tracker = tracker
        }

        #if canImport(UIKit) && !os(watchOS)
            func body(content: Content) -> some View {
                content.environment(\.screenTracker, self.tracker)
            }
        #else
            /// Without `UIApplication`, only the scene knows whether the user sees it.
            @Environment(\.scenePhase) private var phase

            func body(content: Content) -> some View {
                content
                    .environment(\.screenTracker, self.tracker)
                    .onChange(of: self.phase) {
                        switch self.phase {
                        case .background: self.tracker.appEnteredBackground()
                        case .active: self.tracker.appEnteredForeground()
                        case .inactive: break
                        @unknown default: break
                        }
                    }
            }
        #endif
    }
#endif
