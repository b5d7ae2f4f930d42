import WaybillTail

/// Judges the patterns of a source as an operator wrote them.
enum SourcePatterns {
    /// Why a pattern cannot be used, with what to do; `nil` if it can.
    static func problem(of pattern: String, isSpool: Bool) -> String? {
        if pattern.isEmpty { return "is empty; name files" }
        if isSpool, GlobPattern.hasFolders(pattern) {
            return "is for a spool, whose folders are named one by one; write * in place of **"
        }
        return GlobPattern.problem(of: pattern)
    }

    /// The patterns of a source that cannot be used, each with its key.
    static func problems(of source: SourceEntry) -> [(key: String, pattern: String, problem: String)] {
        let patterns =
            [source.spool].compactMap(\.self).map { ("spool", $0) } + (source.files ?? []).map { ("files", $0) }
            + (source.excludes ?? []).map { ("exclude", $0) }
        return patterns.compactMap { key, pattern in
            Self.problem(of: pattern, isSpool: key == "spool").map { (key, pattern, $0) }
        }
    }
}
