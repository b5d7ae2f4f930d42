internal import WaybillData
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// What is staged, and the connections that wait for it.
struct CommitGroup {
    struct Batch {
        let description: StreamDescription
        let header: BatchHeader
        let raw: SharedBytes
        let account: Account
        let connection: ConnectionHandle
    }

    private(set) var batches: [Batch] = []
    private(set) var lineCount = 0
    private(set) var rawByteCount = 0
    private(set) var charge = AdmissionCharge()
    private var streams: Set<StreamID> = []
    /// Every answer waits for the group, so that the answers of a connection stay in order.
    private var replies: [ObjectIdentifier: (connection: ConnectionHandle, replies: [Reply])] = [:]

    /// Whether a connection waits for an answer.
    var hasAnswers: Bool { !self.replies.isEmpty }

    /// Tells every connection that waits for an answer why there is none, and closes it.
    func refuse(_ text: String) {
        for (_, entry) in self.replies { entry.connection.refuse(text) }
    }

    /// Whether anything of a stream with this id is staged, under any owner.
    func holds(_ id: StreamID) -> Bool {
        self.streams.contains(id)
    }

    mutating func staged(_ name: StreamName) {
        self.streams.insert(name.id)
    }

    /// Holds a part of the admission budget until the group is answered.
    mutating func hold(_ charge: AdmissionCharge) {
        self.charge += charge
    }

    /// What the archive has to do for the batches.
    func turns(at ranges: [Range<JournalPosition>]) -> [CommittedTurn] {
        zip(self.batches, ranges).map { batch, range in
            CommittedTurn(end: range.upperBound, charge: batch.header.turn, account: batch.account)
        }
    }

    mutating func add(
        description: StreamDescription, header: BatchHeader, raw: SharedBytes, from account: Account,
        by connection: ConnectionHandle
    ) {
        self.batches.append(
            Batch(description: description, header: header, raw: raw, account: account, connection: connection))
        // The archive's time is held until the batch is archived.
        self.charge -= header.turn
        self.streams.insert(description.id)
        self.lineCount += header.lineCount
        self.rawByteCount += raw.count
    }

    mutating func settle(
        _ connection: ConnectionHandle, _ number: StreamNumber, _ result: StagingResult, end: StreamOffset
    ) {
        switch result {
        case .staged: self.reply(to: connection, .durable(number, upTo: end))
        case .alreadyHeld(let position):
            self.reply(to: connection, .durable(number, upTo: position))
        case .sealed(let position):
            self.reply(to: connection, .refused(number, at: position, .sealed, text: "the stream was sealed here"))
        case .gap(let position):
            self.reply(
                to: connection, .refused(number, at: position, .gap, text: "the stream stands at another offset"))
        }
    }

    mutating func reply(to connection: ConnectionHandle, _ reply: Reply) {
        var replies = self.replies[ObjectIdentifier(connection)]?.replies ?? []
        // Acks are cumulative: the last of a run is enough.
        if case .durable(let number, _) = reply, case .durable(number, _)? = replies.last { replies.removeLast() }
        replies.append(reply)
        self.replies[ObjectIdentifier(connection)] = (connection, replies)
    }

    func feedEntries(at ranges: [Range<JournalPosition>], receivedAt: WallTime) -> [FeedEntry] {
        zip(self.batches, ranges).map { batch, range in
            FeedEntry(
                position: range.lowerBound, end: range.upperBound, description: batch.description,
                offset: batch.header.offset, receivedAt: receivedAt, lineCount: batch.header.lineCount, raw: batch.raw,
                account: batch.account)
        }
    }

    mutating func deliver(end: UInt64) {
        for (_, entry) in self.replies { entry.connection.deliver(entry.replies, end: end) }
        self.replies.removeAll(keepingCapacity: true)
        self.batches.removeAll(keepingCapacity: true)
        self.streams.removeAll(keepingCapacity: true)
        self.lineCount = 0
        self.rawByteCount = 0
        self.charge = AdmissionCharge()
    }
}
