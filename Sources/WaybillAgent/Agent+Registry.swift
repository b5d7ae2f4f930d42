internal import WaybillSystem
internal import WaybillTail

/// A registry that ends the agent which reads it.
///
///     state/readers                            where the agent is in it (``ReadingPlaces``)
///     state/registry.state.poison              a registry that ended it twice as a whole
///     quarantine/registry-<digits>.entry       an entry that ended it twice: its key, a space, its text
///
/// Nothing is lost: a receiver knows every position, and is asked.
extension Agent {
    func recordGuard(_ configuration: AgentConfiguration) -> RecordGuard {
        let path = Path.join(configuration.stateDirectory, "readers")
        // Without the file, an entry may end the agent at each start; that is no reason not to start.
        let places = ReadingPlaces(path: path, permissions: .state) ?? ReadingPlaces()
        return RecordGuard(places, reader: "registry")
    }

    func openRegistry(
        _ configuration: AgentConfiguration, _ files: GuardedFiles<POSIXFileSystem>, _ records: RecordGuard
    ) throws(FileSystemError) -> StateLog<GuardedFiles<POSIXFileSystem>> {
        let path = Path.join(configuration.stateDirectory, "registry.state")
        let reading = records.begin(path)
        defer { records.end() }
        if let ends = reading.endsToTell { self.telemetry.registryEnded(path, starts: ends.count) }
        if reading.isPoison {
            for path in StateImage.paths(path) where try files.status(at: path) != nil {
                try files.rename(path, to: path + ".poison")
            }
            try files.synchronizeDirectory(configuration.stateDirectory)
            self.telemetry.registrySetAside(path + ".poison", signal: reading.signal)
        }
        return try StateLog(path: path, files: files)
    }

    /// Keeps an entry before the registry forgets it.
    func keep(_ poison: TailRecovery.Poison, _ files: GuardedFiles<POSIXFileSystem>) throws(FileSystemError) {
        let digits = Hexadecimal.text(FNV1a.hash(poison.key.utf8), digitCount: 16)
        let path = Path.join(self.quarantine, "registry-\(digits).entry")
        try files.replace(path, with: Array("\(poison.key) \(poison.text)\n".utf8))
        self.telemetry.registrySetAside(path, signal: poison.signal)
    }
}
