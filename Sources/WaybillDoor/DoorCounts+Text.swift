internal import WaybillIngest
internal import WaybillJSON

extension DoorCounts {
    /// The body of an answer, with what the SDKs of a dialect look for.
    func text(for dialect: Dialect) -> [UInt8] {
        JSONWriter.object { json in
            switch dialect {
            case .segment: json.member("success", true)
            case .posthog: json.member("status", 1)
            case .amplitude:
                json.member("code", 200)
                json.member("events_ingested", self.storedCount + self.repeatedCount)
            case .native, .pixel: break
            }
            json.member("stored", self.storedCount)
            json.member("repeated", self.repeatedCount)
            json.member("quarantined", self.quarantinedCount)
        }
    }
}
