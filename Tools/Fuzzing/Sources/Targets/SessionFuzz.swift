internal import WaybillProtocol
internal import WaybillTestSupport

/// A small world of messages, so that they meet.
enum SmallMessages {
    static let streamCount = 4

    static func id(_ number: Int) -> StreamID {
        StreamID("s-\(number)") ?? { preconditionFailure("a stream id") }()
    }

    static func description(_ number: Int) -> StreamDescription {
        StreamDescription(
            id: Self.id(number), source: "/var/log/\(number)", environment: "prod", bundle: "b", format: .waybill)
    }

    static func hello(versions: [UInt64] = [1], encodings: [String] = ["zlib"]) -> Hello {
        Hello(versions: versions, agent: "a", instance: "i", token: nil, encodings: encodings)
    }

    static func limits(streams: Int = 3, window: Int = 200) -> ProtocolLimits {
        var limits = ProtocolLimits()
        limits.rawByteCountMax = 100
        limits.wireByteCountMax = 120
        limits.streamCountMax = streams
        limits.windowByteCount = window
        return limits
    }

    static func ready(version: UInt64 = 1) -> Ready {
        let start = ReceiverStart(id: 1, position: 0)
        guard
            let receiver = ReceiverIdentity(name: "r", incarnation: Incarnation(1, 2), starts: [start], end: 0)
        else { preconditionFailure("one start is enough") }
        return Ready(version: version, receiver: receiver, limits: Self.limits(), milliseconds: 0)
    }

    static func number(_ input: inout FuzzInput) -> StreamNumber {
        StreamNumber(UInt64(1 + input.number(below: Self.streamCount)))
    }

    static func header(_ input: inout FuzzInput) -> BatchHeader {
        BatchHeader(
            stream: Self.number(&input), offset: StreamOffset(UInt64(input.byte())),
            rawByteCount: 1 + input.number(below: 128), lineCount: 1, wireByteCount: 1 + input.number(below: 128),
            checksum: 0)
    }

    static func skipped(_ offset: UInt64, _ byteCount: UInt64) -> SkippedRange {
        let range = SkippedRange(
            offset: StreamOffset(offset), byteCount: byteCount, reason: .truncated, tail: nil)
        guard let range else { preconditionFailure("small numbers are a range") }
        return range
    }

    /// Any message.
    static func message(_ input: inout FuzzInput) -> Message {
        let kind = input.number(below: 19)
        switch kind {
        case 0: return .hello(Self.hello(versions: input.bool() ? [1] : [2, 0]))
        case 1: return .ready(Self.ready(version: input.bool() ? 1 : 2))
        case 2: return .open(Self.number(&input), Self.description(input.number(below: 5)), .none)
        case 3:
            return .at(Self.number(&input), StreamOffset(UInt64(input.byte())), .empty, end: UInt64(input.byte()))
        case 4: return .batch(Self.header(&input))
        case 5: return .ack(Self.number(&input), StreamOffset(UInt64(input.byte())), end: UInt64(input.byte()))
        case 6: return .nak(Self.number(&input), StreamOffset(UInt64(input.byte())), .gap, text: "")
        case 7:
            return .skip(Self.number(&input), Self.skipped(UInt64(input.byte()), 1 + UInt64(input.byte())))
        case 8: return .seal(Self.number(&input), length: StreamOffset(UInt64(input.byte())))
        case 9: return .sealed(Self.number(&input), .empty, end: UInt64(input.byte()))
        case 10: return .ping(UInt64(input.byte()))
        case 11: return .pong(UInt64(input.byte()))
        case 12: return .wait(milliseconds: UInt64(input.byte()))
        case 13: return .move(["a:1"])
        case 14: return .err(.limit, text: "")
        case 15: return .mark(position: 0, milliseconds: 0, checksum: 0)
        case 16: return .stored(Self.number(&input), StreamOffset(UInt64(input.byte())))
        case 17: return .note([])
        default: return .bye
        }
    }
}

/// The receiver's machine under any messages of an agent and any answers of its committer.
enum ReceiverSessionFuzz {
    private struct Stream {
        var id: StreamID
        var isOpening = false
        var isOpen = false
    }

    private struct Model: ~Copyable {
        var session = ReceiverSession(limits: SmallMessages.limits())
        var streams: [StreamNumber: Stream] = [:]
        var isClosed = false

        /// What must be true of an action, and what it changes.
        mutating func check(_ action: ReceiverSession.Action?, of message: Message) throws {
            guard let action else {
                return try require(self.isClosed || self.mayPassOver(message), "no action for \(message)")
            }
            try require(!self.isClosed, "\(action) after the end")
            switch action {
            case .reply(let reply):
                guard case .ping(let number) = message else { throw Violation("a reply to \(message)") }
                try require(reply == .pong(number), "\(reply) answers \(message)")
            case .admit: try require(self.streams.isEmpty && !self.session.isReady, "a second admission")
            case .open(let number, let description, _):
                try require(self.session.isReady, "a stream before the handshake")
                if let known = self.streams[number] {
                    try require(known.id == description.id && !known.isOpening, "\(number) names another stream")
                } else {
                    try require(self.streams.count < 3, "a stream beyond the limit")
                }
                self.streams[number] = Stream(id: description.id, isOpening: true)
            case .readBatch(let header, let id):
                let stream = self.streams[header.stream]
                try require(stream?.isOpen == true && stream?.id == id, "a batch of a stream that is not open")
                try require(header.rawByteCount <= 100 && header.wireByteCount <= 120, "a batch beyond the limits")
            case .discardBatch(let header):
                let stream = self.streams[header.stream]
                try require(stream.map { !$0.isOpen && !$0.isOpening } == true, "a batch is thrown away")
                try require(header.wireByteCount <= 120, "a payload beyond the limit is read")
            case .refuseBatch(let header, _): throw Violation("\(header) is refused at once, and no SEALED waits")
            case .skip(let number, let id, _), .seal(let number, let id, _):
                let stream = self.streams[number]
                try require(stream?.isOpen == true && stream?.id == id, "a message of a stream that is not open")
            case .close(let message):
                switch message {
                case .bye, .err: break
                default: throw Violation("closed with \(message)")
                }
                try require(self.session.isClosed, "closed and yet open")
                self.isClosed = true
            }
        }

        /// What follows a refused batch is ignored until the stream is opened again.
        private func mayPassOver(_ message: Message) -> Bool {
            switch message {
            case .pong: return true
            case .seal(let number, _), .skip(let number, _):
                return self.streams[number].map { !$0.isOpen && !$0.isOpening } ?? false
            default: return false
            }
        }

        mutating func committerAnswers(_ input: inout FuzzInput) throws {
            let number = SmallMessages.number(&input)
            let offset = StreamOffset(UInt64(input.byte()))
            let stream = self.isClosed ? nil : self.streams[number]
            let isOpen = stream?.isOpen ?? false
            let isOpening = stream?.isOpening ?? false
            let answers: [Message]
            let expected: [Message]
            switch input.number(below: 6) {
            case 0:
                answers = self.session.opened(number, at: offset, .empty, isSealed: false, end: 9)
                expected = isOpening ? [.at(number, offset, .empty, end: 9)] : []
                if isOpening { self.streams[number] = stream.map { Stream(id: $0.id, isOpen: true) } }
            case 1:
                answers = self.session.opened(number, at: offset, .empty, isSealed: true, end: 9)
                expected = isOpening ? [.at(number, offset, .empty, end: 9), .sealed(number, .empty, end: 9)] : []
                if isOpening { self.streams[number] = stream.map { Stream(id: $0.id) } }
            case 2:
                answers = self.session.durable(number, upTo: offset, end: 9)
                expected = isOpen ? [.ack(number, offset, end: 9)] : []
            case 3:
                answers = self.session.sealed(number, .empty, end: 9)
                expected = isOpen ? [.sealed(number, .empty, end: 9)] : []
                if isOpen { self.streams[number] = nil }
            case 4:
                answers = self.session.refused(number, at: offset, .corrupt, text: "t")
                expected = isOpen ? [.nak(number, offset, .corrupt, text: "t")] : []
                if isOpen { self.streams[number]?.isOpen = false }
            default:
                answers = self.session.openRefused(number, at: offset, .inUse, text: "t")
                expected = isOpening ? [.nak(number, offset, .inUse, text: "t")] : []
                if isOpening { self.streams[number]?.isOpening = false }
            }
            // One answer for each OPEN, none for what was refused, none after the end.
            try require(answers == expected, "the committer's answer becomes \(answers), expected \(expected)")
        }
    }

    @Sendable static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        var model = Model()
        if input.number(below: 8) > 0 {
            try Self.receive(.hello(SmallMessages.hello()), &model)
            _ = model.session.admit(SmallMessages.ready())
        }
        while !input.isAtEnd {
            switch input.number(below: 16) {
            case 0..<10: try Self.receive(SmallMessages.message(&input), &model)
            default: try model.committerAnswers(&input)
            }
        }
    }

    private static func receive(_ message: Message, _ model: inout Model) throws {
        let action = model.session.receive(message)
        try model.check(action, of: message)
    }
}

/// The agent's machine under any messages of a receiver, driven as the agent may drive it.
enum SenderSessionFuzz {
    private enum Standing: Equatable {
        case opening
        case open(sent: UInt64, acked: UInt64)
        case sealing(sent: UInt64, acked: UInt64)
        case refused
    }

    private struct Model: ~Copyable {
        var session = SenderSession()
        var standings: [StreamNumber: Standing] = [:]
        var flights: [StreamNumber: [(end: UInt64, byteCount: Int)]] = [:]
        var isReady = false
        var isClosed = false

        var inFlightByteCount: Int {
            self.flights.values.joined().reduce(0) { $0 + $1.byteCount }
        }

        mutating func receive(_ message: Message) throws {
            let action = self.session.receive(message)
            if self.isClosed {
                return try require(action == nil, "an action after the end: \(String(describing: action))")
            }
            switch action {
            case .seek(let number, let offset, let proof, let end):
                try require(message == .at(number, offset, proof, end: end), "\(message) seeks")
                try require(self.standings[number] == .opening, "AT for a stream that is not being opened")
                self.standings[number] = .open(sent: offset.rawValue, acked: offset.rawValue)
            case .advance(let number, let offset, let end):
                try require(message == .ack(number, offset, end: end), "\(message) advances")
                try self.advance(number, offset.rawValue)
            case .finish(let number, _, _):
                switch self.standings[number] {
                case .open, .sealing: self.forget(number)
                case .opening, .refused, nil: throw Violation("a stream is finished that was not open")
                }
            case .reopen(let number, _, _, _):
                try require(self.standings[number] != nil, "an unknown stream is refused")
                self.flights[number] = nil
                self.standings[number] = .refused
            case .start:
                try require(!self.isReady, "a second READY")
                self.isReady = true
            case .close: self.isClosed = true
            case .move:
                if !self.isReady { self.isClosed = true }
            case .send(let reply):
                guard case .ping(let number) = message else { throw Violation("\(message) sends") }
                try require(reply == .pong(number), "\(reply) answers \(message)")
            case .stored(let number, let offset):
                try self.checkStored(number, offset.rawValue)
            case .pause, .note, nil: break
            }
            if case .ack(let number, let offset, _) = message { try self.checkAck(number, offset.rawValue, action) }
        }

        /// What is stored was acknowledged before.
        private func checkStored(_ number: StreamNumber, _ offset: UInt64) throws {
            switch self.standings[number] {
            case .open(_, let acked), .sealing(_, let acked):
                try require(offset <= acked, "stored \(offset) beyond \(acked)")
            case .opening, .refused, nil: throw Violation("a stream is stored that is not open")
            }
        }

        private mutating func forget(_ number: StreamNumber) {
            self.standings[number] = nil
            self.flights[number] = nil
        }

        private mutating func advance(_ number: StreamNumber, _ offset: UInt64) throws {
            switch self.standings[number] {
            case .open(let sent, let acked):
                try require(acked...sent ~= offset, "ack \(offset) outside \(acked)...\(sent)")
                self.standings[number] = .open(sent: sent, acked: offset)
            case .sealing(let sent, let acked):
                try require(acked...sent ~= offset, "ack \(offset) outside \(acked)...\(sent)")
                self.standings[number] = .sealing(sent: sent, acked: offset)
            case .opening, .refused, nil: throw Violation("an ack of a stream that is not open")
            }
            self.flights[number]?.removeAll { $0.end <= offset }
        }

        /// An ack that is beyond what was sent ends the connection.
        private func checkAck(_ number: StreamNumber, _ offset: UInt64, _ action: SenderSession.Action?) throws {
            switch self.standings[number] {
            case .open(let sent, let acked), .sealing(let sent, let acked):
                try require(
                    acked...sent ~= offset || self.isClosed, "ack \(offset) outside \(acked)...\(sent) is taken")
            case .opening, .refused: try require(action == nil || self.isClosed, "an ack of a stream that is not open")
            case nil: try require(self.isClosed, "an ack of an unknown stream is taken")
            }
        }

        mutating func act(_ input: inout FuzzInput) {
            let number = SmallMessages.number(&input)
            guard self.isReady, !self.isClosed else { return }
            switch self.standings[number] {
            case nil, .refused:
                _ = self.session.open(number, SmallMessages.description(Int(number.rawValue)))
                self.standings[number] = .opening
            case .open(let sent, let acked):
                let byteCount = 1 + input.number(below: 100)
                switch input.number(below: 4) {
                case 0:
                    _ = self.session.skip(number, SmallMessages.skipped(sent, UInt64(byteCount)))
                    self.standings[number] = .open(sent: sent + UInt64(byteCount), acked: acked)
                case 1:
                    _ = self.session.seal(number, length: StreamOffset(sent))
                    self.standings[number] = .sealing(sent: sent, acked: acked)
                default:
                    guard self.session.admits(rawByteCount: byteCount) else { return }
                    self.session.batchSent(
                        BatchHeader(
                            stream: number, offset: StreamOffset(sent), rawByteCount: byteCount, lineCount: 1,
                            wireByteCount: byteCount, checksum: 0))
                    let end = sent + UInt64(byteCount)
                    self.standings[number] = .open(sent: end, acked: acked)
                    self.flights[number, default: []].append((end, byteCount))
                }
            case .opening, .sealing: break
            }
        }

        func check() throws {
            let inFlight = self.inFlightByteCount
            try require(
                self.session.inFlightByteCount == inFlight, "\(self.session.inFlightByteCount), not \(inFlight)")
            let isRoom = self.isReady && !self.isClosed && (inFlight == 0 || inFlight + 50 <= 200)
            try require(self.session.admits(rawByteCount: 50) == isRoom, "\(inFlight) in flight and room: \(isRoom)")
            let isSettled =
                inFlight == 0
                && self.standings.values.allSatisfy { standing in
                    switch standing {
                    case .opening, .sealing: false
                    case .open(let sent, let acked): sent == acked
                    case .refused: true
                    }
                }
            try require(self.session.isSettled == isSettled, "settled: \(isSettled)")
        }
    }

    @Sendable static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        var model = Model()
        if input.number(below: 8) > 0 {
            _ = model.session.start(SmallMessages.hello())
            try model.receive(.ready(SmallMessages.ready()))
        }
        while !input.isAtEnd {
            if input.number(below: 3) == 0 {
                try model.receive(SmallMessages.message(&input))
            } else if input.bool() {
                model.act(&input)
            } else {
                try model.receive(Self.plausible(&input, model.standings))
            }
            try model.check()
        }
    }

    /// A message that may well be right.
    private static func plausible(_ input: inout FuzzInput, _ standings: [StreamNumber: Standing]) -> Message {
        let number = SmallMessages.number(&input)
        switch standings[number] {
        case .opening: return .at(number, StreamOffset(UInt64(input.byte())), .empty, end: 0)
        case .open(let sent, let acked):
            return .ack(number, StreamOffset(acked + UInt64(input.number(below: Int(sent - acked) + 1))), end: 0)
        case .sealing(let sent, _):
            return input.bool() ? .sealed(number, .empty, end: 0) : .ack(number, StreamOffset(sent), end: 0)
        case .refused, nil: return .pong(0)
        }
    }
}
