internal import WaybillJSON

/// Whether a request's body could be read.
package enum IngestReading: Hashable, Sendable {
    case read
    /// The body as a whole is nothing that the dialect knows; nothing of it is a line.
    case malformed
    /// It has more than ``IngestLimits/eventCountMax`` events; nothing of it may be stored.
    case tooManyEvents
}

/// A request's body, inflated and unwrapped, whose key is known.
package struct IngestBody: ~Copyable {
    private enum Content: ~Copyable {
        case lines([UInt8])
        case json(EventTape)
        case unreadable(IngestReading)
    }

    /// What it is sent as: at a path that PostHog and Amplitude share, the body shows it.
    package let dialect: Dialect
    private let content: Content

    /// - Parameter dialect: by the path.
    package init(_ body: [UInt8], as dialect: Dialect) {
        guard dialect != .native else {
            self.dialect = dialect
            self.content = .lines(body)
            return
        }
        do throws(JSONError) {
            let tape = try EventTape(body: body)
            self.dialect = dialect == .posthog && tape.value("events", in: 0) != nil ? .amplitude : dialect
            self.content = .json(tape)
        } catch {
            self.dialect = dialect
            self.content = .unreadable(error.code == .tooLong ? .tooManyEvents : .malformed)
        }
    }

    /// Whether it names two keys of its own that differ, of which ``KeySearch`` finds the first.
    package var hasSeveralKeys: Bool {
        switch self.content {
        case .json(let tape): tape.hasSeveralKeys
        case .lines: false
        case .unreadable: false
        }
    }

    /// Reads all events.
    ///
    /// - Parameter type: what the path says about Segment's single calls.
    package consuming func read(
        type: SegmentType? = nil, _ context: IngestContext, into batch: inout IngestBatch
    ) -> IngestReading {
        let dialect = self.dialect
        switch consume self.content {
        case .unreadable(let reading): return reading
        case .lines(let body):
            var reader = NativeDialect(context: context)
            reader.read(body, into: &batch)
            return batch.isTooLarge ? .tooManyEvents : .read
        case .json(let tape):
            for name in ["batch", "events", "data"] as [StaticString] {
                if let list = tape.list(name), tape.elements(of: list).count > IngestLimits.eventCountMax {
                    return .tooManyEvents
                }
            }
            if dialect == .amplitude {
                var reader = AmplitudeDialect(tape: tape, context: context)
                reader.read(into: &batch)
            } else if dialect == .posthog {
                var reader = PostHogDialect(tape: tape, context: context)
                reader.read(into: &batch)
            } else {
                var reader = SegmentDialect(tape: tape, context: context, type: type)
                reader.read(into: &batch)
            }
            return .read
        }
    }
}
