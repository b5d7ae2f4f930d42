package import WaybillData
internal import WaybillExport
package import WaybillFleet
internal import WaybillProjection
package import WaybillSystem

/// Replaces the ids in a fleet's requests by their digests, once no piece is left that may have the lines.
///
///     request ─ the person was erased here with a round of time T ─ each chain's oldest piece is younger than T ─▶ digest
///
/// Until then a merger that reads the pieces from the beginning needs the id: it finds records of events without an id by
/// it. Afterwards the digest keeps the person's lines out as well. All mergers write the same bytes, so it does not matter who
/// does it, or how often.
package struct ErasureDigests<Files: FileSystem> {
    private let data: DataDirectory<Files>
    private let store: any ObjectStore

    /// Clocks of mergers and of the store may differ by so much.
    private static var skewMilliseconds: Int64 { 3_600_000 }

    package init(_ data: DataDirectory<Files>, _ store: any ObjectStore) {
        self.data = data
        self.store = store
    }

    /// Replaces what can be replaced.
    ///
    /// - Parameter count: how many requests, from the first on, are known to have digests.
    /// - Returns: how many have them now.
    package func run(from count: Int) throws(UploadFailure) -> Int {
        var count = count
        var oldest: WallTime?
        while case .request(let request) = try self.request(count + 1) {
            guard case .id(let id) = request.person else {
                count += 1
                continue
            }
            let kind = ErasedPeople.Kind(request.kind)
            let person = ErasedPeople.Person(id: Array(id.utf8), kind, key: request.key)
            guard let mark = person.mark, let time = try self.erasedAt(person.digest) else { return count }
            let known: WallTime = if let oldest { oldest } else { try self.oldestPiece() }
            oldest = known
            guard known.milliseconds > time.milliseconds + Self.skewMilliseconds else { return count }
            let digested = ErasureRequest(
                number: request.number, request.kind, .digest(person.digest, mark: mark), time: request.time,
                key: request.key)
            try UploadFailure.inStore(
                self.store.replace(ErasureRequest.key(of: request.number), ObjectBody(digested.encoded)))
            count += 1
        }
        return count
    }

    private func request(_ number: Int) throws(UploadFailure) -> FoundRequest<ErasureRequest> {
        try UploadFailure.inStore(ErasureRequest.read(number, from: self.store))
    }

    /// The time of the round with which the person was erased here; `nil` if that is not done.
    private func erasedAt(_ digest: String) throws(UploadFailure) -> WallTime? {
        let record = try UploadFailure.onDisk(ErasureLog.record(of: digest, in: self.data))
        return record.flatMap { $0.isDone ? $0.at : nil }
    }

    /// When the oldest piece of any chain was written; the end of time without pieces.
    private func oldestPiece() throws(UploadFailure) -> WallTime {
        var oldest = WallTime(milliseconds: .max)
        var pages = ListingPages(self.store, "journal/", isFolded: true)
        while let page = try UploadFailure.inStore(pages.next()) {
            for folder in page.folders {
                // The first key is the lowest position.
                let first = try UploadFailure.inStore(self.store.list(folder, after: nil, isFolded: false)).objects
                    .first
                if let first { oldest = min(oldest, first.modified) }
            }
        }
        return oldest
    }
}

extension ErasedPeople.Kind {
    init(_ kind: ErasureRequest.Kind) {
        switch kind {
        case .user: self = .user
        case .anon: self = .anon
        }
    }
}
