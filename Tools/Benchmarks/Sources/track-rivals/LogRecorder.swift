import Foundation
import Logging
import Synchronization

/// swift-log's own `StreamLogHandler`, unchanged, over a stdio file instead of standard output.
///
/// What stays the same is metadata of the handler, what an event says is metadata of the call; the line's time is
/// the handler's, in seconds. Flushed, as the handler's own streams are, each line is in the kernel when the call
/// returns; unflushed it is there when 64 KiB have gathered, and dies with the process until then.
final class LogRecorder: Recorder {
    /// When a line leaves the process.
    enum Flushing {
        /// With `fwrite` and `fflush`, as `StreamLogHandler.standardOutput` does.
        case eachLine
        /// When stdio's buffer is full.
        case eachBuffer
    }

    /// `@unchecked Sendable`: stdio locks the file in each call, and a line is one call.
    private struct Output: TextOutputStream, @unchecked Sendable {
        let file: UnsafeMutablePointer<FILE>
        let flushing: Flushing

        func write(_ string: String) {
            var string = string
            let written = string.withUTF8 { fwrite($0.baseAddress, 1, $0.count, self.file) == $0.count }
            let flushed = self.flushing == .eachBuffer || fflush(self.file) == 0
            if !written || !flushed { fatalError("a line could not be written: error \(errno)") }
        }
    }

    private let path: String
    private let output: Output
    private let logger: Logger
    private let envelope: Envelope
    private let sequence = Atomic<Int>(0)

    init(_ directory: String, _ envelope: Envelope, _ flushing: Flushing) throws {
        self.path = directory + "/events.log"
        guard let file = fopen(self.path, "ae") else { throw CocoaError(.fileWriteUnknown) }
        setvbuf(file, nil, _IOFBF, 64 << 10)
        let output = Output(file: file, flushing: flushing)
        self.output = output
        self.envelope = envelope
        var logger = Logger(label: envelope.bundle) { StreamLogHandler(label: $0, stream: output) }
        let constants: Logger.Metadata = [
            "v": "1", "writer": "\(envelope.writer)", "kind": "action", "session": "\(envelope.session)",
            "session_n": "1", "user": "\(envelope.user)", "anon": "\(envelope.anonymous)", "app": "\(envelope.app)",
            "build": "\(envelope.build)", "bundle": "\(envelope.bundle)", "os": "\(envelope.device.os)",
            "os_version": "\(envelope.device.osVersion ?? "")", "model": "\(envelope.device.model ?? "")",
            "tz": "\(envelope.zoneMinutes)", "env": "\(envelope.environment.rawValue)", "log": "1.0",
        ]
        for (key, value) in constants { logger[metadataKey: key] = value }
        self.logger = logger
    }

    func record(_ index: Int) {
        let tapped = Tapped(productIndex: index)
        self.logger.info(
            "Product Tapped",
            metadata: [
                "id": "\(UUID().uuidString)", "seq": "\(self.sequence.add(1, ordering: .relaxed).newValue)",
                "up": "\(self.envelope.upMilliseconds)", "productName": "\(tapped.productName)",
                "productPrice": "\(tapped.productPrice)", "productPosition": "\(tapped.productPosition)",
                "productIndex": "\(tapped.productIndex)",
            ])
    }

    func close() throws {
        guard fclose(self.output.file) == 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    func count(into ledger: inout Ledger) throws {
        try ledger.add(linesOf: self.path, mark: " productIndex=")
    }
}
