import Foundation
import Synchronization

/// Foundation's way: one `JSONEncoder` for a `Codable` struct, then `FileHandle.write`, which is one `write(2)`.
///
/// The file is opened for appending, so that threads need no lock around the handle; the encoder keeps no state
/// between calls. Between taking a number and writing, threads may overtake each other.
final class JSONRecorder: Recorder {
    private struct Line: Encodable {
        struct Fields: Encodable {
            let productName: String
            let productPrice: Int
            let productPosition: String
            let productIndex: Int
        }

        enum CodingKeys: String, CodingKey {
            case version = "v"
            case id, writer
            case sequence = "seq"
            case timestamp = "ts"
            case upMilliseconds = "up"
            case kind, name, session
            case sessionNumber = "session_n"
            case user
            case anonymous = "anon"
            case app, build, bundle, os
            case osVersion = "os_version"
            case model
            case zoneMinutes = "tz"
            case environment = "env"
            case logVersion = "log"
            case fields = "data"
        }

        let version = 1
        let id: UUID
        let writer: String
        let sequence: Int
        let timestamp: String
        let upMilliseconds: Int
        let kind = "action"
        let name = Tapped.eventName
        let session: String
        let sessionNumber = 1
        let user: String
        let anonymous: String
        let app: String
        let build: String
        let bundle: String
        let os: String
        let osVersion: String?
        let model: String?
        let zoneMinutes: Int
        let environment: String
        let logVersion = "1.0"
        let fields: Fields
    }

    private let path: String
    private let envelope: Envelope
    private let encoder = JSONEncoder()
    private let file: FileHandle
    private let sequence = Atomic<Int>(0)

    init(_ directory: String, _ envelope: Envelope) throws {
        self.path = directory + "/events.ndjson"
        self.envelope = envelope
        let descriptor = open(self.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
        self.file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        // Slashes stand as they are in the other rows, too.
        self.encoder.outputFormatting = .withoutEscapingSlashes
    }

    func record(_ index: Int) {
        let tapped = Tapped(productIndex: index)
        let line = Line(
            id: UUID(), writer: self.envelope.writer,
            sequence: self.sequence.add(1, ordering: .relaxed).newValue, timestamp: Envelope.timestamp(),
            upMilliseconds: self.envelope.upMilliseconds, session: self.envelope.session, user: self.envelope.user,
            anonymous: self.envelope.anonymous, app: self.envelope.app, build: self.envelope.build,
            bundle: self.envelope.bundle, os: self.envelope.device.os, osVersion: self.envelope.device.osVersion,
            model: self.envelope.device.model, zoneMinutes: self.envelope.zoneMinutes,
            environment: self.envelope.environment.rawValue,
            fields: Line.Fields(
                productName: tapped.productName, productPrice: tapped.productPrice,
                productPosition: tapped.productPosition, productIndex: tapped.productIndex))
        orEnd {
            var bytes = try self.encoder.encode(line)
            bytes.append(UInt8(ascii: "\n"))
            try self.file.write(contentsOf: bytes)
        }
    }

    func close() throws {
        try self.file.close()
    }

    func count(into ledger: inout Ledger) throws {
        try ledger.add(linesOf: self.path, mark: "\"productIndex\":")
    }
}
