import Foundation
import Waybill

/// `track()`: its line is in the kernel when it returns; with `isFlushed`, `synchronize()` after each, on the disk.
final class WaybillRecorder: Recorder {
    private let waybill: WaybillClient
    private let spool: String
    private let isFlushed: Bool

    init(_ directory: String, _ envelope: Envelope, isFlushed: Bool) throws {
        self.spool = directory + "/spool"
        self.isFlushed = isFlushed
        var configuration = WaybillClient.Configuration(
            spool: self.spool, environment: envelope.environment, bundle: envelope.bundle, version: envelope.app,
            build: envelope.build)
        // No agent ships this spool, so a quota would evict events meanwhile.
        configuration.quota.byteCountMax = .max
        self.waybill = try WaybillClient(configuration)
        self.waybill.setUser(envelope.user)
    }

    func record(_ index: Int) {
        self.waybill.track(Tapped(productIndex: index))
        if self.isFlushed { orEnd { try self.waybill.synchronize() } }
    }

    func close() throws {
        try self.waybill.synchronize()
    }

    func count(into ledger: inout Ledger) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: self.spool) where name.hasSuffix(".ndjson") {
            try ledger.add(linesOf: self.spool + "/" + name, mark: "\"productIndex\":")
        }
    }
}

/// Ends the program without a figure if an event cannot be stored.
func orEnd<Value>(_ body: () throws -> Value) -> Value {
    do {
        return try body()
    } catch {
        fatalError("an event could not be stored: \(error)")
    }
}
