import WaybillMerger
import WaybillProjection
import WaybillReceiver
import WaybillYAML

extension ConfigurationTable {
    static var merger: [ConfigurationKey<MergerConfiguration>] {
        Self.data(of: "merger", port: UsualPort.merger) + Self.bucket + Self.keeping() + Self.partitions()
            + [Self.principalDays, Self.exports(option: nil, default: "none")]
    }

    /// What a merger keeps in the bucket.
    @KeyList<MergerConfiguration> private static var bucket: [ConfigurationKey<MergerConfiguration>] {
        ConfigurationKey(
            "checkpoint_hours", .duration(0...8760, unit: .seconds(3600)), \.checkpointAge, unit: "hours",
            "A checkpoint goes into the bucket when the last one is so old; 0: wherever days may be sealed.")
        ConfigurationKey(
            "pieces_days", .duration(0...36_500, unit: .seconds(86_400)), \.pieceRetention, unit: "days",
            "Pieces and rounds that two checkpoints cover are deleted when they are so old.")
    }

    private static var principalDays: ConfigurationKey<MergerConfiguration> {
        ConfigurationKey(
            "principal_days", in: "limits", .dayCounts, optional: \.principalDays, default: "`limits.days`",
            example: "{web: 4000}",
            "As `limits.days`, for single principals: the `quotas.days` of the receivers' `agents`.")
    }
}

extension MergerConfiguration: HostRoot {
    static var defaults: MergerConfiguration { MergerConfiguration(dataDirectory: "") }

    fileprivate var principalDays: [String: Int]? {
        get {
            let counts = self.partitionQuotas.dayCountMaxOfPrincipals
            return counts.isEmpty ? nil : counts
        }
        set { self.partitionQuotas.dayCountMaxOfPrincipals = newValue ?? [:] }
    }
}

extension ValueType<[String: Int]> {
    fileprivate static var dayCounts: ValueType {
        .scalar("section of principals and days", rule: "a section of principals' names, each with 1 to 1000000 days") {
            counts in
            "{" + counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ") + "}"
        } read: { node in
            guard let mapping = node.mapping, !mapping.isEmpty else { return nil }
            var counts: [String: Int] = [:]
            for (key, value) in mapping {
                guard let name = key.string, Principal.isName(name), let count = value.int,
                    (1...1_000_000).contains(count)
                else { return nil }
                counts[name] = count
            }
            return counts
        }
    }
}
