package import WaybillTail

extension AgentConfiguration {
    /// The sources as the tail takes them.
    package var tailSources: [SourceConfiguration] {
        self.sources.enumerated().map { index, source in
            SourceConfiguration(
                name: source.registryName(index), kind: source.files, followsLinks: source.followsLinks,
                excludes: source.excludes, isPolled: source.isPolled)
        }
    }

    /// Lowers the numbers of open files and of claimed spools to what the process may have besides what is open already.
    ///
    /// Spools get half of it, or what they need; at least one is claimed.
    package mutating func fit(descriptorCountMax: Int, openCount: Int) {
        let spools = self.sources.compactMap(\.spool)
        let isCounted = !spools.contains(where: GlobPattern.hasWildcard)
        let room = TailLimits.room(descriptorCountMax: descriptorCountMax, openCount: openCount)
        self.claimCountMax = max(1, room / 2)
        let claimCount = spools.isEmpty ? 0 : isCounted ? min(spools.count, self.claimCountMax) : self.claimCountMax
        self.tailLimits.fit(descriptorCountMax: descriptorCountMax, openCount: openCount + claimCount)
    }
}

extension AgentSource {
    /// The source's name in the registry: its index and its pattern, with spaces escaped.
    package func registryName(_ index: Int) -> String {
        let text =
            switch self.files {
            case .spool(let directory): directory
            case .files(let patterns): patterns.joined(separator: ",")
            }
        let escaped = String(decoding: text.utf8.map { $0 > 0x20 && $0 < 0x7F ? $0 : UInt8(ascii: "_") }, as: UTF8.self)
        return "\(index):\(escaped)"
    }
}
