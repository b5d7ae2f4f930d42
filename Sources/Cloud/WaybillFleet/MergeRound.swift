package import WaybillData
internal import WaybillJSON
internal import WaybillProtocol
package import WaybillSystem

/// One entry of the fleet's log: which pieces come next, in which order.
///
///     merge/s00/00000000000000000012.wbs
///     {"round":12,"merger":"m1","time":1795165200000,"through":1795165140000,"pieces":[{"chain":"a~…","position":0,"bytes":612,"sha256":"…"}],"crc32":"…"}
///
/// The first to create the object under the next number decides; every other merger takes the same pieces in the same order,
/// so that all of them have one journal, one archive and the same parts of exports, byte for byte. Nothing else needs an
/// agreement: no clock, no lease, no election.
///
/// - SeeAlso: `Protocol/formats/fleet.md`.
package struct MergeRound: Hashable, Sendable {
    package struct Piece: Hashable, Sendable {
        package let chain: ChainName
        package let position: JournalPosition
        package let byteCount: Int
        package let sha256: String

        package init(chain: ChainName, position: JournalPosition, byteCount: Int, sha256: String) {
            self.chain = chain
            self.position = position
            self.byteCount = byteCount
            self.sha256 = sha256
        }

        package var key: String { self.chain.key(of: self.position) }
    }

    package let number: Int
    /// Who created it; for people.
    package let merger: String
    /// The clock of who created it.
    package let time: WallTime
    /// Everything that live receivers got before it is in this round or before.
    ///
    /// Days that end by then can be sealed behind it. Never less than in the round before.
    package let through: WallTime
    package let pieces: [Piece]
    /// How many erasures apply behind it, of all that were asked for; `nil`: as many as before.
    package var erasures: Int?
    /// The numbers of lines that are not read (``SetAsideRequest``), which no round before it has named.
    package var setAsides: [Int] = []

    package static var pieceCountMax: Int { 4096 }
    package static var setAsideCountMax: Int { 64 }

    package init(number: Int, merger: String, time: WallTime, through: WallTime, pieces: [Piece]) {
        self.number = number
        self.merger = merger
        self.time = time
        self.through = through
        self.pieces = pieces
    }

    package static func key(of number: Int) -> String {
        "merge/s00/" + ZeroPadded.text(number, digitCount: 20) + ".wbs"
    }

    package var encoded: [UInt8] {
        ManifestLine.sealed(
            JSONWriter.object { json in
                json.member("round", self.number)
                json.member("merger", self.merger)
                json.member("time", self.time.milliseconds)
                json.member("through", self.through.milliseconds)
                json.member("pieces", objects: self.pieces) { json, piece in
                    json.member("chain", piece.chain.description)
                    json.member("position", piece.position.rawValue)
                    json.member("bytes", piece.byteCount)
                    json.member("sha256", piece.sha256)
                }
                if let erasures { json.member("erasures", erasures) }
                if !self.setAsides.isEmpty { json.member("set_aside", array: self.setAsides) { $0.integer(Int64($1)) } }
            })
    }

    /// Reads a round; `nil` for bytes that are none, or not the one of that number.
    package init?(_ bytes: [UInt8], number: Int) {
        guard ManifestLine.isIntact(bytes) == true, let json = JSONValue(bytes), json["round"]?.count == number,
            let merger = json["merger"]?.string, let time = json["time"]?.count, let through = json["through"]?.integer,
            let elements = json["pieces"]?.elements, elements.count <= Self.pieceCountMax,
            let pieces = elements.all(Piece.init)
        else { return nil }
        self.init(
            number: number, merger: merger, time: WallTime(milliseconds: Int64(time)),
            through: WallTime(milliseconds: Int64(through)), pieces: pieces)
        self.erasures = json["erasures"]?.count
        // Each is a request's number: more than there can be of them are none.
        self.setAsides = (json["set_aside"]?.elements ?? []).prefix(Self.setAsideCountMax).compactMap(\.count)
            .filter { (1...SetAsideRequest.countMax).contains($0) }
    }
}

extension MergeRound.Piece {
    fileprivate init?(_ json: JSONValue) {
        guard let chain = json["chain"]?.string.flatMap(ChainName.init), let position = json["position"]?.count,
            let byteCount = json["bytes"]?.count, let sha256 = json["sha256"]?.string, SHA256Digest.isText(sha256)
        else { return nil }
        self.init(chain: chain, position: JournalPosition(position), byteCount: byteCount, sha256: sha256)
    }
}
