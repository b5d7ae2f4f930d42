import WaybillAgent
import WaybillHost
import WaybillProtocol
import WaybillReceiver
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// The folder of a test set-up: a receiver's data directory, its certificate and its token.
///
///     data/            the receiver's
///     receiver.pem     the certificate that the receiver made itself, and its key in receiver.key
///     token            what apps send; it is written last, so a folder that has it has everything
///     address          all that an app needs, while the receiver listens
///
/// A temporary one is removed with everything in it. One that is kept has the same token and certificate at the next
/// start, so an app's address stays the same as long as host and port do. Only its owner can read it.
struct DevFolder {
    /// Why there is no such folder.
    struct Failure: Error, CustomStringConvertible {
        /// Whether another folder would do.
        var isOfInput = false
        let description: String
    }

    struct Identity {
        let token: Secret
        let pin: CertificatePin
    }

    let root: String
    private let isKept: Bool
    private let files = POSIXFileSystem(.state)

    var data: String { Path.join(self.root, "data") }
    var certificate: CertificateFiles {
        CertificateFiles(chain: Path.join(self.root, "receiver.pem"), key: Path.join(self.root, "receiver.key"))
    }
    private var token: String { Path.join(self.root, "token") }
    private var address: String { Path.join(self.root, "address") }

    /// - Parameter keep: the folder to make or to continue with; `nil` for a temporary one.
    init(keep: String?) throws(Failure) {
        self.isKept = keep != nil
        let isOurs: Bool
        do throws(FileSystemError) {
            if let keep {
                self.root = keep
                try self.files.createDirectories(keep)
                let hasToken = try self.files.status(at: self.token) != nil
                let names = try self.files.list(keep)
                isOurs = hasToken || names.isEmpty
                if isOurs { try self.removeAddress() }
            } else {
                self.root = try Self.makeTemporaryFolder()
                isOurs = true
            }
        } catch {
            throw Failure(description: "\(error)")
        }
        guard isOurs else {
            throw Failure(
                isOfInput: true,
                description:
                    "\(self.root) has other files, and nothing of an earlier --dev --keep; name an empty directory"
            )
        }
    }

    private static func makeTemporaryFolder() throws(FileSystemError) -> String {
        let parent = ProcessEnvironment["TMPDIR"].flatMap { $0.isEmpty ? nil : $0 } ?? "/tmp"
        var path = Array(Path.join(parent, "waybill-dev-XXXXXX").utf8CString)
        guard mkdtemp(&path) != nil else { throw FileSystemError("mkdtemp", path: parent, errno: errno) }
        return String(decoding: path.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Reads token and certificate, or makes them.
    ///
    /// - Parameter host: what a new certificate names.
    func identity(host: String, at time: WallTime) throws(Failure) -> Identity {
        do {
            if try self.files.status(at: self.token) == nil { try self.makeIdentity(host: host, at: time) }
            return Identity(
                token: try TokenFile(path: self.token).read(on: self.files), pin: try self.certificate.pin())
        } catch {
            throw Failure(description: "\(error)")
        }
    }

    private func makeIdentity(host: String, at time: WallTime) throws {
        let made = try SelfMadeCertificate(host: host, at: time)
        try self.files.replace(self.certificate.chain, with: made.certificate)
        try self.files.replace(self.certificate.key, with: made.key)
        let token = Base64.urlText(try SystemRandom.secretBytes(count: 24))
        try self.files.replace(self.token, with: Array((token + "\n").utf8))
    }

    /// Writes down what an app needs, for scripts that wait for it.
    func write(_ address: ReceiverAddress) throws(FileSystemError) {
        try self.files.replace(self.address, with: Array((address.revealed + "\n").utf8))
    }

    private func removeAddress() throws(FileSystemError) {
        if try self.files.status(ofEntry: self.address) != nil { try self.files.unlink(self.address) }
    }

    /// Removes the folder, or the address in one that is kept.
    func close() {
        do throws(FileSystemError) {
            if self.isKept { try self.removeAddress() } else { try self.files.removeTree(self.root) }
        } catch {
            Console.printError("\(self.root) could not be tidied up: \(error)")
        }
    }
}
