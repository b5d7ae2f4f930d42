internal import WaybillIngest
internal import WaybillJSON

extension DoorCounts {
    /// The body of an answer, with what the SDKs of a dialect look for, and what is wrong with which events.
    func text(for dialect: Dialect, _ events: IngestedEvents) -> [UInt8] {
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
            if self.droppedCount > 0 { json.member("dropped", self.droppedCount) }
            let faults = events.faults + events.remarks
            guard !faults.isEmpty else { return }
            json.member("faults") { json in
                for reason in IngestFault.allCases {
                    let indexes = faults.lazy.filter { $0.reason == reason }.map(\.index).prefix(Self.faultCountMax)
                    guard !indexes.isEmpty else { continue }
                    json.key(text: reason.rawValue)
                    json.beginArray()
                    for index in indexes { json.integer(Int64(index)) }
                    json.endArray()
                }
            }
        }
    }

    /// Events that an answer names for a reason.
    private static var faultCountMax: Int { 10 }
}

extension IngestedEvents {
    /// The body of an answer that asks to send everything again later.
    ///
    /// Amplitude's SDKs try twelve times: each 30 s later for events that are named as throttled, else within 13 s. They go by
    /// `code`, whatever the status is.
    func laterText(_ error: StaticString, for dialect: Dialect) -> [UInt8] {
        JSONWriter.object { json in
            guard dialect == .amplitude else { return json.member("error", error) }
            json.member("code", 429)
            json.member("error", error)
            json.member("throttled_users") { _ in }
            json.member("throttled_devices") { _ in }
            json.member("throttled_events", array: 0..<self.eventCount) { $0.integer(Int64($1)) }
        }
    }

    /// The body of an answer to a request with more events than its address may send at once.
    static func tooManyText(_ countMax: Int, for dialect: Dialect) -> [UInt8] {
        JSONWriter.object { json in
            if dialect == .amplitude { json.member("code", 413) }
            json.member("error", "too many events in one request of this address; send smaller batches")
            json.member("events_max", countMax)
        }
    }
}
