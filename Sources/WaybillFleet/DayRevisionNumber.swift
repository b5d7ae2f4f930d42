internal import WaybillJSON

/// The revision in a day's manifest.
enum DayRevisionNumber {
    static func read(_ manifest: [UInt8]) -> Int? {
        JSONValue(manifest)?["revision"]?.count
    }
}
