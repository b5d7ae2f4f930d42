import Dispatch

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A browser: HTTP 1.1 over one socket for each request, cookies as the server set them.
struct Browser: Sendable {
    let port: Int
    var headers: [(String, String)] = []
    var cookies: [String: String] = [:]

    struct Answer {
        let status: Int
        let body: String
        /// The headers `Set-Cookie`, each as its parts in alphabetical order: attributes come in any.
        let cookies: [[String]]
    }

    struct ConnectionError: Error {
        let call: String
        let number: Int32
    }

    init(port: Int) {
        self.port = port
    }

    /// Sends a request and reads the response to its end.
    mutating func ask(_ method: String, _ target: String) async throws -> Answer {
        var lines = ["\(method) \(target) HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
        lines += self.headers.map { "\($0.0): \($0.1)" }
        if !self.cookies.isEmpty {
            lines.append(
                "Cookie: " + self.cookies.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: "; "))
        }
        let request = lines.joined(separator: "\r\n") + "\r\n\r\n"
        let (browser, queue) = (self, DispatchQueue.global())
        // The socket's calls block, and the server needs the threads of Swift's tasks.
        let text = try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try browser.exchange(request) }) }
        }
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        let head = parts[0].split(separator: "\r\n")
        let set = head.filter { $0.lowercased().hasPrefix("set-cookie: ") }.map { line in
            line.dropFirst(12).split(separator: ";").map { String($0.drop { $0 == " " }) }
        }
        for cookie in set {
            let pair = cookie[0].split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            self.cookies[String(pair[0])] = cookie.contains("Max-Age=0") ? nil : String(pair[1])
        }
        return Answer(
            status: Int(head[0].split(separator: " ")[1]) ?? 0, body: parts.count > 1 ? String(parts[1]) : "",
            cookies: set.map { $0.sorted() })
    }

    private func exchange(_ request: String) throws -> String {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard socket >= 0 else { throw ConnectionError(call: "socket", number: errno) }
        defer { close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(self.port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let connected = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw ConnectionError(call: "connect", number: errno) }
        var rest = Array(request.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(socket, $0.baseAddress, $0.count) }
            guard count > 0 else { throw ConnectionError(call: "write", number: errno) }
            rest = rest.dropFirst(count)
        }
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(socket, &buffer, buffer.count)
            guard count >= 0 else { throw ConnectionError(call: "read", number: errno) }
            if count == 0 { return String(decoding: answer, as: UTF8.self) }
            answer += buffer[..<count]
        }
    }
}
