internal import WaybillJSON
internal import WaybillSystem

/// Writes the line that remembers a refusal; its `event` is the original, ready for another try.
///
///     {"provider":…,"reason":…,"detail":…,"field":…,"limit":…,"id":…,"writer":…,"seq":…,"at":…,"mapping":…,"event":{…}}
struct DeadLetter: ~Copyable {
    private var json = JSONWriter()

    var bytes: UnsafeRawBufferPointer { self.json.output.bytes }

    /// - Parameter event: `nil` where the reason forbids to keep it, or the line is no JSON.
    mutating func write(
        _ cause: RefusalCause, provider: Destination, of event: borrowing MappedEvent, line: UnsafeRawBufferPointer?,
        at time: WallTime, mappingVersion: Int
    ) {
        self.begin(cause, provider: provider)
        self.text("id", event.text(.id))
        self.text("writer", event.text(.writer))
        self.json.key("seq")
        if let seq = event.number(.seq) { self.json.verbatim(seq) } else { self.json.null() }
        self.end(line: line, at: time, mappingVersion: mappingVersion)
    }

    /// For a line that could not be read at all.
    mutating func writeUnreadable(provider: Destination, at time: WallTime, mappingVersion: Int) {
        self.begin(RefusalCause(.unreadable, "the line is not one JSON object"), provider: provider)
        self.text("id", nil)
        self.text("writer", nil)
        self.json.key("seq")
        self.json.null()
        self.end(line: nil, at: time, mappingVersion: mappingVersion)
    }

    private mutating func begin(_ cause: RefusalCause, provider: Destination) {
        self.json.removeAll()
        self.json.beginObject()
        self.json.key("provider")
        self.json.string(provider.rawValue)
        self.json.key("reason")
        self.json.string(cause.reason.rawValue)
        self.json.key("detail")
        self.json.string(cause.detail)
        self.json.key("field")
        if let field = cause.field { self.json.string(field) } else { self.json.null() }
        self.json.key("limit")
        if let limit = cause.limit { self.json.integer(Int64(limit)) } else { self.json.null() }
    }

    private mutating func text(_ key: StaticString, _ text: TextSlice?) {
        self.json.key(key)
        if let text { self.json.string(plain: text.body) } else { self.json.null() }
    }

    private mutating func end(line: UnsafeRawBufferPointer?, at time: WallTime, mappingVersion: Int) {
        self.json.key("at")
        // A time needs no escapes: written between quotes.
        self.json.verbatim("\"")
        TimeText.append(time, to: &self.json.output)
        self.json.output.append(UInt8(ascii: "\""))
        self.json.key("mapping")
        self.json.integer(Int64(mappingVersion))
        if let line {
            self.json.key("event")
            self.json.verbatim(UnsafeRawBufferPointer(rebasing: line[JSONText.trimmed(line)]))
        }
        self.json.endObject()
        self.json.output.append(UInt8(ascii: "\n"))
    }
}
