import ArgumentParser
import WaybillData
import WaybillExport
import WaybillHost
import WaybillLive
import WaybillReceiver
import WaybillSystem

/// Whose events are looked at, and what is shown of them.
struct LiveOptions: ParsableArguments {
    @Option(help: "The receiver's data directory. (default: the configuration file's)")
    var data: String?

    @Option(
        help: """
            Where the receiver serves metrics, e.g. http://127.0.0.1:4391: it says how far the journal is durable, and \
            which agents are connected. (default: the configuration file's; without either, the journal is read as far as \
            it is whole)
            """)
    var receiver: String?

    @Option(
        help: "The receiver's configuration file, for its exports with their mappings, and for the defaults of others.")
    var config: String?

    @Option(
        help: """
            Whose records to make, separated by commas, or none: \(Destination.list). (default: with --config the file's; \
            else those that the data directory has)
            """)
    var exports: String?

    @Option(help: "The exports' zone. (default: with --config the file's; else UTC)")
    var zone: String?

    @Option(help: "Members whose values are not shown, e.g. user,data.email: equal ones get equal names.")
    var mask: String?

    /// What the options mean, with the configuration file's values.
    struct Resolved {
        let data: DataDirectory<POSIXFileSystem>
        let receiver: NetworkAddress?
        let exports: [ExportOptions]
        let mask: Mask
    }

    func resolve() throws -> Resolved {
        let file = try self.config.map { try ConfigurationFile.load($0).host ?? HostConfiguration(dataDirectory: "") }
        let root = self.data ?? file?.dataDirectory ?? ""
        guard !root.isEmpty else {
            throw ValidationError(
                "name the data directory with --data DIR, or the --config FILE of a receiver or merger")
        }
        let files = POSIXFileSystem(.data, dataDirectory: root)
        let data = DataDirectory(root: root, files: files)
        do throws(FileSystemError) {
            guard try files.status(at: data.journal)?.kind == .directory else {
                Console.end(.inputUnreadable, "\(root) is not a receiver's data directory: it has no journal")
                throw FileSystemError("list", path: data.journal, errno: Errno.noEntry)
            }
        } catch {
            Console.end(.filesUnusable, "\(error)")
            throw ExitCode.noInput
        }
        var exports = try self.exportOptions(file, data)
        try OptionReader.setZone(self.zone, of: &exports)
        return Resolved(
            data: data, receiver: try self.receiverAddress(file), exports: exports, mask: try self.maskOption())
    }

    /// The configuration of the receiver that is part of the command (`--dev`): the file's, or all exports.
    func ownReceiver() throws -> ReceiverConfiguration {
        guard self.data == nil, self.receiver == nil else {
            throw ValidationError(
                "--dev starts a receiver with a data directory of its own: leave out --data and --receiver; --keep DIR "
                    + "keeps what comes")
        }
        var configuration = ReceiverConfiguration.defaults
        if let config {
            guard let receiver = try ConfigurationFile.load(config).receiver else {
                throw ValidationError("\(config) has no section receiver:")
            }
            configuration = receiver
        } else {
            configuration.exports = Destination.allCases.map { ExportOptions(provider: $0) }
        }
        if let exports { configuration.exports = try OptionReader.exports(exports) }
        try OptionReader.setZone(self.zone, of: &configuration.exports)
        return configuration
    }

    /// What the page of such a receiver shows.
    func resolve(of receiver: ReceiverConfiguration) throws -> Resolved {
        let root = receiver.dataDirectory
        let data = DataDirectory(root: root, files: POSIXFileSystem(.data, dataDirectory: root))
        return Resolved(data: data, receiver: nil, exports: receiver.exports, mask: try self.maskOption())
    }

    private func receiverAddress(_ file: HostConfiguration?) throws -> NetworkAddress? {
        guard let receiver else { return file?.status.metrics }
        guard let address = StatusClient.address(in: receiver) else {
            throw ValidationError("--receiver must be http://HOST:PORT, the address of the receiver's --metrics")
        }
        return address
    }

    private func exportOptions(
        _ file: HostConfiguration?, _ data: DataDirectory<POSIXFileSystem>
    ) throws -> [ExportOptions] {
        if let exports { return try OptionReader.exports(exports) }
        if let file { return file.exports }
        do throws(FileSystemError) {
            guard try data.files.status(at: data.exports) != nil else { return [] }
            let names = try data.files.list(data.exports)
            return Destination.allCases.filter { names.contains($0.rawValue) }.map { ExportOptions(provider: $0) }
        } catch {
            Console.end(.filesUnusable, "\(error)")
            throw ExitCode.files
        }
    }

    private func maskOption() throws -> Mask {
        guard let mask else { return .none }
        let secret: [UInt8]
        do throws(FileSystemError) {
            secret = try SystemRandom.secretBytes(count: 32)
        } catch {
            Console.end(.filesUnusable, "\(error)")
            throw ExitCode.files
        }
        do throws(Mask.Failure) {
            return try Mask(mask, secret: secret)
        } catch {
            throw ValidationError(error.description)
        }
    }
}
