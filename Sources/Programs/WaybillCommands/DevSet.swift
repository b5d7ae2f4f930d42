import Logging
import ServiceLifecycle
import UnixSignals
import WaybillHost
import WaybillLive
import WaybillReceiver
import WaybillSystem

/// `waybill live --dev`: a receiver, the page and, with a plan, what compares the two.
///
///     signals are caught ─▶ folder with token and certificate ─▶ receiver listens ─▶ page ─▶ address is printed
///                                                                                              │ events
///     answer is printed, folder removed ◀─ receiver ends ◀─ last look at the journal, page ends ◀─ plan done, or signal
///
/// Everything is in one process. `Receiver` and `LivePage` are the services that `waybill receiver` and `waybill live` run,
/// and take the same configurations; only what they are given differs. With child processes, ports would have to be
/// chosen before they are bound, failures would have to be read from logs, and a stop passed on in order. What children
/// would give, a page whose crash stops no receiver, matters where events must not be lost, and here they are tests.
///
/// The session stops before the receiver does, so that its last look at the journal is at all that apps were told to be
/// durable.
struct DevSet {
    let folder: DevFolder
    let receiver: ReceiverConfiguration
    /// What apps connect to.
    let host: String
    let page: LivePage
    let plan: PlanRun?

    /// - Parameter signals: those that end it, caught since before ``folder`` was made.
    func group(_ signals: UnixSignalsSequence, logLevel: Logger.Level) async -> ServiceGroup {
        let (listening, ports) = AsyncStream.makeStream(of: Receiver.Ports.self)
        let receiver = Receiver(
            configuration: self.receiver, logger: Console.logger("receiver", level: logLevel),
            onListening: { ports.yield($0) })
        IdleSignals.ignore()
        let session = DevSession(set: self, listening: listening)
        return ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(
                        service: StopService(signals: signals),
                        successTerminationBehavior: .gracefullyShutdownGroup),
                    .init(
                        service: receiver, successTerminationBehavior: .gracefullyShutdownGroup,
                        failureTerminationBehavior: .gracefullyShutdownGroup),
                    .init(
                        service: session, successTerminationBehavior: .gracefullyShutdownGroup,
                        failureTerminationBehavior: .gracefullyShutdownGroup),
                ],
                logger: Console.logger("lifecycle", level: .critical)))
    }
}

/// Ends with the first signal, also with one that came before it began.
private struct StopService: Service {
    let signals: UnixSignalsSequence

    func run() async {
        for await _ in self.signals.cancelOnGracefulShutdown() { return }
    }
}

/// The page and the plan, from when the receiver listens.
private struct DevSession: Service {
    let set: DevSet
    let listening: AsyncStream<Receiver.Ports>

    func run() async throws {
        guard let ports = await self.ports(), let metrics = ports.metrics else { return }
        let receiver = NetworkAddress(host: "127.0.0.1", port: metrics)
        var page = self.set.page
        page.configuration.receiver = receiver
        let server = try await page.start()
        let (done, finish) = AsyncStream.makeStream(of: Void.self)
        let failure: (any Error)?
        do {
            try self.announce(port: ports.agents, page: page.address(port: server.port))
            self.set.plan?.start(receiver: receiver) { finish.finish() }
            for await _ in done.cancelOnGracefulShutdown() {}
            failure = nil
        } catch {
            failure = error
        }
        self.set.plan?.stop()
        try await server.stop()
        if let failure { throw failure }
    }

    /// The receiver's ports once it listens; `nil` if it is to end before.
    private func ports() async -> Receiver.Ports? {
        for await ports in self.listening.cancelOnGracefulShutdown() { return ports }
        return nil
    }

    /// Prints the addresses: to standard output, which with a plan is for the answer.
    private func announce(port: Int, page: String) throws {
        guard let token = self.set.receiver.token else { preconditionFailure("a set-up has a token") }
        let address = ReceiverAddress(
            address: NetworkAddress(host: self.set.host, port: port), token: token,
            pin: try self.set.folder.certificate.pin())
        try self.set.folder.write(address)
        let descriptor: Int32 = self.set.plan == nil ? 1 : 2
        Console.write("\(address.revealed)\n\(page)\n", to: descriptor)
        Console.printError("give the address that begins with waybill:// to the app whole; the other one is the page")
    }
}
