#if canImport(SwiftUI)
    public import SwiftUI

    extension View {
        /// Tracks this view as a screen, each time it becomes the current one.
        ///
        /// A view is tracked when the screen appears, and again when it is uncovered or the app returns to the
        /// foreground; a redraw does not count. Mark screens, not their containers: if one marked view contains
        /// another, it is undefined which one counts.
        ///
        /// - Parameters:
        ///   - name: The screen's name in reports.
        ///   - type: The type that draws the screen.
        ///   - id: Distinguishes screens with the same name; a changed id counts as another view.
        public func trackScreen(_ name: String, type: String? = nil, id: String? = nil) -> some View {
            self.trackScreen(ScreenViewed(ScreenRef(name, type: type, id: id)))
        }

        /// Tracks this view as a screen with its own event type.
        ///
        /// Each view of the screen is tracked with the event of the last redraw; a change of fields alone does not
        /// count as a view.
        public func trackScreen(_ event: some ScreenEvent) -> some View {
            self.modifier(ScreenModifier(event))
        }

        /// Tracks an event when this view appears, as often as the policy allows.
        ///
        /// Events with the same type, name and `id` count as the same, on any view; for example, pass the product's id
        /// with `.once` in a list of products.
        public func track(
            onAppear event: some Event, _ policy: AppearancePolicy = .always, id: String = ""
        ) -> some View {
            self.modifier(AppearanceModifier(event, policy, id: id))
        }

        /// Tracks an event when this view is tapped, in addition to the view's own action.
        public func track(onTap event: some Event) -> some View {
            self.modifier(TapModifier(event))
        }

        /// Sets the user when this view appears, and again whenever the id or a trait changes.
        ///
        /// A trait that is `nil` is removed; an id of `nil` means that no user is signed in.
        public func identify(_ id: String?, traits: KeyValuePairs<String, Scalar?> = [:]) -> some View {
            self.modifier(IdentityModifier(id, traits))
        }
    }

    private struct ScreenModifier<Viewed: ScreenEvent>: ViewModifier {
        /// Identifies the view for the tracker; SwiftUI keeps one for each place in the view tree.
        private final class Anchor {}

        private let event: Viewed
        @State private var anchor = Anchor()
        @Environment(\.screenTracker) private var tracker

        init(_ event: Viewed) {
            self.event = event
        }

        func body(content: Content) -> some View {
            // The event's fields may have changed, and SwiftUI reports that nowhere else.
            self.tracker?.screenRedrawn(self.event, on: self.anchor)
            return
                content
                .onAppear { self.tracker?.screenAppeared(self.event, on: self.anchor) }
                .onDisappear { self.tracker?.screenDisappeared(on: self.anchor) }
                .onNewValue(of: self.event.screen) { self.tracker?.screenChanged(to: self.event, on: self.anchor) }
        }
    }

    private struct AppearanceModifier<Tracked: Event>: ViewModifier {
        private let event: Tracked
        private let policy: AppearancePolicy
        private let id: String
        @Environment(\.screenTracker) private var tracker

        init(_ event: Tracked, _ policy: AppearancePolicy, id: String) {
            self.event = event
            self.policy = policy
            self.id = id
        }

        func body(content: Content) -> some View {
            content.onAppear { self.tracker?.track(onAppear: self.event, self.policy, id: self.id) }
        }
    }

    private struct TapModifier<Tracked: Event>: ViewModifier {
        private let event: Tracked
        @Environment(\.waybill) private var waybill

        init(_ event: Tracked) {
            self.event = event
        }

        func body(content: Content) -> some View {
            content.simultaneousGesture(TapGesture().onEnded { self.waybill?.track(self.event) })
        }
    }

    private struct IdentityModifier: ViewModifier {
        /// The values that cause the user to be set again when they change.
        private struct Identity: Equatable {
            let id: String?
            let names: [String]
            let values: [Scalar?]
        }

        private let id: String?
        private let traits: KeyValuePairs<String, Scalar?>
        @Environment(\.waybill) private var waybill

        init(_ id: String?, _ traits: KeyValuePairs<String, Scalar?>) {
            self.id = id
            self.traits = traits
        }

        func body(content: Content) -> some View {
            let identity = Identity(id: self.id, names: self.traits.map(\.key), values: self.traits.map(\.value))
            return content.onNewValue(of: identity, initial: true) {
                self.waybill?.setUser(self.id, traits: self.traits)
            }
        }
    }
#endif
