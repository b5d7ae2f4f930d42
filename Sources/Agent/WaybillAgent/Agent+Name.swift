internal import WaybillSystem
internal import WaybillTail

/// The name that an agent's state was begun with, in a file next to the registry: `state/name`.
///
/// ``AgentNaming`` decides. A state of a version without the file has the name in the keys of its logs. An install's key
/// is its name (``DeviceKeyFile``), and it has no logs.
extension Agent {
    static var nameFile: String { "name" }

    /// Decides which name holds, and writes it into the state.
    ///
    /// - Returns: why the agent must not start.
    func settleName(
        of configuration: inout AgentConfiguration, _ registry: borrowing StateLog<GuardedFiles<POSIXFileSystem>>,
        _ files: GuardedFiles<POSIXFileSystem>
    ) throws(FileSystemError) -> AgentNameChange? {
        guard !configuration.naming.usesDeviceKey else { return nil }
        let path = Path.join(configuration.stateDirectory, Self.nameFile)
        let written = try self.writtenName(path, files)
        let counts = AgentName.counts(in: registry)
        if let former = written ?? Self.name(of: counts, configuration.name), former != configuration.name {
            let change = AgentNameChange(
                former: former, name: configuration.name, logCount: counts[former, default: 0])
            switch configuration.naming.settle(change) {
            case .renamed: self.telemetry.renamed(change)
            case .keepsFormer: self.telemetry.keptName(change)
            case .refused: return change
            }
        }
        if written != configuration.name { self.write(configuration.name, path, files) }
        return nil
    }

    /// The name in the file; `nil` without one, and for a damaged one.
    private func writtenName(_ path: String, _ files: GuardedFiles<POSIXFileSystem>) throws(FileSystemError)
        -> AgentName?
    {
        try files.contents(of: path, byteCountMax: 128).flatMap(CheckedLine.text(of:)).flatMap { AgentName($0) }
    }

    /// The name in the keys of a registry's logs; the present one, if it is among several.
    private static func name(of counts: [AgentName: Int], _ present: AgentName) -> AgentName? {
        if counts[present] != nil { return present }
        return counts.max { ($0.value, $0.key.description) < ($1.value, $1.key.description) }?.key
    }

    private func write(_ name: AgentName, _ path: String, _ files: GuardedFiles<POSIXFileSystem>) {
        do throws(FileSystemError) {
            try files.replace(path, with: CheckedLine.bytes(of: "\(name)"))
        } catch {
            // The keys of the logs have it, too; the next start tries again.
            self.telemetry.registryFailed(error)
        }
    }
}
