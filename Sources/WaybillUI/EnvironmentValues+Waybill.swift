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
        public var waybill: WaybillClient? {
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
            /// What the tracker knows the window by; SwiftUI keeps one for each.
            private final class Window {}

            @State private var window = Window()
            /// That of this window alone; without `UIApplication`, nobody says that of the app.
            @Environment(\.scenePhase) private var phase

            func body(content: Content) -> some View {
                content
                    .environment(\.screenTracker, self.tracker)
                    .onAppear { self.report() }
                    .onDisappear { self.tracker.windowClosed(self.window) }
                    .onChange(of: self.phase) { self.report() }
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
