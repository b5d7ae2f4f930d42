package import WaybillSystem

/// The files of a source: those that a pattern matches, and that no pattern leaves out.
///
/// The same value decides what a scan finds, what a hint is for and what `waybill check` says.
package struct FilePatterns: Hashable, Sendable {
    package let included: [GlobPattern]
    let exclusion: FileExclusion

    /// - Parameter excluded: see ``FileExclusion``.
    package init(_ included: [String], without excluded: [String] = []) {
        self.included = included.map { GlobPattern($0) }
        self.exclusion = FileExclusion(excluded)
    }

    package func matches(_ path: String) -> Bool {
        self.included.contains { $0.matches(path) } && !self.exclusion.takes(path)
    }

    /// The folder before the first wildcard of a pattern that leads to `path`: the one that says most of it.
    ///
    /// `nil` if none leads there; empty for the current folder.
    func literalFolder(of path: String) -> String? {
        let isAbsolute = Path.isAbsolute(path)
        return self.included.flatMap(\.literalFolders)
            .filter { $0.isEmpty ? !isAbsolute : path.utf8.starts(with: Path.join($0, "").utf8) }
            .max { $0.utf8.count < $1.utf8.count }
    }

    /// Iterates over the files, and over what a later pattern matches, too, more than once.
    ///
    /// - Parameters:
    ///   - scope: the walk only goes there, and below it; `nil`: everywhere.
    ///   - enter: called with each folder before it is listed, and with one that is missing where it would be.
    package func expand(
        on files: some FileSystem, _ links: GlobPattern.LinkRule, within scope: String? = nil,
        into expansion: inout GlobPattern.Expansion, enter: (_ folder: String) -> Void = { _ in },
        visit: (_ path: String) -> Void
    ) {
        for pattern in self.included {
            pattern.expand(
                on: files, links, without: self.exclusion, within: scope, into: &expansion, enter: enter, visit: visit)
        }
    }
}

/// What a source leaves out.
///
///     *.gz             files of that name, in any folder
///     **/old           files and folders of that name, with all that is in them
///     /var/log/old     that file or folder, with all that is in it
struct FileExclusion: Hashable, Sendable {
    let patterns: [GlobPattern]
    /// Those of names alone.
    private let names: [GlobComponent]
    /// Those of files and folders.
    private let paths: [GlobPattern]

    init(_ patterns: [String]) {
        self.patterns = patterns.map { GlobPattern(ofFoldersToo: $0) }
        self.names = self.patterns.flatMap(\.branches).compactMap(\.name)
        self.paths = self.patterns.filter { $0.branches.contains { $0.name == nil } }
    }

    func takes(_ path: String) -> Bool {
        let name = Path.name(of: path)
        return self.names.contains { $0.matches(name[...]) } || self.paths.contains { $0.takes(path) }
    }

    /// The same for a file in a folder that is not left out.
    func takes(file path: String, _ name: Substring) -> Bool {
        self.names.contains { $0.matches(name) } || self.takes(folder: path)
    }

    func takes(folder path: String) -> Bool {
        self.paths.contains { $0.takes(path) }
    }
}
