#if canImport(SwiftUI)
    public import SwiftUI

    extension View {
        /// Tracks this view as a screen, each time it becomes the current one.
        ///
        /// It is viewed when it appears, and again after what covered it is gone or the app came back; redrawing it
        /// is no view of it. Mark screens, not what holds them: of two in one another, chance decides.
        ///
        /// - Parameters:
        ///   - name: What reports show.
        ///   - type: The type that draws it.
        ///   - id: What tells two screens of one name apart; another id is another view.
        public func trackScreen(_ name: String, type: String? = nil, id: String? = nil) -> some View {
            self.trackScreen(ScreenViewed(ScreenRef(name, type: type, id: id)))
        }

        /// Tracks this view as a screen that has an event type of its own.
        ///
        /// Each view of it is tracked with the event that the view was last drawn with; other fields alone are no view.
        public func trackScreen(_ event: some ScreenEvent) -> some View {
            self.modifier(ScreenModifier(event))
        }

        /// Tracks an event when this view appears, as often as the policy says.
        ///
        /// Events of one type, one name and one `id` count as the same, whichever view they are on; give the product's
        /// id for `.once` in a list of products.
        public func track(
            onAppear event: some Event, _ policy: AppearancePolicy = .always, id: String = ""
        ) -> some View {
            self.modifier(AppearanceModifier(event, policy, id: id))
        }

        /// Tracks an event when this view is tapped, beside what the view itself does with the tap.
        public func track(onTap event: some Event) -> some View {
            self.modifier(TapModifier(event))
        }

        /// Says who the user is while this view is visible: when it appears, and when the id or a trait changes.
        ///
        /// A trait that is `nil` is removed; an id that is `nil` says that nobody is signed in.
        public func identify(_ id: String?, traits: KeyValuePairs<String, Scalar?> = [:]) -> some View {
            self.modifier(IdentityModifier(id, traits))
        }
    }

    private struct ScreenModifier<Viewed: ScreenEvent>: ViewModifier {
        /// What the tracker knows the view by; SwiftUI keeps one for each place in the tree.
        private final class Anchor {}

        private let event: Viewed
        @State private var anchor = Anchor()
        @Environment(\.screenTracker) private var tracker

        init(_ event: Viewed) {
            self.event = event
        }

        func body(content: Content) -> some View {
            // Its fields may be others now, and SwiftUI says so nowhere else.
            self.tracker?.screenRedrawn(self.event, on: self.anchor)
            return
                content
                .onAppear { self.tracker?.screenAppeared(self.event, on: self.anchor) }
                .onDisappear { self.tracker?.screenDisappeared(on: self.anchor) }
                .onChange(of: self.event.screen) { self.tracker?.screenChanged(to: self.event, on: self.anchor) }
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
        /// What must change for the user to be named again.
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
            return content.onChange(of: identity, initial: true) {
                self.waybill?.setUser(self.id, traits: self.traits)
            }
        }
    }
#endif
