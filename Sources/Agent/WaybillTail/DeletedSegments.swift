internal import WaybillProtocol
internal import WaybillSystem

/// A segment that was deleted because a receiver had sealed it.
struct DeletedSegment: Hashable {
    let id: String
    let byteCount: Int
    /// The ordinal of the receiver that sealed it.
    let receiver: Int
    /// The start of the receiver's process that answered, and the end of its journal then.
    let start: UInt64
    let end: UInt64

    /// Whether a receiver's journal still has what it had when it sealed the segment.
    ///
    /// `READY` names the last starts only: of an earlier one, all the starts that are named are compared.
    func isHeld(by identity: ReceiverIdentity) -> Bool {
        if identity.starts.contains(where: { $0.id == self.start }) {
            return identity.holds(start: self.start, end: self.end)
        }
        return identity.starts.count == ReceiverIdentity.startCountMax && self.end <= identity.end
            && identity.starts.allSatisfy { $0.position >= self.end }
    }

    /// One line without its LF; `time` in milliseconds since 1970.
    func text(at time: Int64) -> String {
        let fields =
            "\(time) \(self.receiver) \(Hexadecimal.text(self.start, digitCount: 16)) \(self.end)"
            + " \(self.byteCount) \(self.id)"
        return fields + " " + Self.checksum(of: fields)
    }

    /// Parses a line; `nil` for one that is torn or damaged.
    static func parsing(_ line: Substring) -> (time: Int64, segment: DeletedSegment)? {
        let fields = line.split(separator: " ", omittingEmptySubsequences: false)
        guard fields.count == 7, let time = Int64(fields[0]), let receiver = fields[1].asCount,
            let start = fields[2].asHexadecimal, let end = UInt64(fields[3]), let byteCount = fields[4].asCount,
            fields[6] == self.checksum(of: String(line[..<fields[5].endIndex]))
        else { return nil }
        let segment = DeletedSegment(
            id: String(fields[5]), byteCount: byteCount, receiver: receiver, start: start, end: end)
        return (time, segment)
    }

    private static func checksum(of text: String) -> String {
        Hexadecimal.text(FNV1a.hash(text.utf8), digitCount: 16)
    }
}

/// The segments that were deleted in the last days: what a receiver that came back older lacks, and no file holds.
///
/// Only on disk: two files of lines, the older one replaced by the newer one when that is a week old or full.
///
/// - SeeAlso: `Protocol/formats/registry.md`.
struct DeletedSegments<Files: FileSystem> {
    /// How long a deleted segment is remembered.
    static var memory: Duration { .seconds(7 * 86_400) }
    /// Two files of this length have at most 100,000 lines.
    private static var byteCountMax: Int { 5_000_000 }
    private static var pendingCountMax: Int { 10_000 }

    private let path: String
    private let files: Files
    private var pending: [DeletedSegment] = []

    var hasPending: Bool { !self.pending.isEmpty }

    init(path: String, files: Files) {
        self.path = path
        self.files = files
    }

    private var previousPath: String { self.path + ".previous" }

    mutating func add(_ segment: DeletedSegment) {
        // Only while nothing can be written.
        if self.pending.count == Self.pendingCountMax { self.pending.removeFirst(Self.pendingCountMax / 2) }
        self.pending.append(segment)
    }

    /// Makes the segments of the last moments durable; after an error, they wait for the next call.
    mutating func write(_ now: WallTime) throws(FileSystemError) {
        guard !self.pending.isEmpty else { return }
        if try self.isDone(now) { try self.files.rename(self.path, to: self.previousPath) }
        let file = try self.files.open(self.path, .append)
        defer { self.files.close(file) }
        let byteCount = try self.files.status(file).byteCount
        // A line that a crash tore ends here.
        var text = byteCount > 0 ? "\n" : ""
        for segment in self.pending { text += segment.text(at: now.milliseconds) + "\n" }
        let bytes = Array(text.utf8)
        try self.files.writeAll(file, bytes)
        try self.files.synchronize(file)
        if byteCount == 0 { try self.files.synchronizeDirectory(Path.parent(of: self.path)) }
        self.pending.removeAll()
    }

    /// Whether the present file is full, or as old as anything that is remembered.
    private func isDone(_ now: WallTime) throws(FileSystemError) -> Bool {
        guard let status = try self.files.status(at: self.path), status.byteCount > 0 else { return false }
        guard status.byteCount < Self.byteCountMax else { return true }
        let head = try self.files.contents(of: self.path, byteCountMax: 512) ?? []
        let lines = String(decoding: head, as: UTF8.self).split(separator: "\n")
        guard let first = lines.lazy.compactMap({ DeletedSegment.parsing($0) }).first else { return false }
        return !Self.remembers(first.time, now)
    }

    private static func remembers(_ time: Int64, _ now: WallTime) -> Bool {
        now.milliseconds.saturatingSum(-time) <= Self.memory.nanoseconds / 1_000_000
    }

    /// Passes the segments that are remembered to `visit`, oldest first.
    ///
    /// - Returns: when the first of them was deleted, in milliseconds since 1970; `nil` without any.
    func read(_ now: WallTime, visit: (DeletedSegment) -> Void) throws(FileSystemError) -> Int64? {
        var first: Int64?
        for path in [self.previousPath, self.path] {
            guard let bytes = try self.files.contents(of: path, byteCountMax: 2 * Self.byteCountMax) else { continue }
            for line in bytes.split(separator: UInt8(ascii: "\n")) {
                guard let (time, segment) = DeletedSegment.parsing(Substring(decoding: line, as: UTF8.self)),
                    Self.remembers(time, now)
                else { continue }
                first = first ?? time
                visit(segment)
            }
        }
        for segment in self.pending { visit(segment) }
        return first
    }
}

/// What a receiver does not hold of the segments that were delivered and deleted.
package struct MissingSegments: Hashable, Sendable {
    /// How many ids are kept.
    static let idCountMax = 8

    package internal(set) var count = 0
    package internal(set) var byteCount = 0
    /// The first ones.
    package internal(set) var ids: [String] = []
    /// What was deleted before this time is unknown, in milliseconds since 1970; `nil` when nothing is known.
    package internal(set) var knownSince: Int64?

    mutating func add(_ segment: DeletedSegment) {
        self.count += 1
        self.byteCount += segment.byteCount
        if self.ids.count < Self.idCountMax { self.ids.append(segment.id) }
    }
}
