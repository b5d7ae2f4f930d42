internal import NIOCore
internal import NIOPosix
internal import WaybillHost
internal import WaybillSystem

/// What the receiver answers about itself.
extension Receiver {
    /// - Returns: `nil` if it is asked for nowhere.
    func serveMetrics(
        _ status: ReceiverStatus, _ group: MultiThreadedEventLoopGroup
    ) async throws(Failure) -> MetricsServer? {
        let (shared, telemetry) = (status.shared, self.telemetry)
        let answers = MetricsAnswers(
            page: { eventLoop in
                // The next scrape has what this one makes it count.
                _ = status.usage.measure(on: eventLoop)
                return eventLoop.makeSucceededFuture(
                    telemetry.page(shared, journalEnd: status.feed.end, status.usage.last))
            },
            // Agents are served on all of them.
            liveness: { eventLoop in
                EventLoopFuture.andAllSucceed(group.makeIterator().map { $0.submit {} }, on: eventLoop)
            },
            readiness: { $0.makeSucceededFuture(telemetry.readiness(shared)) },
            status: { status.answer(after: $0, on: $1) })
        do throws(MetricsServer.Failure) {
            let server = try await MetricsServer.start(
                on: self.configuration.status, token: self.reloader.statusToken, group: group, answers)
            guard let server else { return nil }
            for place in server.places { telemetry.host.metricsServed(on: place) }
            return server
        } catch {
            throw .host(.metrics(error))
        }
    }
}
