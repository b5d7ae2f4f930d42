internal import WaybillProtocol
internal import WaybillSystem

/// Changes what is followed while the tail runs.
///
///     a file at its path                     continues under the source that matches it now; is set aside if none does
///     one renamed away or deleted, unread    continues if its source only changed; is set aside if that was removed
///
/// A file that is set aside keeps its entry in the registry, with the offset that receivers have acknowledged: when a
/// source matches it again, it continues there, as after a restart. So nothing is lost or sent twice.
extension Tail {
    static func check(_ sources: [SourceConfiguration], _ limits: TailLimits) {
        precondition(limits.lineByteCountMax > 0 && limits.openFileCountMax > 0, "limits are positive")
        precondition(Set(sources.map(\.name)).count == sources.count, "two sources have the same name")
    }

    /// Follows these sources, and no others, from the next scan on.
    ///
    /// Nothing may be on its way: call ``connectionLost()`` before.
    ///
    /// - Returns: the streams that are not followed any more.
    package mutating func follow(_ sources: [SourceConfiguration], limits: TailLimits) -> [StreamKey] {
        Self.check(sources, limits)
        let old = self.sources
        let successors = Self.successors(of: old, in: sources)
        self.sources = sources
        self.patterns = Self.patterns(of: sources, isKeeping: limits.keep != nil)
        self.limits = limits
        self.openFiles.configure(countMax: limits.openFileCountMax)
        self.keeping.isDue = true
        var setAside: [StreamKey] = []
        for key in self.table.keys {
            let file = self.table[key]
            let former = old[file.source]
            guard let source = self.source(for: file, former, successor: successors[file.source]) else {
                self.setAside(key, source: former.name)
                setAside.append(key)
                continue
            }
            if sources[source].name != former.name { self.changes.insert(key) }
            self.table[key].source = source
        }
        return setAside
    }

    /// For each source, the one that takes its place: the same files, or else other files at its number.
    private static func successors(of old: [SourceConfiguration], in new: [SourceConfiguration]) -> [Int?] {
        var free = Set(new.indices)
        var successors = [Int?](repeating: nil, count: old.count)
        for (index, source) in old.enumerated() {
            let same = free.filter { new[$0].kind == source.kind && new[$0].followsLinks == source.followsLinks }
            guard let found = same.contains(index) ? index : same.min() else { continue }
            free.remove(found)
            successors[index] = found
        }
        for index in old.indices where successors[index] == nil {
            guard free.contains(index), new[index].isSpool == old[index].isSpool else { continue }
            free.remove(index)
            successors[index] = index
        }
        return successors
    }

    /// The source that continues a file; `nil` if there is none.
    private func source(for file: TailedFile, _ former: SourceConfiguration, successor: Int?) -> Int? {
        if let successor, self.sources[successor].kind == former.kind,
            self.sources[successor].followsLinks == former.followsLinks,
            self.sources[successor].excludes == former.excludes
        {
            return successor
        }
        if file.reach == .path, file.phase == .following || file.isSegment {
            guard let source = self.source(of: file.path), self.sources[source].isSpool == file.isSegment,
                self.sources[source].followsLinks == former.followsLinks
            else { return nil }
            return source
        }
        return successor
    }

    /// Stops following a file; its entry in the registry stays.
    ///
    /// Bytes that only its descriptor leads to are lost, and reported.
    mutating func setAside(_ key: StreamKey, source: String) {
        if self.table[key].reach == .descriptor {
            self.table[key].reach = .gone
            if self.table[key].acked < self.table[key].byteCount {
                self.table[key].ending = .unseen
                self.tellEnding(key, at: self.table[key].acked)
            }
        }
        self.closeDescriptor(key)
        let file = self.table[key]
        if let id = self.registryKey(of: file)?.description {
            var entry = RegistryEntry(file, source: source)
            entry.id = id
            self.rememberedFleet.complete(&entry, of: key)
            self.former.setAside(entry)
            if self.bySegment[id] == key { self.bySegment[id] = nil }
            self.changes.add(byteCount: -(file.registration?.byteCount ?? 0))
        }
        self.changes.remove(key)
        self.rememberedFleet.forget(key)
        self.successions.forget(key)
        self.table.remove(key)
    }
}
