internal import WaybillData
internal import WaybillJSON
package import WaybillSystem

/// What a fleet is asked to erase: one person, under the next number.
///
///     erasures/00000000000000000001.json
///     {"erasure":1,"kind":"user","id":"u-4711","time":1795165200000,"key":"<64 hex digits>","crc32":"…"}
///     {"erasure":1,"kind":"user","digest":"<64>","mark":"<16>","time":1795165200000,"key":"…","crc32":"…"}   afterwards
///
/// A round names how many of them apply (``MergeRound``), so that every merger erases at the same position. The key makes
/// the digests of all mergers' records (`erasures.md`); the first request brings it, and each later one repeats it.
///
/// - SeeAlso: `Protocol/formats/fleet.md`, section 6.
package struct ErasureRequest: NumberedRequest {
    /// Which member of a line has the id.
    package enum Kind: String, Hashable, Sendable {
        case user, anon
    }

    /// By what the person is known.
    package enum Person: Hashable, Sendable {
        case id(String)
        /// Once nothing in the bucket has the person's lines any more.
        case digest(String, mark: UInt64)
    }

    package let number: Int
    package let kind: Kind
    package let person: Person
    /// The clock of who asked.
    package let time: WallTime
    /// 32 random bytes, the same in all of a fleet.
    package let key: [UInt8]

    package static var prefix: String { "erasures/" }

    package init(number: Int, _ kind: Kind, _ person: Person, time: WallTime, key: [UInt8]) {
        precondition(key.count == 32, "a key of \(key.count) bytes")
        self.number = number
        self.kind = kind
        self.person = person
        self.time = time
        self.key = key
    }

    package var encoded: [UInt8] {
        ManifestLine.sealed(
            JSONWriter.object { json in
                json.member("erasure", self.number)
                json.member("kind", self.kind.rawValue)
                switch self.person {
                case .id(let id): json.member("id", id)
                case .digest(let digest, let mark):
                    json.member("digest", digest)
                    json.member("mark", Hexadecimal.text(mark, digitCount: 16))
                }
                json.member("time", self.time.milliseconds)
                json.member("key", Hexadecimal.text(self.key))
            })
    }

    /// Reads a request; `nil` for bytes that are none, or not the one of that number.
    package init?(_ bytes: [UInt8], number: Int) {
        guard ManifestLine.isIntact(bytes) == true, let json = JSONValue(bytes), json["erasure"]?.count == number,
            let kind = json["kind"]?.string.flatMap(Kind.init), let time = json["time"]?.count,
            let key = json["key"]?.string.flatMap({ Hexadecimal.bytes($0) }), key.count == 32
        else { return nil }
        let person: Person
        if let id = json["id"]?.string, !id.isEmpty {
            person = .id(id)
        } else if let digest = json["digest"]?.string, SHA256Digest.isText(digest),
            let mark = json["mark"]?.string, mark.utf8.count == 16, let mark = UInt64(mark, radix: 16)
        {
            person = .digest(digest, mark: mark)
        } else {
            return nil
        }
        self.init(number: number, kind, person, time: WallTime(milliseconds: Int64(time)), key: key)
    }

    /// Every request, in order.
    package static func all(in store: any ObjectStore) throws(StoreError) -> [ErasureRequest] {
        var requests: [ErasureRequest] = []
        while true {
            switch try Self.read(requests.count + 1, from: store) {
            case .absent: return requests
            case .request(let request): requests.append(request)
            case .unreadable:
                throw StoreError(
                    .damaged, code: "erasure", detail: "\(Self.key(of: requests.count + 1)) is damaged",
                    remedy: "put it back from the bucket's versions, or delete it if no round names it")
            }
        }
    }

    /// Asks for an erasure, unless the person was asked for before.
    ///
    /// The answer to a `PUT` may be lost, and others may ask at the same time: a number that is taken is read and compared.
    ///
    /// - Parameters:
    ///   - newKey: 32 random bytes, for the first request of a fleet.
    ///   - isSame: whether a request is for this person; it may have a digest.
    /// - Returns: the request, and whether it was there before.
    package static func ask(
        _ kind: Kind, id: String, now: WallTime, newKey: [UInt8], in store: any ObjectStore,
        isSame: (ErasureRequest) -> Bool
    ) throws(StoreError) -> (request: ErasureRequest, isRepeated: Bool) {
        while true {
            let known = try Self.all(in: store)
            if let same = known.last(where: isSame) { return (same, true) }
            let request = ErasureRequest(
                number: known.count + 1, kind, .id(id), time: now, key: known.first?.key ?? newKey)
            if try store.create(Self.key(of: request.number), ObjectBody(request.encoded)) == .created {
                return (request, false)
            }
            // Its own lost answer, or someone else's request: then the next number is asked for.
            if case .request(let found) = try Self.read(request.number, from: store), found == request {
                return (request, false)
            }
        }
    }
}
