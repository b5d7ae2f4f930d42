import Foundation
import GRDB

/// SQLite through GRDB: one table with a column for each member, one INSERT for each event in a transaction of its own.
///
/// The statement is prepared once, the row's number is the only index, and nothing is encoded: an event's values are
/// bound as they are. In WAL mode a commit writes to the log's file; `synchronous = FULL` syncs it each time, `NORMAL`
/// only before a checkpoint, which comes every 1000 pages.
final class SQLiteRecorder: Recorder {
    /// `PRAGMA synchronous`.
    enum Synchronous: String {
        /// Each commit survives a power failure.
        case full = "FULL"
        /// Each commit survives the death of the process.
        case normal = "NORMAL"
    }

    private static let columns = [
        "seq INTEGER PRIMARY KEY", "v INTEGER", "id TEXT", "writer TEXT", "ts TEXT", "up INTEGER", "kind TEXT",
        "name TEXT", "session TEXT", "session_n INTEGER", "user TEXT", "anon TEXT", "app TEXT", "build TEXT",
        "bundle TEXT", "os TEXT", "os_version TEXT", "model TEXT", "tz INTEGER", "env TEXT", "log TEXT",
        "productName TEXT", "productPrice INTEGER", "productPosition TEXT", "productIndex INTEGER",
    ]

    private let path: String
    private let database: DatabaseQueue
    private let envelope: Envelope
    private let insert: String

    init(_ directory: String, _ envelope: Envelope, _ synchronous: Synchronous) throws {
        self.path = directory + "/events.sqlite"
        self.envelope = envelope
        var configuration = Configuration()
        configuration.journalMode = .wal
        self.database = try DatabaseQueue(path: self.path, configuration: configuration)
        let names = Self.columns.compactMap { $0.split(separator: " ").first }
        self.insert =
            "INSERT INTO events (\(names.joined(separator: ","))) "
            + "VALUES (\(names.map { _ in "?" }.joined(separator: ",")))"
        try self.database.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA synchronous = \(synchronous.rawValue)")
            try database.execute(sql: "CREATE TABLE events (\(Self.columns.joined(separator: ", ")))")
            let mode = try String.fetchOne(database, sql: "PRAGMA journal_mode")
            let level = try Int.fetchOne(database, sql: "PRAGMA synchronous")
            precondition(mode == "wal" && level == (synchronous == .full ? 2 : 1), "SQLite took no pragma")
        }
    }

    func record(_ index: Int) {
        let tapped = Tapped(productIndex: index)
        let envelope = self.envelope
        let arguments: StatementArguments = [
            nil, 1, UUID().uuidString, envelope.writer, Envelope.timestamp(), envelope.upMilliseconds, "action",
            Tapped.eventName, envelope.session, 1, envelope.user, envelope.anonymous, envelope.app, envelope.build,
            envelope.bundle, envelope.device.os, envelope.device.osVersion, envelope.device.model,
            envelope.zoneMinutes, envelope.environment.rawValue, "1.0", tapped.productName, tapped.productPrice,
            tapped.productPosition, tapped.productIndex,
        ]
        orEnd {
            try self.database.writeWithoutTransaction { database in
                try database.cachedStatement(sql: self.insert).execute(arguments: arguments)
            }
        }
    }

    func close() throws {
        try self.database.writeWithoutTransaction { database in
            _ = try database.checkpoint(.truncate)
        }
    }

    func count(into ledger: inout Ledger) throws {
        let indexes = try self.database.read { try Int.fetchAll($0, sql: "SELECT productIndex FROM events") }
        for index in indexes { ledger.add(index) }
        try self.database.close()
        ledger.byteCount += try FileHandle(forReadingFrom: URL(filePath: self.path)).seekToEnd().bounded
    }
}

extension UInt64 {
    fileprivate var bounded: Int { Int(clamping: self) }
}
