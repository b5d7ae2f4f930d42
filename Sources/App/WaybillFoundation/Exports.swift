/// Foundation's types as values of fields, and a client's configuration from an app's bundle.
///
///     struct Booked: ActionEvent, Encodable {              "at":"2025-03-01T09:14:21.403Z","price":39.9
///         let at: Date, price: Decimal
///         var name: String { "booked" }
///     }
///
/// A product of its own, because `Waybill` links no Foundation. It re-exports `Waybill`; one file of an app that imports it
/// is enough for the `Encodable` events of all files.
///
/// | Type | In the line |
/// | --- | --- |
/// | `Date` | text in the form of an event's `ts`: RFC 3339, UTC, milliseconds |
/// | `URL` | text: the absolute URL |
/// | `UUID` | text, in lower case |
/// | `Decimal` | a number if a reader with doubles gets the same digits, else text |
/// | `CGFloat` | a number |
///
/// Not `Data`: bytes are no field.
@_exported public import Waybill
