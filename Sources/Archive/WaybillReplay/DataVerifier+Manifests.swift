internal import WaybillCompression
internal import WaybillData
internal import WaybillProjection
internal import WaybillSystem

/// Verifies what says that a day or a part is finished: manifests of days, `_SUCCESS`, `.delivered`.
extension DataVerifier {
    /// Verifies `_SUCCESS` and the manifest of an export's day, which exist together.
    mutating func verifySeal(of check: ExportCheck, _ folder: String, _ names: [String]) throws(FileSystemError) {
        let path = Path.join(folder, DayFolder.manifestName)
        // A seal under way writes both, one after the other; without a later checkpoint the day is sealed again.
        let isUnderWay = ["seal:", "unmarked:"].contains { check.entries[$0 + folder] != nil }
        let isSealed = names.contains(DayFolder.manifestName)
        try self.verifySuccess(folder, isSealed: isSealed, isUnderWay: isUnderWay)
        guard isSealed, let bytes = try self.data.files.contents(of: self.absolute(path)) else {
            let revision = check.entries["part:" + folder].flatMap { text in
                text.split(separator: " ").first { $0.hasPrefix("revision=") }
            }
            if revision != nil, !isSealed, !isUnderWay {
                self.report.add(Problem(.missing, path, "the day is sealed, but its manifest does not exist"))
            }
            return
        }
        guard let manifest = ExportDayManifest(json: bytes) else {
            return self.report.add(
                Problem(.damaged, path, at: 0, byteCount: bytes.count, "it is not a readable manifest"))
        }
        self.verifyChecksum(of: bytes, path)
        if !manifest.describes(folder) {
            self.report.add(Problem(.disagreement, path, "it is of another folder"))
        }
        var sum = ExportTotals()
        var isWhole = true
        for part in manifest.parts {
            let stem = part.name.prefix { $0 != "." }
            let own = try self.data.files.contents(of: self.absolute("\(folder)/\(stem).manifest.json"))
                .flatMap(PartManifest.init(json:))
            if let own { sum.add(own.totals) } else { isWhole = false }
            let isThere = try self.data.files.status(at: self.absolute("\(folder)/\(part.name)")) != nil
            if isThere, own.map({ ExportDayManifest.Part(name: part.name, $0) }) == part { continue }
            self.report.add(
                Problem(.disagreement, path, "its entry for \(part.name) differs from the part's own manifest"))
        }
        guard isWhole else { return }
        if let contradiction = manifest.totals.contradiction(to: sum) {
            self.report.add(
                Problem(.disagreement, path, "its totals are not the sums over its parts' manifests: \(contradiction)"))
        }
    }

    /// Verifies the checksum in a readable manifest.
    mutating func verifyChecksum(of manifest: [UInt8], _ path: String) {
        guard ManifestLine.isIntact(manifest) == false else { return }
        self.report.add(
            Problem(.damaged, path, at: 0, byteCount: manifest.count, "it does not match the checksum in it"))
    }

    /// `_SUCCESS` exists where a manifest does, and is empty.
    mutating func verifySuccess(
        _ folder: String, isSealed: Bool, isUnderWay: Bool
    ) throws(FileSystemError) {
        let path = Path.join(folder, DayFolder.successName)
        guard let status = try self.data.files.status(at: self.absolute(path)) else {
            guard isSealed, !isUnderWay, !self.isInUse else { return }
            return self.report.add(
                Problem(.missing, path, "the day's manifest exists: readers that wait for _SUCCESS skip the day"))
        }
        if status.byteCount > 0 {
            self.report.add(
                Problem(.unexplained, path, at: 0, byteCount: status.byteCount, "this file is always empty"))
        }
        if !isSealed, !isUnderWay, !self.isInUse {
            self.report.add(Problem(.disagreement, path, "the day has no manifest: readers take it for finished"))
        }
    }

    /// A part's mark of its delivery names the part's content.
    mutating func verifyDelivered(_ stem: String, _ facts: PartManifest?) throws(FileSystemError) {
        let path = stem + ".delivered"
        guard let facts, let bytes = try self.data.files.contents(of: self.absolute(path)) else { return }
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        let isNamed = lines[0].elementsEqual(facts.sha256.utf8)
        let isWhole = lines.last == [] && (lines.count == 2 || (lines.count == 3 && Self.isReceipt(lines[1])))
        guard !isNamed || !isWhole else { return }
        self.report.add(
            Problem(
                .disagreement, path, at: 0, byteCount: bytes.count,
                "it does not hold the SHA-256 of its part: waybill deliver sends the part again"))
    }

    /// Whether a mark's second line says, as in a fleet, which merger delivered the part, and what of it.
    private static func isReceipt(_ line: ArraySlice<UInt8>) -> Bool {
        let fields = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard fields.count == 3, fields[0].starts(with: "merger=".utf8) else { return false }
        return zip(fields[1...], ["sent=", "dead="]).allSatisfy { field, name in
            let number = String(decoding: field.dropFirst(name.utf8.count), as: UTF8.self)
            return field.starts(with: name.utf8) && Int(number) != nil
        }
    }

    /// Reports bytes after the end that the checkpoint states, unless a crash may have left them.
    mutating func lookPastEnd(of path: String, _ byteCount: Int, _ position: Int) throws(FileSystemError) {
        guard !self.isInUse, let status = try self.data.files.status(at: self.absolute(path)),
            status.byteCount > byteCount
        else { return }
        guard !self.isBehind(position) else {
            self.unfinishedFileCount += 1
            return
        }
        self.report.add(
            Problem(
                .unexplained, path, at: byteCount, byteCount: status.byteCount - byteCount,
                "bytes after the end that the checkpoint states"))
    }
}
