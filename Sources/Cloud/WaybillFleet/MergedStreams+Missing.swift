internal import WaybillProtocol

/// What is said to be somewhere, and is in no piece so far.
extension MergedStreams {
    /// Bytes that a receiver was told to be elsewhere, or that lie below a seal, and that no piece so far has.
    var missing: [MissingBytes] {
        let sealed = self.open.filter { $0.value.length != nil }.keys
        return Set(sealed).union(self.told.keys).sorted().compactMap { name in
            let told = self.told[name]?.entries ?? []
            var known = self.present(of: name)
            if let offset = self.before[name] { known.insert(0..<offset) }
            for entry in told where entry.holder != nil { known.insert(entry.range) }
            var missing = OffsetRanges()
            for range in known.missing(below: self.open[name]?.length ?? 0) { missing.insert(range) }
            var receivers: Set<String> = []
            for entry in told {
                let ranges = known.missing(in: entry.range)
                if !ranges.isEmpty { receivers.insert(entry.receiver) }
                for range in ranges { missing.insert(range) }
            }
            guard !missing.ranges.isEmpty else { return nil }
            return MissingBytes(
                principal: name.principal, stream: name.id.text, ranges: missing.ranges, receivers: receivers.sorted())
        }
    }

    /// Bytes that a receiver was told to be in another one's own archive, from before the fleet, and that no piece so far
    /// has.
    var beforeFleet: [BytesBefore] {
        self.told.keys.sorted().compactMap { name in
            let present = self.present(of: name)
            var absent = OffsetRanges()
            var holders: Set<String> = []
            for entry in self.told[name]?.entries ?? [] {
                guard let holder = entry.holder else { continue }
                let ranges = present.missing(in: entry.range)
                if !ranges.isEmpty { holders.insert(holder) }
                for range in ranges { absent.insert(range) }
            }
            guard !absent.ranges.isEmpty else { return nil }
            return BytesBefore(
                principal: name.principal, stream: name.id.text, ranges: absent, holders: holders.sorted())
        }
    }

    /// What is there of a stream, or will never come.
    private func present(of name: StreamName) -> OffsetRanges {
        let stream = self.open[name] ?? Stream()
        var present = stream.ranges
        for range in stream.skipped.ranges { present.insert(range) }
        if let length = self.wholeLength(of: name) { present.insert(0..<length) }
        return present
    }
}
