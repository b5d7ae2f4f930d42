internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTLS

/// The list of clients as it was last read, and whether it must be read again.
///
/// Stamps are taken before the files are read: a change meanwhile is read the next time. A list that cannot be used is read
/// again each time, because what is wrong may be in a file that is not known yet.
struct WatchedAgents {
    enum News: Hashable {
        case changed([Principal])
        /// What is wrong, if that was not said before.
        case unusable([String])
    }

    private var principals: [Principal]
    private var files: [String]
    /// From before the files were read; `nil`: the configuration read them.
    private var stamps: [FileStamp]?
    private var problems: [String] = []

    init(_ configuration: StreamsConfiguration) {
        self.principals = configuration.agents
        self.files = configuration.agentsFiles
    }

    /// Reads the list if one of its files has changed.
    mutating func look(on files: some FileSystem, _ read: () -> StreamsConfiguration.AgentsReading) -> News? {
        let found = self.files.map { FileStamp($0, on: files) }
        guard found != self.stamps else {
            self.problems = []
            return nil
        }
        switch read() {
        case .read(let principals, let read):
            // Other files than before have no stamps from before: the list is read once more.
            self.stamps = read == self.files ? found : nil
            self.files = read
            self.problems = []
            defer { self.principals = principals }
            return principals == self.principals ? nil : .changed(principals)
        case .unusable(let problems):
            defer { self.problems = problems }
            return problems == self.problems ? nil : .unusable(problems)
        }
    }
}
