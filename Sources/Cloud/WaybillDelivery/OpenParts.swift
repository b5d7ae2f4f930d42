internal import WaybillData
internal import WaybillEvent
internal import WaybillProjection
internal import WaybillSystem

internal import WaybillExport

/// The records of an export that cannot be sent yet, because their parts are open or not compressed.
package struct OpenParts: Hashable, Sendable {
    package private(set) var recordCount = 0
    /// When the first of them was received; `nil` if that is unknown.
    var oldest: WallTime?
    /// How long it had waited when they were read, in whole seconds; `nil` if there is none, or if that is unknown.
    package private(set) var oldestSeconds: Int?
    /// Records of closed parts that are not compressed yet.
    package private(set) var closingRecordCount = 0

    package init() {}

    /// Reads them from the export's last checkpoint; nothing if it cannot be read.
    init(
        of provider: DeliverableProvider, only env: DeploymentEnvironment?, in data: DataDirectory<some FileSystem>,
        at now: WallTime
    ) throws(FileSystemError) {
        let path = data.statePath("export-\(provider.rawValue)")
        let entries = try StateImage.read(path, files: data.files)?.entries ?? [:]
        for part in ExportCheckpoint.closingParts(in: entries) where env == nil || part.env == env?.rawValue {
            self.closingRecordCount += part.recordCount
        }
        for part in OpenPart.all(in: entries)
        where env == nil || part.env == env {
            self.recordCount += part.recordCount
            if let time = part.receivedAt { self.oldest = min(self.oldest ?? time, time) }
        }
        self.oldestSeconds = self.oldest.map { Int(max(0, now.milliseconds - $0.milliseconds) / 1000) }
    }
}
