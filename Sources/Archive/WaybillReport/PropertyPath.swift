/// Where a value that a request asks for is in a line.
package enum PropertyPath: Hashable, Sendable {
    /// A member of the line itself, such as `lang`.
    case member(String)
    /// `data.method`.
    case data(String)
    /// `traits.tier`: what the person's newest event up to this one says about them.
    case trait(String)
}

/// What an event can be selected or divided by.
enum EventField: Hashable, Sendable {
    case name, screen, kind, user, install, session, version, systemVersion, agent
    /// Whether it is the day on which its person was seen first.
    case isNew
    /// The value with an index in the request's ``RowOptions/properties``.
    case property(Int)
}
