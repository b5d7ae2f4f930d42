internal import WaybillJSON
internal import WaybillSystem

/// The file that names a fleet: `fleet-00001.json`, of which the highest number counts.
///
///     {"fleet":"<32 hex digits>","level":"stored","shards":1,"seal_seconds":300}
package struct FleetFile: Hashable, Sendable {
    /// 128 random bits in hexadecimal.
    package let fleet: String
    /// When deletion is allowed: `stored`.
    package let level: String
    package let shards: Int
    /// How often days may be sealed: where the receivers' time passes a multiple of it.
    package let sealSeconds: Int
    package let number: Int

    package static let sealSecondsUsual = 300
    package static let sealSecondsRange = 1...86_400

    private static let namePrefix = "fleet-"
    private static let byteCountMax = 64 << 10

    private init(fleet: String, sealSeconds: Int, number: Int) {
        (self.fleet, self.level, self.shards, self.number) = (fleet, "stored", 1, number)
        self.sealSeconds = sealSeconds
    }

    package static func key(_ number: Int) -> String {
        Self.namePrefix + ZeroPadded.text(number, digitCount: 5) + ".json"
    }

    /// The newest file; `nil` if the store has none.
    package static func read(from store: any ObjectStore) throws(StoreError) -> FleetFile? {
        var newest: Int?
        var pages = ListingPages(store, Self.namePrefix, isFolded: false)
        while let page = try pages.next() {
            newest = page.objects.compactMap { Self.number(of: $0.key) }.reduce(newest) { max($0 ?? 0, $1) }
        }
        guard let newest else { return nil }
        guard let bytes = try store.read(Self.key(newest), 0..<Self.byteCountMax) else {
            throw StoreError(.damaged, code: "fleet-file", detail: "\(Self.key(newest)) is listed and cannot be read")
        }
        return try FleetFile(bytes, number: newest)
    }

    /// Creates the first file, unless there is one; two callers agree on one.
    ///
    /// - Parameter random: 16 bytes.
    package static func create(
        in store: any ObjectStore, random: [UInt8], sealSeconds: Int = FleetFile.sealSecondsUsual
    ) throws(StoreError) -> (file: FleetFile, isNew: Bool) {
        precondition(random.count == 16, "\(random.count) random bytes")
        if let file = try Self.read(from: store) { return (file, false) }
        let file = FleetFile(fleet: Hexadecimal.text(random), sealSeconds: sealSeconds, number: 1)
        let creation = try store.create(Self.key(1), ObjectBody(file.bytes))
        guard let bytes = try store.read(Self.key(1), 0..<Self.byteCountMax) else {
            throw StoreError(.damaged, code: "fleet-file", detail: "\(Self.key(1)) was written and cannot be read")
        }
        let found = try FleetFile(bytes, number: 1)
        // The own content under a key that was present: the first answer was lost.
        return (found, creation == .created || found == file)
    }

    private var bytes: [UInt8] {
        JSONWriter.object { json in
            json.member("fleet", self.fleet)
            json.member("level", self.level)
            json.member("shards", self.shards)
            json.member("seal_seconds", self.sealSeconds)
        } + [0x0A]
    }

    private init(_ bytes: [UInt8], number: Int) throws(StoreError) {
        guard let json = JSONValue(bytes), let fleet = json["fleet"]?.string, fleet.utf8.count == 32,
            Hexadecimal.bytes(fleet) != nil, let level = json["level"]?.string, let shards = json["shards"]?.count
        else {
            throw StoreError(.damaged, code: "fleet-file", detail: "\(Self.key(number)) is damaged")
        }
        guard level == "stored", shards == 1 else {
            throw StoreError(
                .notAllowedHere, code: "fleet-file",
                detail:
                    "\(Self.key(number)) has the level \(PercentText.encode(String(level.prefix(20)))) and \(shards) shards",
                remedy: "use the version of Waybill that wrote it")
        }
        let sealSeconds = json["seal_seconds"].map { $0.count ?? 0 } ?? Self.sealSecondsUsual
        guard Self.sealSecondsRange.contains(sealSeconds) else {
            throw StoreError(.damaged, code: "fleet-file", detail: "\(Self.key(number)) is damaged")
        }
        (self.fleet, self.level, self.shards, self.number) = (fleet, level, shards, number)
        self.sealSeconds = sealSeconds
    }

    private static func number(of key: String) -> Int? {
        guard key.hasSuffix(".json"), key.hasPrefix(Self.namePrefix), let number = Int(key.dropFirst(6).dropLast(5)),
            number > 0, Self.key(number) == key
        else { return nil }
        return number
    }
}
