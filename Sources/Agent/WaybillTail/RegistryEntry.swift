internal import WaybillProtocol
internal import WaybillSystem

/// A stream's entry in the registry: `key=value` fields in one line of text.
///
///     v=1 kind=foreign source=web device=fe01 inode=2a birth=16f3 head=57 fingerprint=a1b2… incarnation=0
///     size=4096 modified=1790000000000000000 state=open held=1:0:1200:c0ff…,2:0:0:- past=a1b2…:1,…
///     path=/var/log/web.ndjson
///
/// It is advisory: the receiver's position wins when its proof agrees with the file. Readers ignore unknown fields.
///
/// - SeeAlso: `Protocol/formats/registry.md`.
struct RegistryEntry: Hashable {
    enum Kind: String {
        case segment
        case foreign
    }

    enum State: String {
        /// The path matches its source's patterns.
        case open
        /// The file was renamed away and is followed until it is read.
        case left
        /// The file can no longer be read; the receiver has not sealed the stream yet.
        case gone
    }

    static let version = "1"

    /// The stream's id, which is its key in the registry; empty if unknown.
    var id = ""
    var kind: Kind
    var state: State
    var source: String
    var identity: FileIdentity
    /// What the stream's id begins with.
    var stem: FileStem
    var birth: Int64
    var fingerprint: Fingerprint?
    var incarnation: Int
    /// What each receiver holds of the file.
    var held: [HeldOffset]
    /// What the fleet has stored of the file.
    var stored: StoredOffset?
    /// What a receiver took of the file before it belonged to the fleet.
    var before: BeforeFleet?
    /// The number of a foreign file's content in a fleet.
    var number: ContentNumber?
    /// The first bytes that a receiver holds in the stream of the content before.
    var earlier: EarlierBytes?
    /// How many of the first bytes are no loss though the stream lacks them.
    var keptBelow = 0
    /// The last batch ends of a foreign file's content.
    var ends: BatchEnds
    /// Which receivers disagree with a segment's bytes.
    var disputes: [SegmentDispute]
    var byteCount: Int
    var modified: Int64
    var pastHeads: [PastHead]
    /// What is still to be reported about a stream that is gone.
    var ending: TailedFile.Ending
    var path: String
    /// The path without links; `nil` if it is the same.
    var real: String?

    init(_ file: TailedFile, source: String) {
        self.kind = file.isSegment ? .segment : .foreign
        self.state =
            switch (file.reach, file.phase) {
            case (.gone, _): .gone
            case (_, .left): .left
            case (_, .following), (_, .complete), (_, .sealOffered), (_, .sealed): .open
            }
        self.source = source
        self.identity = file.identity
        self.stem = file.stem
        self.birth = file.birth
        self.fingerprint = file.fingerprint
        self.incarnation = file.incarnation
        self.held = (file.held.map { [$0] } ?? []) + file.others
        self.earlier = file.earlier
        self.keptBelow = file.keptBelow
        self.ends = file.isSegment ? BatchEnds() : file.ends.kept
        self.disputes = file.disputes
        // A file that may grow back had this content up to there, and is verified after a restart.
        let isUndecided = file.isUndecided && !file.isSegment
        self.byteCount = isUndecided ? max(file.byteCount, file.provenByteCount) : file.byteCount
        self.modified = isUndecided ? file.modified &- 1 : file.modified
        self.pastHeads = file.pastHeads
        self.ending = file.ending
        self.path = file.path
        self.real = file.real?.path
    }

    /// The greatest number of its content, in the registry and at receivers.
    var greatestIncarnation: Int {
        self.held.reduce(max(self.incarnation, self.stored?.incarnation ?? 0, self.number?.number ?? 0)) {
            max($0, $1.incarnation)
        }
    }

    var text: String {
        var text = "v=\(Self.version) kind=\(self.kind.rawValue) source=\(PercentText.encode(self.source))"
        text += " device=\(String(self.identity.device, radix: 16)) inode=\(String(self.identity.inode, radix: 16))"
        text += " birth=\(String(UInt64(bitPattern: self.birth), radix: 16))"
        if self.stem != FileStem(self.identity, birth: self.birth) { text += " stem=\(self.stem.text)" }
        if let fingerprint {
            text += " head=\(fingerprint.byteCount)"
            text += " fingerprint=\(Hexadecimal.text(fingerprint.hash, digitCount: 16))"
        }
        text += " incarnation=\(self.incarnation) size=\(self.byteCount)"
        text += " modified=\(self.modified) state=\(self.state.rawValue)"
        if self.ending != .told { text += " ending=\(self.ending.rawValue)" }
        if !self.held.isEmpty { text += " held=\(self.held.map(\.text).joined(separator: ","))" }
        if let number { text += " number=\(number.text)" }
        if let stored { text += " stored=\(stored.text)" }
        if let before { text += " before=\(before.text)" }
        if let earlier { text += " earlier=\(earlier.text)" }
        if self.keptBelow > 0 { text += " kept=\(self.keptBelow)" }
        if !self.ends.ends.isEmpty { text += " ends=\(self.ends.text)" }
        if !self.disputes.isEmpty { text += " disputed=\(self.disputes.map(\.text).joined(separator: ","))" }
        if !self.pastHeads.isEmpty {
            let heads = self.pastHeads.map { "\(Hexadecimal.text($0.hash, digitCount: 16)):\($0.nextIncarnation)" }
            text += " past=\(heads.joined(separator: ","))"
        }
        if let real { text += " real=\(PercentText.encode(real))" }
        return text + " path=\(PercentText.encode(self.path))"
    }

    /// Parses an entry; `nil` if a field is missing, repeated or out of range.
    init?(_ text: String, id: String = "") {
        guard let fields = Self.fields(of: text), fields["v"] == Self.version[...],
            let kind = fields["kind"].flatMap({ Kind(rawValue: String($0)) }),
            let state = fields["state"].flatMap({ State(rawValue: String($0)) }),
            let source = fields["source"].flatMap({ PercentText.decode($0) }), !source.isEmpty,
            let path = fields["path"].flatMap({ PercentText.decode($0) }), !path.isEmpty,
            let device = fields["device"].flatMap({ UInt64($0, radix: 16) }),
            let inode = fields["inode"].flatMap({ UInt64($0, radix: 16) }),
            let birth = fields["birth"]?.asHexadecimal,
            let incarnation = fields["incarnation"]?.asCount, let held = Self.held(of: fields["held"]),
            let byteCount = fields["size"]?.asCount, let modified = fields["modified"].flatMap({ Int64($0) })
        else { return nil }
        let fingerprint = fields["fingerprint"]?.asHexadecimal
        let head = fields["head"]?.asCount
        switch (kind, fingerprint, head) {
        case (.segment, nil, nil): self.fingerprint = nil
        case (.foreign, let hash?, let count?) where (1...Fingerprint.byteCountMax).contains(count):
            self.fingerprint = Fingerprint(hash: hash, byteCount: count)
        case (.segment, _, _), (.foreign, _, _): return nil
        }
        guard let pastHeads = Self.pastHeads(of: fields["past"]), let disputes = Self.disputes(of: fields["disputed"]),
            let ending = TailedFile.Ending(rawValue: String(fields["ending", default: "told"]))
        else { return nil }
        self.stored = fields["stored"].flatMap { StoredOffset($0) }
        self.number = fields["number"].flatMap { ContentNumber($0) }
        self.before = fields["before"].flatMap { BeforeFleet($0) }
        guard (self.stored == nil) == (fields["stored"] == nil), (self.number == nil) == (fields["number"] == nil),
            (self.before == nil) == (fields["before"] == nil)
        else { return nil }
        let own = FileStem(FileIdentity(device: device, inode: inode), birth: Int64(bitPattern: birth))
        guard let stem = fields["stem"].map({ FileStem($0) }) ?? own,
            let ends = fields["ends"].map({ BatchEnds($0) }) ?? BatchEnds()
        else { return nil }
        self.real = fields["real"].flatMap { PercentText.decode($0) }
        guard (self.real == nil) == (fields["real"] == nil), self.real != "" else { return nil }
        self.earlier = fields["earlier"].flatMap { EarlierBytes($0) }
        guard (self.earlier == nil) == (fields["earlier"] == nil),
            let keptBelow = fields["kept", default: "0"].asCount
        else { return nil }
        self.keptBelow = keptBelow
        self.ends = ends
        self.id = id
        self.kind = kind
        self.state = state
        self.source = source
        self.identity = FileIdentity(device: device, inode: inode)
        self.stem = stem
        self.birth = Int64(bitPattern: birth)
        self.incarnation = incarnation
        self.held = held
        self.disputes = disputes
        self.byteCount = byteCount
        self.modified = modified
        self.pastHeads = pastHeads
        self.ending = ending
        self.path = path
    }

    static func fields(of text: String) -> [Substring: Substring]? {
        var fields: [Substring: Substring] = [:]
        for field in text.split(separator: " ", omittingEmptySubsequences: false) {
            guard let equals = field.utf8.firstIndex(of: UInt8(ascii: "=")) else { return nil }
            let value = field[field.utf8.index(after: equals)...]
            guard fields.updateValue(value, forKey: field[..<equals]) == nil else { return nil }
        }
        return fields
    }

    /// Parses the offsets; `nil` if the text has anything else, or two offsets of one receiver.
    private static func held(of text: Substring?) -> [HeldOffset]? {
        guard let text else { return [] }
        var held: [HeldOffset] = []
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let offset = HeldOffset(item), !held.contains(where: { $0.receiver == offset.receiver }) else {
                return nil
            }
            held.append(offset)
        }
        return held.count <= KnownReceivers.countMax ? held : nil
    }

    private static func disputes(of text: Substring?) -> [SegmentDispute]? {
        guard let text else { return [] }
        var disputes: [SegmentDispute] = []
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let dispute = SegmentDispute(item), !disputes.contains(where: { $0.receiver == dispute.receiver })
            else { return nil }
            disputes.append(dispute)
        }
        return disputes.count <= KnownReceivers.countMax ? disputes : nil
    }

    private static func pastHeads(of text: Substring?) -> [PastHead]? {
        guard let text else { return [] }
        var heads: [PastHead] = []
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = item.split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count == 2, let hash = parts[0].asHexadecimal, let next = parts[1].asCount else { return nil }
            heads.append(PastHead(hash: hash, nextIncarnation: next))
        }
        return heads.count <= PastHead.countMax ? heads : nil
    }
}

extension Substring {
    var asHexadecimal: UInt64? {
        self.utf8.count <= 16 ? UInt64(self, radix: 16) : nil
    }

    /// A count or an offset: decimal, at most 2^53 - 1.
    var asCount: Int? {
        guard let first = self.utf8.first, first != UInt8(ascii: "+"), let value = Int(self) else { return nil }
        return (0...(1 << 53 - 1)).contains(value) ? value : nil
    }

    /// Two counts with a colon between them.
    var asCounts: (Int, Int)? {
        let parts = self.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let first = parts[0].asCount, let second = parts[1].asCount else { return nil }
        return (first, second)
    }
}
