public import Waybill

/// A screen that appeared and has no event type of its own.
///
/// It is what `.trackScreen("Home")` stores; name it in a subscription to give a provider those screens.
public struct ScreenViewed: ScreenEvent {
    /// The screen that appeared.
    public let screen: ScreenRef?

    /// A view of this screen.
    public init(_ screen: ScreenRef) {
        self.screen = screen
    }
}

/// The last screen that closed: the app went to the background, or what followed is no tracked screen.
///
/// A screen that is followed by another has no such event: the time spent on it is in the next one's `prev_ms`. After
/// this event the next screen says which one it followed, and no `prev_ms`.
public struct ScreenEnded: Event {
    /// The screen that closed.
    public let screen: ScreenRef?
    /// How long it was the current screen.
    public let duration: Duration

    /// The end of a screen.
    public init(_ screen: ScreenRef, after duration: Duration) {
        self.screen = screen
        self.duration = duration
    }

    /// "screen_end".
    public var name: String { "screen_end" }

    /// Puts `duration_ms`, whole milliseconds.
    public func encode(into fields: inout Fields) {
        fields.put("duration_ms", Int64(self.duration / .milliseconds(1)))
    }
}

/// A screen and the event that tells of it; two are equal when they are the same screen.
package struct Screen: Equatable, Sendable {
    package let ref: ScreenRef
    package let event: any ScreenEvent

    package init(_ event: some ScreenEvent) {
        // The client calls a screen without a name by its event's.
        self.ref = event.screen ?? ScreenRef(event.name)
        self.event = event
    }

    package static func == (left: Screen, right: Screen) -> Bool {
        left.ref == right.ref
    }
}
