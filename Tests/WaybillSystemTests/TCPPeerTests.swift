#if os(Linux)
    import Glibc
    import Testing
    import WaybillSystem

    /// Two ends of a connection on this machine; the second reads nothing by itself.
    private struct Connection: ~Copyable {
        let near: Int32
        let far: Int32

        init() throws {
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(listener) }
            var small: Int32 = 4096
            setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, socklen_t(MemoryLayout<Int32>.size))
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let near = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            self.near = near
            self.far = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    guard bind(listener, address, length) == 0, listen(listener, 1) == 0,
                        getsockname(listener, address, &length) == 0
                    else { return -1 }
                    _ = connect(near, address, length)
                    return accept(listener, nil, nil)
                }
            }
            try #require(self.near >= 0 && self.far >= 0)
        }

        deinit {
            close(self.near)
            close(self.far)
        }
    }

    @Test func `the kernel of a peer that reads nothing has acknowledged what it had room for`() throws {
        let connection = try Connection()
        let idle = try #require(TCPPeer(of: connection.near))
        #expect(idle.unacknowledgedByteCount == 0)
        #expect(idle.unansweredTryCount == 0)
        let bytes = [UInt8](repeating: 7, count: 1 << 16)
        var sentByteCount = 0
        while true {
            let count = send(connection.near, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            guard count > 0 else { break }
            sentByteCount += count
        }
        let full = try #require(TCPPeer(of: connection.near))
        #expect(full.unacknowledgedByteCount > 0 && full.unacknowledgedByteCount < sentByteCount)
        // It answers: a try or two may be on their way, and no silence is long.
        #expect(full.unansweredTryCount <= 2)
    }

    @Test func `what is no connection has no peer`() {
        #expect(TCPPeer(of: -1) == nil)
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        #expect(TCPPeer(of: ends[0]) == nil)
        for end in ends { close(end) }
    }
#endif
