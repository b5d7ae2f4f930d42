internal import NIOCore
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// The agent's metrics; `Protocol/metrics.md` describes each.
extension Agent {
    /// An agent that has stopped has no metrics.
    private struct Stopped: Error, CustomStringConvertible {
        var description: String { "the agent has stopped" }
    }

    /// Serves what the agent says about itself.
    ///
    /// - Returns: `nil` if it is asked for nowhere.
    func serveMetrics(
        _ inbox: PumpInbox, _ group: any EventLoopGroup
    ) async throws(MetricsServer.Failure) -> MetricsServer? {
        let configuration = self.configuration
        let answers = MetricsAnswers(
            page: { eventLoop in
                Self.ask(inbox, eventLoop) { .standing($0) }.map { standing in
                    var page = standing.page
                    self.addOwn(to: &page)
                    return page
                }
            },
            liveness: { eventLoop in
                Self.ask(inbox, eventLoop) { reply in .life { reply($0 ? () : nil) } }
            },
            readiness: { Self.ask(inbox, $0) { .standing($0) }.map(\.readiness) },
            status: { _, channel in
                Self.ask(inbox, channel.eventLoop) { .report($0) }.map { $0.json(configuration) }
            })
        let server = try await MetricsServer.start(
            on: configuration.status, token: self.reloader.statusToken, group: group, answers)
        guard let server else { return nil }
        for place in server.places { self.telemetry.metricsServed(on: place) }
        return server
    }

    /// Adds what the pump does not know.
    private func addOwn(to page: inout MetricsPage) {
        page.addBuild(self.configuration.run.software, protocol: LineProtocol.versions)
        page.add(.agentCertificateExpiry, self.live.tls.withLock { $0?.expiry }.map { Int($0.milliseconds / 1000) })
        self.reloader.telemetry.add(to: &page, as: .agentReloads)
    }

    /// Asks the pump; fails once it has ended.
    private static func ask<Value: Sendable>(
        _ inbox: PumpInbox, _ eventLoop: any EventLoop,
        _ question: (@escaping @Sendable (Value?) -> Void) -> AgentQuestion
    ) -> EventLoopFuture<Value> {
        let promise = eventLoop.makePromise(of: Value.self)
        let reply: @Sendable (Value?) -> Void = { value in
            promise.completeWith(value.map { .success($0) } ?? .failure(Stopped()))
        }
        inbox.post(.asked(question(reply)), generation: 0)
        return promise.futureResult
    }
}

extension AgentStanding {
    fileprivate var page: MetricsPage {
        var page = MetricsPage()
        page.add(.connected, self.isConnected ? 1 : 0)
        page.add(.connections, self.summary.receivers.connectionCount)
        page.add(.streams, self.streamCount)
        page.add(.sealedStreams, self.summary.sealedStreamCount)
        page.add(.refusedFiles, by: FileRefusal.self) { self.refusals[$0] ?? 0 }
        page.add(.unreadableFiles, self.summary.files.unreadableCount)
        page.add(.unsuitableFiles, by: ForeignFormat.self) { self.formats[$0] ?? 0 }
        self.addBytes(to: &page)
        self.addReceivers(to: &page)
        self.addKept(to: &page)
        page.addProcess()
        return page
    }

    private func addKept(to page: inout MetricsPage) {
        page.add(.keptSegments, self.kept.segmentCount)
        page.add(.keptBytes, self.kept.segmentByteCount)
        page.add(.returnedSegments, self.summary.notices.returnedSegmentCount)
        page.add(.expiredFiles, by: Metric.ExpiredPart.self) { part in
            switch part {
            case .kept: self.summary.notices.expiredSegmentCount
            case .quarantine: self.summary.notices.expiredQuarantineCount
            }
        }
        page.add(.quarantineBytes, self.kept.quarantineByteCount)
    }

    private func addReceivers(to page: inout MetricsPage) {
        page.add(.clockSkew, self.clockSkew.map { $0 / .seconds(1) })
        page.add(.unknownReceivers, self.summary.receivers.unknownCount)
        page.add(.olderReceivers, self.summary.receivers.olderCount)
        page.add(.disputedStreams, self.disputedStreamCount)
        page.add(.differingStreams, self.summary.notices.differingStreamCount)
        page.add(.forgottenStreams, self.summary.notices.forgottenStreamCount)
        page.add(.shortenedSegments, self.summary.notices.shortenedStreamCount)
        page.add(.reshippedSegments, self.summary.reshippedSegmentCount)
        page.add(.missingSegments, self.summary.notices.missingSegmentCount)
    }

    private func addBytes(to page: inout MetricsPage) {
        page.add(.sentBatches, self.summary.batchCount)
        page.add(.sentLines, self.summary.lineCount)
        page.add(.sentBytes, self.summary.rawByteCount)
        page.add(.wireBytes, self.summary.wireByteCount)
        page.add(.ackedBytes, self.summary.ackedByteCount)
        page.add(.storedBytes, self.summary.storedByteCount)
        page.add(.pendingBytes, self.pendingByteCount)
        page.add(.inFlightBytes, self.inFlightByteCount)
        page.add(.oldestUnacked, self.oldestUnacked / .seconds(1))
        page.add(.lookLag, self.lookLag / .seconds(1))
        page.add(.hangingMounts, self.hanging.count)
        page.add(.skippedBytes, self.summary.skips.byteCount)
        page.add(.lostBytes, self.summary.files.lostByteCount)
        page.add(.unseenEnds, self.summary.files.unseenEndCount)
        page.add(.holeBytes, self.summary.skips.holeByteCount)
        page.add(.rereadBytes, self.summary.successions.rereadByteCount)
        page.add(.continuedFiles, self.summary.successions.continuedCount)
    }
}
