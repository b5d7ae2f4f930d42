public import Waybill

/// The event for a screen that has no event type of its own.
///
/// `.trackScreen("Home")` stores it. Include it in a subscription to send these screens to a provider.
public struct ScreenViewed: ScreenEvent, FieldlessEvent {
    /// The screen that appeared.
    public let screen: ScreenRef?

    /// Creates the event for a view of this screen.
    public init(_ screen: ScreenRef) {
        self.screen = screen
    }
}

/// The event for a screen that closed without another tracked one after it, for example when the app entered the
/// background.
///
/// A screen followed by another has no such event: the time spent on it is the next one's `prev_ms`. After this event,
/// the next screen names the screen it followed, without `prev_ms`.
public struct ScreenEnded: Event {
    /// The screen that closed.
    public let screen: ScreenRef?
    /// How long it was the current screen.
    public let duration: Duration

    /// Creates the event for the end of a screen.
    public init(_ screen: ScreenRef, after duration: Duration) {
        self.screen = screen
        self.duration = duration
    }

    /// "screen_end".
    public var name: String { "screen_end" }

    /// Adds `duration_ms`, in whole milliseconds.
    public func encode(into fields: inout Fields) {
        fields.put("duration_ms", Int64(self.duration / .milliseconds(1)))
    }
}

/// A screen with the event to track for it; two are equal if they are the same screen.
package struct Screen: Equatable, Sendable {
    package let ref: ScreenRef
    package let event: any ScreenEvent

    package init(_ event: some ScreenEvent) {
        // The client uses the event's name for a screen without a name.
        self.ref = event.screen ?? ScreenRef(event.name)
        self.event = event
    }

    package static func == (left: Screen, right: Screen) -> Bool {
        left.ref == right.ref
    }
}
