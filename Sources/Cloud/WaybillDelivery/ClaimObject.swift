internal import WaybillFleet
internal import WaybillJSON
package import WaybillSystem

/// Who claims parts of a fleet's exports: a merger, and the state of its delivery.
///
/// The name alone would not do: of a merger that lost its disk the next one of the same name does not know what was sent.
package struct ClaimIdentity: Hashable, Sendable {
    /// 32 hexadecimal digits, from the bucket.
    package let fleet: String
    package let merger: String
    /// 32 hexadecimal digits, random; stored with the state of the delivery, and lost with it.
    package let life: String

    package init(fleet: String, merger: String, life: String) {
        (self.fleet, self.merger, self.life) = (fleet, merger, life)
    }

    /// The key of the life in the state of a delivery.
    static let stateKey = "life"

    static func isDigits(_ text: String) -> Bool {
        Hexadecimal.isText(text, digitCount: 32)
    }
}

/// An object that claims a part: whose turn it is to send it.
///
///     {"fleet":"5b0c…","merger":"m1","life":"9f3c…","time":1795165200000,"part":"env=prod/date=2026-11-20/part-00000"}
package struct ClaimHolder: Hashable, Sendable {
    package let merger: String
    package let life: String
    /// The clock of the holder, for people.
    package let time: WallTime

    package func isOwn(_ identity: ClaimIdentity) -> Bool {
        self.merger == identity.merger && self.life == identity.life
    }
}

/// The object that says that a part is finished: each record was accepted, or is in the dead letters of who wrote it.
///
///     {"fleet":"5b0c…","merger":"m1","life":"9f3c…","time":1795165260000,"records":20,"sent":19,"dead":1}
package struct ClaimDone: Hashable, Sendable {
    package let holder: ClaimHolder
    package let recordCount: Int
    /// Events.
    package let sentEventCount: Int
    package let deadEventCount: Int
}

/// What a read of a claim's object found.
package enum ClaimContent<Value: Hashable & Sendable>: Hashable, Sendable {
    case absent
    case present(Value)
    /// It cannot be read, or is another fleet's.
    case damaged
}

/// Keys and contents of a part's objects in the bucket (`Protocol/formats/fleet.md`, section 4).
package enum ClaimObject {
    /// More is not read.
    package static let byteCountMax = 4096
    /// More holders one after the other are taken for damage.
    package static let linkCountMax = 1000

    /// The key of a claim: `delivery/ga4/prod/<SHA-256>`, and with `~2`, `~3` … of who took the part over.
    package static func key(_ provider: String, _ env: String, _ sha256: String, link: Int) -> String {
        precondition(link >= 1, "links begin with 1, got \(link)")
        return "delivery/\(provider)/\(env)/\(sha256)" + (link == 1 ? "" : "~\(link)")
    }

    package static func doneKey(_ provider: String, _ env: String, _ sha256: String) -> String {
        "delivery/\(provider)/\(env)/\(sha256).done"
    }

    package static func claim(of identity: ClaimIdentity, part: String, at time: WallTime) -> [UInt8] {
        JSONWriter.object { json in
            json.member("fleet", identity.fleet)
            json.member("merger", identity.merger)
            json.member("life", identity.life)
            json.member("time", time.milliseconds)
            json.member("part", part)
        } + [0x0A]
    }

    package static func done(_ done: ClaimDone, of identity: ClaimIdentity) -> [UInt8] {
        JSONWriter.object { json in
            json.member("fleet", identity.fleet)
            json.member("merger", done.holder.merger)
            json.member("life", done.holder.life)
            json.member("time", done.holder.time.milliseconds)
            json.member("records", done.recordCount)
            json.member("sent", done.sentEventCount)
            json.member("dead", done.deadEventCount)
        } + [0x0A]
    }

    package static func claim(in bytes: [UInt8]?, fleet: String) -> ClaimContent<ClaimHolder> {
        guard let bytes else { return .absent }
        guard let json = JSONValue(bytes), let holder = Self.holder(json, fleet) else { return .damaged }
        return .present(holder)
    }

    package static func done(in bytes: [UInt8]?, fleet: String) -> ClaimContent<ClaimDone> {
        guard let bytes else { return .absent }
        guard let json = JSONValue(bytes), let holder = Self.holder(json, fleet),
            let records = json["records"]?.count, let sent = json["sent"]?.count, let dead = json["dead"]?.count
        else { return .damaged }
        return .present(
            ClaimDone(holder: holder, recordCount: records, sentEventCount: sent, deadEventCount: dead))
    }

    private static func holder(_ json: JSONValue, _ fleet: String) -> ClaimHolder? {
        guard json["fleet"]?.string == fleet, let merger = json["merger"]?.string, ChainName.isReceiver(merger),
            let life = json["life"]?.string, ClaimIdentity.isDigits(life), let time = json["time"]?.count
        else { return nil }
        return ClaimHolder(merger: merger, life: life, time: WallTime(milliseconds: Int64(time)))
    }
}
