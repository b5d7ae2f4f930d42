package import WaybillSystem

/// Lists the paths that a pattern matches.
extension GlobPattern {
    /// Which links to folders a walk follows; a `**` follows none.
    package enum LinkRule: Hashable, Sendable {
        case followed
        /// Those before the first wildcard, which the operator wrote.
        case ownPart
        /// The same, but not the folder that holds the files.
        case spool
    }

    /// The result of a walk over the directories.
    package struct Expansion: Sendable {
        /// The paths whose last component matches, sorted within each directory; not checked for existence.
        package var paths: [String] = []
        /// The directories in which new matches can appear.
        package var directories: [String] = []
        package var failures: [FileSystemError] = []
        /// Folders that were passed over because they are links.
        package var links: [String] = []

        package init() {}
    }

    /// Lists matching paths; missing directories have no matches.
    package func expand(
        on files: some FileSystem, _ links: LinkRule = .followed, into expansion: inout Expansion
    ) {
        var paths: [String] = []
        self.expand(on: files, links, without: FileExclusion([]), into: &expansion) { paths.append($0) }
        expansion.paths += paths
    }

    /// Iterates over matching paths, with only the directories on one path in memory at a time.
    ///
    /// A pattern with `**` costs one `lstat(2)` for each entry of its folders.
    ///
    /// - Parameters:
    ///   - scope: the walk only goes there, and below it; `nil`: everywhere.
    ///   - expansion: receives everything except the paths.
    ///   - enter: called with each folder before it is listed, and with one that is missing where it would be.
    func expand(
        on files: some FileSystem, _ links: LinkRule, without exclusion: FileExclusion, within scope: String? = nil,
        into expansion: inout Expansion, enter: (_ folder: String) -> Void = { _ in }, visit: (_ path: String) -> Void
    ) {
        for root in ["/", ""] {
            let places = self.start(isAbsolute: !root.isEmpty)
            guard !places.isEmpty, scope.map({ Path.isAbsolute($0) == !root.isEmpty }) ?? true else { continue }
            let walk = GlobWalk(pattern: self, files: files, links: links, exclusion: exclusion, scope: scope)
            let folder = GlobFolder(path: root, depth: 0, places: places)
            walk.look(in: folder, into: &expansion, enter: enter, visit: visit)
        }
    }
}

/// A folder of a walk.
private struct GlobFolder {
    /// Empty for the current folder.
    let path: String
    /// How many folders lead into it.
    let depth: Int
    let places: [GlobPattern.Place]

    func path(of name: Substring) -> String {
        self.path.isEmpty ? String(name) : Path.join(self.path, String(name))
    }
}

/// A walk over the folders of one pattern: each is listed once, for all places of the pattern that lead to it.
private struct GlobWalk<Files: FileSystem> {
    let pattern: GlobPattern
    let files: Files
    let links: GlobPattern.LinkRule
    let exclusion: FileExclusion
    /// Where the walk goes, and below it; `nil`: everywhere.
    let scope: String?

    func look(
        in folder: GlobFolder, into expansion: inout GlobPattern.Expansion, enter: (String) -> Void,
        visit: (String) -> Void
    ) {
        // A name that the pattern says is entered without a look at the folder, which may not be readable.
        let said = folder.places.compactMap { self.nameSaid(at: $0) }
        if said.count < folder.places.count {
            self.list(folder, besides: said, into: &expansion, enter: enter, visit: visit)
        }
        var entered: [Substring] = []
        for name in said where !entered.contains(where: { $0.utf8.elementsEqual(name.utf8) }) {
            entered.append(name)
            self.go(to: name, of: folder, into: &expansion, enter: enter, visit: visit)
        }
    }

    /// The name of the only folder that a place leads to.
    private func nameSaid(at place: GlobPattern.Place) -> Substring? {
        let steps = self.pattern.branches[place.branch].steps
        return place.step < steps.count - 1 ? steps[place.step].literal.map { Substring($0) } : nil
    }

    /// The only name in a folder that leads to the scope; `nil` in the scope.
    private func nextName(in folder: GlobFolder) -> String? {
        guard let scope else { return nil }
        let rest = scope.utf8.dropFirst(folder.path.isEmpty ? 0 : Path.join(folder.path, "").utf8.count)
        return rest.split(separator: UInt8(ascii: "/"), maxSplits: 1).first.flatMap { String($0) }
    }

    /// The names in a folder; without a look at it where only one leads to the scope.
    private func names(
        in folder: GlobFolder, _ expansion: inout GlobPattern.Expansion, enter: (String) -> Void
    ) throws(FileSystemError) -> [String] {
        if let name = self.nextName(in: folder) { return [name] }
        let path = folder.path.isEmpty ? "." : folder.path
        let kind = try self.files.status(at: path)?.kind
        if kind == nil || kind == .directory { enter(path) }
        if kind == nil, let error = FileSystemError(absent: path) { throw error }
        guard kind == .directory else { return [] }
        expansion.directories.append(path)
        return try self.files.list(path)
    }

    /// - Parameter said: the names that are entered without being listed.
    private func list(
        _ folder: GlobFolder, besides said: [Substring], into expansion: inout GlobPattern.Expansion,
        enter: (String) -> Void, visit: (String) -> Void
    ) {
        let names: [String]
        do throws(FileSystemError) {
            names = try self.names(in: folder, &expansion, enter: enter)
        } catch {
            expansion.failures.append(error)
            return
        }
        for name in names {
            let name = name[...]
            if self.pattern.accepts(name, at: folder.places) {
                let path = folder.path(of: name)
                if !self.exclusion.takes(file: path, name) { visit(path) }
            }
            guard !said.contains(where: { $0.utf8.elementsEqual(name.utf8) }) else { continue }
            self.go(to: name, of: folder, into: &expansion, enter: enter, visit: visit)
        }
    }

    private func go(
        to name: Substring, of folder: GlobFolder, into expansion: inout GlobPattern.Expansion, enter: (String) -> Void,
        visit: (String) -> Void
    ) {
        if let next = self.nextName(in: folder), !next.utf8.elementsEqual(name.utf8) { return }
        var isJudged = false
        var places = self.pattern.entered(name, from: folder.places, depth: folder.depth) { before, after in
            isJudged = isJudged || !self.mayBeLink(before, after)
            return true
        }
        guard !places.isEmpty else { return }
        let path = folder.path(of: name)
        guard !self.exclusion.takes(folder: path) else { return }
        if isJudged {
            do throws(FileSystemError) {
                switch try self.files.status(ofEntry: path)?.kind {
                case .directory: break
                case .link:
                    places = self.pattern.entered(
                        name, from: folder.places, depth: folder.depth, isPassable: self.mayBeLink)
                    if self.links != .followed, try self.files.status(at: path)?.kind == .directory {
                        expansion.links.append(path)
                    }
                case nil:
                    guard let error = FileSystemError(absent: path) else { return }
                    throw error
                default: return
                }
            } catch {
                expansion.failures.append(error)
                return
            }
        }
        guard !places.isEmpty else { return }
        let next = GlobFolder(path: path, depth: folder.depth + 1, places: places)
        self.look(in: next, into: &expansion, enter: enter, visit: visit)
    }

    /// Whether a folder may be a link that leads a branch from one place to another.
    private func mayBeLink(_ before: GlobPattern.Place, _ after: GlobPattern.Place) -> Bool {
        // A loop of links would have no end.
        guard before != after else { return false }
        let branch = self.pattern.branches[before.branch]
        let isOwn = after.step <= branch.literalCount && !(self.links == .spool && after.step == branch.steps.count - 1)
        return self.links == .followed || isOwn
    }
}
