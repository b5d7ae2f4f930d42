package import WaybillEvent
package import WaybillJSON
package import WaybillSystem

/// Requests of other products' SDKs as lines of Waybill: pure, without a socket, a file or a clock.
///
///     method, path ──▶ IngestRoute ──▶ RequestBody (inflated, unwrapped) ──▶ IngestBatch ──▶ numbered lines of a spool
///                                                                              │
///                                                                              └──▶ faults, for the quarantine
///
/// Life of one event: its request's key names an app and an environment → the dialect finds the events in the body, as
/// positions in it → each gets an id that is the same at every retry, and a time that the sender's clock does not spoil →
/// its line is written, without a number, into the batch's buffer; an event that cannot be a line is a fault, and the
/// others continue → the store gives each line its number. An event whose properties set traits makes a second line, its
/// addition; all lines of an event are there, or none and a fault.
///
/// Memory: a body twice, its tape (16 bytes for each value), and its lines; all are given back with the request.
///
/// - SeeAlso: `Documentation/ingest.md`; requests with their lines and faults in `Protocol/vectors/ingest/`.
package enum IngestLimits {
    /// A body as it arrives, and after it was inflated.
    package static let bodyByteCountMax = 4 << 20
    /// What each byte of a compressed body may become, on average: events differ in ids, times and values, and even
    /// thousands that are alike but for these become 10 to 60 times shorter.
    package static let inflationMax = 100
    /// What a compressed body may become in any case.
    package static let inflatedByteCountMin = 256 << 10
    /// A line with its LF, as in a spool.
    package static let lineByteCountMax = 32 << 10
    /// What the storing thread adds to a line: its beginning with id, writer and number.
    package static let lineHeadByteCount = 160
    /// Events of one request.
    package static let eventCountMax = 20_000
    /// A correction of clocks that is smaller is noise of the network.
    package static let clockDifferenceMin: Int64 = 2_000
    /// The times that a sender's clock may show, the years 1 to 9999, milliseconds since 1970.
    package static let clocks: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999
    /// The times that an archive has a day for, 2000-01-01 to 2099-12-31, milliseconds since 1970.
    package static let times: ClosedRange<Int64> = 946_684_800_000...4_102_444_799_999
    /// An event's name, a user's id, and how a browser names itself (`Protocol/event.schema.json`).
    package static let nameByteCountMax = 255
    package static let userByteCountMax = 256
    package static let userAgentByteCountMax = 512
    /// A time that cannot be read, in a line.
    package static let timeByteCountMax = 64

    /// A browser's name for itself.
    package static func userAgent(_ text: String) -> String { Self.cut(text, to: Self.userAgentByteCountMax) }

    /// The beginning of a text, cut between two characters.
    static func cut(_ text: String, to byteCountMax: Int) -> String {
        guard text.utf8.count > byteCountMax else { return text }
        var end = text.utf8.index(text.utf8.startIndex, offsetBy: byteCountMax)
        while end.samePosition(in: text.unicodeScalars) == nil { end = text.utf8.index(before: end) }
        return String(text[..<end])
    }
}

/// How a request's body is to be read.
package enum Dialect: String, Hashable, Sendable, CaseIterable {
    case segment
    case native
    case posthog
    case amplitude
    case pixel
}

/// The app that a key stands for.
package struct IngestSource: Hashable, Sendable {
    package var key: String
    package var bundle: String
    package var environment: DeploymentEnvironment
    package var dialects: Set<Dialect>
    package var addressPolicy: AddressPolicy
    /// The most bytes of a day's faulty events that are kept.
    package var quarantineByteCountMax = 32 << 20

    package init(
        key: String, bundle: String, environment: DeploymentEnvironment, dialects: Set<Dialect> = Set(Dialect.allCases),
        addressPolicy: AddressPolicy = .drop
    ) {
        self.key = key
        self.bundle = bundle
        self.environment = environment
        self.dialects = dialects
        self.addressPolicy = addressPolicy
    }
}

/// What happens to the address that a request came from, or that it names.
package enum AddressPolicy: String, Hashable, Sendable, CaseIterable {
    case drop
    /// The network: 24 bits of version 4, 48 of version 6.
    case truncate
    case keep
}

/// Why an event of a request is not a line; also the name of its quarantine file.
package enum IngestFault: String, Error, Hashable, Sendable, CaseIterable {
    case notJSON = "not-json"
    case notAnObject = "not-an-object"
    case noName = "no-name"
    /// Neither a user nor an anonymous id.
    case noPerson = "no-person"
    case unknownType = "unknown-type"
    /// A time that cannot be read, or be true: the event is a line, with the time of receipt.
    case badTime = "bad-time"
    /// Traits that are not an object; of a line, an operation on traits that a line has no place for.
    case badTraits = "bad-traits"
    /// A member that the schema of events does not allow, such as a name of more than 255 bytes.
    case badMember = "bad-member"
    /// Longer than a line may be.
    case tooLong = "too-long"
}

/// The lines and faults of a request, while they are made.
package struct IngestBatch: ~Copyable {
    package internal(set) var lines: [IngestedEvents.Line] = []
    package internal(set) var faults: [IngestedEvents.Fault] = []
    private var remarks: [IngestedEvents.Fault] = []
    private var eventCount = 0
    /// The event that is read.
    private var range = 0..<0
    /// Lines one after the other.
    var json = JSONWriter(capacity: 16 << 10)

    package init() {}

    /// Whether it has more events than a request may have.
    var isTooLarge: Bool { self.lines.count + self.faults.count > IngestLimits.eventCountMax }

    /// Reads one event: all of its lines, or one fault.
    mutating func event(
        at range: Range<Int>, _ read: (inout IngestBatch) throws(IngestFault) -> Void
    ) {
        let mark = self.json.mark
        let lineCount = self.lines.count
        let remarkCount = self.remarks.count
        self.range = range
        do throws(IngestFault) {
            try read(&self)
        } catch {
            self.json.rewind(to: mark)
            self.lines.removeSubrange(lineCount...)
            self.remarks.removeSubrange(remarkCount...)
            self.faults.append(.init(reason: error, index: self.eventCount, range: range))
        }
        self.eventCount += 1
    }

    /// Notes what is wrong with the event that is read, which is a line nevertheless.
    mutating func remark(_ reason: IngestFault) {
        self.remarks.append(.init(reason: reason, index: self.eventCount, range: self.range))
    }

    package consuming func finish() -> IngestedEvents {
        IngestedEvents(
            bytes: Array(self.json.output.bytes), lines: self.lines, faults: self.faults, remarks: self.remarks,
            eventCount: self.eventCount)
    }
}

/// What a request's events became.
package struct IngestedEvents: Sendable {
    package struct Line: Hashable, Sendable {
        package let id: UniqueID
        /// The line in ``IngestedEvents/bytes`` from behind its number, with its LF.
        package let range: Range<Int>
        /// Whether it is the user event that another event's properties make.
        package let isAddition: Bool
    }

    package struct Fault: Hashable, Sendable {
        package let reason: IngestFault
        /// The event's number in the request, from 0.
        package let index: Int
        /// The event in the body.
        package let range: Range<Int>
    }

    package let bytes: [UInt8]
    package let lines: [Line]
    package let faults: [Fault]
    /// What is wrong with events that are lines nevertheless.
    package let remarks: [Fault]
    package let eventCount: Int

    /// Appends `{"v":1,"id":…,"writer":…,"seq":…,"via":…` and the rest of a line.
    ///
    /// - Parameter dialect: what the event was sent as, which the line says; `nil`: it does not.
    package func append(
        _ line: Line, number: UInt64, writer: String, via dialect: Dialect? = nil, to buffer: inout ByteBuilder
    ) {
        buffer.append("{\"v\":1,\"id\":\"")
        buffer.append(line.id.text)
        buffer.append("\",\"writer\":\"")
        buffer.append(writer)
        buffer.append("\",\"seq\":")
        buffer.append(decimal: number)
        if let dialect {
            buffer.append(",\"via\":\"")
            buffer.append(dialect.rawValue)
            buffer.append("\"")
        }
        self.bytes[line.range].withUnsafeBytes { buffer.append($0) }
    }
}

/// What a dialect knows besides the body.
package struct IngestContext: Sendable {
    package var source: IngestSource
    /// When the request came, milliseconds since 1970.
    package var receivedAt: Int64
    /// The sender's address after its source's policy; `nil`: it is dropped.
    package var address: String?
    package var userAgent: String?
    /// What makes the ids of events that bring none.
    package var generator: SeededGenerator

    package init(
        source: IngestSource, receivedAt: Int64, address: String? = nil, userAgent: String? = nil,
        generator: SeededGenerator
    ) {
        self.source = source
        self.receivedAt = receivedAt
        self.address = address
        self.userAgent = userAgent
        self.generator = generator
    }
}

extension AddressPolicy {
    /// What is kept of an address; `nil`, too, of what is not one.
    package func apply(to address: String) -> String? {
        guard self != .drop, let bytes = AddressBytes.parse(withPort: address) else { return nil }
        guard self == .truncate else { return AddressBytes.text(of: bytes) }
        let network = bytes.prefix(bytes.count == 4 ? 3 : 6)
        return AddressBytes.text(of: network + [UInt8](repeating: 0, count: bytes.count - network.count))
    }
}
