internal import WaybillJSON
internal import WaybillHost
internal import WaybillSystem
internal import WaybillTail

/// What an agent says about itself at `GET /status`; `Protocol/metrics.md` describes it.
package struct AgentReport: Hashable, Sendable {
    /// How far a file is.
    package enum FileState: String, Hashable, Sendable {
        /// A receiver holds all of it.
        case shipped
        /// A part of it is on its way.
        case sending
        /// It waits for a receiver, or for its turn.
        case waiting
        /// Only a line without its end is left.
        case unfinished
        /// The receiver refused it; it is asked again later.
        case refused
        /// The receiver holds other bytes of it.
        case disputed
        case unreadable
        /// It was deleted or cut before all of it was shipped.
        case gone
    }

    package struct File: Hashable, Sendable {
        package var path: String
        /// `nil` for a file or folder that could not be read.
        package var byteCount: Int?
        package var ackedByteCount: Int
        package var behindByteCount: Int
        /// How long the oldest byte that is not acknowledged has waited, at most; `nil` if nothing waits.
        package var behind: Duration?
        package var state: FileState
        package var error: String?
    }

    /// More files are only counted.
    static let fileCountMax = 1000
    static let errorCharacterCountMax = 200

    var standing = AgentStanding()
    var time = WallTime.unknown
    /// The agent's, which its state may have.
    var name = ""
    var started = WallTime.unknown
    var connectedSince: WallTime?
    var receiver: String?
    var address: String?
    var lastFailure: String?
    /// Those that are furthest behind or have an error come first.
    package var files: [File] = []
    var fileCount = 0

    func json(_ configuration: AgentConfiguration) -> [UInt8] {
        let readiness = self.standing.readiness
        let summary = self.standing.summary
        return JSONWriter.object { json in
            json.member("part", "agent")
            json.member("name", self.name)
            json.member("software", configuration.run.software)
            json.member("time", self.time.milliseconds)
            json.member("started", self.started.milliseconds)
            // Whatever happens, nothing is lost: the files stay.
            json.member("health", (readiness == .ready ? Health.ok : .degraded).rawValue)
            json.member("problems", array: readiness.problems) { $0.string($1) }
            json.member("connected", self.standing.isConnected)
            json.member("receiver", self.receiver)
            json.member("address", self.address)
            json.member("since", self.connectedSince.map { Int($0.milliseconds) })
            json.member("last_error", self.lastFailure)
            json.member("lines", summary.lineCount)
            json.member("bytes", summary.rawByteCount)
            json.member("acknowledged", summary.ackedByteCount)
            json.member("lost_bytes", summary.files.lostByteCount)
            json.member("behind_bytes", self.standing.pendingByteCount)
            json.member("in_flight_bytes", self.standing.inFlightByteCount)
            json.member("look_lag_seconds", Int(self.standing.lookLag.nanoseconds / 1_000_000_000))
            json.member("hanging", objects: self.standing.hanging) { json, wait in
                json.member("path", wait.path)
                json.member("seconds", Int(wait.duration.nanoseconds / 1_000_000_000))
                json.member("files", wait.fileCount)
                json.member("sources", wait.sourceCount)
            }
            let refused = self.standing.refusals.filter { $0.value > 0 }.map { ($0.key.rawValue, $0.value) }
            json.member("refused_files", Dictionary(uniqueKeysWithValues: refused))
            json.member("followed", self.fileCount)
            json.member("files", objects: self.files) { json, file in
                json.member("path", file.path)
                json.member("size", file.byteCount)
                json.member("acknowledged", file.ackedByteCount)
                json.member("behind_bytes", file.behindByteCount)
                json.member("behind_seconds", file.behind.map { Int($0.nanoseconds / 1_000_000_000) })
                json.member("state", file.state.rawValue)
                json.member("error", file.error)
            }
        }
    }
}

extension AgentStanding {
    /// Ready while a receiver takes what is sent; the problems name no file, no address and no receiver.
    var readiness: Readiness {
        var problems: [String] = []
        if !self.isConnected {
            problems.append("no receiver has accepted this agent: everything stays on this machine")
        }
        if self.isStalled { problems.append("the receiver has acknowledged nothing for a minute") }
        let isReady = problems.isEmpty
        if self.isFleetDoubted {
            problems.append(
                "nothing shows that the receiver belongs to the fleet that it names: what it holds counts as its own")
        }
        if self.disputedStreamCount > 0 {
            problems.append("files wait, because the receiver holds other bytes of them: \(self.disputedStreamCount)")
        }
        if !self.hanging.isEmpty {
            problems.append("file systems do not answer, and what is on them waits: \(self.hanging.count)")
        }
        if self.summary.files.unreadableCount > 0 {
            problems.append("files or folders cannot be read: \(self.summary.files.unreadableCount)")
        }
        return Readiness(isReady: isReady, problems: problems)
    }
}
