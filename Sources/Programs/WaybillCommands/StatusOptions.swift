import ArgumentParser
import WaybillAgent
import WaybillHost
import WaybillLive
import WaybillSystem

extension ListeningPlace: ExpressibleByArgument {
    /// Reads `HOST:PORT`, `http://HOST:PORT`, or the path of a socket.
    public init?(argument: String) {
        self.init(ofStatus: argument)
    }
}

/// Whom `waybill status` and `waybill top` ask.
struct StatusOptions: ParsableArguments {
    @Argument(
        help: """
            Receivers, agents, deliveries, mergers and doors: the address of their metrics (HOST:PORT), or the path of \
            their socket. (default: the sockets of the services, else 127.0.0.1:4391, :4393, :4394, :4395 and :4381)
            """)
    var addresses: [ListeningPlace] = []

    @Option(help: "A file with the token that a program on another machine asks for (status_token_file).")
    var tokenFile: String?

    /// The sockets that the systemd units of these services have made.
    static func sockets(of services: [String]) -> [ListeningPlace] {
        let files = POSIXFileSystem()
        return services.map { "/run/waybill/\($0).sock" }.filter { path in
            do throws(FileSystemError) {
                return try files.status(ofEntry: path) != nil
            } catch {
                // This user may not look there; asking says so.
                return true
            }
        }.map { .socket($0) }
    }

    /// The places to ask, and whether each must answer.
    func places() -> (places: [ListeningPlace], areGuessed: Bool) {
        guard self.addresses.isEmpty else { return (self.addresses, false) }
        let sockets = Self.sockets(of: ["receiver", "agent", "deliver", "merge", "ingest"])
        guard sockets.isEmpty else { return (sockets, false) }
        return (UsualPort.statusAddresses.map { .address($0) }, true)
    }

    func token() throws -> Secret? {
        try OptionReader.statusToken(self.tokenFile)
    }
}

/// What one place answered.
struct StatusAnswer: Sendable {
    let place: ListeningPlace
    let result: Result<[UInt8], StatusFailure>

    /// The status; `nil` without one.
    var document: StatusDocument? {
        guard case .success(let bytes) = self.result else { return nil }
        return StatusDocument(bytes)
    }

    var health: Health { self.document?.health ?? .down }

    var failure: String {
        switch self.result {
        case .success:
            "its answer is not a status; is it a program of Waybill, of this version?"
        case .failure(let failure): failure.description
        }
    }
}

/// Asks several places at once.
enum StatusQuery {
    private static let patience = Duration.seconds(15)

    /// Calls `done` once, on another thread, with the answers in the order of the places.
    static func ask(
        _ places: [ListeningPlace], token: Secret?, _ done: @escaping @Sendable ([StatusAnswer]) -> Void
    ) {
        let answers = Lock<[StatusAnswer?]>(Array(repeating: nil, count: places.count))
        for (index, place) in places.enumerated() {
            StatusClient(place, token: token).fetch { result in
                let all = answers.withLock { answers -> [StatusAnswer]? in
                    answers[index] = StatusAnswer(place: place, result: result)
                    let found = answers.compactMap(\.self)
                    return found.count == answers.count ? found : nil
                }
                if let all { done(all) }
            }
        }
    }

    /// Waits for the answers; each place has a few seconds.
    static func answers(of places: [ListeningPlace], token: Secret?) -> [StatusAnswer] {
        let found = Monitor<[StatusAnswer]?>(nil)
        Self.ask(places, token: token) { answers in found.update { $0 = answers } }
        let deadline = POSIXClock().monotonicTime() + Self.patience
        return found.wait(until: deadline) { $0 } ?? []
    }
}
