package import Logging

/// Warnings and errors with their identifiers. `TidyTests` refuses the calls of swift-log that take none.
extension Logger {
    package func warning(
        _ notice: Notice, _ message: @autoclosure () -> Logger.Message,
        metadata: @autoclosure () -> Logger.Metadata = [:]
    ) {
        self.log(notice, level: .warning, message(), metadata: metadata())
    }

    package func error(
        _ notice: Notice, _ message: @autoclosure () -> Logger.Message,
        metadata: @autoclosure () -> Logger.Metadata = [:]
    ) {
        self.log(notice, level: .error, message(), metadata: metadata())
    }

    package func critical(
        _ notice: Notice, _ message: @autoclosure () -> Logger.Message,
        metadata: @autoclosure () -> Logger.Metadata = [:]
    ) {
        self.log(notice, level: .critical, message(), metadata: metadata())
    }

    /// Only a warning and what is worse has the identifier, and must have one.
    package func log(
        _ notice: Notice?, level: Logger.Level, _ message: @autoclosure () -> Logger.Message,
        metadata: @autoclosure () -> Logger.Metadata = [:]
    ) {
        guard level >= .warning else { return self.log(level: level, message(), metadata: metadata()) }
        guard let notice else { preconditionFailure("a \(level) has an identifier") }
        self.log(level: level, message(), metadata: metadata().merging(["id": .stringConvertible(notice)]) { $1 })
    }
}

/// JSON that stays JSON in a log line of JSON.
package struct LoggedObject: CustomStringConvertible, Sendable {
    package let json: String

    package var description: String { self.json }
}

/// Values that stay what they are in JSON.
extension Logger.MetadataValue {
    package static func number(_ value: some BinaryInteger) -> Self {
        .stringConvertible(Int64(clamping: value))
    }

    /// - Parameter json: one object, as this program has written it.
    package static func object(_ json: String) -> Self {
        .stringConvertible(LoggedObject(json: json))
    }

    /// Seconds, with milliseconds; its member's name ends in `_s`.
    package static func seconds(_ duration: Duration) -> Self {
        let (seconds, attoseconds) = duration.components
        let milliseconds = Double(seconds * 1000 + attoseconds / 1_000_000_000_000_000)
        return .stringConvertible(milliseconds / 1000)
    }
}
