#if canImport(SwiftUI)
    public import SwiftUI

    private struct ScreenTrackerKey: EnvironmentKey {
        static let defaultValue: ScreenTracker? = nil
    }

    extension EnvironmentValues {
        /// The tracker that Waybill's modifiers report to; `nil` without `.waybill(_:)` further up, as in previews.
        public internal(set) var screenTracker: ScreenTracker? {
            get { self[ScreenTrackerKey.self] }
            set { self[ScreenTrackerKey.self] = newValue }
        }

        /// The client for a view's own code; `nil` without `.waybill(_:)` further up, as in previews.
        public var waybill: WaybillClient? {
            self.screenTracker?.waybill
        }
    }

    extension View {
        /// Sets the tracker that Waybill's modifiers in this view report to.
        ///
        /// Apply it to the root view of each window, and keep the tracker for the lifetime of the app. Without it, the
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
            /// Identifies the window for the tracker; SwiftUI keeps one for each.
            private final class Window {}

            @State private var window = Window()
            /// The phase of this window; without `UIApplication`, none is reported for the app.
            @Environment(\.scenePhase) private var phase

            func body(content: Content) -> some View {
                content
                    .environment(\.screenTracker, self.tracker)
                    .onAppear { self.report() }
                    .onDisappear { self.tracker.windowClosed(self.window) }
                    .onNewValue(of: self.phase) { self.report() }
            }

            private func report() {
                switch self.phase {
                case .active: self.tracker.windowChanged(to: .active, self.window)
                case .inactive: self.tracker.windowChanged(to: .inactive, self.window)
                case .background: self.tracker.windowChanged(to: .background, self.window)
                @unknown default: break
                }
            }
        #endif
    }
#endif
