internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// Another configuration while the agent runs.
///
///     claims of new spools ─▶ registry written ─▶ BYE, connection ends ─▶ sources change ─▶ next step: scan, connect
///
/// What was on its way is as after a connection that broke: the receiver says with the next one what it holds.
extension Pump where Hints: ~Copyable {
    /// Takes a configuration; all of it or nothing.
    mutating func reload(_ reload: AgentReload) -> AgentReload.Outcome {
        guard !self.goal.isStopping, !self.goal.isParting else { return .refused(AgentReload.stopping) }
        let configuration = self.configuration.taking(reload.configuration)
        do throws(FileSystemError) {
            try self.claims.replace(with: configuration.sources.compactMap(\.spool))
        } catch {
            return .refused("agent.sources: \(error); another agent ships this spool")
        }
        if reload.reconnects || configuration.sources != self.configuration.sources {
            self.part()
            self.follow(configuration)
            if let make = reload.buffers { self.room.replacePool(make) }
            self.choice.beginWithFirst()
        } else {
            self.tail.keep(configuration.tailLimits.keep)
            self.tail.limitQuarantine(configuration.tailLimits.quarantine)
        }
        reload.commit()
        self.configuration = configuration
        return .taken
    }

    /// Writes the registry and ends the connection, so that nothing is on its way; the next one begins at once.
    mutating func part() {
        self.checkpoint(self.now)
        if self.connection.isReady { self.send(.bye) }
        self.endConnection(retryAt: self.clock.monotonicTime())
        self.choice.succeeded()
    }

    /// Forgets streams that are not followed any more.
    mutating func leave(_ setAside: [StreamKey]) {
        for stream in setAside {
            self.standings.remove(stream)
            self.streams.succeeded(stream)
        }
    }

    private mutating func follow(_ configuration: AgentConfiguration) {
        self.leave(self.tail.follow(configuration.tailSources, limits: configuration.tailLimits))
        self.standings.forgetErrors()
        self.schedule.begin(self.clock.monotonicTime())
        self.goal.foundMore()
    }
}
