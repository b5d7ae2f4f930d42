package import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// What one provider makes of one event.
package struct ProviderOutcome: Sendable, Equatable {
    package enum Kind: String, Sendable {
        case exported, refused, held, skipped
    }

    package let provider: String
    package var kind = Kind.skipped
    package var reason: String?
    package var detail: String?
    package var field: String?
    /// What the provider gets, without the line feed at its end.
    package var record: [UInt8]?
    package var changes: [(code: FixCode, count: Int)] = []

    package static func == (left: Self, right: Self) -> Bool {
        left.provider == right.provider && left.kind == right.kind && left.reason == right.reason
            && left.detail == right.detail && left.field == right.field && left.record == right.record
            && left.changes.elementsEqual(right.changes, by: ==)
    }
}

/// Runs the very exporters, with the receiver's options, for events that are looked at.
///
/// The verdict is about the line as it was shipped. Where members are masked, the record is made once more from what may
/// be shown.
package final class Outcomes {
    /// One provider's exporter.
    private final class Provider {
        let name: String
        var exporter: Exporter

        init(_ options: ExportOptions) {
            self.name = options.provider.rawValue
            self.exporter = Exporter(options)
        }
    }

    private let providers: [Provider]

    package init(_ options: [ExportOptions]) {
        self.providers = options.map(Provider.init)
    }

    package var names: [String] { self.providers.map(\.name) }

    /// The providers that refuse an event, with their reasons.
    package func refusals(of row: LiveRow) -> [(provider: String, reason: String)] {
        self.providers.compactMap { provider in
            var sink = OutcomeSink(provider.name, keepsRecord: false)
            row.withOriginal { Self.export($0, row, provider, to: &sink) }
            guard sink.outcome.kind == .refused, let reason = sink.outcome.reason else { return nil }
            return (provider.name, reason)
        }
    }

    /// What each provider makes of an event.
    ///
    /// - Parameter shown: the event, as it may be shown.
    package func outcomes(of row: LiveRow, shown: borrowing ShownLine) -> [ProviderOutcome] {
        var outcomes: [ProviderOutcome] = []
        for provider in self.providers {
            var sink = OutcomeSink(provider.name, keepsRecord: true)
            row.withOriginal { Self.export($0, row, provider, to: &sink) }
            if shown.isMasked {
                var masked = OutcomeSink(provider.name, keepsRecord: true)
                Self.export(shown.bytes, row, provider, to: &masked)
                // Text about a value may quote it.
                let isSame = masked.outcome.kind == sink.outcome.kind && masked.outcome.reason == sink.outcome.reason
                sink.outcome.detail = isSame ? masked.outcome.detail : nil
                sink.outcome.record = isSame ? masked.outcome.record : nil
            }
            outcomes.append(sink.outcome)
        }
        return outcomes
    }

    private static func export(
        _ line: UnsafeRawBufferPointer, _ row: LiveRow, _ provider: Provider, to sink: inout OutcomeSink
    ) {
        let reader = row.batch.reader
        // A masked line may not be an event any more, if a log's time is masked.
        guard case .event(let facts) = reader.read(line) else { return }
        provider.exporter.export(
            line, facts, source: reader.source, at: row.streamOffset, receivedAt: row.batch.receivedAt,
            isAgeJudged: true, to: &sink)
        provider.exporter.finishGroup(to: &sink)
        // No one asks for the counts of what is looked at.
        _ = provider.exporter.takeCensus()
    }
}

/// Takes the one outcome of one event.
private struct OutcomeSink: ExportSink {
    let keepsRecord: Bool
    var outcome: ProviderOutcome

    init(_ provider: String, keepsRecord: Bool) {
        self.outcome = ProviderOutcome(provider: provider)
        self.keepsRecord = keepsRecord
    }

    mutating func write(_ record: ExportRecord) {
        self.outcome.kind = .exported
        self.take(record)
    }

    mutating func refuse(_ refusal: Refusal) {
        self.outcome.kind = .refused
        self.outcome.reason = refusal.reason.rawValue
        guard self.keepsRecord, let letter = JSONValue(Array(refusal.deadLetter)) else { return }
        self.outcome.detail = letter["detail"]?.string
        self.outcome.field = letter["field"]?.string
    }

    mutating func hold(_ event: HeldEvent) {
        self.outcome.kind = .held
        self.outcome.reason = WaybillExport.Outcome.held.reason
        self.outcome.detail = "the provider accepts it from \(event.notBefore.milliseconds) on"
        self.take(event.record)
    }

    mutating func skip(_ reason: NotExported) {
        self.outcome.kind = .skipped
        self.outcome.reason = reason.rawValue
    }

    private mutating func take(_ record: ExportRecord) {
        guard self.keepsRecord else { return }
        let fixes = record.fixes
        var record = Array(record.bytes)
        if record.last == 0x0A { record.removeLast() }
        if record.last == 0x0D { record.removeLast() }
        self.outcome.record = record
        self.outcome.changes = FixCode.allCases.map { ($0, fixes[$0]) }.filter { $0.1 > 0 }
    }
}
