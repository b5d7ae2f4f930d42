import ArgumentParser
import WaybillHost
import WaybillLive
import WaybillReceiver
import WaybillSystem

/// The options of `waybill live --dev`.
struct DevOptions: ParsableArguments {
    @Flag(
        help: "Start a receiver as well, with a certificate and a token of its own, for developing and testing an app.")
    var dev = false

    @Option(
        help: """
            With --dev: where apps send events; port 0 takes a free one. (default: this machine's address in the local \
            network, port 4390)
            """,
        transform: OptionReader.address)
    var receive: NetworkAddress?

    @Option(
        help: """
            With --dev: where to keep data, token and certificate, so that the next start continues with them. (default: a \
            temporary directory, removed at the end)
            """)
    var keep: String?

    @Option(
        help:
            "With --dev: a plan of the events that must come and must not come (JSON); the answer is printed at the end."
    )
    var expect: String?

    @Option(help: "With --expect: how many seconds to wait for the events. (default: until a signal)")
    var `for`: Int?

    private static let seconds = 1...86_400

    func check(mask: String?) throws {
        let given = [
            ("--receive", self.receive != nil), ("--keep", self.keep != nil), ("--expect", self.expect != nil),
            ("--for", self.for != nil),
        ]
        if !self.dev, let option = given.first(where: \.1)?.0 { throw ValidationError("\(option) needs --dev") }
        guard self.for == nil || self.expect != nil else { throw ValidationError("--for needs --expect PLAN") }
        if let seconds = self.for, !Self.seconds.contains(seconds) {
            throw ValidationError("--for is \(Self.seconds.lowerBound) to \(Self.seconds.upperBound) seconds")
        }
        guard self.expect == nil || mask == nil else {
            throw ValidationError("--mask hides values that --expect compares; leave one of them out")
        }
        if self.keep == "" { throw ValidationError("--keep must name a directory") }
    }

    func folder() throws -> DevFolder {
        do throws(DevFolder.Failure) {
            return try DevFolder(keep: self.keep)
        } catch {
            Console.printError(error.description)
            throw error.isOfInput ? ExitCode.badInput : ExitCode.files
        }
    }

    /// The plan; `nil` without `--expect`.
    func plan(providers: [String]) throws -> EventPlan? {
        guard let expect else { return nil }
        let bytes: [UInt8]?
        do throws(FileSystemError) {
            bytes = try POSIXFileSystem().contents(of: expect, byteCountMax: EventPlan.byteCountMax + 1)
        } catch {
            Console.printError("\(error)")
            throw ExitCode.noInput
        }
        guard let bytes else {
            Console.printError("\(expect): there is no such file; name a plan (JSON)")
            throw ExitCode.noInput
        }
        do throws(EventPlan.Failure) {
            return try EventPlan(bytes, providers: providers)
        } catch {
            Console.printError("\(expect):\(error)")
            throw ExitCode.badInput
        }
    }

    /// The host that apps connect to.
    func host() throws -> String {
        if let host = self.receive?.host, host != "0.0.0.0", host != "::" { return host }
        guard let host = LocalNetwork.address else {
            Console.printError(
                "this machine has no address in a network; for an app on this machine, give --receive 127.0.0.1:\(UsualPort.agents)"
            )
            throw ExitCode.unreachable
        }
        return host
    }

    /// Sets what `--dev` decides.
    func complete(_ configuration: inout ReceiverConfiguration, host: String, in folder: DevFolder) throws {
        let identity: DevFolder.Identity
        do throws(DevFolder.Failure) {
            identity = try folder.identity(host: host, at: POSIXClock().wallTime())
        } catch {
            Console.printError(error.description)
            throw ExitCode.files
        }
        configuration.dataDirectory = folder.data
        configuration.listen = self.receive ?? NetworkAddress(host: host, port: UsualPort.agents)
        configuration.token = identity.token
        configuration.tls = TLSServerConfiguration(identity: folder.certificate)
        configuration.agents = nil
        configuration.agentsFiles = []
        configuration.audit = nil
        configuration.status.metrics = NetworkAddress(host: "127.0.0.1", port: 0)
        configuration.programDate = ClockCommand.programDate
        configuration.programVersion = packageVersion
    }

    /// A receiver's failure, with the options that this command has.
    static func text(_ failure: Receiver.Failure) -> String {
        guard case .listen(let address, let cause, _) = failure else { return failure.description }
        return
            "apps cannot send to \(address): \(cause); choose another address with --receive, and port 0 for a free one"
    }
}
