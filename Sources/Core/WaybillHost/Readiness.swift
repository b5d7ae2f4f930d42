/// How well a program does its job; `waybill status` ends with the worst one's exit code.
package enum Health: String, Hashable, Sendable, Comparable {
    /// All is well.
    case ok
    /// It works, but an operator must look at something.
    case degraded
    /// It does not do its job: a receiver acknowledges nothing.
    case down

    private var rank: Int {
        switch self {
        case .ok: 0
        case .degraded: 1
        case .down: 2
        }
    }

    package static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }
}

/// What `GET /readyz` answers.
package struct Readiness: Hashable, Sendable {
    /// Whether the process does its work; if not, the answer is 503.
    package let isReady: Bool
    /// What an operator must look at, one line each; they name no agent, no address and no file.
    package let problems: [String]

    package init(isReady: Bool, problems: [String]) {
        self.isReady = isReady
        self.problems = problems
    }

    /// Ready, without a problem.
    package static let ready = Readiness(isReady: true, problems: [])

    package var text: String {
        ([self.isReady ? "ready" : "not ready"] + self.problems).map { $0 + "\n" }.joined()
    }
}
