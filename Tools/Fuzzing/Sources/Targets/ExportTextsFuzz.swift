internal import WaybillEvent
internal import WaybillExport
internal import WaybillSystem
internal import WaybillTestSupport
@testable internal import WaybillProjection
@testable internal import WaybillReplay

/// Any bytes as a part's line in a checkpoint, as a manifest, and as the ids in both: read, or refused, and written back
/// as they were read.
enum ExportTextsFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        let text = String(decoding: input, as: UTF8.self)
        try require(PercentText.decode(PercentText.encode(text)[...]) == text, "an id that changes: \(shown(input))")
        _ = PercentText.decode(text[...])
        if let manifest = PartManifest(json: input) {
            try require(PartManifest(json: manifest.json) == manifest, "written otherwise than read: \(shown(input))")
        }
        if let manifest = ExportDayManifest(json: input) {
            try require(
                ExportDayManifest(json: manifest.json) == manifest, "written otherwise than read: \(shown(input))")
        }
        for part in [PartStanding(text: text), PartStanding(text: "number=1 " + text)].compactMap(\.self) {
            try Self.check(part)
        }
    }

    private static func check(_ part: PartStanding) throws {
        try require(PartStanding(text: part.text) == part, "written otherwise than read: \(part.text)")
        guard let day = CalendarDay("2026-11-20") else { preconditionFailure("a day") }
        for provider in Destination.allCases {
            let manifest = PartManifest(
                provider: provider, zone: "UTC", env: .prod, day: day, part: part,
                sha256: String(repeating: "0f", count: 32))
            let json = String(decoding: manifest.json, as: UTF8.self)
            let read = PartManifest(json: manifest.json)
            try require(read == manifest, "not its manifest: \(json)")
            try require(read?.provider == provider.rawValue && read?.env == "prod" && read?.day == day, json)
            try require(read?.recordCount == part.recordCount && read?.eventCount == part.eventCount, json)
        }
    }
}
