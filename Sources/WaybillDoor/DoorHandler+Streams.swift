internal import NIOCore
internal import NIOHTTP1
internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem

/// Requests about streams of Waybill's own clients.
///
/// Clients are authenticated by the head, so that a stranger's body is not read.
extension DoorHandler {
    /// - Returns: whether the request is about a stream, and was taken or refused.
    func takeStream(
        _ head: HTTPRequestHead, path: Substring, query: Substring, _ context: ChannelHandlerContext
    ) -> Bool {
        guard let streams = self.door.streams, StreamCall.isPath(path) else { return false }
        do throws(StreamRefusal) {
            let call = try StreamCall(method: head.method.rawValue, path: path)
            let settings = self.door.settings
            let address = self.door.address(of: self.peer, head.headers, settings)
            let client = try streams.admit(head.headers, address: address ?? "unix")
            if let length = head.headers.first(name: "content-length").flatMap({ Int($0) }),
                length > StreamsConfiguration.bodyByteCountMax
            {
                throw StreamRefusal(.limit, "the body is larger than any frame")
            }
            self.begin(head, .stream(call, client), query: query, settings, nil, address, context)
        } catch {
            self.refuse(error, nil, head, context)
        }
        return true
    }

    func answer(
        _ call: StreamCall, of client: ForwardedClient, _ request: Request, _ context: ChannelHandlerContext
    ) {
        guard let streams = self.door.streams else { return }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let head = request.head
        if case .receiver = call {
            return streams.ask { result in
                eventLoop.execute { bound.value.answered(result, head) }
            }
        }
        do throws(StreamRefusal) {
            let forwarded = try StreamRequest(
                call, stream: head.headers.first(name: "waybill-stream"), query: request.query, body: request.body)
            try forwarded.check(for: client)
            let byteCount = forwarded.rawByteCount
            let leave = self.keepRoom(of: request)
            streams.forward(forwarded, for: client, on: eventLoop) { outcome in
                leave()
                streams.telemetry.answered(call.verb, outcome.result, byteCount: byteCount)
                eventLoop.execute { bound.value.answered(outcome, head) }
            }
        } catch {
            self.refuse(error, call.verb, head, context)
        }
    }

    private func answered(_ result: Result<Ready, StreamRefusal>, _ head: HTTPRequestHead) {
        guard let context else { return }
        switch result {
        case .success(let ready): self.write(200, ready.object, head, context, [("Cache-Control", "no-store")])
        case .failure(let refusal): self.refuse(refusal, .receiver, head, context)
        }
    }

    private func answered(_ outcome: StreamOutcome, _ head: HTTPRequestHead) {
        guard let context else { return }
        var headers = [("Cache-Control", "no-store")]
        if let receiver = outcome.receiver { headers.append(("Waybill-Receiver", receiver)) }
        switch outcome.result {
        case .success(.held(let held, let isRepeated)):
            let body = JSONWriter.object { json in
                held.write(to: &json)
                if let isRepeated { json.member("repeated", isRepeated) }
            }
            self.write(200, body, head, context, headers)
        case .success(.sealing(let held)):
            self.write(202, JSONWriter.object { held.write(to: &$0) }, head, context, headers + [("Retry-After", "5")])
        case .failure(let refusal): self.write(refusal, head, context, headers)
        }
    }

    /// Refuses a request before it was forwarded.
    ///
    /// - Parameter verb: `nil` if its kind or its client is not known.
    func refuse(
        _ refusal: StreamRefusal, _ verb: StreamVerb?, _ head: HTTPRequestHead, _ context: ChannelHandlerContext
    ) {
        self.door.streams?.telemetry.answered(verb, .failure(refusal), byteCount: 0)
        guard refusal.delay > .zero else { return self.write(refusal, head, context, []) }
        self.discard()
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: .nanoseconds(refusal.delay.nanoseconds)) {
            guard let context = bound.value.context else { return }
            bound.value.write(refusal, head, context, [])
        }
    }

    private func write(
        _ refusal: StreamRefusal, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ headers: [(String, String)]
    ) {
        let isAllRead = self.isAllRead
        self.discard()
        let own = refusal.headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        self.write(
            refusal.code.status, refusal.body, head, context, own + headers, isAllRead: isAllRead)
    }
}

extension Ready {
    /// Its object, as after `READY` on a line.
    fileprivate var object: [UInt8] {
        // "READY " and LF.
        Array(Message.ready(self).encoded.dropFirst(6).dropLast())
    }
}
