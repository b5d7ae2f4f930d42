internal import WaybillProjection

/// Room for payloads that are still arriving: each takes a piece more as its bytes come.
///
/// A peer that announces much and sends slowly holds what it has sent, and no more. So that payloads in pieces cannot
/// wait for each other for ever, the oldest one may use room that is kept for it: it arrives, or it is too slow and
/// gives way (``ConnectionHandler``), and then the next one is the oldest.
struct ArrivalMemory<Ticket> {
    /// Names one payload.
    typealias Number = Int

    private struct Piece {
        let number: Number
        let amount: Int
        let ticket: Ticket
    }

    /// What all but the oldest may use.
    private var queue: FairQueue<(number: Number, ticket: Ticket)>
    private let oldestMax: Int
    /// Payloads that have begun to arrive, in that order.
    private var arriving: [Number] = []
    /// Those who wait for their next piece.
    private var pieces: [Piece] = []
    private var last = 0

    /// - Parameter payloadByteCountMax: the longest payload.
    init(capacity: Int, payloadByteCountMax: Int) {
        let others = max(capacity - payloadByteCountMax, capacity / 3, 1 << 16)
        self.queue = FairQueue(capacity: others)
        self.oldestMax = others + payloadByteCountMax
    }

    var used: Int { self.queue.used }
    var hasWaiters: Bool { self.queue.waiterCount > 0 || !self.pieces.isEmpty }

    /// A number for a payload that is about to begin.
    mutating func nextNumber() -> Number {
        self.last += 1
        return self.last
    }

    /// Takes room for the first piece of a payload now, or keeps the ticket until there is some.
    mutating func begin(
        _ number: Number, _ amount: Int, for account: Account, _ ticket: @autoclosure () -> Ticket
    ) -> Bool {
        let isAdmitted = self.queue.request(amount, for: account, (number, ticket()))
        if isAdmitted { self.arriving.append(number) }
        return isAdmitted
    }

    /// Takes room for the next piece of a payload that has begun.
    mutating func more(_ number: Number, _ amount: Int, _ ticket: @autoclosure () -> Ticket) -> Bool {
        if self.hasRoom(amount, for: number) {
            self.queue.take(amount)
            return true
        }
        self.pieces.append(Piece(number: number, amount: amount, ticket: ticket()))
        return false
    }

    private func hasRoom(_ amount: Int, for number: Number) -> Bool {
        let capacity = number == self.arriving.first ? self.oldestMax : self.queue.capacity
        return self.queue.used + amount <= capacity
    }

    /// The payload has arrived, or will not; its bytes are released by themselves.
    mutating func end(_ number: Number) {
        if let index = self.arriving.firstIndex(of: number) { self.arriving.remove(at: index) }
    }

    mutating func release(_ amount: Int) {
        self.queue.release(amount)
    }

    /// The tickets for which there is room now, which is taken; those who have begun come first.
    mutating func admitted() -> [Ticket] {
        var tickets: [Ticket] = []
        if let oldest = self.arriving.first, let index = self.pieces.firstIndex(where: { $0.number == oldest }) {
            tickets += self.grant(at: index)
        }
        while !self.pieces.isEmpty {
            let granted = self.grant(at: 0)
            if granted.isEmpty { break }
            tickets += granted
        }
        for (number, ticket) in self.queue.admitted() {
            self.arriving.append(number)
            tickets.append(ticket)
        }
        return tickets
    }

    private mutating func grant(at index: Int) -> [Ticket] {
        let piece = self.pieces[index]
        guard self.hasRoom(piece.amount, for: piece.number) else { return [] }
        self.queue.take(piece.amount)
        self.pieces.remove(at: index)
        return [piece.ticket]
    }

    /// Lets everyone in who waits, and who comes.
    mutating func open() {
        self.queue.capacity = Int.max / 2
    }
}
