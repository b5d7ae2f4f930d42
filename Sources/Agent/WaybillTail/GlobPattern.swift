internal import WaybillSystem

/// A path with wildcards in any component.
///
///     *       any run of characters, none of them "/"          ?    one character
///     [a-z]   one of a set; [!…] or [^…] one not in the set    **   as a component: any number of folders, or none
///     {a,b}   one of several texts, which may have slashes     everything else matches itself
///
/// A name that begins with a dot is matched only by a component that begins with a dot. Backslashes do not escape; use
/// `[*]`. Braces without a comma, and a set or braces that are not closed, match themselves. `**` goes through no links,
/// and at most ``folderCountMax`` folders deep; as the last component it stands for all files below.
///
/// A pattern becomes branches, one for each choice in its braces, and a path is read once for all of them: what is
/// remembered is at which places of the branches one is. So the work is bounded by the length of the path times that of
/// the branches, and a walk lists each folder once.
package struct GlobPattern: Hashable, Sendable {
    /// How deep below the folder before the first wildcard a pattern with `**` goes.
    package static let folderCountMax = 32
    /// How many choices the braces of one pattern may give.
    package static let branchCountMax = 64
    private static let byteCountMax = 2048

    package let description: String
    let branches: [GlobBranch]

    package init(_ pattern: String) {
        self.description = pattern
        self.branches = (Self.texts(of: pattern) ?? [pattern]).map { GlobBranch($0) }
    }

    private init(_ description: String, _ branches: [GlobBranch]) {
        self.description = description
        self.branches = branches
    }

    /// Why a text is not a pattern, with what to do; `nil` if it is one.
    package static func problem(of pattern: String) -> String? {
        if pattern.utf8.count > Self.byteCountMax { return "is longer than \(Self.byteCountMax) bytes; shorten it" }
        if Self.texts(of: pattern) == nil {
            return "has more than \(Self.branchCountMax) choices in braces; write several patterns"
        }
        return nil
    }

    /// Whether a path has characters that match others than themselves.
    package static func hasWildcard(_ path: String) -> Bool {
        let branches = GlobPattern(path).branches
        return branches.count > 1 || branches.contains { $0.steps.contains { $0.literal == nil } }
    }

    /// Whether a pattern has a `**`.
    package static func hasFolders(_ pattern: String) -> Bool {
        GlobPattern(pattern).branches.contains { $0.steps.contains(.folders) }
    }

    /// The pattern that matches only this path, whatever characters it has.
    package static func quoted(_ path: String) -> String {
        var quoted = ""
        for scalar in path.unicodeScalars {
            switch scalar {
            case "*", "?", "[", "{": quoted += "[\(scalar)]"
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted
    }

    /// Whether the pattern matches `path`, which must be written in the same form.
    package func matches(_ path: String) -> Bool {
        let names = Path.components(of: path)
        guard let name = names.last else { return false }
        var places = self.start(isAbsolute: Path.isAbsolute(path))
        for (depth, folder) in names.dropLast().enumerated() {
            guard !places.isEmpty else { return false }
            places = self.entered(folder, from: places, depth: depth)
        }
        return self.accepts(name, at: places)
    }

    /// Whether the pattern matches `path`, or a folder on it.
    func takes(_ path: String) -> Bool {
        let isAbsolute = Path.isAbsolute(path)
        if self.branches.contains(where: { $0.steps.isEmpty && $0.isAbsolute == isAbsolute }) { return true }
        var places = self.start(isAbsolute: isAbsolute)
        for (depth, name) in Path.components(of: path).enumerated() {
            guard !places.isEmpty else { return false }
            if self.accepts(name, at: places) { return true }
            places = self.entered(name, from: places, depth: depth)
        }
        return false
    }

    /// A pattern that takes folders with all that is in them.
    ///
    /// So a `/**` at the end adds nothing, and one that begins with `**` is meant from the root of absolute paths, too.
    init(ofFoldersToo pattern: String) {
        let isAnywhere = pattern == "**" || pattern.hasPrefix("**/")
        let texts = isAnywhere ? [pattern, "/" + pattern] : [pattern]
        self.init(pattern, texts.flatMap { GlobPattern($0).branches }.map(\.withoutLastFolders))
    }

    /// The folders before the first wildcard, or before the last component; empty for the current folder.
    package var literalFolders: [String] {
        self.branches.map(\.literalFolder)
    }

    // MARK: Places

    /// A place in a branch: the step that the next name is compared with.
    struct Place: Hashable {
        let branch: Int
        let step: Int
    }

    func start(isAbsolute: Bool) -> [Place] {
        var places: [Place] = []
        for (index, branch) in self.branches.enumerated() {
            guard branch.isAbsolute == isAbsolute, !branch.steps.isEmpty else { continue }
            self.add(Place(branch: index, step: 0), to: &places)
        }
        return places
    }

    /// Whether a name is matched by the last step of a branch.
    func accepts(_ name: Substring, at places: [Place]) -> Bool {
        places.contains { place in
            let branch = self.branches[place.branch]
            guard place.step == branch.steps.count - 1, case .component(let component) = branch.steps[place.step]
            else { return false }
            return component.matches(name)
        }
    }

    /// The places in a folder.
    ///
    /// - Parameters:
    ///   - depth: how many folders lead to it.
    ///   - isPassable: whether a branch may go through the folder; called with the place before and the one after.
    func entered(
        _ folder: Substring, from places: [Place], depth: Int, isPassable: (Place, Place) -> Bool = { _, _ in true }
    ) -> [Place] {
        var entered: [Place] = []
        let isHidden = folder.utf8.first == UInt8(ascii: ".")
        for place in places {
            let branch = self.branches[place.branch]
            guard place.step < branch.steps.count - 1 else { continue }
            var next = place
            switch branch.steps[place.step] {
            case .folders:
                guard !isHidden, depth < branch.literalCount + Self.folderCountMax else { continue }
            case .component(let component):
                guard component.matches(folder) else { continue }
                next = Place(branch: place.branch, step: place.step + 1)
            }
            if isPassable(place, next) { self.add(next, to: &entered) }
        }
        return entered
    }

    /// Adds a place, and the one behind it if it is a `**`, which may stand for no folder; each once.
    private func add(_ place: Place, to places: inout [Place]) {
        // Places come in the order of their steps, so an equal one is among the last ones.
        if !places.suffix(2).contains(place) { places.append(place) }
        guard self.branches[place.branch].steps[place.step] == .folders else { return }
        let next = Place(branch: place.branch, step: place.step + 1)
        if !places.suffix(2).contains(next) { places.append(next) }
    }

    // MARK: Braces

    /// The texts that the choices in braces give; `nil` if there are too many.
    private static func texts(of pattern: String) -> [String]? {
        guard pattern.utf8.contains(UInt8(ascii: "{")), pattern.utf8.count <= Self.byteCountMax else {
            return [pattern]
        }
        var texts: [String] = []
        var open = [Array(pattern.unicodeScalars)]
        // Each turn settles one text, or makes two or more of one.
        while let text = open.popLast() {
            guard let braces = Braces(firstIn: text) else {
                var view = String.UnicodeScalarView()
                view.append(contentsOf: text)
                texts.append(String(view))
                continue
            }
            open += braces.choices.reversed().map { choice in
                Array(text[..<braces.range.lowerBound] + choice + text[braces.range.upperBound...])
            }
            guard texts.count + open.count <= Self.branchCountMax else { return nil }
        }
        return texts
    }

    /// Braces with at least one comma.
    private struct Braces {
        let range: Range<Int>
        let choices: [ArraySlice<Unicode.Scalar>]

        /// The first ones that are closed and have a comma of their own; `nil` if there are none.
        init?(firstIn text: [Unicode.Scalar]) {
            /// Where each brace that is open began, and the commas in it.
            var open: [(start: Int, commas: [Int])] = []
            var found: (start: Int, end: Int, commas: [Int])?
            var index = 0
            while index < text.count {
                switch text[index] {
                case "[":
                    if let end = GlobComponent.endOfSet(in: text, from: index) {
                        index = end
                        continue
                    }
                case "{": open.append((index, []))
                case ",": if !open.isEmpty { open[open.count - 1].commas.append(index) }
                case "}":
                    // Outer braces are closed after the inner ones, and are the first to be resolved.
                    if let last = open.popLast(), !last.commas.isEmpty, found.map({ last.start < $0.start }) ?? true {
                        found = (last.start, index, last.commas)
                    }
                default: break
                }
                index += 1
            }
            guard let found else { return nil }
            self.range = found.start..<found.end + 1
            let bounds = [found.start] + found.commas + [found.end]
            self.choices = zip(bounds, bounds.dropFirst()).map { text[($0 + 1)..<$1] }
        }
    }
}

/// One of the paths that the braces of a pattern give.
struct GlobBranch: Hashable, Sendable {
    enum Step: Hashable, Sendable {
        /// `**`; never the last step, and never two in turn.
        case folders
        case component(GlobComponent)

        /// The name, if there is no wildcard.
        var literal: String? {
            if case .component(let component) = self { component.literal } else { nil }
        }
    }

    let steps: [Step]
    let isAbsolute: Bool
    /// How many steps, of those before the last one, come before the first wildcard.
    let literalCount: Int

    init(_ text: String) {
        var steps: [Step] = []
        for component in Path.components(of: text) {
            let step = component == "**" ? Step.folders : .component(GlobComponent(component))
            if step != .folders || steps.last != .folders { steps.append(step) }
        }
        if steps.last == .folders { steps.append(.component(GlobComponent("*"))) }
        self.init(steps, isAbsolute: Path.isAbsolute(text))
    }

    private init(_ steps: [Step], isAbsolute: Bool) {
        self.steps = steps
        self.isAbsolute = isAbsolute
        self.literalCount = steps.dropLast().prefix { $0.literal != nil }.count
    }

    var withoutLastFolders: GlobBranch {
        let isFolders = self.steps.suffix(2) == [.folders, .component(GlobComponent("*"))]
        return isFolders ? GlobBranch(Array(self.steps.dropLast(2)), isAbsolute: self.isAbsolute) : self
    }

    /// The last component, for a branch without folders.
    var name: GlobComponent? {
        guard !self.isAbsolute, self.steps.count == 1, case .component(let component) = self.steps[0] else {
            return nil
        }
        return component
    }

    var literalFolder: String {
        let names = self.steps.prefix(self.literalCount).compactMap(\.literal)
        return (self.isAbsolute ? "/" : "") + names.joined(separator: "/")
    }
}
