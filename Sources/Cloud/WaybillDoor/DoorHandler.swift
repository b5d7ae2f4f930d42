internal import NIOCore
internal import NIOHTTP1
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillHost
internal import WaybillSystem

/// One connection: request after request, each answered once its events are durable.
///
///     head ─▶ route, key in query or header ─▶ body, bounded ─▶ read in its dialect ─▶ committer ─▶ answer
///
/// It is confined to its event loop. A body's bytes are taken from the memory of all connections as they arrive (``DoorMemory``),
/// and a request has a deadline from its first byte to its last, and a pace; so what a slow or large body takes from others is
/// given back by then. A request is judged by the settings that were in force when its head came.
final class DoorHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    struct Request {
        let head: HTTPRequestHead
        let query: Substring
        let route: IngestRoute
        let settings: DoorSettings
        /// `nil` if the key is in the body, or there is none.
        let standing: DoorStanding?
        /// The sender's.
        let address: String?
        let place: DoorMemory.Place
        var body: [UInt8] = []
        let began: MonotonicTime
    }

    private enum Phase {
        /// Between two requests.
        case idle
        case body(Request)
        /// A request waits for the disk, or for the receiver.
        case waiting
        /// The end of a request for a tunnel is awaited; it has no body.
        case line(Tunnels, HTTPRequestHead, HTTPHeaders)
        /// The rest of a refused request is not read.
        case refused
        /// The last answer is sent.
        case ending
    }

    let door: Door
    /// What makes requests of bytes, and bytes of answers: the decoder, and the others in their order.
    let decoder: any RemovableChannelHandler
    let http: [any RemovableChannelHandler]
    private var phase = Phase.idle
    /// When the connection is looked at next, at the latest.
    ///
    /// What a look would find too early is looked at again, so that a request need not schedule or cancel anything.
    private var look: (at: MonotonicTime, task: Scheduled<Void>)?
    private var restedAt: MonotonicTime
    private(set) var context: ChannelHandlerContext?
    /// The address that the connection came from.
    private(set) var peer: String?
    /// The room of the request that arrives; once it waits for the disk or the receiver, the answer gives it back.
    private var place: DoorMemory.Place?
    /// The length of the body, now and when its pace was last judged.
    private var arrived = (now: 0, before: 0)
    private var pieces = BodyPieces()
    private var pacedAt: MonotonicTime
    /// Whether a part of a request is being handled.
    private var isReading = false
    /// The sender has closed its side, and may wait for an answer.
    private var isInputClosed = false
    private var places: ConnectionPlaces { self.door.places }

    /// How often a body's pace is judged.
    private static let paceInterval = Duration.seconds(5)

    init(_ door: Door, decoder: any RemovableChannelHandler, http: [any RemovableChannelHandler]) {
        self.door = door
        self.decoder = decoder
        self.http = http
        self.restedAt = door.clock.monotonicTime()
        self.pacedAt = self.restedAt
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        // Of version 4 behind a socket for both versions.
        self.peer = context.channel.remoteAddress?.ipAddress.flatMap { AddressText.plain($0) }
        self.rest(self.door.settings, context)
    }

    /// The connection is a tunnel from now on.
    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        self.look?.task.cancel()
        self.phase = .refused
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        self.look?.task.cancel()
        self.leave()
        // A request holds its place, whose closure holds this handler.
        self.phase = .refused
        context.fireChannelInactive()
    }

    /// Waits for a request.
    private func rest(_ settings: DoorSettings, _ context: ChannelHandlerContext) {
        self.restedAt = self.door.clock.monotonicTime()
        self.look(at: self.restedAt + settings.configuration.limits.idleDuration, context)
    }

    private func look(at time: MonotonicTime, _ context: ChannelHandlerContext) {
        if let look = self.look, look.at <= time { return }
        self.look?.task.cancel()
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let wait = time - self.door.clock.monotonicTime()
        let task = context.eventLoop.scheduleTask(in: .nanoseconds(wait.nanoseconds)) {
            let handler = bound.value
            handler.look = nil
            if let context = handler.context { handler.look(context) }
        }
        self.look = (time, task)
    }

    /// Ends a connection that is silent for too long, and a request that is too slow.
    private func look(_ context: ChannelHandlerContext) {
        switch self.phase {
        case .idle, .ending:
            let end = self.restedAt + self.door.settings.configuration.limits.idleDuration
            guard self.door.clock.monotonicTime() < end else { return context.close(promise: nil) }
            self.look(at: end, context)
        case .body(let request): self.watch(request, context)
        case .waiting, .line, .refused: break
        }
    }

    /// Gives the room of the request back.
    private func leave() {
        if let place = self.place { self.door.room.leave(place) }
        self.place = nil
        self.arrived = (0, 0)
    }

    // MARK: Reading

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.isReading = true
        defer { self.isReading = false }
        switch (self.unwrapInboundIn(data), self.phase) {
        case (.head(let head), .idle):
            self.pieces = BodyPieces()
            self.take(head, context)
        case (.body(let bytes), _) where !self.pieces.take(bytes.readableBytes): self.endBody(context)
        case (.body(let bytes), .body(var request)):
            let configuration = request.settings.configuration
            guard request.body.count + bytes.readableBytes <= configuration.limits.bodyByteCountMax else {
                return self.refuse(.tooLarge, request, context)
            }
            if let refusal = self.door.room.take(bytes.readableBytes, for: request.place, configuration.room) {
                return self.refuse(refusal, request, context)
            }
            // Taken out, so that appending does not copy.
            self.phase = .refused
            request.body.append(contentsOf: bytes.readableBytesView)
            self.arrived.now = request.body.count
            self.phase = .body(request)
        case (.end, .body(let request)):
            guard self.door.room.settle(request.place) else { return self.refuse(.displaced, request, context) }
            self.wait(context)
            self.answer(request, context)
        case (.end, .line(let tunnels, let head, let headers)):
            self.wait(context)
            self.open(tunnels, head, headers, context)
        case (.body, .line(let tunnels, let head, _)): self.refuse(.handshake, tunnels, head, context)
        case (.head, _), (.body, _), (.end, _): break
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .some(.inputClosed) = event as? ChannelEvent {
            self.isInputClosed = true
            switch self.phase {
            case .idle, .body, .line: context.close(promise: nil)
            case .waiting, .refused, .ending: break
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The pipeline has answered invalid HTTP with 400.
        self.door.telemetry.refused(.malformed)
        context.close(promise: nil)
    }

    private func take(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        // Its answers are not read; of this request nothing is stored yet.
        guard context.channel.isWritable else { return context.close(promise: nil) }
        // Its length means something else to a proxy that knows HTTP/1.0 alone.
        guard head.version != .http1_0 || !head.headers.contains(name: "transfer-encoding") else {
            return self.refuse(.malformed, head, context)
        }
        guard head.hasOneHost else { return self.refuse(.malformed, head, context, text: RequestTarget.hostText) }
        let target = RequestTarget(head.uri)
        if head.method == .OPTIONS { return self.preflight(head, context) }
        if self.takeLine(head, path: target.path, context) { return }
        do throws(IngestRoute.Refusal) {
            let route = try IngestRoute(method: head.method.rawValue, path: target.path)
            self.take(head, route, query: target.query, context)
        } catch {
            switch error {
            case .notFound: self.refuse(.notFound, head, context)
            case .method(let allowed):
                self.refuse(.method, head, context, [("Allow", allowed.joined(separator: ", "))])
            }
        }
    }

    private func take(
        _ head: HTTPRequestHead, _ route: IngestRoute, query: Substring, _ context: ChannelHandlerContext
    ) {
        let settings = self.door.settings
        if let length = head.headers.first(name: "content-length").flatMap({ Int($0) }),
            length > settings.configuration.limits.bodyByteCountMax
        {
            return self.refuse(.tooLarge, head, context)
        }
        if case .settings(let key) = route, settings[key] == nil { return self.refuse(.unknownKey, head, context) }
        var standing: DoorStanding?
        if case .events(let dialect, _) = route {
            do throws(Door.Refusal) {
                standing = try self.door.standing(atHead: head.headers, query: query, dialect, settings)
            } catch {
                return self.refuse(error.reason, head, context, standing: error.standing)
            }
        }
        let address = self.door.address(of: self.peer, head.headers, settings)
        self.begin(head, route, query: query, settings, standing, address, context)
    }

    /// Reads the body of a request.
    func begin(
        _ head: HTTPRequestHead, _ route: IngestRoute, query: Substring, _ settings: DoorSettings,
        _ standing: DoorStanding?, _ address: String?, _ context: ChannelHandlerContext
    ) {
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let place = self.door.room.enter(AddressGroup(address)) {
            eventLoop.execute { bound.value.giveWay() }
        }
        self.place = place
        let request = Request(
            head: head, query: query, route: route, settings: settings, standing: standing, address: address,
            place: place, began: self.door.clock.monotonicTime())
        self.phase = .body(request)
        self.pacedAt = request.began
        self.watch(request, context)
        if head.headers.first(name: "expect")?.lowercased() == "100-continue" {
            context.writeAndFlush(
                self.wrapOutboundOut(.head(HTTPResponseHead(version: head.version, status: .continue))),
                promise: nil)
        }
    }

    /// A smaller body needs the room of this one.
    private func giveWay() {
        guard let context, case .body(let request) = self.phase, let place, self.door.room.isDisplaced(place) else {
            return
        }
        self.refuse(.displaced, request, context)
    }

    /// Ends a request that takes too long, or whose body does not arrive at the pace that it must have.
    private func watch(_ request: Request, _ context: ChannelHandlerContext) {
        let limits = request.settings.configuration.limits
        let now = self.door.clock.monotonicTime()
        let end = request.began + limits.requestDuration
        var isSlow = now >= end
        if now - self.pacedAt >= Self.paceInterval {
            isSlow = isSlow || limits.isSlow(self.arrived.now, before: self.arrived.before, Self.paceInterval)
            self.arrived.before = self.arrived.now
            self.pacedAt = now
        }
        guard !isSlow else {
            self.door.telemetry.refused(.slow)
            return context.close(promise: nil)
        }
        self.look(at: min(end, self.pacedAt + Self.paceInterval), context)
    }

    /// Ends a body that comes in too many pieces, refused or not: an answer would let it continue until it is read.
    private func endBody(_ context: ChannelHandlerContext) {
        // Some of it was read already.
        guard context.channel.isActive else { return }
        self.door.telemetry.refused(.malformed)
        context.close(promise: nil)
    }

    /// Whether the present request was read to its end.
    var isAllRead: Bool { if case .waiting = self.phase { true } else { false } }

    /// Reads no more of the present request.
    func discard() {
        self.phase = .refused
    }

    /// Opens a tunnel once the request for it has ended.
    func await(_ tunnels: Tunnels, _ head: HTTPRequestHead, _ headers: HTTPHeaders) {
        self.phase = .line(tunnels, head, headers)
    }

    private func wait(_ context: ChannelHandlerContext) {
        self.phase = .waiting
        self.places.change(context.channel) { $0.asked($1) }
    }

    // MARK: Answering

    private func answer(_ request: Request, _ context: ChannelHandlerContext) {
        switch request.route {
        case .settings(let key): self.answer(settingsOf: key, request, context)
        case .flags: self.write(200, DoorScript.noFlags, request.head, context)
        case .script:
            self.write(
                200, DoorScript.bytes, request.head, context,
                [("Content-Type", "text/javascript"), ("Cache-Control", "max-age=3600")] + DoorScript.forAnyPage)
        case .events(let dialect, let type):
            let reading = DoorReading(
                dialect: dialect, type: type, body: request.body, query: request.query,
                headers: request.head.headers, address: request.address, settings: request.settings,
                standing: request.standing)
            // Its room is taken until its events are stored, even if the sender is gone by then.
            self.place = nil
            let eventLoop = context.eventLoop
            guard !reading.isPlain else {
                return self.take(self.door.result(of: reading), request, dialect, on: eventLoop)
            }
            let bound = NIOLoopBound(self, eventLoop: eventLoop)
            self.door.read(reading) { result in
                eventLoop.execute { bound.value.take(result, request, dialect, on: eventLoop) }
            }
        }
    }

    private func take(
        _ result: Result<Door.Reading, Door.Refusal>, _ request: Request, _ dialect: Dialect,
        on eventLoop: any EventLoop
    ) {
        switch result {
        case .success(let reading): self.store(reading, request, on: eventLoop)
        case .failure(let refusal):
            self.door.telemetry.answered(dialect, status: refusal.reason.status, took: nil)
            self.refuse(
                refusal.reason, request, refusal.headers, text: refusal.text, standing: refusal.standing)
        }
    }

    /// Refuses a whole request, whose sender may be gone.
    private func refuse(
        _ reason: DoorTelemetry.RefusalReason, _ request: Request, _ headers: [(String, String)] = [],
        text: [UInt8]? = nil, standing: DoorStanding?
    ) {
        self.door.room.leave(request.place)
        guard let context else { return }
        self.refuse(reason, request.head, context, headers, text: text, standing: standing)
    }

    private func store(_ reading: Door.Reading, _ request: Request, on eventLoop: any EventLoop) {
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        let began = self.door.clock.monotonicTime()
        let byteCount = reading.request.events.bytes.count + reading.request.body.count
        let room = self.door.room
        let place = request.place
        guard room.resize(place, to: byteCount, request.settings.configuration.room) else {
            self.door.telemetry.answered(reading.request.dialect, status: 503, took: nil)
            return self.refuse(.memory, request, standing: reading.standing)
        }
        let (head, clock) = (request.head, self.door.clock)
        let isAdded = self.door.committer.add(
            .init(request: reading.request) { outcome in
                room.leave(place)
                reading.standing.answered(outcome, reading.request.events, at: clock.wallTime())
                eventLoop.execute {
                    bound.value.stored(outcome, reading, head, began)
                }
            })
        if !isAdded { self.refuse(.stopping, request, standing: reading.standing) }
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
                    [("Content-Type", "image/gif"), ("Cache-Control", "no-store")] + DoorScript.forAnyPage)
            }
            let text = counts.text(for: dialect, reading.request.events)
            self.write(200, text, head, context, standing: reading.standing)
        case .full, .failed, .share:
            self.door.telemetry.answered(dialect, status: 503, took: nil)
            let text = reading.request.events.laterText("nothing was stored; send it again", for: dialect)
            guard outcome == .share else {
                return self.write(503, text, head, context, [("Retry-After", "5")], standing: reading.standing)
            }
            self.refuse(.disk, head, context, text: text, standing: reading.standing)
        }
    }

    /// Refuses a request while its body arrives, in the way of its path.
    private func refuse(
        _ reason: DoorTelemetry.RefusalReason, _ request: Request, _ context: ChannelHandlerContext
    ) {
        self.refuse(reason, request.head, context)
    }

    func refuse(
        _ reason: DoorTelemetry.RefusalReason, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ headers: [(String, String)] = [], text: [UInt8]? = nil, standing: DoorStanding? = nil
    ) {
        self.door.telemetry.refused(reason)
        standing?.tally.refused(reason)
        let isAllRead = self.isAllRead
        self.phase = .refused
        self.write(
            reason.status, text ?? reason.text, head, context, reason.headers + headers, standing: standing,
            isAllRead: isAllRead)
    }

    /// Answers now, or once the part at hand is handled: an answer's end brings the next request of the same connection.
    ///
    /// - Parameter isAllRead: whether the whole request was read; if not, the connection ends.
    func write(
        _ status: Int, _ body: [UInt8]?, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ headers: [(String, String)] = [], standing: DoorStanding? = nil, isAllRead: Bool = true
    ) {
        self.leave()
        guard self.isReading else { return self.send(status, body, head, context, headers, standing, isAllRead) }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.execute {
            let handler = bound.value
            guard let context = handler.context else { return }
            handler.send(status, body, head, context, headers, standing, isAllRead)
        }
    }

    private func send(
        _ status: Int, _ body: [UInt8]?, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ headers: [(String, String)], _ standing: DoorStanding?, _ isAllRead: Bool
    ) {
        let settings = self.door.settings
        let isLast = !isAllRead || !head.isKeepAlive || self.isInputClosed || self.door.isStopping
        var fields = HTTPHeaders(headers)
        if let body {
            if !fields.contains(name: "content-type") { fields.add(name: "Content-Type", value: "application/json") }
            fields.add(name: "Content-Length", value: "\(body.count)")
        }
        if isLast { fields.add(name: "Connection", value: "close") }
        if let origin = head.headers.first(name: "origin"), settings.allows(origin, standing) {
            // Beacons send credentials, for which a star is not an answer.
            fields.add(name: "Access-Control-Allow-Origin", value: origin)
            fields.add(name: "Access-Control-Allow-Credentials", value: "true")
            fields.add(name: "Access-Control-Expose-Headers", value: "Retry-After")
            fields.replaceOrAdd(name: "Vary", value: "Origin")
        }
        self.phase = isLast ? .ending : .idle
        self.rest(settings, context)
        self.places.change(context.channel) { $0.rested($1) }
        let answer = HTTPResponseHead(version: head.version, status: .init(statusCode: status), headers: fields)
        let channel = context.channel
        let sent = channel.answer(answer, head.method == .HEAD ? nil : body)
        if isLast {
            // A client that still sends would lose the answer with the connection: what comes is not kept.
            let pause: TimeAmount = isAllRead ? .zero : .seconds(1)
            let eventLoop = context.eventLoop
            sent.whenComplete { _ in
                eventLoop.scheduleTask(in: pause) { channel.close(promise: nil) }
            }
        }
    }
}
