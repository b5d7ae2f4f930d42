internal import WaybillEvent
internal import WaybillExport
@testable internal import WaybillInspect
@testable internal import WaybillProjection
internal import WaybillSystem

/// Any bytes as a part's line in a checkpoint, as a manifest, and as the ids in both: read, or refused, and written back
/// as they were read.
enum ExportTextsFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        let text = String(decoding: input, as: UTF8.self)
        try require(PercentText.decode(PercentText.encode(text)) == text, "an id that changes: \(shown(input))")
        _ = PercentText.decode(text)
        _ = ManifestFacts(input)
        for part in [PartStanding(text: text), PartStanding(text: "number=1 " + text)].compactMap(\.self) {
            try Self.check(part)
        }
    }

    private static func check(_ part: PartStanding) throws {
        try require(PartStanding(text: part.text) == part, "written otherwise than read: \(part.text)")
        guard let day = CalendarDay("2026-11-20") else { preconditionFailure("a day") }
        for provider in Destination.allCases {
            let manifest = ExportManifest(
                provider: provider, zone: "UTC", env: .prod, day: day, part: part, sha256: "0f")
            let facts = ManifestFacts(Array(manifest.json.utf8))
            try require(facts?.provider == provider.rawValue, "not its manifest: \(manifest.json)")
            try require(facts?.records == part.recordCount && facts?.events == part.eventCount, manifest.json)
            try require(facts?.day == "2026-11-20" && facts?.env == "prod" && facts?.sha256 == "0f", manifest.json)
        }
    }
}
