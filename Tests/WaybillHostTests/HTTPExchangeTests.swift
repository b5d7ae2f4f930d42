import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import WaybillHost

@Suite struct HTTPExchangeTests {
    /// Keeps what came.
    private final class Routes: HTTPRoutes {
        var parts: [HTTPServerRequestPart] = []
        var exchange: HTTPExchange?
        var isClosed = false

        func take(_ part: HTTPServerRequestPart, _ exchange: HTTPExchange) {
            self.parts.append(part)
            self.exchange = exchange
        }

        func closed() {
            self.isClosed = true
            self.exchange = nil
        }
    }

    private static let request = HTTPServerRequestPart.head(HTTPRequestHead(version: .http1_1, method: .GET, uri: "/"))

    private let routes = Routes()
    private let channel = EmbeddedChannel()
    private let places = ConnectionPlaces()

    init() throws {
        #expect(self.places.take(for: self.channel, of: nil, ConnectionLimits(countMax: 1)) == .admitted)
        try self.channel.pipeline.syncOperations.addHandler(
            HTTPExchange(self.channel, self.routes, self.places, in: .seconds(5)))
        try self.channel.connect(to: SocketAddress(unixDomainSocketPath: "/run/test")).wait()
    }

    private func written() throws -> [HTTPServerResponsePart] {
        var parts: [HTTPServerResponsePart] = []
        while let part = try self.channel.readOutbound(as: HTTPServerResponsePart.self) { parts.append(part) }
        return parts
    }

    @Test func `a request is answered once, and the connection ends`() throws {
        try self.channel.writeInbound(Self.request)
        try self.channel.writeInbound(HTTPServerRequestPart.end(nil))
        #expect(self.routes.parts == [Self.request, .end(nil)])
        let exchange = try #require(self.routes.exchange)
        exchange.answer(.accepted, ["A": "b"], Array("text".utf8))
        let head = HTTPResponseHead(version: .http1_1, status: .accepted, headers: ["A": "b"])
        #expect(try self.written() == [.head(head), .body(.byteBuffer(ByteBuffer(string: "text"))), .end(nil)])
        #expect(!self.channel.isActive)
        #expect(self.routes.isClosed)
        exchange.answer(.ok, [:], nil)
        #expect(try self.written().isEmpty)
    }

    @Test func `an answer may have no body`() throws {
        try self.channel.writeInbound(Self.request)
        self.routes.exchange?.answer(.notModified, [:], nil)
        #expect(try self.written() == [.head(HTTPResponseHead(version: .http1_1, status: .notModified)), .end(nil)])
    }

    @Test func `a connection ends when its time is over`() {
        self.channel.embeddedEventLoop.advanceTime(by: .milliseconds(4999))
        #expect(self.channel.isActive)
        self.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!self.channel.isActive)
        #expect(self.routes.isClosed)
    }

    @Test func `its time is moved, or taken away`() throws {
        try self.channel.writeInbound(Self.request)
        let exchange = try #require(self.routes.exchange)
        exchange.end(in: .seconds(10))
        self.channel.embeddedEventLoop.advanceTime(by: .seconds(9))
        #expect(self.channel.isActive)
        exchange.end(in: nil)
        self.channel.embeddedEventLoop.advanceTime(by: .hours(1))
        #expect(self.channel.isActive)
        exchange.end(in: .seconds(1))
        self.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!self.channel.isActive)
    }

    @Test func `it keeps its place while it is answered, and closes for the next one after that`() throws {
        let limits = ConnectionLimits(countMax: 1)
        try self.channel.writeInbound(Self.request)
        let exchange = try #require(self.routes.exchange)
        exchange.keep()
        #expect(self.places.take(for: EmbeddedChannel(), of: nil, limits) == .refused)
        self.places.change(self.channel) { $0.rested($1) }
        let next = EmbeddedChannel()
        #expect(
            self.places.take(for: next, of: nil, limits) == .admittedInsteadOf(ObjectIdentifier(self.channel), .all))
        #expect(!self.channel.isActive)
        #expect(self.places.count == 1)
        #expect(self.places.channels.map { ObjectIdentifier($0) } == [ObjectIdentifier(next)])
    }

    @Test func `invalid HTTP ends the connection`() {
        self.channel.pipeline.fireErrorCaught(HTTPParserError.unknown)
        self.channel.embeddedEventLoop.run()
        #expect(!self.channel.isActive)
    }
}
