internal import WaybillSystem
internal import WaybillTail

/// Mounts that do not answer: what lies on them waits, and nothing is concluded about it.
extension Pump where Hints: ~Copyable {
    /// Tells once that a mount does not answer, and that it answers again; then everything is looked at.
    mutating func tellMounts(_ now: MonotonicTime) {
        guard let change = self.schedule.mountsHang(self.hints.hangingMounts, now) else { return }
        for mount in change.hanging { self.telemetry.hangs(mount.path) }
        for mount in change.answering {
            self.telemetry.answers(mount.path, after: now - mount.since)
            self.goal.foundMore()
        }
    }

    /// How many files and sources wait for each mount that does not answer.
    func waits(_ now: MonotonicTime) -> [HangingWait] {
        let hanging = self.hints.hangingMounts
        guard !hanging.isEmpty else { return [] }
        var fileCounts: [String: Int] = [:]
        var sources: [String: Set<Int>] = [:]
        for (index, source) in self.configuration.sources.enumerated() {
            for folder in source.namedFolders {
                if let mount = self.hints.hangingMount(of: folder) { sources[mount, default: []].insert(index) }
            }
        }
        for key in self.tail.fileKeys {
            let position = self.tail.position(of: key)
            guard !position.isGone, let mount = self.hints.hangingMount(of: position.path) else { continue }
            fileCounts[mount, default: 0] += 1
            sources[mount, default: []].insert(position.source)
        }
        return hanging.map { mount in
            HangingWait(
                path: mount.path, duration: max(.zero, now - mount.since), fileCount: fileCounts[mount.path] ?? 0,
                sourceCount: sources[mount.path]?.count ?? 0)
        }
    }

    /// Whether a stream's file is on a mount that does not answer: the end of a run does not wait for it.
    func isHanging(_ stream: StreamKey) -> Bool {
        !self.schedule.hangingMounts.isEmpty && self.hints.hangingMount(of: self.tail.position(of: stream).path) != nil
    }

    /// Whether a source has a pattern that leads to a mount that does not answer.
    func isHanging(_ source: AgentSource) -> Bool {
        source.namedFolders.contains { self.hints.hangingMount(of: $0) != nil }
    }
}

extension AgentSource {
    /// The folders that its patterns name before their first wildcards.
    fileprivate var namedFolders: [String] {
        switch self.files {
        case .spool(let folder): GlobPattern.hasWildcard(folder) ? GlobPattern(folder).literalFolders : [folder]
        case .files(let patterns): patterns.flatMap { GlobPattern($0).literalFolders }
        }
    }
}

/// What waits for a mount that does not answer.
package struct HangingWait: Hashable, Sendable {
    package let path: String
    package let duration: Duration
    /// Followed files on it.
    package let fileCount: Int
    /// Sources with such files, or with a pattern that leads there.
    package let sourceCount: Int

    package init(path: String, duration: Duration, fileCount: Int, sourceCount: Int) {
        self.path = path
        self.duration = duration
        self.fileCount = fileCount
        self.sourceCount = sourceCount
    }
}
