internal import WaybillData
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem

/// The receiver's metrics; `Protocol/metrics.md` describes each.
extension ReceiverTelemetry {
    func page(_ shared: ReceiverShared, journalEnd: JournalPosition, _ usage: DiskUsage.Result?) -> MetricsPage {
        var page = MetricsPage()
        page.addBuild(shared.software, protocol: LineProtocol.versions)
        self.addReceived(shared, to: &page)
        self.addTLS(to: &page)
        self.addProxies(to: &page)
        self.journal.addMetrics(journalEnd, self.lineDelays, to: &page)
        self.uploads.addMetrics(journalEnd, self.host.storeRequests, to: &page)
        page.add(.acksWithheld, shared.conditions.withheld == nil ? 0 : 1)
        self.host.addFiles(shared.conditions, usage, journalEnd, to: &page)
        page.addProcess()
        return page
    }

    private func addReceived(_ shared: ReceiverShared, to page: inout MetricsPage) {
        page.add(.receivedBatches, self.journal.batches.load(ordering: .relaxed))
        page.add(.receivedLines, self.journal.lines.load(ordering: .relaxed))
        page.add(.receivedBytes, self.journal.rawBytes.load(ordering: .relaxed))
        page.add(.refusedBatches, self.refusedBatches.load(ordering: .relaxed))
        page.add(.skippedBytes, by: SkipReason.self) { self.skippedByteCount($0) }
        let refusals = self.refusals.withLock { $0.ofAgents }
        page.add(.refusedAgents, by: AgentRefusal.self) { refusals[$0] ?? 0 }
        page.add(.deniedRequests, self.denials.load(ordering: .relaxed))
        page.add(.agents, shared.agents.count)
        page.add(.silentAgents, shared.agents.silentCount(at: shared.clock.monotonicTime()))
        page.add(.admissionBytes, shared.admissionByteCount - shared.budget.freeByteCount)
        self.addLimits(shared, to: &page)
        self.host.reloads.add(to: &page)
    }

    private func addLimits(_ shared: ReceiverShared, to page: inout MetricsPage) {
        page.add(.connections, shared.connections.places.count)
        page.add(.descriptionBytes, shared.streams.byteCount)
        let limits = self.limits.withLock { $0 }
        page.add(.limited, by: Limit.self) { limits[$0] ?? 0 }
        page.add(.admissionWaits, by: AdmissionCharge.Room.self) { shared.budget.waitCount($0) }
        page.add(.archiveBacklog, Double(shared.budget.archiveBacklogNanoseconds) / 1e9)
        page.add(.suppressedLines, self.suppressedLines.load(ordering: .relaxed))
    }

    private func addProxies(to page: inout MetricsPage) {
        let refusals = self.refusals.withLock { $0.ofProxies }
        page.add(.refusedProxies, by: ProxyRefusal.self) { refusals[$0] ?? 0 }
    }

    private func addTLS(to page: inout MetricsPage) {
        let expiry = self.certificateExpiry.load(ordering: .relaxed)
        guard expiry != 0 else { return }
        page.add(.certificateExpiry, expiry)
        let refusals = self.refusals.withLock { $0.ofTLS }
        page.add(.refusedTLS, by: TLSRefusal.self) { refusals[$0] ?? 0 }
    }
}
