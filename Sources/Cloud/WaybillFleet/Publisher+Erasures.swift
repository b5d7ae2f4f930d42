internal import WaybillData
internal import WaybillJSON
internal import WaybillSystem

/// A sealed day of a data directory, as it goes into the bucket.
struct PublishedDay {
    /// Below the data directory, and in the bucket.
    let path: String
    let manifest: [UInt8]
    let revision: Int
    /// Lines of an archive's day, or revisions of an export's, that are erasures.
    let erasedCount: Int
    /// The parts that the manifest names, without extensions.
    let stems: Set<String>
    /// The files of these parts, sorted.
    let names: [String]
    /// Whether the day has its mark.
    let isComplete: Bool

    /// - Returns: `nil` if the manifest is none.
    init?(path: String, manifest: [UInt8], names: [String]) {
        guard let json = JSONValue(manifest), let revision = json["revision"]?.count,
            let elements = (json["files"] ?? json["parts"])?.elements,
            let parts = elements.all({ $0["name"]?.string })
        else { return nil }
        let stems = Set(parts.map { String($0.prefix { $0 != "." }) })
        self.path = path
        self.manifest = manifest
        self.revision = revision
        self.erasedCount = (path.hasPrefix("archive/") ? json["erased"] : json["erasures"])?.count ?? 0
        self.stems = stems
        // What is written next to a part while it is compressed or made again is not published, nor what is still open; and
        // which parts were sent is each merger's own.
        self.names = names.sorted().filter { name in
            stems.contains(String(name.prefix { $0 != "." })) && !name.hasSuffix(".tmp") && !name.contains(".erase")
                && !name.hasSuffix(".delivered") && !names.contains(name + ".gz")
        }
        self.isComplete = names.contains(DayFolder.successName)
    }

    var manifestKey: String { "\(self.path)/\(DayFolder.manifestName)" }

    /// Whether an object next to the day's own is one that no revision from this one on has.
    func isStale(_ name: String) -> Bool {
        if name == DayFolder.manifestName || name == DayFolder.successName || name.contains("/") { return false }
        // An earlier version put a delivery's mark there.
        if self.names.contains(name) || name.hasSuffix(".delivered") { return false }
        if self.stems.contains(String(name.prefix { $0 != "." })) { return true }
        guard self.path.hasPrefix("archive/") else { return name == "held" }
        // Late files have the number of the revision before them: this one is never sealed any more.
        return PartitionPath.lateNumber(of: name).map { $0 < self.revision } ?? false
    }
}

/// The days from which people were erased: the one exception to "created once and never replaced".
///
///     parts, `.sources` that differ: put in place ─▶ manifest, if newer ─▶ read back ─▶ _SUCCESS ─▶ stale objects deleted
///
/// Any merger may be paused in between and wake up days later. So each looks at the bucket's manifest directly before it
/// replaces an object, and does nothing if that has a newer revision than its own; it reads back what it wrote; and every
/// merger looks at the day again later (``MergeService``): the one with the newest revision repairs what an older one wrote. An
/// object is deleted only if no revision will have its name again, because a `PUT` that waits anywhere creates it again.
extension Publisher {
    /// The last bytes of a compressed file have the checksum of all.
    private static var tailByteCount: Int { 64 << 10 }
    private static var attemptCountMax: Int { 3 }

    func publishErased(_ day: PublishedDay) throws(UploadFailure) -> Outcome {
        var outcome = Outcome(revision: day.revision, isErased: true)
        for _ in 0..<Self.attemptCountMax {
            let before = outcome.replacedCount
            guard try self.putInPlace(day, &outcome) else { return outcome }
            // What is read back is what was written, unless another merger was at it.
            if outcome.replacedCount == before { break }
        }
        if day.isComplete { try self.create(day.path, Self.successName, &outcome) }
        try self.deleteStale(day, &outcome)
        return outcome
    }

    /// Makes the bucket's objects those of this day.
    ///
    /// - Returns: `false` if the bucket has a newer revision.
    private func putInPlace(_ day: PublishedDay, _ outcome: inout Outcome) throws(UploadFailure) -> Bool {
        outcome.presentCount = 0
        var present = try self.presentManifest(day.path)
        guard present.revision <= day.revision else { return false }
        let isOwn = present.revision < day.revision || present.bytes == day.manifest
        // The runs of two mergers have different words: those that fit the manifest stay.
        for name in day.names where isOwn || !name.hasSuffix(".sources") {
            guard try self.put(day, name, &outcome) else { return false }
        }
        present = try self.presentManifest(day.path)
        guard present.revision <= day.revision else { return false }
        if present.revision < day.revision {
            try UploadFailure.inStore(self.store.replace(day.manifestKey, ObjectBody(day.manifest)))
            outcome.replacedCount += 1
        }
        return true
    }

    /// - Returns: `false` if the bucket has a newer revision.
    private func put(
        _ day: PublishedDay, _ name: String, _ outcome: inout Outcome
    ) throws(UploadFailure) -> Bool {
        let key = "\(day.path)/\(name)"
        let file = Path.join(self.root, key)
        let status = try UploadFailure.onDisk(self.files.status(ofEntry: file))
        guard let status, status.kind == .regular else { return true }
        let body = ObjectBody(file: file, byteCount: status.byteCount, self.files)
        guard let present = try UploadFailure.inStore(self.store.status(of: key)) else {
            if try UploadFailure.inStore(self.store.create(key, body)) == .created {
                outcome.createdCount += 1
                outcome.byteCount += status.byteCount
            }
            return true
        }
        let tail = max(0, status.byteCount - Self.tailByteCount)
        guard try !self.isEqual(present, key, file, byteCount: status.byteCount, from: tail) else {
            outcome.presentCount += 1
            return true
        }
        guard try self.presentManifest(day.path).revision <= day.revision else { return false }
        try UploadFailure.inStore(self.store.replace(key, body))
        outcome.replacedCount += 1
        outcome.byteCount += status.byteCount
        return true
    }

    private func deleteStale(_ day: PublishedDay, _ outcome: inout Outcome) throws(UploadFailure) {
        let folder = day.path + "/"
        var stale: [String] = []
        var pages = ListingPages(self.store, folder, isFolded: false)
        while let page = try UploadFailure.inStore(pages.next()) {
            stale += page.objects.map(\.key).filter { day.isStale(String($0.dropFirst(folder.utf8.count))) }
        }
        for key in stale {
            try UploadFailure.inStore(self.store.delete(key))
            outcome.deletedCount += 1
        }
    }
}
