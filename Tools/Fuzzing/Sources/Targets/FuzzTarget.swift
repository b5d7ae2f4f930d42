/// Something that reads bytes from outside, and what must hold whatever they are.
///
/// The same targets run in two ways: under libFuzzer (`Tools/fuzz`), and in the tests over the inputs in
/// `Tools/Fuzzing/Corpus` and seeded mutations of them.
struct FuzzTarget: Sendable {
    let name: String
    /// Longer inputs say nothing new.
    let byteCountMax: Int
    /// Throws ``Violation`` where something does not hold.
    let run: @Sendable (_ input: [UInt8]) throws -> Void

    static let all = [
        FuzzTarget(name: "message", byteCountMax: 5000, run: MessageFuzz.run),
        FuzzTarget(name: "handshake", byteCountMax: 1000, run: HandshakeFuzz.run),
        FuzzTarget(name: "receiver-session", byteCountMax: 300, run: ReceiverSessionFuzz.run),
        FuzzTarget(name: "sender-session", byteCountMax: 300, run: SenderSessionFuzz.run),
        FuzzTarget(name: "sessions", byteCountMax: 400, run: SessionPairFuzz.run),
        FuzzTarget(name: "json", byteCountMax: 1000, run: JSONFuzz.run),
        FuzzTarget(name: "inflate", byteCountMax: 2000, run: InflateFuzz.run),
        FuzzTarget(name: "journal", byteCountMax: 300, run: JournalFuzz.run),
        FuzzTarget(name: "state", byteCountMax: 300, run: StateFuzz.run),
        FuzzTarget(name: "names", byteCountMax: 600, run: NameFuzz.run),
        FuzzTarget(name: "archive-index", byteCountMax: 1500, run: ArchiveIndexFuzz.run),
        FuzzTarget(name: "time-zone", byteCountMax: 3000, run: TimeZoneFuzz.run),
        FuzzTarget(name: "glob", byteCountMax: 100, run: GlobFuzz.run),
        FuzzTarget(name: "export", byteCountMax: 2500, run: ExportFuzz.run),
        FuzzTarget(name: "export-files", byteCountMax: 300, run: ExportFilesFuzz.run),
        FuzzTarget(name: "export-texts", byteCountMax: 1000, run: ExportTextsFuzz.run),
        FuzzTarget(name: "ingest-segment", byteCountMax: 2500, run: IngestFuzz.segment),
        FuzzTarget(name: "ingest-posthog", byteCountMax: 2500, run: IngestFuzz.posthog),
        FuzzTarget(name: "ingest-amplitude", byteCountMax: 2500, run: IngestFuzz.amplitude),
        FuzzTarget(name: "ingest-native", byteCountMax: 2500, run: IngestFuzz.native),
        FuzzTarget(name: "ingest-pixel", byteCountMax: 600, run: IngestFuzz.pixel),
    ]
}

/// Takes an input apart into decisions; behind its end there are only zeros.
struct FuzzInput {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    var isAtEnd: Bool {
        self.position >= self.bytes.count
    }

    mutating func byte() -> UInt8 {
        guard self.position < self.bytes.count else { return 0 }
        defer { self.position += 1 }
        return self.bytes[self.position]
    }

    /// A number below `bound`, of one byte where that is enough.
    mutating func number(below bound: Int) -> Int {
        var value = Int(self.byte())
        if bound > 256 { value = value << 8 | Int(self.byte()) }
        if bound > 65_536 { value = value << 8 | Int(self.byte()) }
        return value % max(bound, 1)
    }

    mutating func bool() -> Bool {
        self.byte() & 1 == 1
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in self.byte() }
    }

    mutating func rest() -> [UInt8] {
        defer { self.position = self.bytes.count }
        return Array(self.bytes[min(self.position, self.bytes.count)...])
    }
}

/// Calls `body` with the bytes in an allocation of exactly their length, so that the address sanitizer sees a read
/// behind it.
func withExactBytes<Value>(
    _ bytes: some Collection<UInt8>, _ body: (UnsafeRawBufferPointer) throws -> Value
) rethrows -> Value {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { copy.deallocate() }
    copy.copyBytes(from: bytes)
    return try body(UnsafeRawBufferPointer(copy))
}

/// Bytes as a person can read them.
func shown(_ bytes: some Collection<UInt8>) -> String {
    String(decoding: bytes.prefix(300), as: UTF8.self).debugDescription
}
