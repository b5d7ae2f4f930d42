/// Calls that the sources do not make, and what stands for them.
struct BannedCall: Sendable {
    let name: String
    /// Code of which none may occur; a space stands for any white space.
    let patterns: [String]
    let replacement: String
    /// Modules that may.
    var allowedModules: Set<String> = []
    /// Methods of the same name are something else.
    var isFunction = false
    var applies: @Sendable (String) -> Bool = Scope.sources

    var rule: FileRule {
        FileRule(
            name: self.name,
            applies: { path in
                self.applies(path) && !(Scope.module(path).map { self.allowedModules.contains(String($0)) } ?? false)
            },
            findings: { self.findings(in: $0.swift) })
    }

    private func findings(in text: SwiftText) -> [Finding] {
        let patterns = Dictionary(
            grouping: self.patterns.map { (text: $0, tokens: SwiftText($0).tokens) }, by: { $0.tokens[0].text })
        var findings: [Finding] = []
        for index in text.tokens.indices {
            for pattern in patterns[text.tokens[index].text] ?? [] {
                guard Self.matches(pattern.tokens, text.tokens[index...]) else { continue }
                let before = index > 0 ? text.tokens[index - 1].text : ""
                if before == "func" || (self.isFunction && before == ".") { continue }
                findings.append(
                    Finding(line: text.tokens[index].line, text: "`\(pattern.text)`: \(self.replacement)"))
            }
        }
        return findings
    }

    /// Whether `tokens` begin with `pattern`, with no space where it has none.
    private static func matches(_ pattern: [SwiftText.Token], _ tokens: ArraySlice<SwiftText.Token>) -> Bool {
        guard zip(pattern, tokens).allSatisfy({ $0.text == $1.text }), tokens.count >= pattern.count else {
            return false
        }
        let places = zip(zip(pattern, pattern.dropFirst()), zip(tokens, tokens.dropFirst()))
        return places.allSatisfy { expected, found in
            expected.1.offset > expected.0.end || found.1.offset == found.0.end
        }
    }
}

/// Modules that open sockets, start threads and wait.
private let drivers: Set<String> = [
    "WaybillAgent", "WaybillDelivery", "WaybillDispatch", "WaybillHost", "WaybillHTTPClient", "WaybillMerger",
    "WaybillReceiver", "waybill-benchmark", "WaybillCommands",
]

/// Modules that write to standard output.
private let programs: Set<String> = [
    "WaybillCommands", "waybill-benchmark", "waybill-simulate",
]

let bannedCalls: [BannedCall] = [
    BannedCall(
        name: "date",
        patterns: [
            "Date()", "Date.now", "Date(timeIntervalSinceNow", "ContinuousClock.now", "ContinuousClock().now",
            "SuspendingClock", "clock_gettime(", "gettimeofday(",
        ],
        replacement: "take the time as an argument, or read a `SystemClock`", allowedModules: ["WaybillSystem"]),
    BannedCall(
        name: "file-manager", patterns: ["FileManager", "FileHandle"], replacement: "go through `FileSystem`",
        // It asks where Application Support is.
        allowedModules: ["WaybillFoundation"]),
    BannedCall(
        name: "print", patterns: ["print(", "Swift.print(", "debugPrint(", "NSLog("],
        replacement: "log, or print in a program's own module", allowedModules: programs, isFunction: true),
    BannedCall(name: "force-try", patterns: ["try!"], replacement: "throw, or `preconditionFailure` with the reason"),
    BannedCall(
        name: "optional-try", patterns: ["try?"], replacement: "catch the error and act on it: retry, report or rethrow"
    ),
    BannedCall(
        name: "fatal-error", patterns: ["fatalError("],
        replacement: "`precondition` with the value for a caller's mistake, an error for the world's"),
    BannedCall(
        name: "unsafe-global", patterns: ["nonisolated(unsafe)"],
        replacement: "a constant, a `Lock`, or a type that is `@unchecked Sendable` and names its lock"),
    BannedCall(
        name: "sleep", patterns: ["sleep(", "usleep(", "nanosleep("],
        replacement: "return when to be called again; a driver waits", allowedModules: drivers),
    BannedCall(
        name: "test-sleep", patterns: ["sleep(", "usleep(", "nanosleep("],
        replacement: "wait for an event, or move the clock",
        applies: { Scope.tests($0) && !$0.hasPrefix("Tests/SimulatorTests/") }),
    BannedCall(
        name: "lock", patterns: ["NSLock", "NSRecursiveLock", "NSCondition", "DispatchSemaphore"],
        replacement: "`Lock` or `Monitor`"),
    BannedCall(
        name: "synchronization", patterns: ["import Synchronization"],
        replacement: "`Lock` and `Atomic`: Apple's systems have that module from iOS 18 and macOS 15 on",
        applies: { Scope.swift($0) && !$0.hasPrefix("Tests/OutsideTests/") }),
    BannedCall(
        name: "process-info", patterns: ["ProcessInfo"], replacement: "`ProcessEnvironment` and `ProcessUsage`"),
    BannedCall(name: "dispatch-queue", patterns: ["DispatchQueue", "DispatchGroup"], replacement: "`Worker`"),
    BannedCall(
        name: "foundation-json", patterns: ["JSONEncoder", "JSONDecoder", "JSONSerialization"],
        replacement: "`WaybillJSON`"),
    BannedCall(
        name: "foundation", patterns: ["import Foundation"],
        replacement: "`WaybillSystem` and `WaybillJSON`, or FoundationEssentials where no event passes",
        allowedModules: ["WaybillFoundation", "WaybillUI"]),
    BannedCall(
        name: "task",
        patterns: [
            "Task {", "Task (", "= Task <", "return Task <", "Task.init", "Task.detached", "Task.immediate",
        ],
        replacement: "a child task of a group, or a `Service`, so that it is awaited and cancelled"),
]
