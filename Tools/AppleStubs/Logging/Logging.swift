public struct Logger: Sendable {
    public typealias Metadata = [String: MetadataValue]

    public enum Level: String, CaseIterable, Comparable, Sendable {
        case trace
        case debug
        case info
        case notice
        case warning
        case error
        case critical
        public static func < (left: Level, right: Level) -> Bool { fatalError() }
    }

    public struct Message: ExpressibleByStringInterpolation, CustomStringConvertible, Sendable {
        public init(stringLiteral value: String) {}
        public var description: String { fatalError() }
    }

    public enum MetadataValue: Sendable {
        case string(String)
        case stringConvertible(any CustomStringConvertible & Sendable)
        indirect case dictionary([String: MetadataValue])
        indirect case array([MetadataValue])
    }

    public struct MetadataValueAttributes: Sendable {
        public protocol Attribute: Sendable, RawRepresentable where RawValue == Int64 {}

        public init() {}
        public subscript<Attr: Attribute>(attribute: Attr.Type) -> Attr? {
            get { fatalError() }
            set {}
        }
    }

    public struct MetadataProvider: Sendable {
        public init(_ provideMetadata: @escaping @Sendable () -> Metadata) {}
        public func get() -> Metadata { fatalError() }
    }

    public init(label: String) {}

    public func info(
        _ message: @autoclosure () -> Logger.Message, metadata: @autoclosure () -> Logger.Metadata? = nil,
        file: String = #fileID, function: String = #function, line: UInt = #line
    ) {}

    public func warning(
        _ message: @autoclosure () -> Logger.Message, metadata: @autoclosure () -> Logger.Metadata? = nil,
        file: String = #fileID, function: String = #function, line: UInt = #line
    ) {}
}

extension Logger.MetadataValue: ExpressibleByStringInterpolation {
    public struct StringInterpolation: StringInterpolationProtocol, Sendable {
        public init(literalCapacity: Int, interpolationCount: Int) {}
        public mutating func appendLiteral(_ literal: String) {}
        public mutating func appendInterpolation<T>(_ value: T) {}
        public mutating func appendInterpolation<T>(
            _ value: T, attributes: @Sendable (inout Logger.MetadataValueAttributes) -> Void
        ) {}
    }

    public init(stringInterpolation: StringInterpolation) { fatalError() }
    public init(stringLiteral value: String) { fatalError() }
}

extension Logger.MetadataValue {
    public var attributes: Logger.MetadataValueAttributes { fatalError() }
}

public protocol LogHandler: Sendable {
    var metadataProvider: Logger.MetadataProvider? { get set }
    var metadata: Logger.Metadata { get set }
    var logLevel: Logger.Level { get set }
    func log(event: LogEvent)
    subscript(metadataKey _: String) -> Logger.Metadata.Value? { get set }
}

public struct LogEvent: Sendable {
    public var level: Logger.Level
    public var message: Logger.Message
    public var error: (any Error)?
    public var metadata: Logger.Metadata?
    public var source: String { fatalError() }
    public var file: String
    public var function: String
    public var line: UInt
}

public enum LoggingSystem: Sendable {
    public static func bootstrap(_ factory: @escaping @Sendable (String) -> any LogHandler) {}
    public static var metadataProvider: Logger.MetadataProvider? { fatalError() }
}
