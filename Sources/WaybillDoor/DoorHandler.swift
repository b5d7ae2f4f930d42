internal import NIOCore
internal import NIOHTTP1
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillMetrics
internal import WaybillSystem

/// One connection: request after request, each answered once its events are durable.
///
///     head ─▶ route, key in query or header ─▶ body, bounded ─▶ read in its dialect ─▶ committer ─▶ answer
///
/// It is confined to its event loop. A body's bytes are taken from the memory of all connections as they arrive, and a request
/// has a deadline from its first byte to its last; so what a slow or large body takes from others is given back by then.
final class DoorHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private struct Request {
        let head: HTTPRequestHead
        let path: Substring
        let query: Substring
        let route: IngestRoute
        var body: [UInt8] = []
        let began: MonotonicTime
    }

    private enum Phase {
        /// Between two requests.
        case idle
        case body(Request)
        /// A request waits for the disk.
        case waiting
        /// The rest of a refused request is not read.
        case refused
    }

    private let door: Door
    private var phase = Phase.idle
    private var deadline: Scheduled<Void>?
    private var context: ChannelHandlerContext?
    private var reservedByteCount = 0
    /// Whether a part of a request is being handled.
    private var isReading = false
    private let places: ConnectionPlaces

    init(_ door: Door, places: ConnectionPlaces) {
        self.door = door
        self.places = places
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.door.telemetry.connected()
        self.setDeadline(self.door.configuration.idleDuration, context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        self.deadline?.cancel()
        self.release()
        self.door.telemetry.disconnected()
        context.fireChannelInactive()
    }

    private func setDeadline(_ duration: Duration, _ context: ChannelHandlerContext) {
        let channel = context.channel
        let telemetry = self.door.telemetry
        let isRequest = if case .body = self.phase { true } else { false }
        self.deadline?.cancel()
        self.deadline = context.eventLoop.scheduleTask(in: .nanoseconds(duration.nanoseconds)) {
            if isRequest { telemetry.refused(.slow) }
            channel.close(promise: nil)
        }
    }

    private func release() {
        self.door.telemetry.release(self.reservedByteCount)
        self.reservedByteCount = 0
    }

    // MARK: Reading

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.isReading = true
        defer { self.isReading = false }
        switch (self.unwrapInboundIn(data), self.phase) {
        case (.head(let head), .idle): self.take(head, context)
        case (.body(let bytes), .body(var request)):
            guard request.body.count + bytes.readableBytes <= self.door.configuration.bodyByteCountMax else {
                return self.refuse(.tooLarge, request.head, context)
            }
            guard self.reserve(bytes.readableBytes) else { return self.refuse(.memory, request.head, context) }
            // Taken out, so that appending does not copy.
            self.phase = .refused
            request.body.append(contentsOf: bytes.readableBytesView)
            self.phase = .body(request)
        case (.end, .body(let request)):
            self.deadline?.cancel()
            self.phase = .waiting
            self.places.asked(context.channel)
            self.answer(request, context)
        case (.head, _), (.body, _), (.end, _): break
        }
    }

    private func reserve(_ byteCount: Int) -> Bool {
        guard self.door.telemetry.reserve(byteCount, of: self.door.configuration.memoryByteCountMax) else {
            return false
        }
        self.reservedByteCount += byteCount
        return true
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The pipeline has answered invalid HTTP with 400.
        self.door.telemetry.refused(.malformed)
        context.close(promise: nil)
    }

    private func take(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        // Its answers are not read; of this request nothing is stored yet.
        guard context.channel.isWritable else { return context.close(promise: nil) }
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts.first ?? ""
        if head.method == .OPTIONS { return self.preflight(head, context) }
        do throws(IngestRoute.Refusal) {
            let route = try IngestRoute(method: head.method.rawValue, path: path)
            if let length = head.headers.first(name: "content-length").flatMap({ Int($0) }),
                length > self.door.configuration.bodyByteCountMax
            {
                return self.refuse(.tooLarge, head, context)
            }
            self.phase = .body(
                Request(
                    head: head, path: path, query: parts.count == 2 ? parts[1] : "", route: route,
                    began: self.door.clock.monotonicTime()))
            self.setDeadline(self.door.configuration.requestDuration, context)
            if head.headers.first(name: "expect")?.lowercased() == "100-continue" {
                context.writeAndFlush(
                    self.wrapOutboundOut(.head(HTTPResponseHead(version: head.version, status: .continue))),
                    promise: nil)
            }
        } catch {
            switch error {
            case .notFound: self.refuse(.notFound, head, context)
            case .method(let allowed):
                self.refuse(.method, head, context, [("Allow", allowed.joined(separator: ", "))])
            }
        }
    }

    // MARK: Answering

    private func answer(_ request: Request, _ context: ChannelHandlerContext) {
        switch request.route {
        case .settings(let key): self.answer(settingsOf: key, request.head, context)
        case .flags: self.write(200, DoorScript.noFlags, request.head, context)
        case .script:
            self.write(
                200, DoorScript.bytes, request.head, context,
                [("Content-Type", "text/javascript"), ("Cache-Control", "max-age=3600")])
        case .events(let dialect, let type):
            do throws(Door.Refusal) {
                let reading = try self.door.read(
                    DoorReading(
                        dialect: dialect, type: type, body: request.body, query: request.query,
                        headers: request.head.headers, peer: context.remoteAddress?.ipAddress))
                self.store(reading, request, context)
            } catch {
                self.door.telemetry.answered(dialect, status: error.reason.status, took: nil)
                self.refuse(error.reason, request.head, context, error.headers, key: error.key)
            }
        }
    }

    private func store(_ reading: Door.Reading, _ request: Request, _ context: ChannelHandlerContext) {
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let began = self.door.clock.monotonicTime()
        // Until it is stored, even if the sender is gone by then.
        let byteCount = reading.request.events.bytes.count + reading.request.body.count
        let telemetry = self.door.telemetry
        guard telemetry.reserve(byteCount, of: self.door.configuration.memoryByteCountMax) else {
            telemetry.answered(reading.request.dialect, status: 503, took: nil)
            return self.refuse(.memory, request.head, context, key: reading.key)
        }
        let isAdded = self.door.committer.add(
            .init(request: reading.request) { outcome in
                telemetry.release(byteCount)
                eventLoop.execute {
                    bound.value.stored(outcome, reading, request.head, began)
                }
            })
        if !isAdded {
            telemetry.release(byteCount)
            self.refuse(.stopping, request.head, context, key: reading.key)
        }
    }

    private func stored(
        _ outcome: DoorOutcome, _ reading: Door.Reading, _ head: HTTPRequestHead, _ began: MonotonicTime
    ) {
        guard let context else { return }
        let dialect = reading.request.dialect
        switch outcome {
        case .stored(let counts):
            let took = self.door.clock.monotonicTime() - began
            self.door.telemetry.answered(dialect, status: 200, took: took)
            if dialect == .pixel {
                return self.write(
                    200, DoorScript.pixel, head, context,
                    [("Content-Type", "image/gif"), ("Cache-Control", "no-store")])
            }
            self.write(200, Self.text(of: counts, dialect), head, context, key: reading.key)
        case .full, .failed:
            self.door.telemetry.answered(dialect, status: 503, took: nil)
            self.write(
                503, Array("{\"error\":\"nothing was stored; send it again\"}".utf8), head, context,
                [("Retry-After", "5")], key: reading.key)
        }
    }

    private static func text(of counts: DoorCounts, _ dialect: Dialect) -> [UInt8] {
        JSONWriter.object { json in
            switch dialect {
            case .segment: json.member("success", true)
            case .posthog: json.member("status", 1)
            case .amplitude:
                json.member("code", 200)
                json.member("events_ingested", counts.storedCount + counts.repeatedCount)
            case .native, .pixel: break
            }
            json.member("stored", counts.storedCount)
            json.member("repeated", counts.repeatedCount)
            json.member("quarantined", counts.quarantinedCount)
        }
    }

    private func answer(settingsOf key: String, _ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        guard self.door.index(ofKey: key) != nil else { return self.refuse(.unknownKey, head, context) }
        let host = head.headers.first(name: "host") ?? ""
        let text = JSONWriter.object { json in
            json.member("integrations") { json in
                json.member("Segment.io") { json in
                    json.member("apiKey", key)
                    json.member("apiHost", host + "/v1")
                }
            }
            json.member("plan") { _ in }
        }
        self.write(200, text, head, context)
    }

    /// A page asks whether it may send; which key it has is not known yet.
    private func preflight(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        self.phase = .refused
        var headers = [("Access-Control-Allow-Methods", "GET, POST"), ("Access-Control-Max-Age", "86400")]
        if let asked = head.headers.first(name: "access-control-request-headers"), asked.utf8.count <= 1024 {
            headers.append(("Access-Control-Allow-Headers", asked))
        }
        self.write(204, nil, head, context, headers)
    }

    private func refuse(
        _ reason: DoorTelemetry.RefusalReason, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ headers: [(String, String)] = [], key: Int? = nil
    ) {
        self.door.telemetry.refused(reason)
        let isAllRead = if case .waiting = self.phase { true } else { false }
        self.phase = .refused
        self.write(
            reason.status, reason.text, head, context, reason.headers + headers, key: key,
            isAllRead: isAllRead)
    }

    /// Answers now, or once the part at hand is handled: an answer's end brings the next request of the same connection.
    ///
    /// - Parameter isAllRead: whether the whole request was read; if not, the connection ends.
    private func write(
        _ status: Int, _ body: [UInt8]?, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ headers: [(String, String)] = [], key: Int? = nil, isAllRead: Bool = true
    ) {
        self.release()
        guard self.isReading else { return self.send(status, body, head, context, headers, key, isAllRead) }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.execute {
            let handler = bound.value
            guard let context = handler.context else { return }
            handler.send(status, body, head, context, headers, key, isAllRead)
        }
    }

    private func send(
        _ status: Int, _ body: [UInt8]?, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ headers: [(String, String)], _ key: Int?, _ isAllRead: Bool
    ) {
        let isLast = !isAllRead || !head.isKeepAlive || self.door.isStopping
        var fields = HTTPHeaders(headers)
        if let body {
            if !fields.contains(name: "content-type") { fields.add(name: "Content-Type", value: "application/json") }
            fields.add(name: "Content-Length", value: "\(body.count)")
        }
        if isLast { fields.add(name: "Connection", value: "close") }
        if let origin = head.headers.first(name: "origin"), self.door.allows(origin, key) {
            // Beacons send credentials, for which a star is no answer.
            fields.add(name: "Access-Control-Allow-Origin", value: origin)
            fields.add(name: "Access-Control-Allow-Credentials", value: "true")
            fields.add(name: "Vary", value: "Origin")
        }
        self.phase = isLast ? .refused : .idle
        self.setDeadline(self.door.configuration.idleDuration, context)
        self.places.rested(context.channel)
        let answer = HTTPResponseHead(version: head.version, status: .init(statusCode: status), headers: fields)
        context.write(self.wrapOutboundOut(.head(answer)), promise: nil)
        if let body {
            context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
        }
        let channel = context.channel
        let done = context.eventLoop.makePromise(of: Void.self)
        context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: done)
        if isLast {
            // A client that still sends would lose the answer with the connection: what comes is not kept.
            let pause: TimeAmount = isAllRead ? .zero : .seconds(1)
            let eventLoop = context.eventLoop
            done.futureResult.whenComplete { _ in
                eventLoop.scheduleTask(in: pause) { channel.close(promise: nil) }
            }
        }
    }
}
