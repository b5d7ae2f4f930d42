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
