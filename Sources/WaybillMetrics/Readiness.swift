/// What `GET /readyz` answers.
package struct Readiness: Hashable, Sendable {
    /// Whether the process does its work; if not, the answer is 503.
    package let isReady: Bool
    /// What an operator must look at, one line each.
    package let problems: [String]

    package init(isReady: Bool, problems: [String]) {
        self.isReady = isReady
        self.problems = problems
    }

    /// Ready, without a problem.
    package static let ready = Readiness(isReady: true, problems: [])

    var text: String {
        ([self.isReady ? "ready" : "not ready"] + self.problems).map { $0 + "\n" }.joined()
    }
}
