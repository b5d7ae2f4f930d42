internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Extracts the event from a dead letter.
struct DeadLetterReader: ~Copyable {
    private var tape = JSONTape()
    private var letter: [UInt8] = []
    /// Tape index of the event; `nil` if the letter has none.
    private var index: Int?
    /// Where the archive has the event.
    private(set) var place: PointedLines.Place?
    /// The id that the exports gave to a foreign line without one of its own.
    private var madeID: String?
    var hasEvent: Bool { self.index != nil }
    private var output = ByteBuilder()
    private var readers: EventReaders
    /// How an event is read whose stream is not at hand; `nil`: no one was erased.
    private let strayReader: EventReader?
    /// Whether the event is an erased person's.
    private(set) var isErased = false
    /// Whether the event ended the program that read it.
    private(set) var isPoison = false

    init(erased: ErasedPeople?) {
        self.readers = EventReaders(erased: erased)
        self.strayReader = erased.map {
            EventReader(source: SourceDescription(env: .prod, bundle: "unknown", isForeign: false), erased: $0)
        }
    }

    /// Whether the line is a letter with one of these reasons.
    mutating func read(_ line: [UInt8], _ reasons: Set<RefusalReason>) -> Bool {
        self.letter = line
        self.index = nil
        self.place = nil
        self.madeID = nil
        defer { self.isErased = self.isErasedEvent() }
        var place: PointedLines.Place?
        var madeID: String?
        var isPoison = false
        defer {
            self.isPoison = isPoison
            self.place = place
            self.madeID = madeID
        }
        return self.withTape { tape in
            guard let reason = tape.firstValue(of: "reason", in: 0) else { return nil }
            let name = RefusalReason(rawValue: String(decoding: tape.bytes(of: reason), as: UTF8.self))
            guard reasons.isEmpty || name.map(reasons.contains) ?? false else { return nil }
            isPoison = name == .poison
            if name != .consent, name != .unreadable { place = PointedLines.Place(tape) }
            guard let event = tape.firstValue(of: "event", in: 0), tape[event].kind == .object else { return -1 }
            if tape.firstValue(of: "id", in: event) == nil, let id = tape.firstValue(of: "id", in: 0),
                tape[id].kind == .string
            {
                madeID = String(decoding: tape.bytes(of: id), as: UTF8.self)
            }
            return event
        }
    }

    /// Whether a line of the archive is an event.
    mutating func read(_ line: UnsafeRawBufferPointer, of stream: StreamDescription, at offset: UInt64) -> Bool {
        self.letter = Array(line)
        let source = stream.sourceDescription
        let made = source.isForeign ? source.stream?.lineID(at: offset).text : nil
        var hasID = false
        let isEvent = self.withTape { tape in
            if let id = tape.firstValue(of: "id", in: 0), tape[id].kind == .string {
                hasID = LineStream.isEventID(tape.bytes(of: id))
            }
            return 0
        }
        self.madeID = hasID ? nil : made
        self.isErased =
            self.strayReader != nil && self.readers.reader(for: stream).read(line) == .quarantine(.erased)
        return isEvent
    }

    private func isErasedEvent() -> Bool {
        guard let strayReader, let index else { return false }
        let entry = self.tape[index]
        return self.letter.withUnsafeBytes { letter in
            let event = UnsafeRawBufferPointer(rebasing: letter[Int(entry.start)..<Int(entry.end)])
            return strayReader.read(event) == .quarantine(.erased)
        }
    }

    private mutating func withTape(_ body: (borrowing JSONTape) -> Int?) -> Bool {
        let letter = self.letter
        let found = letter.withUnsafeBytes { bytes -> Int? in
            self.tape.accepts(bytes, from: JSONText.byteOrderMarkByteCount(bytes)) ? body(self.tape) : nil
        }
        self.index = found.flatMap { $0 < 0 ? nil : $0 }
        return found != nil
    }

    /// Identifies the event among those that a provider refused.
    mutating func digest(_ provider: Destination) -> Digest128? {
        guard let index else { return nil }
        let entry = self.tape[index]
        let name = Array(provider.rawValue.utf8)
        return self.letter.withUnsafeBytes { letter in
            name.withUnsafeBytes { name in
                Digest128([name, UnsafeRawBufferPointer(rebasing: letter[Int(entry.start)..<Int(entry.end)])])
            }
        }
    }

    /// The event with its LF, for this provider alone: the others already have it.
    ///
    /// Its id stays the same, or is the one that was made for it, so that the provider can tell whether it has the event.
    mutating func event(for provider: Destination) -> UnsafeRawBufferPointer {
        self.output.removeAll()
        guard let index else { return self.output.bytes }
        let name = provider.subscriptionName
        let letter = self.letter
        letter.withUnsafeBytes { letter in
            self.output.append("{")
            if let madeID { self.output.append("\"id\":\"\(madeID)\",") }
            var members = self.tape.members(of: index)
            while let (key, value) = members.next(in: self.tape) {
                let quoted = (Int(self.tape[key].start) - 1)..<(Int(self.tape[key].end) + 1)
                let isEscaped = self.tape[key].traits.contains(.hasEscapes)
                let body = UnsafeRawBufferPointer(rebasing: letter[quoted.dropFirst().dropLast()])
                if JSONText.equals(body, isEscaped: isEscaped, "providers") { continue }
                let isText = self.tape[value].kind == .string
                let start = Int(self.tape[value].start) - (isText ? 1 : 0)
                let end = Int(self.tape[value].end) + (isText ? 1 : 0)
                if self.madeID != nil, JSONText.equals(body, isEscaped: isEscaped, "id") {
                    // It is that of a thing, and stays a field.
                    self.output.append("\"x_id\"")
                } else {
                    self.output.append(UnsafeRawBufferPointer(rebasing: letter[quoted]))
                }
                self.output.append(":")
                self.output.append(UnsafeRawBufferPointer(rebasing: letter[start..<end]))
                self.output.append(",")
            }
        }
        self.output.append("\"providers\":[\"\(name)\"]}\n")
        return self.output.bytes
    }
}
