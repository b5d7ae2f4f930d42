internal import NIOCore
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// What a receiver of a fleet adds: `STORED`, a late `SEALED`, and skips of what the fleet has.
extension ConnectionHandler {
    /// Takes a skip; one of bytes that the fleet is said to have only if this connection's `OPEN` spoke of them, and one of
    /// a hole only if its tail has nothing but NULs.
    ///
    /// An agent can lie in each: it harms streams of its own principal alone, as with any other reason.
    func skip(_ number: StreamNumber, _ range: SkippedRange, _ context: ChannelHandlerContext) {
        guard let connection, let description = self.descriptions[number] else { return }
        if let text = self.storage.fault(in: range, of: description.id, number) {
            let untoldCount = self.denials.admit(at: self.shared.clock.monotonicTime())
            self.shared.telemetry.denied(
                "SKIP", of: description, .notAllowed, by: connection, untoldCount: untoldCount)
            for message in self.session.refused(number, at: range.offset, .notAllowed, text: text) {
                self.write(message, context)
            }
            return
        }
        self.admit(.skip(connection, number, description, range), context)
    }

    /// Handles an `OPEN` that was answered.
    func opened(
        _ number: StreamNumber, at offset: StreamOffset, _ proof: StreamProof, isSealed: Bool, isChanged: Bool,
        end: UInt64
    ) -> [Message] {
        let seal = isSealed ? proof : nil
        switch self.storage.opened(number, at: offset, seal: seal, isChanged: isChanged, end: end) {
        case .at:
            return self.session.opened(number, at: offset, proof, isSealed: isSealed, end: end)
        case .atStored:
            return self.session.opened(number, at: offset, proof, isSealed: false, end: end)
                + self.session.stored(number, upTo: offset)
        case .sealedLater:
            return self.session.openedUnstored(number, at: offset, proof, end: end)
        }
    }

    /// Handles a stream's end, which is durable.
    func sealed(
        _ number: StreamNumber, at offset: StreamOffset, _ proof: StreamProof, end: UInt64
    ) -> [Message] {
        self.storage.sealed(number, at: offset, proof, end: end) ? [] : self.sealedNow(number, proof, end: end)
    }

    /// A stream that was sealed on this connection is forgotten; one that was sealed before is still known here: the agent
    /// may have more on the way.
    private func sealedNow(_ number: StreamNumber, _ proof: StreamProof, end: UInt64) -> [Message] {
        let messages = self.session.sealed(number, proof, end: end)
        if !messages.isEmpty, !self.session.knows(number), let closed = self.descriptions.removeValue(forKey: number),
            let connection
        {
            self.storage.forget(number)
            self.shared.streams.forget(closed.byteCount, of: connection)
        }
        return messages
    }

    /// The store has more of the journal.
    func storageAdvanced() {
        self.storage.advanced()
        guard let context else { return }
        self.reportStorage(context)
        context.flush()
    }

    /// Tells what the store has meanwhile, as long as the agent reads; asks to be told of the next advance.
    func reportStorage(_ context: ChannelHandlerContext) {
        guard let membership = self.shared.membership, let connection else { return }
        repeat {
            while context.channel.isWritable, let (number, report) = self.storage.next() {
                let messages =
                    report.seal.map { self.sealedNow(number, $0, end: self.durableEnd) }
                    ?? self.session.stored(number, upTo: report.offset)
                for message in messages { self.write(message, context) }
            }
            // An agent that does not read is told when it does.
            guard context.channel.isWritable, self.storage.beginWaiting() else { return }
            membership.tell(connection, on: context.eventLoop)
        } while self.storage.isDue
    }
}
