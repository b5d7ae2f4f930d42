package import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// One history of one receiver's journal in the bucket: `collector-1~9f3c0a517be24d86`.
package struct ChainName: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let receiver: String
    /// Random, made when the chain begins.
    package let id: UInt64

    /// A chain that no one has used.
    package init(receiver: String, _ generator: inout SeededGenerator) {
        self.receiver = receiver
        self.id = generator.next()
    }

    /// - Returns: `nil` for a text that names no chain.
    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "~", omittingEmptySubsequences: false)
        guard parts.count == 2, Self.isReceiver(parts[0]), parts[1].utf8.count == 16,
            let id = UInt64(parts[1], radix: 16), Hexadecimal.text(id, digitCount: 16) == parts[1]
        else { return nil }
        self.receiver = String(parts[0])
        self.id = id
    }

    /// Whether chains can be named after a receiver: 1 to 64 of `A–Z a–z 0–9 . _ -`.
    package static func isReceiver(_ name: some StringProtocol) -> Bool {
        SkippedRange.isHolder(name)
    }

    package static func < (left: ChainName, right: ChainName) -> Bool {
        (left.receiver, left.id) < (right.receiver, right.id)
    }

    package var description: String {
        "\(self.receiver)~\(Hexadecimal.text(self.id, digitCount: 16))"
    }

    /// Its folder in the bucket, with the slash.
    package var prefix: String { "journal/\(self.description)/" }

    /// The key of the piece that begins at a position.
    package func key(of position: JournalPosition) -> String {
        self.prefix + ZeroPadded.text(position.rawValue, digitCount: 20) + ".wbj"
    }

    /// The chains in the bucket, or those of one receiver; other folders are an operator's own.
    package static func all(
        in store: any ObjectStore, of receiver: String? = nil
    ) throws(StoreError) -> [ChainName] {
        var names: [ChainName] = []
        var pages = ListingPages(store, "journal/" + (receiver.map { $0 + "~" } ?? ""), isFolded: true)
        while let page = try pages.next() {
            names += page.folders.compactMap { ChainName($0.dropFirst("journal/".utf8.count).dropLast()) }
        }
        return names
    }

    /// The position of the piece with a key in its folder; `nil` for any other object.
    func position(of key: String) -> JournalPosition? {
        Self.position(ofPiece: key.dropFirst(self.prefix.utf8.count))
    }

    /// The position in the name of a piece; `nil` for any other name.
    package static func position(ofPiece name: some StringProtocol) -> JournalPosition? {
        guard name.utf8.count == 24, name.hasSuffix(".wbj"),
            name.utf8.prefix(20).allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let value = Int(name.prefix(20)), value <= LineProtocol.integerMax
        else { return nil }
        return JournalPosition(value)
    }
}
