/// What someone asks of a running agent; its pump answers between two steps.
package enum AgentQuestion: Sendable {
    /// Whether the pump still works: `false` once it has ended.
    case life(@Sendable (Bool) -> Void)
    case standing(@Sendable (AgentStanding?) -> Void)
    case report(@Sendable (AgentReport?) -> Void)
    /// Takes another configuration.
    case reload(AgentReload)

    /// The agent has stopped.
    func refuse() {
        switch self {
        case .life(let reply): reply(false)
        case .standing(let reply): reply(nil)
        case .report(let reply): reply(nil)
        case .reload(let reload): reload.reply(.refused(AgentReload.stopping))
        }
    }
}
