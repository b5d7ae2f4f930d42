internal import WaybillData
package import WaybillEvent
package import WaybillSystem

/// What an export's checkpoint says about its files, for readers of a data directory in use.
package enum ExportCheckpoint {
    static var closedPrefix: String { "closed:" }

    /// The manifests of files that get nothing more and are not compressed yet, by path without extension.
    package static func closing(in entries: [String: String]) -> [String: String] {
        var manifests: [String: String] = [:]
        for (key, manifest) in entries where key.hasPrefix(self.closedPrefix) {
            manifests[String(key.dropFirst(self.closedPrefix.utf8.count))] = manifest
        }
        return manifests
    }

    /// The manifests of parts that get nothing more and are not compressed yet.
    package static func closingParts(in entries: [String: String]) -> [PartManifest] {
        self.closing(in: entries).compactMap { stem, manifest in
            DeadLetterFile.isDead(stem) ? nil : PartManifest(json: Array(manifest.utf8))
        }
    }

    /// The certain length of each file that can grow, by path; of a file that is being compressed, all of it.
    package static func lengths<Files: FileSystem>(
        in entries: [String: String], fileExtension: String, _ files: Files
    ) -> [String: Int] {
        var lengths = FileSet<Files>.lengths(in: entries)
        for stem in self.closing(in: entries).keys {
            let isDead = DeadLetterFile.isDead(stem)
            lengths["\(stem).\(isDead ? "ndjson" : fileExtension)"] = .max
            if !isDead { lengths[stem + ".ids"] = .max }
        }
        return lengths
    }
}

/// An open part that has records.
package struct OpenPart: Hashable, Sendable {
    package let env: DeploymentEnvironment
    package let recordCount: Int
    /// When its first record was received; `nil` if that is unknown.
    package let receivedAt: WallTime?

    /// The open parts in an export's checkpoint.
    package static func all(in entries: [String: String]) -> [OpenPart] {
        entries.compactMap { key, value in
            guard key.hasPrefix(PartStanding.keyPrefix), let part = PartStanding(text: value), part.recordCount > 0,
                let partition = ExportDay(partition: String(key.dropFirst(PartStanding.keyPrefix.utf8.count)))
            else { return nil }
            return OpenPart(
                env: partition.env, recordCount: part.recordCount,
                receivedAt: part.receivedAt > 0 ? WallTime(milliseconds: part.receivedAt) : nil)
        }
    }
}
