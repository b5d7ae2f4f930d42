internal import WaybillJSON
internal import WaybillSystem

/// Writes the line that records a refusal and where the refused line is; its `event`, if it is kept, is the original.
///
///     {"provider":…,"reason":…,"detail":…,"field":…,"limit":…,"id":…,"writer":…,"seq":…,"at":…,"mapping":…,
///      "principal":…,"stream":…,"offset":…,"event":{…}}
struct DeadLetter: ~Copyable {
    private var json = JSONWriter()

    var bytes: UnsafeRawBufferPointer { self.json.output.bytes }

    /// - Parameters:
    ///   - place: the line's stream, if it is known.
    ///   - line: `nil` if it is not kept.
    mutating func write(
        _ cause: RefusalCause, provider: Destination, of event: borrowing MappedEvent, place: LineStream?,
        line: UnsafeRawBufferPointer?, at time: WallTime, mappingVersion: Int
    ) {
        self.begin(cause, provider: provider)
        self.text("id", event.id)
        self.text("writer", event.text(.writer))
        self.json.key("seq")
        if let seq = event.number(.seq) { self.json.verbatim(seq) } else { self.json.null() }
        self.end(
            place: place.map { ($0, event.streamOffset) }, line: line, at: time, mappingVersion: mappingVersion)
    }

    /// Writes the dead letter of a line that could not be read at all.
    mutating func writeUnread(
        _ cause: RefusalCause, provider: Destination, place: (LineStream, UInt64)?, at time: WallTime,
        mappingVersion: Int
    ) {
        self.begin(cause, provider: provider)
        self.text("id", nil)
        self.text("writer", nil)
        self.json.member("seq", verbatim: "null")
        self.end(place: place, line: nil, at: time, mappingVersion: mappingVersion)
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

    private mutating func end(
        place: (stream: LineStream, offset: UInt64)?, line: UnsafeRawBufferPointer?, at time: WallTime,
        mappingVersion: Int
    ) {
        self.json.key("at")
        // A time needs no escapes.
        self.json.verbatim("\"")
        TimeText.append(time, to: &self.json.output)
        self.json.output.append(UInt8(ascii: "\""))
        self.json.member("mapping", mappingVersion)
        if let place {
            if !place.stream.principal.isEmpty { self.json.member("principal", place.stream.principal) }
            self.json.member("stream", place.stream.id)
            self.json.member("offset", Int(place.offset))
        }
        if let line {
            self.json.member("event", verbatim: UnsafeRawBufferPointer(rebasing: line[JSONText.trimmed(line)]))
        }
        self.json.endObject()
        self.json.output.append(UInt8(ascii: "\n"))
    }
}
