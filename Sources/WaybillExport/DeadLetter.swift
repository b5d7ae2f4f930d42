internal import WaybillJSON
internal import WaybillSystem

/// Writes the line that records a refusal; its `event` is the original and can be exported again.
///
///     {"provider":…,"reason":…,"detail":…,"field":…,"limit":…,"id":…,"writer":…,"seq":…,"at":…,"mapping":…,"event":{…}}
struct DeadLetter: ~Copyable {
    private var json = JSONWriter()

    var bytes: UnsafeRawBufferPointer { self.json.output.bytes }

    /// - Parameter event: `nil` if the reason forbids keeping it or the line is not JSON.
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

    /// Writes the dead letter of a line that could not be read at all.
    mutating func writeUnreadable(provider: Destination, at time: WallTime, mappingVersion: Int) {
        self.begin(RefusalCause(.unreadable, "the line is not one JSON object"), provider: provider)
        self.text("id", nil)
        self.text("writer", nil)
        self.json.member("seq", verbatim: "null")
        self.end(line: nil, at: time, mappingVersion: mappingVersion)
    }

    private mutating func begin(_ cause: RefusalCause, provider: Destination) {
        self.json.removeAll()
        self.json.beginObject()
        self.json.member("provider", provider.rawValue)
        self.json.member("reason", cause.reason.rawValue)
        self.json.member("detail", cause.detail)
        self.json.member("field", cause.field)
        self.json.member("limit", cause.limit)
    }

    private mutating func text(_ key: StaticString, _ text: TextSlice?) {
        self.json.key(key)
        if let text { self.json.string(plain: text.body) } else { self.json.null() }
    }

    private mutating func end(line: UnsafeRawBufferPointer?, at time: WallTime, mappingVersion: Int) {
        self.json.key("at")
        // A time needs no escapes.
        self.json.verbatim("\"")
        TimeText.append(time, to: &self.json.output)
        self.json.output.append(UInt8(ascii: "\""))
        self.json.member("mapping", mappingVersion)
        if let line {
            self.json.member("event", verbatim: UnsafeRawBufferPointer(rebasing: line[JSONText.trimmed(line)]))
        }
        self.json.endObject()
        self.json.output.append(UInt8(ascii: "\n"))
    }
}
