import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillAgent
import WaybillData
import WaybillExport
import WaybillHost
import WaybillLive
import WaybillProtocol
import WaybillReceiver
import WaybillSystem

struct LiveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "live",
        abstract: "Show events in the browser as they arrive.",
        discussion: """
            Examples:
              waybill live --data /var/lib/waybill --receiver http://127.0.0.1:4391
              waybill live --config /etc/waybill/waybill.yaml --mask user,data.email
              waybill live --data ./data --listen 0.0.0.0:4392 --host live.example.com --token-file live.token \\
                  --tls-certificate live.pem --tls-key live.key

              waybill live --dev                            a receiver for an app's developer, and its page
              waybill live --dev --receive 127.0.0.1:0 --expect plan.json --for 60 >answer.json

            It is a process of its own beside a running receiver, and reads its data directory; nothing is written there.
            Open the address that it prints: its end is a random token, made at each start. While no page is open,
            nothing is read. Another address than a loopback one needs TLS and --token-file.

            With --dev the receiver is part of the command. Give the line that begins with waybill:// to an app whole: it
            has host, token and certificate. With --expect that line goes to standard error, and the answer to standard
            output; the exit code is 0 if the plan is fulfilled, and 1 if it is not.
            """)

    @OptionGroup var options: LiveOptions

    @OptionGroup var dev: DevOptions

    @Option(help: "The address to listen on.", transform: OptionReader.address)
    var listen = NetworkAddress(host: "127.0.0.1", port: UsualPort.live)

    @Option(help: "Another name of this server, which browsers may use.")
    var host: [String] = []

    @Option(help: "A file with the token, which then stays the same; make one with: waybill token")
    var tokenFile: String?

    @Option(help: "The certificate of this server and those above it (PEM).")
    var tlsCertificate: String?

    @Option(help: "The private key of the certificate (PEM).")
    var tlsKey: String?

    @OptionGroup var log: LogOptions

    func validate() throws {
        guard (self.tlsCertificate == nil) == (self.tlsKey == nil) else {
            throw ValidationError("--tls-certificate and --tls-key require each other")
        }
        if !LocalRequest.isLoopbackName(self.listen.host) {
            guard self.tlsCertificate != nil, self.tokenFile != nil else {
                throw ValidationError(
                    "\(self.listen) can be reached from elsewhere: that needs --tls-certificate, --tls-key and "
                        + "--token-file; or listen on 127.0.0.1")
            }
        }
        try self.dev.check(mask: self.options.mask)
        for name in self.host where LocalRequest.host(ofHeader: name) != name.lowercased() {
            throw ValidationError("--host is a name without a port, e.g. live.example.com")
        }
    }

    func run() async throws {
        if self.dev.dev { return try await self.runDev() }
        let resolved = try self.options.resolve()
        var configuration = try self.pageConfiguration(resolved)
        configuration.manager = .ofThisProcess
        let page = LivePage(configuration: configuration, isTokenShown: self.tokenFile == nil)
        let logger = Console.logger("live", level: self.log.logLevel)
        let signals = await SignalHandler(logger: logger, manager: configuration.manager, onHangup: nil)
        try await Self.run(signals.group(with: page))
    }

    private func runDev() async throws {
        // Before anything is created, so that a signal leaves nothing.
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
        var receiver = try self.options.ownReceiver()
        let plan = try self.dev.plan(providers: receiver.exports.map(\.provider.rawValue))
        let host = try self.dev.host()
        let folder = try self.dev.folder()
        defer { folder.close() }
        try self.dev.complete(&receiver, host: host, in: folder)
        let resolved = try self.options.resolve(of: receiver)
        let run = try self.planRun(plan, resolved)
        let page = LivePage(
            configuration: try self.pageConfiguration(resolved), isTokenShown: self.tokenFile == nil)
        let set = DevSet(folder: folder, receiver: receiver, host: host, page: page, plan: run)
        try await Self.run(await set.group(signals, logLevel: self.log.logLevel))
        guard let run else { return }
        let answer = try Self.onFiles { () throws(FileSystemError) in try run.answer() }
        Console.write(String(decoding: answer.json, as: UTF8.self) + "\n", to: 1)
        for line in answer.summary { Console.printError(line) }
        if !answer.isFulfilled { throw ExitCode.failure }
    }

    private func planRun(_ plan: EventPlan?, _ resolved: LiveOptions.Resolved) throws -> PlanRun? {
        guard let plan else { return nil }
        let seconds = self.dev.for
        return try Self.onFiles { () throws(FileSystemError) in
            try PlanRun(plan, seconds: seconds, data: resolved.data, exports: resolved.exports)
        }
    }

    private static func onFiles<Result>(_ body: () throws(FileSystemError) -> Result) throws -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch {
            Console.end(.filesUnusable, "\(error)")
            throw ExitCode.files
        }
    }

    private func pageConfiguration(_ resolved: LiveOptions.Resolved) throws -> LiveConfiguration {
        var configuration = LiveConfiguration(
            data: resolved.data.root, listen: self.listen, exports: resolved.exports, token: try self.token())
        configuration.receiver = resolved.receiver
        configuration.mask = resolved.mask
        configuration.version = packageVersion
        configuration.tell = { Console.printError($0) }
        configuration.hosts = self.host
        // A certain address is a name, too; 0.0.0.0 is none.
        if !["0.0.0.0", "::"].contains(self.listen.host) { configuration.hosts.append(self.listen.host) }
        if let tlsCertificate, let tlsKey {
            configuration.tls = TLSServerConfiguration(
                identity: CertificateFiles(chain: tlsCertificate, key: tlsKey), of: .page)
        }
        return configuration
    }

    private static func run(_ group: ServiceGroup) async throws {
        do {
            try await group.run()
        } catch let failure as LiveServer.Failure {
            Console.end(.addressUnusable, "\(failure)")
            throw ExitCode.files
        } catch let failure as TLSSetupError {
            Console.end(.tlsUnusable, "\(failure)")
            throw ExitCode.badConfiguration
        } catch let failure as Receiver.Failure {
            Console.end(failure.notice, DevOptions.text(failure))
            throw failure.exitCode
        }
    }

    private func token() throws -> Secret {
        if let tokenFile {
            do throws(TokenFile.Failure) {
                return try TokenFile(path: tokenFile).read(on: POSIXFileSystem())
            } catch {
                Console.end(.configurationWrong, "\(error)")
                throw ExitCode.badConfiguration
            }
        }
        do throws(FileSystemError) {
            let bytes = try SystemRandom.secretBytes(count: 24)
            guard let token = Secret(Base64.urlText(bytes)) else { preconditionFailure("32 characters are a token") }
            return token
        } catch {
            Console.end(.filesUnusable, "\(error)")
            throw ExitCode.files
        }
    }
}
