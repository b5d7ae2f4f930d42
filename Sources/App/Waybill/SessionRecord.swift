internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// The last session of an install and the time of its last event, stored in `session.json` in its spool.
///
///     {"v":1,"anon":"b5372db0-…","session":"019550fb-…","session_n":7,"ts":"2025-03-01T09:14:15.926Z"}
///
/// A start soon after that time continues the session. The file is replaced without a sync, which `install.json` could
/// not be: after a power failure it may be old or damaged, and then a session begins whose number may repeat.
struct SessionRecord: Hashable, Sendable {
    /// The anonymous id of the session's events: after a reset the session ends.
    var anonymous: String
    var id: UniqueID
    /// The number of the session within the install.
    var number: UInt64
    /// The time of its last event, at most about a minute old.
    var last: WallTime

    static let fileName = "session.json"
    private static let byteCountMax = 1024

    /// Whether a process of the install that starts now continues the session.
    func continues(for anonymous: String, at now: WallTime) -> Bool {
        self.anonymous == anonymous
            && (now.milliseconds - self.last.milliseconds).magnitude < Moment.sessionIdleMagnitude
    }

    private var bytes: [UInt8] {
        var line = LineBuffer()
        line.append("{\"v\":1,\"anon\":")
        line.appendString(self.anonymous)
        line.append(",\"session\":")
        line.appendString(self.id.text)
        line.append(",\"session_n\":")
        line.appendDecimal(self.number)
        line.append(",\"ts\":")
        line.appendString(self.last.text)
        line.append("}\n")
        return Array(line.bytes)
    }

    /// `nil` if the bytes are not a record.
    private init?(parsing bytes: [UInt8]) {
        let members: [String: String]? = bytes.withUnsafeBytes { buffer in
            var tape = JSONTape()
            guard tape.accepts(buffer) else { return nil }
            var members: [String: String] = [:]
            var rest = tape.members(of: 0)
            while let (key, value) = rest.next(in: tape) {
                members[JSONText.string(tape.bytes(of: key))] = StoredValue.text(of: value, tape)
            }
            return members
        }
        guard let members, members["v"] == "1", let anonymous = members["anon"],
            let id = members["session"].flatMap({ UniqueID(text: $0) }),
            let number = members["session_n"].flatMap(UInt64.init), number <= EventLimits.integerMagnitudeMax,
            let last = members["ts"].flatMap({ WallTime(text: $0) })
        else { return nil }
        self.init(anonymous: anonymous, id: id, number: number, last: last)
    }

    init(anonymous: String, id: UniqueID, number: UInt64, last: WallTime) {
        self.anonymous = anonymous
        self.id = id
        self.number = number
        self.last = last
    }

    /// Reads the record of a spool; `nil` if there is none that can be read: a session begins then.
    static func read(in directory: String, on files: some FileSystem) -> SessionRecord? {
        let path = Path.join(directory, Self.fileName)
        do throws(FileSystemError) {
            return try files.contents(of: path, byteCountMax: Self.byteCountMax).flatMap { SessionRecord(parsing: $0) }
        } catch {
            return nil
        }
    }

    /// Saves the record, unless another process has saved a later session meanwhile; call it with the install's lock.
    func write(in directory: String, on files: some FileSystem) throws(FileSystemError) {
        if let found = Self.read(in: directory, on: files),
            found.number > self.number || found.number == self.number && found.anonymous != self.anonymous
        {
            return
        }
        let path = Path.join(directory, Self.fileName)
        let file = try files.open(path + ".tmp", .replace)
        do {
            defer { files.close(file) }
            try files.writeAll(file, self.bytes)
        }
        try files.rename(path + ".tmp", to: path)
    }
}
