internal import WaybillData
internal import WaybillJSON
package import WaybillProtocol
package import WaybillSystem

/// What a fleet is asked not to read: one line, because reading it ends the program, under the next number.
///
///     merge/s00/set-aside/00000000000000000001.json
///     {"set_aside":1,"reader":"archive","principal":"","stream":"8f14e45f…","offset":48,"version":"0.1.0","time":1795165200000,"crc32":"…"}
///
/// A round names the numbers that apply (``MergeRound``), so that every merger has the same lines in its archive.
///
/// - SeeAlso: `Protocol/formats/fleet.md`, section 10.
package struct SetAsideRequest: NumberedRequest {
    package let number: Int
    /// Who does not read the line.
    package let reader: String
    package let stream: StreamName
    /// Where the line begins in its stream.
    package let offset: UInt64
    /// The build of who asked.
    package let version: String
    /// The clock of who asked.
    package let time: WallTime

    /// Whether nothing reads the line; it is not in the archive then, but in the quarantine.
    package var isForArchive: Bool { self.reader == "archive" }

    package static var prefix: String { "merge/s00/set-aside/" }
    /// So many lines are a fault of the program, which its operator must see.
    package static var countMax: Int { 10_000 }

    package init(
        number: Int, reader: String, stream: StreamName, offset: UInt64, version: String, time: WallTime
    ) {
        self.number = number
        self.reader = reader
        self.stream = stream
        self.offset = offset
        self.version = version
        self.time = time
    }

    package var encoded: [UInt8] {
        ManifestLine.sealed(
            JSONWriter.object { json in
                json.member("set_aside", self.number)
                json.member("reader", self.reader)
                json.member("principal", self.stream.principal)
                json.member("stream", self.stream.id.text)
                json.member("offset", Int(clamping: self.offset))
                json.member("version", self.version)
                json.member("time", self.time.milliseconds)
            })
    }

    /// Reads a request; `nil` for bytes that are none, or not the one of that number.
    package init?(_ bytes: [UInt8], number: Int) {
        guard ManifestLine.isIntact(bytes) == true, let json = JSONValue(bytes), json["set_aside"]?.count == number,
            let reader = json["reader"]?.string, !reader.isEmpty, let principal = json["principal"]?.string,
            let id = json["stream"]?.string.flatMap({ StreamID($0) }), let offset = json["offset"]?.count,
            let version = json["version"]?.string, let time = json["time"]?.count
        else { return nil }
        self.init(
            number: number, reader: reader, stream: StreamName(principal: principal, id: id), offset: UInt64(offset),
            version: version, time: WallTime(milliseconds: Int64(time)))
    }

    private func isSame(_ other: SetAsideRequest) -> Bool {
        (self.reader, self.stream, self.offset) == (other.reader, other.stream, other.offset)
    }

    /// Asks for a line not to be read, unless it was asked for before.
    ///
    /// The answer to a `PUT` may be lost, and others may ask at the same time: a number that is taken is read and compared.
    ///
    /// - Returns: the request, and whether it was there before; `nil` if there are too many.
    package static func ask(
        reader: String, _ stream: StreamName, offset: UInt64, version: String, now: WallTime,
        in store: any ObjectStore
    ) throws(StoreError) -> (request: SetAsideRequest, isRepeated: Bool)? {
        for number in 1...Self.countMax {
            let request = SetAsideRequest(
                number: number, reader: reader, stream: stream, offset: offset, version: version, time: now)
            var found = try Self.read(number, from: store)
            if found == .absent {
                if try store.create(Self.key(of: number), ObjectBody(request.encoded)) == .created {
                    return (request, false)
                }
                found = try Self.read(number, from: store)
                // Its own answer was lost.
                if found == .request(request) { return (request, false) }
            }
            if case .request(let known) = found, request.isSame(known) { return (known, true) }
        }
        return nil
    }
}
