package import NIOCore
package import NIOPosix
package import WaybillSystem

/// The file of a UNIX socket: made for its owner and group alone, and removed by the process that made it.
///
///     a socket that answers          stays, and this process does not start
///     one that a dead process left   is replaced
///     anything else at the path      stays, and this process does not start
package struct SocketFile: Sendable {
    /// Why no one can listen there.
    package struct Failure: Error, Hashable {
        package let cause: String
    }

    /// Its owner and its group may connect.
    static let permissions: UInt16 = 0o660

    /// The limit of most systems is 103 or 107.
    static let pathByteCountMax = 100

    package let path: String
    /// The group that may connect; `nil`: the user's own.
    private let group: UserGroup?
    private let files = POSIXFileSystem()

    package init(path: String, group: UserGroup? = nil) {
        self.path = path
        self.group = group
    }

    package func listen(
        _ bootstrap: ServerBootstrap, _ group: any EventLoopGroup
    ) async throws(Failure) -> (channel: any Channel, identity: FileIdentity?) {
        try self.check()
        guard await !self.answers(group) else { throw self.failure("another process answers there") }
        do {
            let channel = try await bootstrap.bind(
                unixDomainSocketPath: self.path, cleanupExistingSocketFile: true
            ).get()
            do throws(FileSystemError) {
                if let owner = self.group { try self.files.setGroup(owner, at: self.path) }
                try self.files.setPermissions(Self.permissions, at: self.path)
                return (channel, try self.files.status(ofEntry: self.path)?.identity)
            } catch {
                channel.close(promise: nil)
                throw self.failure("\(error)")
            }
        } catch let failure as Failure {
            throw failure
        } catch {
            throw self.failure("\(error); its folder must exist, and this user must be able to write there")
        }
    }

    /// What the system says of a path does not help.
    private func check() throws(Failure) {
        guard self.path.utf8.count <= Self.pathByteCountMax else {
            throw self.failure("its path has more than \(Self.pathByteCountMax) bytes")
        }
        do throws(FileSystemError) {
            switch try self.files.status(ofEntry: self.path)?.kind {
            case nil, .other: return
            case .regular, .directory, .link: break
            }
        } catch {
            throw self.failure("\(error)")
        }
        throw self.failure("something that is not a socket is there")
    }

    /// Removes the file, unless another process has replaced it.
    package func remove(_ identity: FileIdentity?) {
        do throws(FileSystemError) {
            guard let identity, try self.files.status(ofEntry: self.path)?.identity == identity else { return }
            try self.files.unlink(self.path)
        } catch {
            // The next start replaces it.
        }
    }

    private func answers(_ group: any EventLoopGroup) async -> Bool {
        do {
            let channel = try await ClientBootstrap(group: group).connectTimeout(.seconds(2))
                .connect(unixDomainSocketPath: self.path).get()
            channel.close(promise: nil)
            return true
        } catch {
            // Nothing is there, or no process listens any more.
            return false
        }
    }

    private func failure(_ cause: String) -> Failure { Failure(cause: cause) }
}
