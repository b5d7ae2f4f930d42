internal import WaybillSystem

/// The line protocol, version 1: messages, their bytes, and the two session machines.
///
/// No I/O, no clock, no thread.
///
///     agent                                        receiver
///       HELLO {…}                 ──────────────▶    checks version, token
///                                 ◀──────────────  READY {…}            limits and window
///       OPEN 1 {…}                ──────────────▶
///                                 ◀──────────────  AT 1 4096 512 9c… 88   durable position, with proof
///       BATCH 1 4096 … + payload  ──────────────▶    checked whole, journal, fdatasync
///                                 ◀──────────────  ACK 1 266240 90112
///       SEAL 1 266240             ──────────────▶
///                                 ◀──────────────  SEALED 1 512 1f… 90201   with proof: the agent may delete
///
/// Life of one batch: the agent cuts a byte range of a source at a line end, deflates it, and frames it with a line
/// that names its stream and offset. The receiver reads the line, admits the payload to its memory budget, verifies
/// checksum, inflated length and line count, appends the same bytes to its journal under the journal's own number for
/// the stream, syncs, and answers with the offset it now holds. The checksum covers the stream's id and not its number,
/// so a frame moves from a connection to the journal (and to a replica) without being encoded again.
///
/// Budget per batch: one line formatted, one parsed, no copy of the payload in this module.
///
/// - SeeAlso: `Protocol/protocol.md`; vectors in `Protocol/vectors/protocol/`.
package enum LineProtocol {
    /// The versions this code speaks, preferred first.
    package static let versions: [UInt64] = [1]
    /// The largest integer on the wire: every JSON reader represents it exactly.
    package static let integerMax: UInt64 = (1 << 53) - 1
}

/// Limits on what a peer may send; `READY` carries them to the agent.
package struct ProtocolLimits: Hashable, Sendable {
    /// A message line with its LF.
    package static let messageByteCountMax = 4096
    /// An inflated line of a source with its LF.
    package var lineByteCountMax = 1 << 20
    /// The bytes of the source in one batch.
    package var rawByteCountMax = 2 << 20
    /// The compressed bytes of one batch; incompressible input grows by less than 1 %.
    package var wireByteCountMax = (2 << 20) + (64 << 10)
    /// The lines of one batch.
    package var lineCountMax = 65_536
    /// Open streams on one connection.
    package var streamCountMax = 1 << 18
    /// Bytes of sources sent and not yet acknowledged on one connection.
    package var windowByteCount = 8 << 20
    /// How long a connection may be silent.
    package var idleMilliseconds = 90_000

    package init() {}
}

/// The short name of a stream on one connection or in one journal segment; never 0.
package struct StreamNumber: Hashable, Sendable {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) {
        self.rawValue = rawValue
    }
}

/// A byte position in a stream.
package struct StreamOffset: Hashable, Comparable, Sendable {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) {
        self.rawValue = rawValue
    }

    package static func < (left: StreamOffset, right: StreamOffset) -> Bool {
        left.rawValue < right.rawValue
    }

    package func advanced(by byteCount: Int) -> StreamOffset {
        StreamOffset(self.rawValue + UInt64(byteCount))
    }
}

/// What names a stream: ids of different principals never meet.
package struct StreamName: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The owner; empty when the receiver knows no principals.
    package let principal: String
    package let id: StreamID

    package init(principal: String, id: StreamID) {
        self.principal = principal
        self.id = id
    }

    package static func < (left: StreamName, right: StreamName) -> Bool {
        (left.principal, left.id.text) < (right.principal, right.id.text)
    }

    package var description: String {
        self.principal.isEmpty ? self.id.text : "\(self.principal)/\(self.id.text)"
    }
}

/// The id of a stream, unique forever: 1–128 bytes of letters, digits, `.`, `_`, `:` and `-`.
package struct StreamID: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    /// Returns `nil` for a text that is not a stream id.
    package init?(_ text: String) {
        guard (1...128).contains(text.utf8.count), text.utf8.allSatisfy(Self.isAllowed) else { return nil }
        self.text = text
    }

    /// Takes a text that the caller has built from allowed bytes only.
    package init(unchecked text: String) {
        assert(StreamID(text) != nil, "a stream id: \(text)")
        self.text = text
    }

    /// Whether an id may contain this byte.
    package static func isAllowed(_ byte: UInt8) -> Bool {
        byte.isNameByte || byte == UInt8(ascii: ":")
    }

    package var description: String {
        self.text
    }
}
