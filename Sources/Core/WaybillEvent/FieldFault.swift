/// A value that an event's type could not store, for the message to the app's developers.
package struct FieldFault: Hashable, Sendable {
    /// The name of the field, or of the properties; empty for the whole event.
    package let field: String
    /// The Swift type of the value.
    package let type: String
    /// What to change in the app.
    package let remedy: String
}

extension FieldFault {
    /// Only the error's type is named: its text may hold the value.
    static func failed(_ field: String, _ type: Any.Type, _ error: any Error) -> FieldFault {
        FieldFault(
            field: field, type: String(reflecting: type),
            remedy: "its encode(to:) threw \(String(reflecting: Swift.type(of: error))): the value is left out")
    }
}
