import Logging
import Testing
import Waybill
import WaybillLogging
import WaybillSystem
import WaybillTestSupport

/// A client on a folder of its own, and the lines that it stored there.
private struct Site {
    let waybill: WaybillClient
    private let spool: String

    init(_ folder: String) throws {
        self.spool = "\(folder)/spool"
        self.waybill = try WaybillClient(
            .init(
                spool: self.spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118"))
    }

    func lines() throws -> [String] {
        let files = POSIXFileSystem()
        return try files.list(self.spool).filter { $0.hasSuffix(".ndjson") }.flatMap { name in
            let bytes = try files.contents(of: "\(self.spool)/\(name)") ?? []
            return bytes.split(separator: 10).map { String(decoding: $0, as: UTF8.self) }
        }
    }

    /// The fields of each line as they stand there; "-" where there are none.
    func fields() throws -> [String] {
        try self.lines().map { line in
            guard let start = line.firstRange(of: ",\"data\":")?.upperBound else { return "-" }
            return String(line[start...].dropLast())
        }
    }

    func logger(
        _ bridge: LogBridge, label: String = "shop.http", provider: Logger.MetadataProvider? = nil
    ) -> Logger {
        Logger(label: label) { WaybillLogHandler(label: $0, bridge: bridge, metadataProvider: provider) }
    }
}

private func options(_ change: (inout LogBridge.Options) -> Void) -> LogBridge.Options {
    var options = LogBridge.Options()
    change(&options)
    return options
}

/// Another package's attribute.
private enum Sensitivity: Int64, Logger.MetadataValueAttributes.Attribute {
    case sensitive = 1
    case harmless = 2
}

private struct OutOfStock: Error, CustomStringConvertible {
    var description: String { "out of stock" }
}

@Test
func `a log call is an event with level, message and logger in front`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let logger = site.logger(LogBridge(site.waybill))
        logger.warning("slow \"토스터\"\n", metadata: ["b": "2", "a": "1"])
        logger.critical("gone")
        #expect(
            try site.fields() == [
                #"{"level":"warning","message":"slow \"토스터\"\n","logger":"shop.http","a":"1","b":"2"}"#,
                #"{"level":"critical","message":"gone","logger":"shop.http"}"#,
            ])
        #expect(try site.lines().allSatisfy { $0.contains(#""kind":"event","name":"log","#) })
    }
}

@Test
func `levels below the logger's and below the bridge's minimum become no events`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(site.waybill, options { $0.minimumLevel = .notice })
        var logger = site.logger(bridge)
        #expect(logger.logLevel == .notice)
        logger.info("below both")
        logger.notice("1")
        logger.logLevel = .trace
        logger.debug("below the bridge's")
        logger.notice("2")
        logger.logLevel = .error
        logger.warning("below the logger's")
        logger.error("3")
        #expect(
            try site.fields() == [
                #"{"level":"notice","message":"1","logger":"shop.http"}"#,
                #"{"level":"notice","message":"2","logger":"shop.http"}"#,
                #"{"level":"error","message":"3","logger":"shop.http"}"#,
            ])
    }
}

@Test
func `a call's metadata wins over the provider's, and that over the logger's`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let provider = Logger.MetadataProvider { ["two": "provider", "three": "provider", "p": "provider"] }
        var logger = site.logger(LogBridge(site.waybill), provider: provider)
        logger[metadataKey: "one"] = "logger"
        logger[metadataKey: "two"] = "logger"
        logger[metadataKey: "three"] = "logger"
        logger.info("m", metadata: ["three": "call", "c": "call"])
        logger.info("n")
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"m","logger":"shop.http","c":"call","one":"logger","p":"provider","#
                    + #""three":"call","two":"provider"}"#,
                #"{"level":"info","message":"n","logger":"shop.http","one":"logger","p":"provider","#
                    + #""three":"provider","two":"provider"}"#,
            ])
    }
}

@Test
func `a logger is a value, and its copies do not share metadata or level`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let first = site.logger(LogBridge(site.waybill))
        var second = first
        second[metadataKey: "who"] = "second"
        second.logLevel = .error
        first.info("a")
        second.info("b")
        second.error("c")
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"a","logger":"shop.http"}"#,
                #"{"level":"error","message":"c","logger":"shop.http","who":"second"}"#,
            ])
    }
}

@Test
func `metadata is flattened, keeps numbers, and steps aside for the call's own fields`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let logger = site.logger(LogBridge(site.waybill))
        logger.info(
            "m",
            metadata: [
                "request": ["id": "r-1", "sizes": .array(["1", ["deep": "x"]]), "none": [:]],
                "level": "mine",
                "count": .stringConvertible(3), "ratio": .stringConvertible(0.5), "isNew": .stringConvertible(true),
                "nan": .stringConvertible(Double.nan), "kind": .stringConvertible(EventKind.action.rawValue),
            ])
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"m","logger":"shop.http","count":3,"isNew":true,"kind":"action","#
                    + #""metadata.level":"mine","nan":"nan","ratio":0.5,"request.id":"r-1","request.sizes.0":"1","#
                    + #""request.sizes.1.deep":"x"}"#
            ])
    }
}

@Test
func `the place in the code and the error are fields when they are asked for and given`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(
            site.waybill,
            options {
                $0.includesLocation = true
                $0.name = "diagnosis"
            })
        let logger = site.logger(bridge)
        logger.error("failed", error: OutOfStock(), source: "Shop", file: "Shop/Cart.swift", function: "buy()", line: 7)
        let fields = try #require(try site.fields().first)
        #expect(
            fields.hasPrefix(
                #"{"level":"error","message":"failed","logger":"shop.http","source":"Shop","file":"Shop/Cart.swift","#
                    + #""function":"buy()","line":7,"error.message":"out of stock","error.type":""#))
        #expect(fields.hasSuffix(#"OutOfStock"}"#))
        #expect(try site.lines().allSatisfy { $0.contains(#""name":"diagnosis""#) })
    }
}

@Test
func `private values reach the disk from no source of metadata and at no depth`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let provider = Logger.MetadataProvider { ["p": "\("secret-1", privacy: .private)"] }
        var logger = site.logger(LogBridge(site.waybill), provider: provider)
        logger[metadataKey: "l"] = "\("secret-2", privacy: .private)"
        logger.info(
            "m",
            metadata: [
                "c": "user \("secret-3", privacy: .private) of \("all", privacy: .public)",
                "d": ["deep": ["deeper": "\("secret-4", privacy: .private)"], "open": "\("shown", privacy: .public)"],
                "e": .array(["\("secret-5", privacy: .private)", "\("shown", privacy: .public)", "plain"]),
                "f": .attributed("secret-6", attributes: [MetadataPrivacy.private]),
                "g": .attributed(7, attributes: [MetadataPrivacy.private]),
            ])
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"m","logger":"shop.http","c":"<private>","d.deep.deeper":"<private>","#
                    + #""d.open":"shown","e.0":"<private>","e.1":"shown","e.2":"plain","f":"<private>","#
                    + #""g":"<private>","l":"<private>","p":"<private>"}"#
            ])
        #expect(try site.lines().allSatisfy { !$0.contains("secret") })
    }
}

@Test
func `all values are private where the rules say so, but for what is marked public`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let logger = site.logger(
            LogBridge(site.waybill, options { $0.privacy = .unlessPublic.public(Sensitivity.harmless) }))
        logger.info(
            "m",
            metadata: [
                "a": "secret", "b": "\("shown", privacy: .public)", "c": .stringConvertible(12),
                "d": .attributed("shown", attributes: [Sensitivity.harmless]),
                "e": .attributed("secret", attributes: [Sensitivity.sensitive]),
                "f": .attributed("secret", attributes: [Sensitivity.harmless, MetadataPrivacy.private]),
            ])
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"m","logger":"shop.http","a":"<private>","b":"shown","c":"<private>","#
                    + #""d":"shown","e":"<private>","f":"<private>"}"#
            ])
        logger.error("m", error: OutOfStock())
        let fields = try #require(try site.fields().last)
        #expect(fields.contains(#""error.message":"<private>","error.type":"#) && fields.hasSuffix(#"OutOfStock"}"#))
    }
}

@Test
func `another package's attribute makes values private once it is known`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let logger = site.logger(
            LogBridge(site.waybill, options { $0.privacy = .marked.private(Sensitivity.sensitive) }))
        logger.info(
            "m",
            metadata: [
                "a": .attributed("secret", attributes: [Sensitivity.sensitive]),
                "b": .attributed("shown", attributes: [Sensitivity.harmless]), "c": "shown",
                "d": "\("secret", privacy: .private)",
            ])
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"m","logger":"shop.http","a":"<private>","b":"shown","c":"shown","#
                    + #""d":"<private>"}"#
            ])
    }
}

@Test(arguments: ["x", "\u{1}", "\"", "토", "🛒"])
func `a long message is cut at a whole character, and that is counted`(character: String) throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(site.waybill)
        let logger = site.logger(bridge)
        let message = String(repeating: character, count: LogLimits.messageByteCountMax + 1)
        logger.info("\(message)", metadata: ["value": "\(message)", "short": "\(character)"])
        let line = try #require(try site.lines().first)
        let escaped = ["\u{1}": "\\u0001", "\"": "\\\""][character] ?? character
        func kept(_ limit: Int) -> String {
            String(repeating: escaped, count: limit / escaped.utf8.count)
        }
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"\#(kept(LogLimits.messageByteCountMax))","logger":"shop.http","#
                    + #""short":"\#(escaped)","value":"\#(kept(LogLimits.valueByteCountMax))","log.cut":2}"#
            ])
        #expect(line.utf8.count < 8192)
        #expect(bridge.counters.cutTexts == 2)
        #expect(bridge.counters.leftOutFields == 0)
    }
}

@Test
func `metadata beyond the room of an event is left out and counted, and the event is stored`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(site.waybill)
        let logger = site.logger(bridge)
        var nested: Logger.MetadataValue = "bottom"
        for _ in 0..<1000 { nested = ["n": nested] }
        var metadata: Logger.Metadata = [
            "nested": nested, "long.\(String(repeating: "k", count: 300))": "v",
            "z": "\(String(repeating: "\u{2}", count: 5000), privacy: .private)",
        ]
        for index in 0..<100 { metadata["m\(index)"] = "\(String(repeating: "\u{1}", count: 1000))" }
        logger.info("m", metadata: metadata)
        let line = try #require(try site.lines().first)
        #expect(line.utf8.count < 20_000)
        let keptCount = line.split(separator: #"":"\u0001"#).count - 1
        #expect(keptCount == 15)
        #expect(bridge.counters.leftOutFields == UInt64(100 - keptCount + 2))
        #expect(bridge.counters.cutTexts == UInt64(keptCount))
        #expect(line.hasSuffix(#""z":"<private>","log.cut":15,"log.left_out":87}}"#))
        #expect(site.waybill.counters.droppedCount == 0)
    }
}

@Test
func `metadata in eight dictionaries is kept, in nine it is left out`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(site.waybill)
        func nested(_ depth: Int) -> Logger.MetadataValue {
            (0..<depth).reduce("x") { value, _ in ["n": value] }
        }
        site.logger(bridge).info("m", metadata: ["a": nested(8), "b": nested(9)])
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"m","logger":"shop.http","a.n.n.n.n.n.n.n.n":"x","log.left_out":1}"#
            ])
        #expect(bridge.counters.leftOutFields == 1)
    }
}

/// Logs each event that it sees.
private final class Chatterer: EventObserver {
    private let logger: Logger
    private let seen = Lock(0)

    var seenCount: Int { self.seen.withLock { $0 } }

    init(_ logger: Logger) {
        self.logger = logger
    }

    func eventStored(_ event: EventView) {
        self.seen.withLock { $0 += 1 }
        self.logger.error("saw \(event.name)")
    }
}

@Test
func `an observer that logs what it sees does not see its own words`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(site.waybill)
        let logger = site.logger(bridge)
        let chatterers = [Chatterer(logger), Chatterer(logger)]
        let tokens = chatterers.map { site.waybill.observe(.all($0)) }
        logger.info("one")
        site.waybill.track("two")
        for _ in 0..<3 {
            for token in tokens { token.drain() }
        }
        #expect(chatterers.map(\.seenCount) == [2, 2])
        #expect(try site.lines().count == 2)
        #expect(bridge.counters.fromObservers == 4)
        logger.info("three")
        #expect(try site.lines().count == 3)
    }
}

private struct Liked: ActionEvent, FieldlessEvent {
    var name: String { "moment_like" }
}

@Test
func `an observer of single types sees no log calls`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let logger = site.logger(LogBridge(site.waybill))
        let chatterer = Chatterer(logger)
        let token = site.waybill.observe(.only(chatterer, Liked.self))
        logger.info("one")
        site.waybill.track(Liked())
        token.drain()
        #expect(chatterer.seenCount == 1)
    }
}

/// A value that logs when it is asked for its text.
private struct Noisy: CustomStringConvertible, Sendable {
    let logger: Logger

    var description: String {
        self.logger.error("asked", metadata: ["self": .stringConvertible(self)])
        return "noise"
    }
}

@Test
func `values and providers that log while they are logged do not come back`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(site.waybill)
        let plain = site.logger(bridge, label: "plain")
        let provider = Logger.MetadataProvider {
            plain.info("provided")
            return ["p": "1"]
        }
        let logger = site.logger(bridge, label: "outer", provider: provider)
        logger.info("m", metadata: ["noisy": .stringConvertible(Noisy(logger: logger))])
        #expect(
            try site.fields() == [
                #"{"level":"info","message":"m","logger":"outer","noisy":"noise","p":"1"}"#
            ])
        #expect(bridge.counters.reentrant == 2)
        logger.info("n")
        #expect(try site.lines().count == 2)
    }
}

@Test
func `four threads of 500 calls store each once, whole and in the order of their thread`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let bridge = LogBridge(site.waybill)
        let workers = (0..<4).map { thread in
            var logger = site.logger(bridge, label: "thread-\(thread)")
            logger[metadataKey: "thread"] = "\(thread)"
            let ready = logger
            return Worker(name: "logs-\(thread)") {
                for index in 0..<500 {
                    ready.info(
                        "call", metadata: ["index": .stringConvertible(index), "s": "\(index, privacy: .private)"])
                }
            }
        }
        for worker in workers { worker.join() }
        let fields = try site.fields()
        #expect(fields.count == 2000)
        for thread in 0..<4 {
            let own = fields.filter { $0.contains(#""logger":"thread-\#(thread)""#) }
            #expect(
                own
                    == (0..<500).map { index in
                        #"{"level":"info","message":"call","logger":"thread-\#(thread)","index":\#(index),"#
                            + #""s":"<private>","thread":"\#(thread)"}"#
                    })
        }
    }
}

@Test
func `events that the client does not take are among its own counts`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let logger = site.logger(LogBridge(site.waybill))
        site.waybill.setConsent(analytics: false, ads: false)
        logger.info("m")
        #expect(site.waybill.counters.dropped(.optedOut) == 1)
        #expect(try site.lines().allSatisfy { !$0.contains(#""name":"log""#) })
    }
}
