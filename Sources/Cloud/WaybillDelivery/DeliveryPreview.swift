internal import WaybillExport
package import WaybillSystem

internal import WaybillData
internal import WaybillProjection

/// Shows what would be sent, request by request; locks, sends and writes nothing.
package struct DeliveryPreview<Files: FileSystem> {
    private let configuration: DeliveryConfiguration
    private let files: Files
    private let now: WallTime

    package init(_ configuration: DeliveryConfiguration, files: Files, now: WallTime) {
        self.configuration = configuration
        self.files = files
        self.now = now
    }

    /// - Parameter show: takes each request as text, without credentials.
    /// - Returns: the number of requests.
    package func run(_ show: (String) -> Void) throws(DeliveryError) -> Int {
        do {
            return try self.showRequests(show)
        } catch let error as DeliveryError {
            throw error
        } catch let error as FileSystemError {
            throw .disk(error)
        } catch PartError.disk(let error) {
            throw .disk(error)
        } catch {
            preconditionFailure("only files and parts can fail here, got \(error)")
        }
    }

    private func showRequests(_ show: (String) -> Void) throws -> Int {
        let provider = self.configuration.provider
        let data = DataDirectory(root: self.configuration.dataDirectory, files: self.files)
        var parts = ClosedParts(root: Path.join(data.exports, provider.rawValue), files: self.files)
        let template = try Self.template(self.configuration)
        guard try self.files.status(at: parts.root)?.kind == .directory else {
            throw DeliveryError.noExport(path: parts.root)
        }
        let state = try self.files.contents(of: data.statePath("deliver-\(provider.rawValue)"), byteCountMax: 1 << 30)
        let entries = state.flatMap { StateImage(bytes: $0)?.entries } ?? [:]
        var requestCount = 0
        for part in try parts.pending(only: self.configuration.env).parts {
            do throws(PartError) {
                let closed = try parts.open(part, of: provider)
                requestCount += try self.showRequests(of: part, closed, entries[part.key], template, show)
            } catch {
                guard case .damaged(let detail) = error else { throw error }
                show("# \(part.day)/\(part.name) is damaged and would not be sent: \(detail)\n")
            }
        }
        return requestCount
    }

    /// Treats every request as accepted, and asks the delivery itself for the next step.
    private func showRequests(
        of part: PendingPart, _ closed: ClosedPart<Files>, _ entry: String?, _ template: RequestTemplate,
        _ show: (String) -> Void
    ) throws(PartError) -> Int {
        let rules = DeliveryRules(self.configuration.provider)
        let known = entry.flatMap { DeliveryStanding(text: $0, recordCount: part.manifest.recordCount) }
            .flatMap { $0.sha256 == part.manifest.sha256 ? $0 : nil }
        var delivery = PartDelivery(
            known ?? DeliveryStanding(sha256: part.manifest.sha256, deadByteCount: 0),
            recordCount: part.manifest.recordCount, rules: rules, policy: self.configuration.ambiguity,
            backoff: Backoff(from: .zero, to: .zero, SeededGenerator(seed: 0)), now: self.now)
        _ = delivery.giveUpAnnounced()
        let start = MonotonicTime(nanoseconds: 0)
        var requestCount = 0
        show("# \(part.day)/\(part.name)\n")
        while true {
            switch delivery.next(at: start) {
            case .cut(let first):
                delivery.take(
                    try closed.requestRecordCount(
                        from: first, recordCountMax: rules.facts.recordsPerRequestMax,
                        byteCountMax: rules.facts.requestByteCountMax))
            case .send(let attempts):
                delivery.announce(attempts, counted: RecordSet())
                for attempt in attempts {
                    show(template.shown(try closed.read(attempt.records).map(\.content), part.env) + "\n")
                    _ = delivery.answered(
                        attempt, .accepted(unconfirmedCount: 0), at: start, wallTime: self.now)
                }
                requestCount += attempts.count
            case .wait, .held, .finished, .stop:
                return requestCount
            }
        }
    }

    private static func template(_ configuration: DeliveryConfiguration) throws(DeliveryError) -> RequestTemplate {
        do throws(EndpointError) {
            return try RequestTemplate(
                configuration.provider, region: configuration.region, endpoint: configuration.endpoint)
        } catch {
            throw .endpoint(error)
        }
    }
}
