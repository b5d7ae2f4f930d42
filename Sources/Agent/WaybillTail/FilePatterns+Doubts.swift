internal import WaybillSystem

/// What an operator probably did not mean; `waybill check` says it.
extension FilePatterns {
    /// A pattern that does nothing, or depends on what the operator may not think of.
    package struct Doubt: Hashable, Sendable {
        package let pattern: String
        package let isExclusion: Bool
        /// What it does, and what to do.
        package let text: String
    }

    package var doubts: [Doubt] {
        var doubts: [Doubt] = []
        for pattern in self.included {
            guard let text = self.doubt(of: pattern) else { continue }
            doubts.append(Doubt(pattern: pattern.description, isExclusion: false, text: text))
        }
        for pattern in self.exclusion.patterns where !self.mayTake(pattern) {
            let isRelative = !pattern.branches.contains(where: \.isAbsolute)
            doubts.append(
                Doubt(
                    pattern: pattern.description, isExclusion: true,
                    text: isRelative
                        ? "leaves nothing out, for the patterns of files are absolute; write the whole path"
                        : "leaves nothing out, for no pattern of files leads there; correct it, or remove it"))
        }
        return doubts
    }

    private func doubt(of pattern: GlobPattern) -> String? {
        if pattern.branches.allSatisfy(\.isNever) { return "matches no file; name files in it" }
        let takers = self.exclusion.patterns.filter { taker in
            pattern.branches.allSatisfy { branch in taker.branches.contains { $0.takesAll(of: branch) } }
        }
        if let taker = takers.first {
            return
                "matches no file, for exclude leaves all of them out with \(taker.description); correct one of the two"
        }
        if pattern.branches.contains(where: \.isVaguelyRelative) {
            return "is looked for in the folder in which the agent is started; write the whole path, or ./ before it"
        }
        return nil
    }

    /// Whether a pattern may leave out a file that a pattern of this source matches.
    private func mayTake(_ exclusion: GlobPattern) -> Bool {
        exclusion.branches.contains { taker in
            taker.name != nil || self.included.contains { $0.branches.contains { taker.mayMeet($0) } }
        }
    }
}

extension GlobBranch {
    private static let dots = [".", ".."]

    /// Whether no file can have such a path.
    fileprivate var isNever: Bool {
        guard let last = self.steps.last else { return true }
        return last.literal.map(Self.dots.contains) ?? false
    }

    /// Whether the path depends on the current folder, and its author may not know it.
    fileprivate var isVaguelyRelative: Bool {
        !self.isAbsolute && !(self.steps.first?.literal.map(Self.dots.contains) ?? false)
    }

    /// Whether both may match one path, or this one a folder on it, as far as the names before the first wildcards show.
    fileprivate func mayMeet(_ other: GlobBranch) -> Bool {
        guard self.isAbsolute == other.isAbsolute else { return false }
        for (own, step) in zip(self.steps, other.steps) {
            guard let own = own.literal, let name = step.literal else { return true }
            if !own.utf8.elementsEqual(name.utf8) { return false }
        }
        return self.steps.count <= other.steps.count
    }

    /// Whether a pattern of what is left out takes every path that `other` matches, as far as their steps show it.
    fileprivate func takesAll(of other: GlobBranch) -> Bool {
        if let name, case .component(let last)? = other.steps.last { return name.covers(last) }
        guard self.isAbsolute == other.isAbsolute else { return false }
        if self.steps.isEmpty { return true }
        var places = self.withNext(0)
        for step in other.steps {
            if case .component(let component) = step, self.isTaken(component, at: places) { return true }
            places = self.places(after: step, from: places)
        }
        return false
    }

    private func isTaken(_ component: GlobComponent, at places: Set<Int>) -> Bool {
        guard places.contains(self.steps.count - 1), case .component(let own)? = self.steps.last else { return false }
        return own.covers(component)
    }

    /// The steps that come next, whatever names `step` stands for.
    private func places(after step: Step, from places: Set<Int>) -> Set<Int> {
        var next: Set<Int> = []
        for place in places where place < self.steps.count - 1 {
            switch (self.steps[place], step) {
            case (.folders, .folders): next.formUnion(self.withNext(place))
            case (.folders, .component(let component)):
                if component.isWithoutDot { next.formUnion(self.withNext(place)) }
            case (.component(let own), .component(let component)):
                if own.covers(component) { next.formUnion(self.withNext(place + 1)) }
            case (.component, .folders): break
            }
        }
        return next
    }

    private func withNext(_ place: Int) -> Set<Int> {
        self.steps[place] == .folders ? [place, place + 1] : [place]
    }
}
