internal import NIOCore
internal import Synchronization
internal import WaybillJournal
internal import WaybillProtocol
internal import WaybillSystem

/// What waits for room in memory, and what arrives once there is some.
extension ConnectionHandler {
    /// Keeps a stream's description from `OPEN` while the stream is open.
    ///
    /// - Returns: whether there is room for it; without room the session ends.
    func keep(
        _ description: StreamDescription, of number: StreamNumber, _ context: ChannelHandlerContext
    ) -> Bool {
        let before = self.descriptions.updateValue(description, forKey: number)
        let total = self.resizeDescriptions(by: description.byteCount - (before?.byteCount ?? 0))
        let text: String
        if self.descriptionByteCount > self.shared.connectionDescriptionByteCountMax {
            text =
                "the streams of this connection have more than \(self.shared.connectionDescriptionByteCountMax) bytes"
        } else if total > self.shared.descriptionByteCountMax {
            text = "the streams of all connections have more than \(self.shared.descriptionByteCountMax) bytes"
        } else {
            return true
        }
        self.perform(self.session.refuse(.limit, text: text), context)
        return false
    }

    /// - Returns: how many bytes the descriptions of all connections take.
    @discardableResult func resizeDescriptions(by byteCount: Int) -> Int {
        self.descriptionByteCount += byteCount
        return self.shared.descriptionByteCount.wrappingAdd(byteCount, ordering: .relaxed).newValue
    }

    func admit(_ request: CommitRequest, _ context: ChannelHandlerContext) {
        self.reserve(request.admissionByteCount, for: .message(request), context)
    }

    func reserve(_ byteCount: Int, for admission: Admission, _ context: ChannelHandlerContext) {
        self.mode = .awaitingAdmission(admission)
        let budget = self.shared.budget
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let isAdmitted = budget.reserve(byteCount) {
            eventLoop.execute {
                if !bound.value.admissionGranted() { budget.release(byteCount) }
            }
        }
        if isAdmitted { self.admitted(admission, context) } else { self.deadline = .distantFuture }
    }

    /// - Returns: whether the reservation is still needed.
    func admissionGranted() -> Bool {
        guard let context, case .awaitingAdmission(let admission) = self.mode else { return false }
        self.setDeadline(after: self.shared.timeouts.idle, context)
        self.admitted(admission, context)
        self.process(context)
        context.flush()
        self.readIfAllowed(context)
        return true
    }

    func admitted(_ admission: Admission, _ context: ChannelHandlerContext) {
        switch admission {
        case .payload(let header, let id):
            self.beginPayload(header, id, context)
        case .message(let request):
            self.mode = .lines
            self.enqueue(.ready(request))
        }
    }

    func beginPayload(_ header: BatchHeader, _ id: StreamID, _ context: ChannelHandlerContext) {
        self.setDeadline(after: self.shared.timeouts.payload, context)
        let builder = SharedBytesBuilder(capacity: header.wireByteCount)
        self.mode = .payload(header, id, builder)
        self.payloadStart = context.eventLoop.now
        self.payloadNumber += 1
        if !self.isPayloadWatched { self.watch(builder, context) }
    }

    /// Closes the connection when its payload stalls or trickles in while others wait for the memory it holds.
    ///
    /// There is one timer at a time, however many payloads pass meanwhile; the payload that it finds is compared at the
    /// next check.
    func watch(_ builder: SharedBytesBuilder, _ context: ChannelHandlerContext) {
        self.isPayloadWatched = true
        let (number, before) = (self.payloadNumber, builder.count)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: self.shared.timeouts.payloadCheck) {
            let handler = bound.value
            handler.isPayloadWatched = false
            guard let context = handler.context, case .payload(_, _, let current) = handler.mode else { return }
            let age = context.eventLoop.now - handler.payloadStart
            let seconds = Int(age.nanoseconds / 1_000_000_000)
            let isStill = handler.payloadNumber == number && current.count - before < 1024
            let isSlow = age > .seconds(10) && current.count < seconds * handler.shared.timeouts.payloadByteRateMin
            guard isStill || isSlow, handler.shared.budget.hasWaiters else { return handler.watch(current, context) }
            let text = "the payload came too slowly while other agents waited"
            handler.perform(handler.session.refuse(.timeout, text: text), context)
        }
    }

    // MARK: Checks, in order

    func check(_ header: BatchHeader, _ id: StreamID, _ wire: SharedBytes, _ context: ChannelHandlerContext) {
        let check = self.nextCheck
        self.nextCheck += 1
        self.slots.append(.checking(check))
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let budget = self.shared.budget
        self.shared.checker.check(header, of: id, wire: wire, on: context.eventLoop) { result in
            if !bound.value.checked(check, header, id, wire, result) {
                budget.release(header.admissionByteCount)
            }
        }
    }

    /// - Returns: whether the batch was kept.
    func checked(
        _ check: Int, _ header: BatchHeader, _ id: StreamID, _ wire: SharedBytes,
        _ result: Result<SharedBytes, BatchRefusal>
    ) -> Bool {
        guard let context, let connection,
            let index = self.slots.firstIndex(where: { if case .checking(check) = $0 { true } else { false } })
        else { return false }
        defer { self.handOver() }
        guard let description = self.descriptions[header.stream] else {
            self.slots[index] = .void
            return false
        }
        switch result {
        case .success(let raw):
            self.slots[index] = .ready(.batch(connection, header.stream, description, header, wire: wire, raw: raw))
            return true
        case .failure(let refusal):
            self.slots[index] = .void
            self.shared.telemetry.batchRefused(id, header, refusal, peer: self.peer)
            let messages = self.session.refused(header.stream, at: header.offset, refusal.code, text: refusal.text)
            for message in messages { self.write(message, context) }
            context.flush()
            return false
        }
    }

    func enqueue(_ slot: Slot) {
        self.slots.append(slot)
        self.handOver()
    }

    func handOver() {
        var requests: [CommitRequest] = []
        loop: while let slot = self.slots.first {
            switch slot {
            case .checking: break loop
            case .ready(let request): requests.append(request)
            case .void: break
            }
            self.slots.removeFirst()
        }
        if !requests.isEmpty { self.shared.committer.submit(requests) }
    }
}

extension StreamDescription {
    /// Its approximate size in memory.
    var byteCount: Int {
        256 + self.id.text.utf8.count + self.source.utf8.count + self.bundle.utf8.count
            + (self.timeMember?.utf8.count ?? 0) + (self.nameMember?.utf8.count ?? 0)
    }
}
