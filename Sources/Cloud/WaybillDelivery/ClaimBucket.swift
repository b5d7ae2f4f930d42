internal import NIOPosix
package import WaybillFleet

/// The objects by which a fleet's mergers agree who sends what; the real one is ``StoredClaims``.
package protocol ClaimBucket: Sendable {
    /// The fleet that the bucket names; `nil` if it names none.
    func fleet() async throws(StoreError) -> String?
    func create(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Creation
    /// - Returns: `nil` if there is no such object; of one that is too long its beginning.
    func read(_ key: String) async throws(StoreError) -> [UInt8]?
}

/// The claims in a bucket, whose calls block: each has a thread of its own meanwhile.
package struct StoredClaims: ClaimBucket {
    private let store: any ObjectStore

    package init(_ store: any ObjectStore) {
        self.store = store
    }

    package func fleet() async throws(StoreError) -> String? {
        try await self.asking { (store) throws(StoreError) in try FleetFile.read(from: store)?.fleet }
    }

    package func create(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Creation {
        try await self.asking { (store) throws(StoreError) in try store.create(key, ObjectBody(bytes)) }
    }

    package func read(_ key: String) async throws(StoreError) -> [UInt8]? {
        try await self.asking { (store) throws(StoreError) in try store.read(key, 0..<ClaimObject.byteCountMax) }
    }

    private func asking<Value: Sendable>(
        _ body: @escaping @Sendable (any ObjectStore) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        let store = self.store
        let result: Result<Value, StoreError>
        do {
            result = try await NIOThreadPool.singleton.runIfActive {
                do throws(StoreError) { return .success(try body(store)) } catch { return .failure(error) }
            }
        } catch {
            throw StoreError(.stopped, detail: "the program is ending")
        }
        return try result.get()
    }
}

extension PartClaim {
    /// Asks the bucket until it is known who holds a part.
    ///
    /// - Parameter claim: the content of a claim of one's own.
    package mutating func ask(
        _ bucket: any ClaimBucket, _ provider: String, _ env: String, _ sha256: String, claim: [UInt8], fleet: String
    ) async throws(StoreError) -> Outcome {
        while true {
            switch self.step {
            case .create(let link):
                switch try await bucket.create(ClaimObject.key(provider, env, sha256, link: link), claim) {
                case .created: self.created()
                case .present: self.present()
                }
            case .read(let link):
                let bytes = try await bucket.read(ClaimObject.key(provider, env, sha256, link: link))
                self.found(ClaimObject.claim(in: bytes, fleet: fleet))
            case .readDone:
                let bytes = try await bucket.read(ClaimObject.doneKey(provider, env, sha256))
                self.found(done: ClaimObject.done(in: bytes, fleet: fleet))
            case .ended(let outcome):
                return outcome
            }
        }
    }
}
