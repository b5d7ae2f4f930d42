import ArgumentParser
import WaybillConsole
import WaybillDelivery
import WaybillStore
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Reads a configuration file through `waybill`, the program next to this one that has the table of its keys.
///
///     waybill configuration --deliveries FILE ─▶ one line of JSON ─▶ ``DeliverySetup``
///                                             ─▶ its problems, on standard error
enum ConfigurationReader {
    /// Why there is no setup.
    enum Failure: Error, CustomStringConvertible {
        /// The file has problems, which `waybill` has printed.
        case problems(path: String)
        case notRun(program: String, errno: Int32)
        case setup(DeliverySetup.Failure)
        case store(StoreError)

        var description: String {
            switch self {
            case .problems(let path): "\(path) has problems; waybill check \(path) lists them"
            case .notRun(let program, let errno):
                "\(program), which reads the configuration, cannot be run: \(Errno.message(errno)); install it next to "
                    + "waybill-deliver"
            case .setup(let failure): failure.description
            case .store(let error): "\(error)"
            }
        }
    }

    /// A setup has a few hundred bytes for each delivery.
    private static let byteCountMax = 16 << 20

    static func read(_ path: String) throws(Failure) -> DeliverySetup {
        let output = try Self.output(of: OwnProgram.directory + "waybill", ["configuration", "--deliveries", path])
        guard let output else { throw .problems(path: path) }
        do throws(DeliverySetup.Failure) {
            return try DeliverySetup(json: output)
        } catch {
            throw .setup(error)
        }
    }

    /// Runs a program.
    ///
    /// - Returns: its standard output; `nil` if its exit code is not 0.
    private static func output(of program: String, _ arguments: [String]) throws(Failure) -> [UInt8]? {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw .notRun(program: program, errno: errno) }
        defer { close(ends[0]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
        posix_spawn_file_actions_addclose(&actions, ends[0])
        posix_spawn_file_actions_addclose(&actions, ends[1])
        var vector: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) }
        vector.append(nil)
        defer { for word in vector { free(word) } }
        var child = pid_t()
        let status = posix_spawn(&child, program, &actions, nil, vector, environ)
        close(ends[1])
        guard status == 0 else { throw .notRun(program: program, errno: status) }
        var output: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while output.count <= Self.byteCountMax {
            let count = Self.read(ends[0], into: &buffer)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            output += buffer[..<count]
        }
        var code: Int32 = 0
        while waitpid(child, &code, 0) < 0, errno == EINTR {}
        return code == 0 ? output : nil
    }

    private static func read(_ descriptor: Int32, into buffer: inout [UInt8]) -> Int {
        buffer.withUnsafeMutableBytes { bytes in
            #if canImport(Glibc)
                Glibc.read(descriptor, bytes.baseAddress, bytes.count)
            #else
                Darwin.read(descriptor, bytes.baseAddress, bytes.count)
            #endif
        }
    }
}
