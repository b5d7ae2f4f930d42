import WaybillSystem

/// A part of the commands that one of Waybill's programs has; a command that needs it replaces this process by that
/// program, with the same arguments.
///
/// So agents, receivers and what takes requests from the internet do not carry each other's libraries.
package final class ProgramPart<Part: Sendable>: Sendable {
    private let program: String
    private let part = Lock<Part?>(nil)

    /// - Parameter program: is installed next to this one.
    init(of program: String) {
        self.program = program
    }

    /// What that program says before any command runs.
    package func register(_ part: Part) {
        self.part.withLock { $0 = part }
    }

    /// The part of this process; throws if there is none, and the program cannot be run either.
    @discardableResult
    func require() throws -> Part {
        if let part = self.part.withLock({ $0 }) { return part }
        throw ChildProcess.replaceThis(with: self.program)
    }
}
