internal import WaybillSystem

/// How long files are kept: an age and a total size; `nil` for no limit.
package struct FileLimit: Hashable, Sendable {
    package var ageMax: Duration?
    /// The oldest files are deleted first.
    package var byteCountMax: Int?

    package init(ageMax: Duration? = nil, byteCountMax: Int? = nil) {
        self.ageMax = ageMax
        self.byteCountMax = byteCountMax
    }

    package var keepsAll: Bool { self.ageMax == nil && self.byteCountMax == nil }

    /// Why a file is deleted.
    package enum Reason: String, Hashable, Sendable, CaseIterable {
        case age, bytes
    }

    /// The files to delete, oldest first; accesses no disk.
    ///
    /// - Parameter now: in milliseconds since 1970.
    func excess(of files: [AgedFile], now: Int64) -> [(file: AgedFile, reason: Reason)] {
        var excess: [(file: AgedFile, reason: Reason)] = []
        var byteCount = files.byteCount
        for file in files.sorted(by: { ($0.time, $0.path) < ($1.time, $1.path) }) {
            if let ageMax, now.saturatingSum(-file.time) >= max(ageMax, file.ageMin).nanoseconds / 1_000_000 {
                excess.append((file, .age))
            } else if let byteCountMax, byteCount > byteCountMax {
                excess.append((file, .bytes))
            } else {
                continue
            }
            byteCount = max(0, byteCount - file.byteCount)
        }
        return excess
    }
}

/// A file that may be deleted.
struct AgedFile: Hashable {
    let path: String
    let byteCount: Int
    /// When its age begins, in milliseconds since 1970.
    let time: Int64
    /// It is not deleted for its age before.
    var ageMin = Duration.zero
}

/// The size of what a tail keeps, as of the last look.
package struct KeptFiles: Hashable, Sendable {
    package internal(set) var segmentCount = 0
    package internal(set) var segmentByteCount = 0
    package internal(set) var quarantineByteCount = 0

    package init() {}
}

extension [AgedFile] {
    /// The bytes of all of them, or the limit that they exceed: sparse files take no room.
    var byteCount: Int { self.reduce(0) { $0.saturatingSum($1.byteCount) } }
}
