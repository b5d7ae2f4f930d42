#if os(Linux)
    internal import Glibc

    /// A socket bound to a path, as a log daemon has one; reads what is there and never waits.
    package final class LocalSocket {
        package enum Kind {
            case datagram
            case stream

            fileprivate var rawValue: Int32 {
                switch self {
                case .datagram: Int32(SOCK_DGRAM.rawValue)
                case .stream: Int32(SOCK_STREAM.rawValue)
                }
            }
        }

        package let path: String
        private let descriptor: Int32

        package init(_ path: String, _ kind: Kind) throws {
            self.path = path
            self.descriptor = socket(AF_UNIX, kind.rawValue | Int32(SOCK_NONBLOCK.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let bytes = Array(path.utf8)
            try require(bytes.count < MemoryLayout.size(ofValue: address.sun_path), "the path is too long: \(path)")
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
            let isBound = withUnsafePointer(to: &address) { address in
                address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(self.descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
                }
            }
            try require(isBound, "bind: \(errno)")
            if kind == .stream { try require(listen(self.descriptor, 8) == 0, "listen: \(errno)") }
        }

        /// Closes the socket and leaves its name, as a daemon does that is killed.
        deinit {
            close(self.descriptor)
        }

        package struct Datagram {
            package var bytes: [UInt8]
            /// Bytes and seals of the memory whose descriptor came with the datagram.
            package var memory: (bytes: [UInt8], seals: Int32)?
        }

        /// The datagrams that wait, oldest first.
        package func receiveAll() throws -> [Datagram] {
            var datagrams: [Datagram] = []
            while let datagram = try self.receive() { datagrams.append(datagram) }
            return datagrams
        }

        private func receive() throws -> Datagram? {
            var bytes = [UInt8](repeating: 0, count: 1 << 17)
            // cmsg(3) on 64 bits: length (8 bytes), level (4), type (4), then the descriptors.
            var control = [UInt64](repeating: 0, count: 8)
            var controlByteCount = 0
            let count = bytes.withUnsafeMutableBytes { bytes in
                control.withUnsafeMutableBytes { control in
                    var part = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
                    return withUnsafeMutablePointer(to: &part) { part in
                        var message = msghdr()
                        message.msg_iov = part
                        message.msg_iovlen = 1
                        message.msg_control = control.baseAddress
                        message.msg_controllen = control.count
                        let count = recvmsg(self.descriptor, &message, 0)
                        controlByteCount = message.msg_controllen
                        return count
                    }
                }
            }
            guard count >= 0 else {
                try require(errno == EAGAIN, "recvmsg: \(errno)")
                return nil
            }
            var datagram = Datagram(bytes: Array(bytes[..<count]))
            if controlByteCount > 0 {
                try require(control[0] == 20, "one descriptor")
                try require(control[1] == UInt64(SOL_SOCKET) | 1 << 32, "SCM_RIGHTS of SOL_SOCKET")
                datagram.memory = try Self.memory(Int32(truncatingIfNeeded: control[2]))
            }
            return datagram
        }

        private static func memory(_ descriptor: Int32) throws -> (bytes: [UInt8], seals: Int32) {
            defer { close(descriptor) }
            let byteCount = Int(lseek(descriptor, 0, SEEK_END))
            var bytes = [UInt8](repeating: 0, count: byteCount)
            try require(pread(descriptor, &bytes, byteCount, 0) == byteCount, "pread: \(errno)")
            // F_GET_SEALS, which Swift's module for the C library leaves out.
            return (bytes, fcntl(descriptor, 1034))
        }

        /// What the next connection has sent so far; closes it.
        package func acceptAndRead() throws -> [UInt8] {
            let connection = accept(self.descriptor, nil, nil)
            try require(connection >= 0, "accept: \(errno)")
            defer { close(connection) }
            var bytes: [UInt8] = []
            var part = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = recv(connection, &part, part.count, Int32(MSG_DONTWAIT))
                guard count > 0 else { return bytes }
                bytes += part[..<count]
            }
        }
    }

    /// A field of a journal entry.
    package struct JournalField: Equatable, CustomStringConvertible {
        package var name: String
        package var value: String
        /// Whether it came in the form with a length.
        package var hasLength = false

        package init(name: String, value: String, hasLength: Bool = false) {
            self.name = name
            self.value = value
            self.hasLength = hasLength
        }

        package var description: String { "\(self.name)\(self.hasLength ? "[]" : "=")\(self.value)" }
    }

    /// Reads an entry of journald's native protocol, as its document says and not as the sender does.
    package func journalFields(_ bytes: [UInt8]) throws -> [JournalField] {
        var fields: [JournalField] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            guard let lineEnd = rest.firstIndex(of: 0x0A) else { throw Violation("a line without LF") }
            let line = rest[..<lineEnd]
            rest = rest[(lineEnd + 1)...]
            if let equals = line.firstIndex(of: UInt8(ascii: "=")) {
                fields.append(
                    JournalField(
                        name: String(decoding: line[..<equals], as: UTF8.self),
                        value: String(decoding: line[(equals + 1)...], as: UTF8.self)))
                continue
            }
            try require(rest.count > 8, "no length")
            let byteCount = rest.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(8)
            try require(rest.count > byteCount, "a value is cut")
            fields.append(
                JournalField(
                    name: String(decoding: line, as: UTF8.self),
                    value: String(decoding: rest.prefix(byteCount), as: UTF8.self), hasLength: true))
            rest = rest.dropFirst(byteCount)
            try require(rest.first == 0x0A, "no LF after a value")
            rest = rest.dropFirst()
        }
        return fields
    }
#endif
