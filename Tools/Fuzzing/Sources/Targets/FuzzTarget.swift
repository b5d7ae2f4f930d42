/// Something that reads bytes from outside, and what must hold whatever they are.
///
/// The same targets run in two ways: under libFuzzer (`Tools/fuzz`), and in the tests over the inputs in
/// `Tools/Fuzzing/Corpus` and seeded mutations of them.
struct FuzzTarget: Sendable {
    let name: String
    /// The longest input of a test run; of libFuzzer's, too, where bytes are decisions.
    let byteCountMax: Int
    let shape: InputShape
    /// What an input may cost under libFuzzer, which counts it.
    let bound: CostBound
    /// Throws ``Violation`` where something does not hold.
    let run: @Sendable (_ input: [UInt8]) throws -> Void

    init(
        _ name: String, _ byteCountMax: Int, _ shape: InputShape,
        _ run: @escaping @Sendable (_ input: [UInt8]) throws -> Void, costs bound: CostBound = CostBound()
    ) {
        self.name = name
        self.byteCountMax = byteCountMax
        self.shape = shape
        self.bound = bound
        self.run = run
    }

    static let all = [
        FuzzTarget("message", 5000, .messages, MessageFuzz.run),
        FuzzTarget("handshake", 1000, .messages, HandshakeFuzz.run),
        FuzzTarget("receiver-session", 300, .decisions, ReceiverSessionFuzz.run),
        FuzzTarget("sender-session", 300, .decisions, SenderSessionFuzz.run),
        FuzzTarget("sessions", 400, .decisions, SessionPairFuzz.run),
        FuzzTarget("json", 1000, .json, JSONFuzz.run),
        FuzzTarget("yaml", 600, .yaml, YAMLFuzz.run),
        FuzzTarget("http", 1500, .http, HTTPFuzz.run),
        FuzzTarget("inflate", 2000, .decisions, InflateFuzz.run),
        FuzzTarget("journal", 300, .decisions, JournalFuzz.run),
        FuzzTarget("journal-bytes", 2000, .messages, JournalFuzz.readAnything),
        FuzzTarget("state", 300, .decisions, StateFuzz.run),
        FuzzTarget("names", 600, .lines, NameFuzz.run),
        FuzzTarget("archive-index", 1500, .messages, ArchiveIndexFuzz.run),
        FuzzTarget("time-zone", 3000, .decisions, TimeZoneFuzz.run),
        // The matcher that judges tries everything.
        FuzzTarget("glob", 100, .decisions, GlobFuzz.run, costs: CostBound(steps: 10_000_000_000)),
        FuzzTarget("export", 2500, .lines, ExportFuzz.run),
        // A journal and its exports are made for each input.
        FuzzTarget("export-files", 300, .decisions, ExportFilesFuzz.run, costs: CostBound(steps: 100_000_000)),
        FuzzTarget("export-texts", 1000, .json, ExportTextsFuzz.run),
        FuzzTarget("manifest", 1500, .json, ManifestFuzz.run),
        FuzzTarget("store-answer", 2000, .xml, StoreAnswerFuzz.run),
        FuzzTarget("provider-answer", 1500, .json, ProviderAnswerFuzz.run),
        FuzzTarget("ingest-segment", 2500, .lines, IngestFuzz.segment),
        FuzzTarget("ingest-posthog", 2500, .lines, IngestFuzz.posthog),
        FuzzTarget("ingest-amplitude", 2500, .lines, IngestFuzz.amplitude),
        FuzzTarget("ingest-native", 2500, .lines, IngestFuzz.native),
        FuzzTarget("ingest-pixel", 600, .lines, IngestFuzz.pixel),
    ]
}

/// What reading an input may cost, linear in its bytes: the target's own judging is part of it.
struct CostBound: Sendable {
    /// Comparisons, allocations and allocated bytes.
    var steps = 20_000_000
    var stepsPerByte = 5_000
    /// Bytes that are allocated at one time.
    var heldByteCount = 32 << 20
    var heldByteCountPerByte = 500
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
