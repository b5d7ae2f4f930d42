internal import WaybillJSON

/// Ids that usually come from a mistake and would make a provider merge many people into one.
enum PlaceholderID {
    /// Repository mixpanel/docs, import-events, "distinct_id" and "$insert_id".
    private static let all: [StaticString] = [
        "00000000-0000-0000-0000-000000000000", "anon", "anonymous", "nil", "none", "null", "n/a", "na", "undefined",
        "unknown", "<nil>", "0", "-1", "true", "false", "[]", "{}",
    ]

    /// Whether Mixpanel refuses the id.
    static func matches(_ text: TextSlice) -> Bool {
        // The longest, apart from the first, has nine bytes; the first byte excludes most UUIDs.
        if !text.isEscaped, text.body.count > 9, text.body[0] != UInt8(ascii: "0") { return false }
        return Self.all.contains { text.equals($0) }
    }
}
